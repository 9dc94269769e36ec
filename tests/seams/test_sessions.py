"""What every store of live sessions must do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from app.db import Database
from app.db.tables import jobs, messages, sessions
from app.errors import Conflict, NotFound
from app.llm.tokens import estimate_tokens
from app.sessions.base import NewTurn, SessionStore, Turn
from app.sessions.limit import AT_ONCE, Limit
from app.sessions.sql import SqlSessions
from tests.seams.stores import database
from tests.sessions.held import redis_store

__all__ = ["database"]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


Opens = Callable[..., AbstractAsyncContextManager[SessionStore]]


@pytest.fixture(params=["sql", "redis"])
def opens(request: pytest.FixtureRequest, database: Database) -> Opens:
    """What opens a store of each kind in turn, on each database."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        return lambda **chosen: redis_store(url, database, **chosen)

    @asynccontextmanager
    async def in_sql(*, lease_seconds: float = 30, limit: Limit | None = None) -> Any:
        yield SqlSessions(
            database, lease_seconds=lease_seconds, count_tokens=estimate_tokens, limit=limit
        )

    return in_sql


@pytest.fixture
async def store(opens: Opens) -> AsyncIterator[SessionStore]:
    async with opens() as opened:
        yield opened


@pytest.fixture
async def short_lived(opens: Opens) -> AsyncIterator[SessionStore]:
    """A store whose runs count as dead almost at once."""
    async with opens(lease_seconds=0.05) as opened:
        yield opened


def new(text: str = "hello", **changed: Any) -> NewTurn:
    fields: dict[str, Any] = {
        "tenant_id": "default",
        "session_id": "s",
        "user_id": "ada",
        "client_message_id": None,
        "memory": "on",
        "holder": "run-1",
    }
    return NewTurn(text=text, **{**fields, **changed})


async def end(store: SessionStore, turn: Turn, **changed: Any) -> Any:
    fields: dict[str, Any] = {
        "status": "complete",
        "content": f"reply to {turn.question.content}",
        "receipt": {"n": 1},
        "error": None,
        "now": NOON,
    }
    return await store.end_turn(turn, **{**fields, **changed})


async def texts(store: SessionStore, session_id: str = "s") -> list[str]:
    found = await store.messages_after("default", session_id, 0, limit=1000)
    return [message.content for message in found]


async def test_a_turn_is_a_message_and_its_reply_with_neighbouring_numbers(
    store: SessionStore,
) -> None:
    first = await store.begin_turn(new("one"), now=NOON)
    second = await store.begin_turn(new("two"), now=NOON)
    await end(store, second)
    await end(store, first)
    assert first.mine
    assert second.mine
    assert await texts(store) == ["one", "reply to one", "two", "reply to two"]


async def test_a_message_is_stored_before_anyone_answers(store: SessionStore) -> None:
    turn = await store.begin_turn(new("keep me"), now=NOON)
    question, reply = await store.messages_after("default", "s", 0, limit=10)
    assert (question.content, question.status) == ("keep me", "complete")
    assert (reply.content, reply.status, reply.id) == ("", "pending", turn.reply.id)


async def test_forty_messages_at_once_get_numbers_without_a_gap(store: SessionStore) -> None:
    turns = await asyncio.gather(
        *(store.begin_turn(new(f"m{n}", holder=f"run-{n}"), now=NOON) for n in range(40))
    )
    assert sorted(turn.question.seq for turn in turns) == list(range(1, 80, 2))
    assert all(turn.reply.seq == turn.question.seq + 1 for turn in turns)


async def test_a_session_of_someone_else_is_not_found_and_unchanged(store: SessionStore) -> None:
    await end(store, await store.begin_turn(new("mine"), now=NOON))
    with pytest.raises(NotFound):
        await store.begin_turn(new("theirs", user_id="bo"), now=NOON)
    with pytest.raises(NotFound):
        await store.get("default", "s", "bo")
    assert await texts(store) == ["mine", "reply to mine"]


async def test_the_same_session_id_in_two_tenants_is_two_sessions(store: SessionStore) -> None:
    await end(store, await store.begin_turn(new("ours"), now=NOON))
    other = await store.begin_turn(new("theirs", tenant_id="acme", user_id="bo"), now=NOON)
    assert other.question.seq == 1
    assert await texts(store) == ["ours", "reply to ours"]


