"""What the tests of agents share: turns through HTTP, and models that obey whatever they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.api import calls
from tests.wire.openai import ModelServer, Said


def groq(model: ModelServer, **chosen: Any) -> dict[str, Any]:
    """Return the settings of a service whose model is `model`, and which sums nothing up."""
    return calls.groq(model, **{"summary_every_messages": 1000, **chosen})


async def ask(client: httpx.AsyncClient, message: str, **fields: Any) -> dict[str, Any]:
    body = {"message": message, "mode": "agent", "session_id": "s1", "user_id": "ada", **fields}
    response = await client.post("/chat", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def put_documents(client: httpx.AsyncClient, *texts: str) -> None:
    documents = [
        {"id": f"d{n}", "text": text, "source": "faq", "metadata": {"year": 2020 + n}}
        for n, text in enumerate(texts, start=1)
    ]
    (await client.post("/documents", json={"documents": documents})).raise_for_status()


async def put_fact(client: httpx.AsyncClient, predicate: str, value: str, **fields: Any) -> str:
    body = {"user_id": "ada", "subject": "user", "predicate": predicate, "value": value, **fields}
    response = await client.post("/memories/facts", json=body)
    response.raise_for_status()
    return str(response.json()["fact_id"])


async def facts_of(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    response = await client.get("/memories/facts", params={"user_id": "ada", **params})
    response.raise_for_status()
    found: list[dict[str, Any]] = response.json()["facts"]
    return found


def results(request: dict[str, Any]) -> list[str]:
    """What tools have told a model so far in this turn."""
    messages = request["messages"]
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    return [m["content"] for m in messages[last:] if m["role"] == "tool"]


def in_turn(*steps: Said | Callable[[list[str]], Said]) -> Callable[[dict[str, Any]], Said]:
    """A model that says one thing after the other in each turn; one may depend on the results.

    Where it is offered no tools it calls none.
    """

    def script(body: dict[str, Any]) -> Said:
        told = results(body)
        if "tools" not in body:
            return "It has no tools."
        step = steps[min(len(told), len(steps) - 1)]
        return step(told) if callable(step) else step

    return script


def fact_id_in(told: Sequence[str]) -> str:
    found = re.search(r"\(fact (\w+),", "\n".join(told))
    assert found, told
    return found[1]


def steps_of(body: dict[str, Any]) -> list[tuple[str, bool, bool]]:
    return [(s["name"], s["is_error"], s["is_refused"]) for s in body["receipt"]["steps"]]


OK, ERROR, REFUSED = (False, False), (True, False), (True, True)
