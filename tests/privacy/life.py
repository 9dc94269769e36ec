"""A user with something in every store, each text with the mark of its user. For tests."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.calls import at, chat, close, put
from tests.senders import GENERIC_TOKEN

Json = dict[str, Any]


def mark(user: str) -> str:
    """Return a word that only texts of this user have, and no stemming or lower-casing changes."""
    return "quuxmark" + "".join(f"{ord(char):x}" for char in user)


async def live(
    client: httpx.AsyncClient, user: str, headers: Json | None = None, *, webhook: bool = True
) -> None:
    """Leave something in every store. headers: an admin's. webhook: its tenant has a sender."""
    word = mark(user)
    who = {"user_id": user}
    own: Json = {"params": who, "headers": headers}
    for session in ("one", "two"):
        name = f"{session} {user}"
        town = f"{word}ville".capitalize()
        told = f"I moved to {town} in May 2024."
        await chat(client, told, session_id=name, headers=headers, **who)
        await chat(client, f"My dog is called {word}dog.", session_id=name, headers=headers, **who)
    await close(client, f"one {user}", **own)
    titled = {"title": f"about {word}title", "metadata": {"note": f"{word}note"}}
    ok(await client.patch(at("sessions", f"one {user}"), json=titled, **own))
    likes = {"predicate": "likes", "value": f"{word}fact", **who}
    ok(await client.post("/memories/facts", json=likes, headers=headers))
    block = {"value": f"A nurse in {word}block."}
    ok(await client.put(at("memories", "blocks", "human"), json=block, **own))
    item = {"namespace": ["notes"], "key": f"{word}key", "value": {"text": f"{word}item"}}
    ok(await client.put("/store/items", json=item, **own))
    said = {"role": "user", "content": f"{word}import", "created_at": "2023-05-08T13:56:00Z"}
    old = {"conversations": [{"session_id": f"old {user}", "messages": [said]}], **who}
    ok(await client.post("/memories/import", json=old, headers=headers))
    consent = {"memory_enabled": True, "pii_storage_allowed": True}
    ok(await client.put(at("users", user, "consent"), json=consent, headers=headers))
    await put(client, document(user), headers=headers)
    ok(await upload(client, user, headers))
    if webhook:
        ok(await deliver(client, user))


def document(user: str) -> Json:
    about = {"user_id": user}
    return {"id": f"doc-{user}", "text": f"{mark(user)}document", "metadata": about}


async def upload(client: httpx.AsyncClient, user: str, headers: Json | None) -> httpx.Response:
    """Upload a table with a row about a user, as an admin uploads it again."""
    rows = f"id,user_id,remark\n{mark(user)}row,{user},{mark(user)}csv\n"
    return await client.post(
        "/documents/table",
        files={"file": ("table.csv", rows.encode())},
        data={"source": f"table of {user}", "key": "id"},
        headers=headers,
    )


async def deliver(client: httpx.AsyncClient, user: str, number: int = 1) -> httpx.Response:
    """Send a webhook about a user, as its sender sends it again."""
    ticket = 100_000 * number + sum(map(ord, user))
    return await client.post(
        "/webhooks/generic",
        json={"type": "ticket", "id": ticket, "user_id": user, "note": f"{mark(user)}hook"},
        headers={"Authorization": f"Bearer {GENERIC_TOKEN}", "Idempotency-Key": f"t{ticket}"},
    )


def ok(response: httpx.Response) -> Json:
    assert response.is_success, response.text
    body: Json = response.json()
    return body
