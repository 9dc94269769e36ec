"""`python -m app calibrate`: thresholds from a store's own data, printed, applied, in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli import _calibrate, _parser, _reindex, main
from app.gates import Gate, Gates, reset
from app.wiring import Runtime, open_runtime
from tests.api.calls import answered, groq, put, read
from tests.knowledge.calls import do_what_is_due
from tests.served import served, settings
from tests.wire.memory import remembering
from tests.wire.openai import ModelServer, model_server

SAID = {
    "ada": [
        "I keep two hives of bees on my roof.",
        "My sister Clara plays the cello in Vienna.",
        "I am allergic to peanuts and carry a pen for it.",
        "Last summer we walked the coast of Brittany.",
        "My dentist moved her practice to the harbour.",
        "I sold my old motorbike to a neighbour.",
        "Our basement floods when the river rises.",
        "I am learning Portuguese with a tutor.",
        "The kitchen tiles will be blue and white.",
        "My favourite writer is Ursula Le Guin.",
        "I run ten kilometres on Sunday mornings.",
        "We named the kitten Biscuit.",
        "My knee was operated on in February.",
        "I bake rye bread with my own sourdough.",
        "I gave up coffee for green tea.",
        "The violin in the attic was my grandfather's.",
        "Our wedding will be in a vineyard near Evora.",
        "I collect stamps that show lighthouses.",
    ],
    "bob": [
        "I coach a football team of ten-year-olds.",
        "My car needs new brakes before winter.",
        "I work night shifts at the steel mill.",
        "We are saving for a house with a garage.",
        "My brother is a pilot for a cargo airline.",
        "I build model railways in the garage.",
        "The doctor told me to eat less salt.",
        "I want to see a rocket start in Florida.",
        "My daughter is writing her thesis on glaciers.",
        "I play bass in a blues band on Fridays.",
        "I lost my wallet in the cinema.",
        "Our tomato plants died in the frost.",
        "My boss is retiring at the end of May.",
        "I vote for the greens in the city council.",
        "I am afraid of spiders and of heights.",
        "We adopted a greyhound from the shelter.",
        "The insurance paid for the broken window.",
        "I am repairing a radio from the fifties.",
    ],
}
COMPANIES = [
    ("Acme Corp", "steel", "Alice Vance"),
    ("Globex", "energy", "Bob Stone"),
    ("Initech", "software", "Carol Reyes"),
    ("Umbrella Foods", "groceries", "Dan Okafor"),
]


def as_fact(text: str) -> list[dict[str, Any]]:
    told = text.replace("I am ", "the user is ").replace("My ", "the user's ").rstrip(".")
    told = told.replace("I ", "the user ").replace("We ", "the user's family ")
    statement = told[0].upper() + told[1:] + "."
    value = " ".join(text.rstrip(".").split()[2:])
    kind = {"kind": "fact", "many": True, "when": None}
    return [
        {"subject": "user", "predicate": "told", "value": value, "statement": statement, **kind}
    ]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(script=remembering(as_fact)) as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path, model: ModelServer) -> dict[str, Any]:
    return groq(
        model,
        database_url=f"sqlite:///{tmp_path / 'service.db'}",
        embedding_model="local",
    )


async def fill(
    client: httpx.AsyncClient, runtime: Runtime, users: Sequence[str] = ("ada", "bob")
) -> None:
    """Have users tell of themselves in three conversations each, and store customers' records."""
    for user in users:
        said = SAID[user]
        conversations = [
            {
                "session_id": f"{user}-{start}",
                "messages": [
                    {
                        "role": "user",
                        "content": text,
                        "created_at": f"2026-03-{start + 1:02}T10:{n:02}:00+00:00",
                    }
                    for n, text in enumerate(said[start : start + 6])
                ],
            }
            for start in range(0, len(said), 6)
        ]
        body = {"user_id": user, "conversations": conversations}
        response = await client.post("/memories/import", json=body)
        assert response.status_code < 300, response.text
    records = [
        {
            "id": f"{name}-{n}",
            "text": f"Plant {n} of {name} is in the {trade} trade. Its account manager is {who}. "
            f"Its contract value is {n * 1000} dollars.",
            "source": name,
            "metadata": {"name": f"Plant {n} of {name}", "account_manager": who},
        }
        for name, trade, who in COMPANIES
        for n in range(1, 11)
    ]
    await put(client, *records)
    await do_what_is_due(runtime)


async def calibrated(chosen: dict[str, Any], *arguments: str) -> int:
    return await _calibrate(settings(**chosen), _parser().parse_args(["calibrate", *arguments]))


async def in_force(chosen: dict[str, Any]) -> Gates:
    """Return what a service that starts now goes by."""
    async with open_runtime(settings(**chosen)) as runtime:
        return runtime.gates


def origins(gates: Gates) -> set[str]:
    return {gate.origin for gate in (gates.memory, gates.facts, gates.documents)}


