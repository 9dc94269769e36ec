"""The words of documents: a part of the lexical index for each chunk. Touches: the lexical index.

In the transaction that writes or deletes the document, while its row is locked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.db import Connection
from app.lexical import store
from app.lexical.store import Counted, Entry, scope_of
from ingest.document import Document

KIND = "documents"

Words = tuple[Counted, ...]


def count_words(document: Document) -> Words:
    """Count the terms of a document's chunks; this takes time."""
    return tuple(
        store.count(Entry(document.id, {0: text}, part))
        for part, text in enumerate(document.passages())
    )


def write_words(connection: Connection, tenant_id: str, batch: Iterable[Words]) -> None:
    """Index documents in place of what they said before."""
    counted = [part for words in batch for part in words]
    scope = scope_of(KIND, tenant_id)
    store.remove(connection, scope, {part.ref for part in counted})
    store.put(connection, scope, counted)


def drop_words(connection: Connection, tenant_id: str, ids: Collection[str]) -> None:
    store.remove(connection, scope_of(KIND, tenant_id), ids)


def clear_words(connection: Connection, tenant_id: str) -> None:
    store.clear(connection, scope_of(KIND, tenant_id))
