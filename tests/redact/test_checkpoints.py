"""What was stored before there was redaction, or what a model makes up, is not remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from app.db.tables import messages
from tests.api.calls import chat, close, groq, read
from tests.served import served
from tests.wire.openai import ModelServer, model_server

CARD, MAIL = "4111 1111 1111 1111", "ada@private.example"
SAID = f"I live in Porto, my card is {CARD}, write to {MAIL}"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model that repeats what it was not told."""
    fact = {
        "subject": "user", "predicate": "lives_in", "value": f"Porto, {CARD}",
        "statement": f"The user lives in Porto, {CARD}.", "seq": 1, "quote": "I live in Porto",
    }  # fmt: skip
    with model_server(
        script=(json.dumps({"summary": f"The user lives in Porto. {MAIL}", "facts": [fact]}),)
    ) as server:
        yield server


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_checkpoint_reads_and_writes_what_may_be_kept(
    model: ModelServer, keeps: bool
) -> None:
    chosen = groq(model, chat_model="offline", summary_model="reader", pii_consent=keeps)
    async with served(**chosen) as (client, runtime):
        await chat(client, "I live in Porto", session_id="s1")
        older = messages.update().where(messages.c.seq == 1).values(content=SAID)
        await runtime.database.write(lambda c: c.execute(older))
        closed = await close(client, "s1")
        facts = (await read(client, "/memories/facts"))["facts"]
    sent = json.dumps(model.requests)
    assert closed["state"] == "closed"
    assert CARD not in sent + json.dumps([closed, facts])
    assert "[CARD_1]" in sent
    assert (MAIL in sent) == keeps
    assert keeps or MAIL not in json.dumps([closed, facts])