async def test_a_message_is_answered_once_its_whole_reply_is_stored(store: SessionStore) -> None:
    async def answered(named: str = "c1", tenant: str = "default") -> bool:
        return await store.is_answered(tenant, "s", named)

    assert not await answered()
    turn = await store.begin_turn(new("once", client_message_id="c1"), now=NOON)
    assert not await answered()
    await end(store, turn, status="failed")
    assert not await answered()
    again = await store.begin_turn(new("once", client_message_id="c1"), now=NOON)
    await end(store, again)
    assert await answered()
    assert not await answered(named="c2")
    assert not await answered(tenant="acme")


async def test_a_repeated_client_message_id_gives_the_stored_reply(store: SessionStore) -> None:
    first = await store.begin_turn(new("once", client_message_id="c1"), now=NOON)
    await end(store, first)
    again = await store.begin_turn(new("once", client_message_id="c1", holder="run-2"), now=NOON)
    assert not again.mine
    assert (again.reply.content, again.reply.receipt) == ("reply to once", {"n": 1})
    assert len(await texts(store)) == 2


async def test_a_repeat_of_a_message_that_is_being_answered_does_not_answer_it_too(
    store: SessionStore,
) -> None:
    await store.begin_turn(new("once", client_message_id="c1"), now=NOON)
    again = await store.begin_turn(new("once", client_message_id="c1", holder="run-2"), now=NOON)
    assert not again.mine
    assert again.reply.status == "pending"


async def test_a_turn_knows_that_it_is_next_only_if_nobody_is_before_it(
    store: SessionStore,
) -> None:
    first = await store.begin_turn(new("one"), now=NOON)
    second = await store.begin_turn(new("two"), now=NOON)
    await end(store, first)
    third = await store.begin_turn(new("three"), now=NOON)
    assert (first.is_next, second.is_next, third.is_next) == (True, False, False)
    await end(store, second)
    await end(store, third)
    assert (await store.begin_turn(new("four"), now=NOON)).is_next


async def test_a_repeat_takes_over_from_a_run_that_died(short_lived: SessionStore) -> None:
    first = await short_lived.begin_turn(new("once", client_message_id="c1"), now=NOON)
    await asyncio.sleep(0.1)
    again = await short_lived.begin_turn(
        new("once", client_message_id="c1", holder="run-2"), now=NOON
    )
    assert again.mine
    assert again.reply.id == first.reply.id
    assert await end(short_lived, first) is None  # the dead one comes back: nothing is stored
    assert await end(short_lived, again) is not None
    assert await texts(short_lived) == ["once", "reply to once"]


async def test_the_same_id_with_another_text_is_a_conflict(store: SessionStore) -> None:
    await store.begin_turn(new("once", client_message_id="c1"), now=NOON)
    with pytest.raises(Conflict):
        await store.begin_turn(new("twice", client_message_id="c1"), now=NOON)


async def test_the_same_text_after_a_failed_turn_is_that_turn_again(store: SessionStore) -> None:
    first = await store.begin_turn(new("try"), now=NOON)
    await end(store, first, status="failed", content="", error={"code": "x", "message": "y"})
    again = await store.begin_turn(new("try", holder="run-2"), now=NOON)
    assert again.mine
    assert again.question.id == first.question.id
    await end(store, again)
    assert await texts(store) == ["try", "reply to try"]


async def test_the_same_text_after_an_answered_turn_is_a_new_turn(store: SessionStore) -> None:
    await end(store, await store.begin_turn(new("yes"), now=NOON))
    again = await store.begin_turn(new("yes"), now=NOON)
    assert again.question.seq == 3


async def test_a_turn_is_next_once_the_earlier_ones_have_ended(store: SessionStore) -> None:
    first = await store.begin_turn(new("one"), now=NOON)
    second = await store.begin_turn(new("two"), now=NOON)
    assert await store.is_next(first)
    assert not await store.is_next(second)
    await end(store, first)
    assert await store.is_next(second)


async def test_a_dead_run_does_not_hold_up_the_session(short_lived: SessionStore) -> None:
    await short_lived.begin_turn(new("one"), now=NOON)
    second = await short_lived.begin_turn(new("two", holder="run-2"), now=NOON)
    await asyncio.sleep(0.1)
    assert await short_lived.renew(second)
    assert await short_lived.is_next(second)
    found = await short_lived.messages_after("default", "s", 0, limit=10)
    assert [message.status for message in found] == [
        "complete",
        "interrupted",
        "complete",
        "pending",
    ]


