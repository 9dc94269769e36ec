"""A document as the index holds it: chunks with their ids and metadata. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from app.errors import InvalidRequest
from app.index.base import Metadata, Vector, vector_id
from app.index.rows import check_vector
from app.knowledge.cuts import Cuts
from ingest.document import Document

OURS = frozenset({"tenant_id", "text", "source", "doc_type", "document_id", "chunk"})

_CUTS = Cuts()


def chunk_rows(
    tenant_id: str, row: Any, wanted: Collection[str] | None = None
) -> list[tuple[str, Metadata]]:
    """Return the id and metadata of each chunk of a row of `documents`, or of those wanted."""
    document = Document(row.document_id, row.text, row.source, row.doc_type, row.metadata)
    shared = shared_metadata(tenant_id, document)
    texts = _CUTS.of(document, row.fingerprint)
    ids = chunk_ids(document.id, range(len(texts)))
    return [
        (chunk_id, {**shared, "text": text, "chunk": n})
        for n, (chunk_id, text) in enumerate(zip(ids, texts, strict=True))
        if wanted is None or chunk_id in wanted
    ]


def chunk_ids(document_id: str, numbers: Iterable[int]) -> list[str]:
    """Return the vector ids of some chunks of a document."""
    first = _first_id(document_id)
    return [first if n == 0 else f"{first}#{n}" for n in numbers]


def ids_of(chunks: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the vector ids of some chunks, each known by its document's id and its number."""
    return {
        (document_id, n): _first_id(document_id) if n == 0 else f"{_first_id(document_id)}#{n}"
        for document_id, n in chunks
    }


_first_id = lru_cache(maxsize=4_096)(vector_id)


def count_chunks(tenant_id: str, document: Document, dimension: int) -> int:
    """Return how many chunks the index will hold.

    Raises `InvalidRequest` for a document that it would refuse. All chunks have the same metadata,
    which may be long, so that only the one with the longest text is looked at whole.
    """
    texts = document.passages()
    try:
        longest = max(texts, key=_bytes, default="")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the text of {document.id[:80]!r} is not valid Unicode") from error
    metadata = {**shared_metadata(tenant_id, document), "text": longest, "chunk": len(texts)}
    some_values = np.ones(dimension, dtype=np.float32)
    check_vector(Vector(vector_id(document.id), some_values, metadata), dimension)
    return len(texts)


def shared_metadata(tenant_id: str, document: Document) -> Metadata:
    """Return what the metadata of all chunks share; a column named like one of ours gets a `_`."""
    own = document.metadata
    if not OURS.isdisjoint(own):
        own = {_column(name, own): value for name, value in own.items()}
    return {
        **own,
        "tenant_id": tenant_id,
        "source": document.source,
        "doc_type": document.doc_type,
        "document_id": document.id,
    }


def _column(name: str, metadata: Metadata) -> str:
    if name not in OURS:
        return name
    while name in OURS or name in metadata:
        name += "_"
    return name


def _bytes(text: str) -> int:
    """Return the length that counts against the limit of the metadata: as JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode())
