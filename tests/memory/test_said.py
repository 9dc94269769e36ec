"""What was said word for word, found by its words or its dates, as far as it may be recalled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from app.memory.said import Here, Said
from app.wiring import Runtime
from tests.api.calls import chat
from tests.memory.stores import Clock, converse, serving


async def search(runtime: Runtime, words: str, **dates: Any) -> list[tuple[str, str]]:
    found = await Said(runtime.database).search(
        "default", "ada", words, here=Here("ada-now", 1), limit=10, **dates
    )
    return [(one.session_id, one.text) for one in found if one.role == "user"]


async def test_messages_are_found_by_words_and_by_dates_until_they_are_forgotten(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    async with serving(clock, **store) as (client, runtime):
        await converse(client, clock, "ada-old", "My zither is tuned in fifths.", days_ago=30)
        await converse(client, clock, "ada-new", "The zither needs a new string.", days_ago=3)
        await converse(client, clock, "bob-old", "My zither is a bass zither.", days_ago=20)
        await chat(client, "A zither at last", session_id="ada-open", user_id="ada")
        by_words = await search(runtime, "tuned zither")
        by_a_word_that_nobody_said = await search(runtime, "trombone")
        week = clock.now - timedelta(days=7)
        of_late = await search(runtime, "zither", since=week)
        before = await search(runtime, "", until=week)
        latest = await search(runtime, "")
        for session_id in ("ada-old", "ada-open"):
            gone = await client.delete(f"/memories/{session_id}", params={"user_id": "ada"})
            assert gone.status_code == 200
        left = await search(runtime, "zither")
        left_by_date = await search(runtime, "")
    old = ("ada-old", "My zither is tuned in fifths.")
    new = ("ada-new", "The zither needs a new string.")
    now = ("ada-open", "A zither at last")
    assert by_words[0] == old
    assert set(by_words) == {old, new, now}
    assert by_a_word_that_nobody_said == []
    assert set(of_late) == {new, now}
    assert before == [old]
    assert latest == [now, new, old]
    assert left == left_by_date == [new]