async def test_what_is_measured_is_printed_and_in_force_from_the_next_start_once_it_is_applied(
    disk: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {"message": "Which pets are there?", "user_id": "ada", "memory": "read"}
    async with served(**disk) as (client, runtime):
        await fill(client, runtime)
        assert await calibrated(disk) == 0
        printed = capsys.readouterr().out
        before = await in_force(disk)
        assert await calibrated(disk, "--apply") == 0
        applied = capsys.readouterr().out
        running = answered(await client.post("/chat", json=asked))["receipt"]
    after = await in_force(disk)
    async with served(**disk) as (client, _):
        stats = await read(client, "/stats")
        receipt = answered(await client.post("/chat", json=asked))["receipt"]
        found = await read(client, "/memories", params={"user_id": "ada", "query": "Any pets?"})

    assert "all-MiniLM-L6-v2-int8 (384 dimensions)" in printed
    for kind, default in (("memory", "0.420"), ("facts", "0.550"), ("documents", "0.350")):
        section = printed.partition(f"{kind}: ")[2]
        gate = getattr(after, kind)
        assert "AUC 0.9" in section or "AUC 1.0" in section
        assert f"today   {default}: F1 " in section
        assert f"best F1 {gate.value:.3f}: F1 " in section
        assert 0.1 < gate.value < 0.9
        assert stats["thresholds"][kind] == {"value": gate.value, "origin": "calibrated"}
    assert "applied" not in printed
    assert origins(before) == {"default"}
    assert "a running service takes them up at its next start" in applied
    assert origins(after) == {"calibrated"}
    assert running["memory"]["threshold"] == 0.42 != after.memory.value
    assert receipt["memory"]["threshold"] == found["threshold"] == after.memory.value
    assert receipt["documents"]["threshold"] == after.documents.value

    setting = {**disk, "memory_threshold": 0.33}
    assert (await in_force(setting)).memory == Gate(0.33, "setting")
    assert await calibrated(setting, "--apply") == 0
    assert "the setting of memory wins over it: MEMORY_THRESHOLD" in capsys.readouterr().out
    assert (await in_force(setting)).memory.origin == "setting"

    other_model = {**disk, "embedding_model": "mock:32"}
    await _reindex(settings(**other_model))
    assert origins(await in_force(other_model)) == {"default"}

    assert await calibrated(other_model, "--reset") == 0
    async with open_runtime(settings(**disk), check=False) as runtime:
        assert origins(runtime.gates) == {"calibrated"}  # another model's are not taken back
        await reset(runtime.database, runtime.embedder)
    async with open_runtime(settings(**disk), check=False) as runtime:
        assert runtime.gates == before


async def test_scores_of_chance_are_not_applied(
    disk: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {**disk, "embedding_model": "mock:256"}
    async with served(**chosen) as (client, runtime):
        await fill(client, runtime)
    assert await calibrated(chosen, "--apply") == 0
    printed = capsys.readouterr().out
    assert "mock:256 (256 dimensions)" in printed
    assert printed.count("the scores hardly tell the two apart") == 3
    assert printed.endswith("nothing is applied\n")
    assert origins(await in_force(chosen)) == {"default"}


@pytest.mark.parametrize("arguments", [[], ["--apply"], ["--tenant", "nobody"]])
async def test_too_little_data_is_said_plainly_and_nothing_is_applied(
    disk: dict[str, Any], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    chosen = {**disk, "embedding_model": "mock:32"}
    assert await calibrated(chosen, *arguments) == 0
    printed = capsys.readouterr().out
    assert printed.count("too little data: 0 pairs, and 30 are needed: ") == 3
    assert "more than one user" in printed
    assert origins(await in_force(chosen)) == {"default"}


async def test_a_sample_bounds_what_is_asked(
    disk: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {**disk, "embedding_model": "mock:32"}
    async with served(**chosen) as (client, runtime):
        await fill(client, runtime)
    await calibrated(chosen, "--sample", "32")
    assert capsys.readouterr().out.count("32 questions") == 3
    await calibrated(chosen, "--sample", "5")
    assert capsys.readouterr().out.count("too little data: 5 pairs") == 3


async def test_the_only_user_is_measured_against_another_conversation_of_theirs(
    disk: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {**disk, "embedding_model": "mock:32"}
    async with served(**chosen) as (client, runtime):
        await fill(client, runtime, users=["ada"])
    await calibrated(chosen)
    of_facts = capsys.readouterr().out.partition("\nfacts: ")[2].partition("\ndocuments: ")[0]
    assert f"too little data: {len(SAID['ada'])} pairs" in of_facts


@pytest.mark.parametrize("sample", ["0", "-1", "many", "10001"])
def test_a_sample_that_makes_no_sense_is_refused(
    sample: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["calibrate", "--sample", sample])
    assert refusal.value.code == 2
    assert "expected 1 to 10000" in capsys.readouterr().err


def test_help_says_what_calibrate_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "the threshold with the highest F1" in told
    assert "counts from the service's next start on" in told
