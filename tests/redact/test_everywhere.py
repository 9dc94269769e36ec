"""Whatever way a secret comes in: it reaches no model, no table but the inbox, no log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.db import Connection
from app.telemetry import JsonLines
from app.wiring import Runtime
from tests.api.calls import answered, chat, close, groq, put, read
from tests.knowledge.calls import finish_jobs
from tests.redact.test_detector import EVERYTHING
from tests.served import served
from tests.wire.openai import Calls, ModelServer, Said, call, model_server

CARD, MODELS_CARD = "4111 1111 1111 1111", "5555 5555 5555 4444"
SECRETS = [CARD, "DE89 3704 0044 0532 0130 00", "219-09-9999", "pcsk_Zx81kQpL0vT7mNb3RfYwHs29"]
DETAILS = ["ada@private.example", "+1 650 253 0000", "198.51.100.23"]
TOLD = ", ".join(SECRETS)
MINE = f"{TOLD}, {', '.join(DETAILS)}"  # of a user who does not allow that the latter are stored
AS_THEY_CAME = {"deliveries", "records", "uploads"}  # to be replayed


def _said(body: dict[str, Any]) -> Said:
    """Answer as a model that looks for, and writes, what it should not."""
    prompt = json.dumps(body["messages"])
    if "You keep the memory" in prompt:
        fact = {"predicate": "paid_with", "value": MODELS_CARD, "seq": 1, "quote": "pays with"}
        summary = f"The user told their numbers. The user pays with {MODELS_CARD}."
        return json.dumps({"summary": summary, "facts": [fact]})
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        return Calls(call("search_documents", query=f"the card {MODELS_CARD}").calls)
    return f"You pay with {MODELS_CARD}."


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(script=_said) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


async def test_no_secret_leaves_or_stays(
    model: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = {
        **groq(model),
        "embedding_model": "openai:text-embedding-3-small",
        "embedding_dimension": 32,
        "webhook_token": "gen-token",
        "webhook_coalesce_seconds": 0.0,
        "pii_consent": False,
        "model_timeout_seconds": 60.0,
        "summary_every_messages": 2,
    }
    async with served(**chosen) as (client, runtime):
        await _tell(client, runtime)
        rows = await runtime.database.read(_rows)
        asked = await chat(client, f"Charge {CARD} and {MODELS_CARD}, {CARD}", session_id="s9")
        listed = await read(client, "/sessions/s9")
        receipt = await read(client, f"/messages/{asked['message_id']}/receipt")
        document = await read(client, "/documents/d1")
    sent = json.dumps(model.requests, ensure_ascii=False)
    logged = "\n".join(JsonLines().format(record) for record in caplog.records)
    for where, text in {**rows, "sent": sent, "logged": logged}.items():
        for secret in [*SECRETS, *DETAILS]:
            assert not _holds(text, secret), (where, secret)
    for name, text in rows.items():
        assert not _holds(text, MODELS_CARD), name
    assert len(model.requests) > 15
    assert "[CARD_1], [IBAN_1], [SSN_1], [SECRET_1], [EMAIL_1], [PHONE_1], [IP_1]" in sent
    assert listed["messages"][0]["content"] == "Charge [CARD_1] and [CARD_2], [CARD_1]"
    assert listed["messages"][1]["content"] == "You pay with [CARD_1]."
    assert asked["reply"] == f"You pay with {MODELS_CARD}."
    assert receipt["receipt"]["redacted"] == {"CARD": 2}
    assert document["metadata"] == {"iban": "[IBAN_1]", "[SECRET_1]": 1, "card": "[CARD_1]"}


async def test_a_filter_is_kept_as_clean_as_the_question_and_searches_as_it_came() -> None:
    async with served(pii_consent=False) as (client, _):
        await put(client, {"id": "d1", "text": "Tea.", "metadata": {"owner": DETAILS[0]}})
        filters = {"owner": {"$in": [DETAILS[0], CARD]}}
        asked = await chat(client, "What about tea?", session_id="s1", filters=filters)
        assert [source["id"] for source in asked["sources"]] == ["d1"]
        receipt = await read(client, f"/messages/{asked['message_id']}/receipt")
        assert not [one for one in (DETAILS[0], CARD) if one in json.dumps(receipt)]


async def _tell(client: httpx.AsyncClient, runtime: Runtime) -> None:
    """Let the same come in by every way there is."""
    await chat(client, f"Remember this: {MINE}", session_id="s1")
    again = {"message": f"My numbers: {MINE}", "session_id": "s1", "client_message_id": "m1"}
    first = answered(await client.post("/chat", json=again))
    repeated = answered(await client.post("/chat", json=again))
    assert first["message_id"] == repeated["message_id"]
    await chat(client, f"Look it up: {MINE}", session_id="s2", mode="agent")
    for session_id in ("s1", "s2"):
        await close(client, session_id)
    conversation = [
        {"role": "system", "content": f"Never say {TOLD}"},
        {"role": "user", "content": f"It is {MINE}"},
        {"role": "assistant", "content": f"Yes, {MINE}"},
        {"role": "user", "content": f"Once more: {MINE}?"},
    ]
    completion = {"model": "conversational-rag", "messages": conversation}
    answered(await client.post("/v1/chat/completions", json=completion))
    title = {"X-Client-Task": "title"}
    answered(await client.post("/v1/chat/completions", json=completion, headers=title))
    line = {"role": "user", "content": f"I have {MINE}", "created_at": "2024-05-08T13:56:00Z"}
    speaking = {"messages": [{**line, "speaker": DETAILS[0]}, {**line, "speaker": "Bo"}]}
    imported = await client.post("/memories/import", json={"conversations": [speaking]})
    assert imported.status_code == 202
    fact = answered(await client.post("/memories/facts", json={"predicate": "has", "value": MINE}))
    answered(
        await client.patch(f"/memories/facts/{fact['fact_id']}", json={"statement": f"Has {MINE}"})
    )
    answered(await client.put("/memories/blocks/human", json={"value": f"Ada: {MINE}"}))
    item = {"namespace": ["notes"], "key": "k", "value": {"text": MINE, CARD: 4111111111111111}}
    answered(await client.put("/store/items", json=item))
    search = {"op": "search", "query": MINE}
    answered(await client.post("/store/batch", json={"operations": [search]}))
    answered(
        await client.patch(
            "/sessions/s1", json={"title": f"About {CARD}", "metadata": {"note": MINE}}
        )
    )
    answered(await client.get("/memories", params={"query": f"who has {MINE}"}))
    metadata = {"iban": SECRETS[1], SECRETS[3]: 1, "card": 4111111111111111}
    stored = await put(client, {"id": "d1", "text": f"It says {TOLD}", "metadata": metadata})
    assert stored["redacted"] == {"CARD": 1, "IBAN": 1, "SSN": 1, "SECRET": 1}
    table = "name,card,note\n" + "".join(f'Bo{n},4111111111111111,"{TOLD}"\n' for n in range(3))
    uploaded = await client.post("/documents/table", files={"file": ("people.csv", table)})
    assert answered(uploaded)["report"]["redacted"]["CARD"] == 3
    record = {"id": "1", "name": "Bo", "note": TOLD}
    assert (await client.post("/webhooks/generic/gen-token", json=record)).status_code == 202
    await finish_jobs(runtime)
    documents = (await read(client, "/documents"))["documents"]
    assert len(documents) >= 5
    assert "[SSN_1]" in json.dumps(documents)


def _rows(connection: Connection) -> dict[str, str]:
    """Return all that the database holds, the index too, by table."""
    names = set(sa.inspect(connection).get_table_names()) - AS_THEY_CAME
    return {
        name: repr(connection.execute(sa.text(f'SELECT * FROM "{name}"')).all()) for name in names
    }


def _holds(text: str, secret: str) -> bool:
    """Say whether a text has a secret in it, with or without what separates its parts."""
    parts = re.findall(r"\w+", secret) if "@" not in secret else [secret]
    pattern = r"[\W_]{0,2}".join(map(re.escape, parts))
    return re.search(rf"(?<!\d){pattern}(?!\d)", text, re.IGNORECASE) is not None


def test_what_is_looked_for_would_be_seen() -> None:
    assert len(EVERYTHING) == len([*SECRETS, *DETAILS])
    assert all(_holds(f"<{secret}>", secret) for secret in [*SECRETS, *DETAILS])
    assert _holds("4111111111111111", CARD)