async def test_only_the_holder_renews(store: SessionStore) -> None:
    turn = await store.begin_turn(new(), now=NOON)
    assert await store.renew(turn)
    assert not await store.renew(replace(turn, holder="run-2"))
    await end(store, turn)
    assert not await store.renew(turn)


async def test_history_ends_before_the_question_and_leaves_out_the_unsaid(
    store: SessionStore,
) -> None:
    await end(store, await store.begin_turn(new("one"), now=NOON))
    failed = await store.begin_turn(new("two"), now=NOON)
    await end(store, failed, status="failed", content="")
    third = await store.begin_turn(new("three"), now=NOON)
    before = third.question.seq
    history = await store.history(third.session, before_seq=before, limit=50)
    assert [message.content for message in history] == ["one", "reply to one", "two"]
    last = await store.history(third.session, before_seq=before, limit=1)
    assert [message.content for message in last] == ["two"]


async def test_messages_come_by_page(store: SessionStore) -> None:
    for n in range(3):
        await end(store, await store.begin_turn(new(f"m{n}"), now=NOON))
    page = await store.messages_after("default", "s", 2, limit=3)
    assert [message.seq for message in page] == [3, 4, 5]


async def test_sessions_are_listed_latest_first_by_page_and_by_user(store: SessionStore) -> None:
    for n in range(5):
        moment = NOON + timedelta(minutes=n)
        user = "ada" if n % 2 == 0 else "bo"
        turn = await store.begin_turn(new(session_id=f"s{n}", user_id=user), now=moment)
        await end(store, turn, now=moment)
    page = await store.list_sessions("default", None, limit=2, after=None)
    rest = await store.list_sessions(
        "default", None, limit=9, after=(page[-1].last_message_at, page[-1].session_id)
    )
    assert [s.session_id for s in [*page, *rest]] == ["s4", "s3", "s2", "s1", "s0"]
    mine = await store.list_sessions("default", "bo", limit=9, after=None)
    assert [s.session_id for s in mine] == ["s3", "s1"]


async def test_a_reply_is_found_with_the_user_it_belongs_to(store: SessionStore) -> None:
    turn = await store.begin_turn(new(), now=NOON)
    await end(store, turn)
    message, user = await store.message("default", turn.reply.id)
    assert (message.receipt, user) == ({"n": 1}, "ada")
    with pytest.raises(NotFound):
        await store.message("acme", turn.reply.id)


async def test_quiet_sessions_are_the_open_ones_without_a_message_since(
    store: SessionStore, database: Database
) -> None:
    for name, moment in (("old", NOON), ("new", NOON + timedelta(hours=1))):
        await end(store, await store.begin_turn(new(session_id=name), now=moment), now=moment)
    await store.settle()
    await database.write(
        lambda c: c.execute(
            sessions.insert().from_select(
                [column.name for column in sessions.c],
                sa.select(
                    *(
                        {"session_id": sa.literal("shut"), "state": sa.literal("closed")}.get(
                            column.name, column
                        )
                        for column in sessions.c
                    )
                ).where(sessions.c.session_id == "old"),
            )
        )
    )
    quiet = await store.gone_quiet(before=NOON + timedelta(minutes=30), limit=10)
    assert [session.session_id for session in quiet] == ["old"]


async def test_a_message_opens_a_closed_session_again(
    store: SessionStore, database: Database
) -> None:
    await end(store, await store.begin_turn(new("before"), now=NOON))
    await store.settle()
    await database.write(
        lambda c: c.execute(sessions.update().values(state="closed", closed_at=NOON))
    )
    turn = await store.begin_turn(new("after"), now=NOON + timedelta(days=1))
    assert (turn.session.state, turn.question.seq) == ("open", 3)
    assert (await store.get("default", "s", "ada")).closed_at is None


async def test_deleting_removes_messages_and_jobs_and_leaves_the_others(
    store: SessionStore, database: Database
) -> None:
    turn = await store.begin_turn(new("gone"), now=NOON)
    await end(store, await store.begin_turn(new("kept", session_id="other"), now=NOON))
    key, messages = await store.delete("default", "s", now=NOON)
    assert messages == 2
    with pytest.raises(NotFound):
        await store.get("default", "s", None)
    assert await end(store, turn) is None  # a late reply brings nothing back
    assert await texts(store, "other") == ["kept", "reply to kept"]
    left = await database.read(lambda c: c.execute(sa.select(jobs.c.kind, jobs.c.key)).all())
    assert {tuple(row) for row in left} == {("sync_episode", key), ("sync_episode", f"{key}:late")}
    with pytest.raises(NotFound):
        await store.delete("default", "s", now=NOON)


