"""What users ask for is found: codes, names, paraphrases, several attributes at once.

A smaller version of `tests.benchmarks.found`, with the bundled model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from app.wiring import Runtime
from tests.knowledge.asking import found_ids, load, recall
from tests.knowledge.calls import search
from tests.knowledge.tables import questions, sheets
from tests.served import served

ROWS, QUESTIONS = 400, 80

UNRELATED = [
    "How do I bake a chocolate cake?",
    "Who won the World Cup in 2014?",
    "What is the capital of France?",
    "Explain quantum entanglement",
    "What time is it?",
    "Who wrote Romeo and Juliet?",
    "What is the square root of 1764?",
    "What is the weather in Berlin today?",
    "Why is the sky blue?",
    "hello",
    "May I ask you something?",
]
INDUSTRIES = """Company,Industry,Contract Value,Renewal Date,Account Manager
Acme Corp,Manufacturing,"$120,000",2026-10-15,Alice Vance
Globex,Energy,"$80,000",2026-12-01,Bob Stone
Initech,Software,"$64,500",2027-02-11,Alice Vance
Umbra,Energy,"$17,000",2026-11-30,Cy Young
Hooli,Software,"$99,000",2027-05-20,Bob Stone
"""


async def _has(client: httpx.AsyncClient, text: str) -> None:
    file = {"file": ("customers.csv", text.encode())}
    answer = await client.post("/documents/table", files=file, data={"kind": "customer"})
    assert answer.status_code == 200


@pytest.fixture
async def customers() -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    async with served(embedding_model="local") as (client, runtime):
        await _has(client, INDUSTRIES)
        yield client, runtime


async def test_rows_of_mixed_tables_are_found_and_unrelated_questions_find_nothing() -> None:
    tables = sheets(ROWS)
    asked = questions(tables, QUESTIONS)
    codes = [it for it in asked if it.kind == "code"]
    async with served(embedding_model="local", upload_inline_rows=10 * ROWS) as (client, runtime):
        keys = await load(client, tables)
        found = [await found_ids(runtime, it.text, top_k=5, with_words=True) for it in asked]
        by_meaning = [await found_ids(runtime, it.text, top_k=5, with_words=False) for it in codes]
        unrelated = [(await search(runtime, text)).passages for text in UNRELATED]
    shares = recall(asked, keys, found, 5)
    assert len(keys) == sum(len(sheet.rows) for sheet in tables)
    assert shares["all"] >= 0.95
    assert shares["code"] == shares["person"] == shares["company"] == 1.0
    assert recall(codes, keys, by_meaning, 5)["code"] < 0.5  # so it is the words that find codes
    assert unrelated == [()] * len(UNRELATED)


async def test_a_question_about_a_column_finds_what_is_told_of_the_whole_table(
    customers: tuple[httpx.AsyncClient, Runtime],
) -> None:
    _, runtime = customers
    best = (await search(runtime, "Which industries are there?", top_k=1)).passages[0]
    assert "counted by Industry: Energy (2), Software (2), Manufacturing (1)" in best.text


@pytest.mark.parametrize(
    ("question", "company"),
    [("Alice Vance", "Acme"), ("What about Cy Young?", "Umbra"), ("120,000", "Acme")],
)
async def test_a_few_rows_are_found_by_a_name_or_a_number_alone(
    customers: tuple[httpx.AsyncClient, Runtime], question: str, company: str
) -> None:
    _, runtime = customers
    found = await search(runtime, question, top_k=5)
    assert any(company in passage.text for passage in found.passages)


async def test_a_reply_says_how_its_sources_were_found(
    customers: tuple[httpx.AsyncClient, Runtime],
) -> None:
    client, _ = customers
    body = {"message": "When does Globex renew?", "client_message_id": "m1", "session_id": "s1"}
    reply = (await client.post("/chat", json=body)).json()
    again = (await client.post("/chat", json=body)).json()
    best = reply["sources"][0]
    assert "Globex" in best["text"]
    assert set(best["why"]) == {"dense", "lexical"}
    assert best["relevance"] == pytest.approx(sum(best["why"].values()) / 2)
    relevances = [source["relevance"] for source in reply["sources"]]
    assert relevances == sorted(relevances, reverse=True)
    used = reply["receipt"]["documents"]["used"][0]
    assert (used["relevance"], used["why"]) == (best["relevance"], best["why"])
    assert again["sources"] == reply["sources"]
