"""The comparison's own parts: its stub is fair to each prompt, its table to each contestant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.peers import in_service, material, stub
from tests.benchmarks.peers.lines import Found
from tests.benchmarks.peers.table import Line, places, standing
from tests.wire.openai import Calls

SAID = "Hello. My boat is blue. I live in Lisbon."
STATEMENTS = ["The user's boat is blue.", "The user lives in Lisbon."]


def mem0_asks(new: str, existing: str = "[]") -> dict[str, Any]:
    """A request in the form of mem0 2.2, shortened."""
    told = (
        f"## Existing Memories\n{existing}\n\n## New Messages\nuser: {new}\n\n## Observation Date"
    )
    return {
        "messages": [{"role": "system", "content": "# ROLE"}, {"role": "user", "content": told}],
        "response_format": {"type": "json_object"},
    }


def langmem_asks(new: str, existing: str = "") -> dict[str, Any]:
    """A request in the form of langmem 0.0.30, shortened."""
    session = f"Enrich them.\n<session_1>\nHuman Message\n\n{new}\n</session_1>"
    return {
        "messages": [
            {"role": "system", "content": f"<existing>\n{existing}\n</existing>"},
            {"role": "user", "content": session},
        ],
        "tools": [{"function": {"name": name}} for name in ("PatchDoc", "Memory")],
    }


def mem0_learns(model: stub.Model, **asked: str) -> list[str]:
    said = model(mem0_asks(**asked))
    return [each["text"] for each in json.loads(str(said))["memory"]]


def langmem_calls(model: stub.Model, **asked: str) -> list[tuple[str, Any]]:
    said = model(langmem_asks(**asked))
    assert isinstance(said, Calls)
    return [(name, json.loads(str(arguments))) for name, arguments in said.calls]


def test_each_peer_is_told_the_same_facts_in_its_own_form() -> None:
    model = stub.Model()
    assert mem0_learns(model, new=SAID) == STATEMENTS
    assert [told["content"] for _, told in langmem_calls(model, new=SAID)] == STATEMENTS


def test_a_careful_model_leaves_out_what_it_is_shown_and_corrects_what_it_may() -> None:
    model = stub.Model(is_careful=True)
    known = json.dumps([{"id": "0", "text": STATEMENTS[0]}])
    assert mem0_learns(model, new=SAID, existing=known) == STATEMENTS[1:]
    shown = f"<instance id=a schema_type=\"Memory\">\n{{'content': '{STATEMENTS[1]}'}}\n</instance>"
    ((name, told),) = langmem_calls(model, new="I moved to Porto.", existing=shown)
    assert (name, told["json_doc_id"]) == ("PatchDoc", "a")
    assert told["patches"][0]["value"] == "The user lives in Porto."


@pytest.mark.parametrize("bad", stub.BAD)
def test_an_answer_is_as_broken_for_one_as_for_the_other(bad: stub.Bad) -> None:
    model = stub.Model(bad=bad)
    texts = [str(model(mem0_asks(SAID)))]
    calls = model(langmem_asks(SAID))
    assert isinstance(calls, Calls)
    texts += [str(arguments) for _, arguments in calls.calls]
    for text in texts:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


def test_equal_figures_share_the_first_place_and_words_have_their_order() -> None:
    faster = Line("search", "search", "less")
    assert places(faster, [2.0, 1.0, None, 1.04]) == [3, 1, None, 1]
    outcome = Line("garbage", "garbage", ("stored", "lost"))
    assert places(outcome, ["lost", "stored", "?"]) == [2, 1, 3]


def test_the_table_says_where_we_are_behind() -> None:
    line = Line("search", "search", "less")

    def stands(ours: float, theirs: float) -> str:
        found: dict[str, Found] = {"a": {"search": ours}, "b": {"search": theirs}}
        return standing(line, found, ["a"])

    assert stands(1.0, 2.0) == "first"
    assert stands(1.0, 1.0) == "first too"
    assert stands(3.0, 2.0) == "behind: 1.5×"


async def test_this_service_answers_as_a_contestant(tmp_path: Path) -> None:
    one = in_service.Embedded()
    with stub.stub() as (server, _):
        await one.open(server.url, tmp_path)
        try:
            await one.put("ada", material.memories(20))
            found = await one.search("ada", material.question(7), 5)
            await one.add("ada", "s", SAID, stub.REPLY)
            at_once = await one.search("ada", "boat", 5)
            await one.settle("ada", [])
            later = await one.search("ada", "Where does the user lives?", 5)
            await one.turn("ada", "t", "What colour is my boat?", stub.REPLY)
        finally:
            await one.close()
        asked = [stub.kind_of(body) for body in server.requests if "messages" in body]
    assert any(material.is_answer(7, text) for text in found)
    assert any("My boat is blue." in text for text in at_once)
    assert any(STATEMENTS[1] in text for text in later)
    assert asked == ["checkpoint", "answer"]
