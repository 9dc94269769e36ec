"""Which documents a reply was given, by its receipt. Touches: `documents`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import documents
from app.sessions.base import Message

MOST = 20  # of one reply

_TEXTS = sa.select(documents.c.document_id, documents.c.text).where(
    documents.c.tenant_id == sa.bindparam("tenant"),
    documents.c.document_id.in_(sa.bindparam("ids", expanding=True)),
)


def are_documents_given(said: Sequence[Message]) -> bool:
    return any(True for message in said for _ in _ids(message))


def documents_given(
    tenant_id: str, said: Sequence[Message], connection: Connection
) -> dict[int, list[str]]:
    """Return, by the number of a reply, the texts of the documents that it was given.

    As they are now: what was deleted supports nothing any more.
    """
    ids = {message.seq: list(_ids(message))[:MOST] for message in said}
    wanted = sorted({id for some in ids.values() for id in some})
    if not wanted:
        return {}
    rows = connection.execute(_TEXTS, {"tenant": tenant_id, "ids": wanted})
    texts: dict[str, str] = {row.document_id: row.text for row in rows}
    return {seq: [texts[id] for id in some if id in texts] for seq, some in ids.items()}


def _ids(message: Message) -> Iterator[str]:
    """Yield the ids of documents in a receipt, which names their vectors.

    One that is so long that it was hashed is left out.
    """
    for used in (message.receipt or {}).get("documents", {}).get("used", []):
        yield unquote(str(used.get("id", "")).partition("#")[0])