async def test_counts_are_by_tenant(store: SessionStore) -> None:
    await end(store, await store.begin_turn(new(), now=NOON))
    await store.begin_turn(new(session_id="t"), now=NOON)
    await store.begin_turn(new(tenant_id="acme"), now=NOON)
    assert await store.counts("default") == {"open": 2, "closed": 0, "messages": 3}


async def test_the_lapsed_runs_of_all_sessions_are_ended(short_lived: SessionStore) -> None:
    await short_lived.begin_turn(new(), now=NOON)
    await short_lived.begin_turn(new(session_id="t"), now=NOON)
    await asyncio.sleep(0.1)
    assert await short_lived.end_lapsed() == 2
    assert await short_lived.end_lapsed() == 0


async def test_the_newest_time_zone_that_was_named_is_the_sessions(store: SessionStore) -> None:
    async def after(name: str | None) -> str | None:
        await end(store, await store.begin_turn(new(timezone=name), now=NOON))
        return (await store.get("default", "s", "ada")).timezone

    assert await after(None) is None
    assert await after("Europe/Lisbon") == "Europe/Lisbon"
    assert await after("Asia/Tokyo") == "Asia/Tokyo"
    assert await after(None) == "Asia/Tokyo"


async def test_a_message_keeps_its_speakers_name(store: SessionStore, database: Database) -> None:
    await end(store, await store.begin_turn(new("hello"), now=NOON))
    await store.settle()
    await database.write(
        lambda c: c.execute(
            messages.update().where(messages.c.role == "user").values(speaker="Ada Lovelace")
        )
    )
    found = await store.messages_after("default", "s", 0, limit=10)
    assert [message.speaker for message in found] == ["Ada Lovelace", None]


async def test_a_session_is_shown_with_the_beginning_of_what_its_user_said_first(
    store: SessionStore, database: Database
) -> None:
    await end(store, await store.begin_turn(new("first " * 100), now=NOON))
    await end(store, await store.begin_turn(new("second"), now=NOON))
    await store.begin_turn(new("other", session_id="t"), now=NOON + timedelta(hours=1))
    listed = await store.list_sessions("default", "ada", limit=9, after=None)
    assert [session.opening for session in listed] == ["other", ("first " * 100)[:400]]
    await store.settle()
    await database.write(lambda c: c.execute(messages.delete().where(messages.c.seq <= 2)))
    assert (await store.get("default", "s", "ada")).opening == "second"
    await store.settle()
    await database.write(lambda c: c.execute(messages.delete()))
    assert (await store.get("default", "s", "ada")).opening is None


async def test_what_is_said_of_a_session_stays_until_it_is_said_anew(store: SessionStore) -> None:
    await end(store, await store.begin_turn(new(), now=NOON))
    named = await store.describe("default", "s", "ada", {"title": "A title"})
    assert (named.title, named.metadata, named.opening) == ("A title", None, None)
    both = await store.describe("default", "s", None, {"metadata": {"ticket": 4711, "vip": None}})
    await end(store, await store.begin_turn(new("more"), now=NOON))
    kept = await store.get("default", "s", "ada")
    assert (kept.title, kept.metadata) == (both.title, both.metadata)
    assert kept.metadata == {"ticket": 4711, "vip": None}
    emptied = await store.describe("default", "s", "ada", {"title": None, "metadata": None})
    assert (emptied.title, emptied.metadata, emptied.opening) == (None, None, "hello")
    for session_id, user_id in (("s", "bo"), ("none", None)):
        with pytest.raises(NotFound):
            await store.describe("default", session_id, user_id, {"title": "x"})


async def test_sessions_are_listed_by_state(store: SessionStore, database: Database) -> None:
    for n in range(3):
        await end(store, await store.begin_turn(new(session_id=f"s{n}"), now=NOON))
    shut = sessions.update().where(sessions.c.session_id == "s1").values(state="closed")
    await store.settle()
    await database.write(lambda c: c.execute(shut))

    async def ids(state: Any) -> list[str]:
        found = await store.list_sessions("default", "ada", limit=9, after=None, state=state)
        return [session.session_id for session in found]

    assert await ids("closed") == ["s1"]
    assert await ids("open") == ["s0", "s2"]
    assert await ids(None) == ["s0", "s1", "s2"]


async def test_a_reopened_session_counts_as_used_now_and_an_open_one_stays_as_it_is(
    store: SessionStore, database: Database
) -> None:
    await end(store, await store.begin_turn(new(), now=NOON))
    later = NOON + timedelta(days=1)
    before = await store.get("default", "s", "ada")
    assert await store.reopen("default", "s", "ada", now=later) == before
    await store.settle()
    await database.write(
        lambda c: c.execute(sessions.update().values(state="closed", closed_at=NOON, covered_seq=2))
    )
    opened = await store.reopen("default", "s", None, now=later)
    assert (opened.state, opened.closed_at, opened.last_message_at) == ("open", None, later)
    assert opened.covered_seq == 2
    assert opened.memory_revision > before.memory_revision  # or no job would close it again
    for session_id, user_id in (("s", "bo"), ("none", None)):
        with pytest.raises(NotFound):
            await store.reopen("default", session_id, user_id, now=later)


async def test_a_reply_that_is_taken_up_again_has_no_steps_of_the_run_that_was_lost(
    store: SessionStore, database: Database
) -> None:
    steps = [{"id": "1", "name": "search", "arguments": {"query": "tea"}, "result": "none"}]
    lost = await store.begin_turn(new(), now=NOON)
    await end(store, lost, status="interrupted", content="It is", steps=steps)
    # as one that was stored before sizes were kept
    await store.settle()
    await database.write(lambda c: c.execute(sessions.update().values(tokens=0)))
    await store.let_go("default", ["s"])
    again = await store.begin_turn(new(holder="run-2"), now=NOON)
    assert (again.mine, again.reply.content, again.reply.steps) == (True, "", None)
    assert again.session.tokens == 0


async def test_the_idle_sessions_beyond_the_limit_are_to_be_closed(
    opens: Opens, database: Database
) -> None:
    asked: list[str] = []
    limit = Limit(2, lambda _, session, __: asked.append(session.session_id))
    async with opens(limit=limit) as store:
        await _open_too_many(store, asked, database)


async def _open_too_many(store: SessionStore, asked: list[str], database: Database) -> None:
    async def say(session_id: str, minute: int, **changed: Any) -> Turn:
        moment = NOON + timedelta(minutes=minute)
        await store.settle()
        return await store.begin_turn(new(session_id=session_id, **changed), now=moment)

    await say("busy", 0)
    await end(store, await say("s1", 1))
    assert asked == []
    await end(store, await say("s2", 2))
    assert asked == ["s1"]  # and not the one that is being answered, though it is older
    await end(store, await say("theirs", 3, user_id="bo"))
    await end(store, await say("elsewhere", 3, tenant_id="acme"))
    await end(store, await say("s2", 4, text="more"))
    assert asked == ["s1"]  # nothing was opened for this user
    shut = sessions.update().where(sessions.c.session_id == "s1").values(state="closed")
    await store.settle()
    await database.write(lambda c: c.execute(shut))
    await end(store, await say("s1", 5, text="more"))
    await store.settle()
    assert asked == ["s1", "s2"]
    for n in range(2 * AT_ONCE):
        asked.clear()
        await end(store, await say(f"n{n}", 6 + n))
    assert asked == ["s2", "s1", "n0", "n1", "n2"]  # a few at a time: a turn waits for it


async def test_a_reply_keeps_its_tool_calls(store: SessionStore) -> None:
    steps = [{"id": "1", "name": "search", "arguments": {"query": "tea"}, "result": "none"}]
    await end(store, await store.begin_turn(new(), now=NOON), steps=steps)
    question, reply = await store.messages_after("default", "s", 0, limit=9)
    assert (question.steps, reply.steps) == (None, steps)


async def test_a_turn_brings_along_what_history_tells(store: SessionStore) -> None:
    first = await store.begin_turn(new("one", look_back=3), now=NOON)
    assert first.before in ((), None)
    await end(store, first)
    await end(store, await store.begin_turn(new("two", look_back=3), now=NOON))
    third = await store.begin_turn(new("three", look_back=3), now=NOON)
    told = await store.history(third.session, before_seq=third.question.seq, limit=3)
    assert [message.content for message in told] == ["reply to one", "two", "reply to two"]
    if isinstance(store, SqlSessions):  # in Redis nothing but its state is at hand
        assert third.before == told
    else:
        assert third.before is None


async def test_a_turn_that_has_to_wait_brings_nothing_along(store: SessionStore) -> None:
    await store.begin_turn(new("one", look_back=3), now=NOON)
    second = await store.begin_turn(new("two", look_back=3), now=NOON)
    assert not second.is_next
    assert second.before is None
