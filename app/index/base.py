"""The contract of the vector index: one index, many namespaces. Touches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar | list[str]]
Filter = Mapping[str, Any]
Values = NDArray[np.float32]

MAX_ID_CHARS = 512
MAX_METADATA_BYTES = 40_960
# Backends keep numbers as float64, where a larger integer silently becomes another one.
MAX_INTEGER = 2**53
HASHED = "sha256-"
# The metadata that tells which thing a row is of; the rest is what it says.
KEYS = frozenset(
    {
        "user_id",
        "session_id",
        "memory_type",
        "fact_id",
        "created_at",
        "document_id",
        "chunk",
    }
)


@dataclass(frozen=True, slots=True)
class Vector:
    """One row: `values` is float32 of shape (dimension,), not all zeros; no nulls in `metadata`."""

    id: str
    values: Values
    metadata: Metadata = field(default_factory=dict)


class Match(NamedTuple):
    """A found row. `score` is max(0, cosine): 0 to 1, higher is nearer."""

    id: str
    score: float
    metadata: Metadata


class Index(Protocol):
    """Vectors by namespace and id. Every adapter passes tests/seams/test_index.py.

    An adapter raises `UpstreamError` (part "index") for a failing backend, `InvalidFilter` for a
    filter outside the language of `app.index.filters`, and `InvalidRequest` for a row that no
    backend would take (wrong dimension, zero vector, bad id, oversized or nested metadata).
    lag_seconds: so late, at most, a query shows what was acknowledged.
    """

    dimension: int
    lag_seconds: float

    async def open(self) -> None:
        """Connect and check that the index fits (dimension, metric). Raises `Misconfigured`."""
        ...

    async def upsert(self, namespace: str, vectors: Sequence[Vector]) -> None:
        """Insert or replace by id; acknowledged when stored. The last of two equal ids wins."""
        ...

    async def query(
        self,
        namespace: str,
        values: Values,
        *,
        top_k: int,
        filter: Filter | None = None,
        only_keys: bool = False,
    ) -> list[Match]:
        """Return at most `top_k` matches, best first; equal scores by id. Unknown namespace: [].

        only_keys: of the metadata, no more than `KEYS` is asked for; more may come.
        """
        ...

    async def fetch(
        self, namespace: str, ids: Sequence[str], *, only_values: bool = False
    ) -> dict[str, Vector]:
        """Return the rows that exist, by id; only_values: their metadata may be missing."""
        ...

    async def delete(self, namespace: str, ids: Sequence[str]) -> None:
        """Remove rows by id; missing ids and unknown namespaces are fine."""
        ...

    async def clear(self, namespace: str) -> None:
        """Remove all rows of one namespace; an unknown one is fine."""
        ...

    def list_ids(self, namespace: str, *, prefix: str = "") -> AsyncIterator[str]:
        """Yield the ids that start with `prefix`, in ascending order."""
        ...

    async def counts(self) -> dict[str, int]:
        """Return the number of rows per namespace."""
        ...

    async def ping(self) -> None:
        """Return if the backend answers, else raise `UpstreamError`."""
        ...

    async def close(self) -> None: ...


def vector_id(name: str) -> str:
    """Return the ASCII vector id of a session or document id (1 to 512 characters).

    Percent-encoded, so that `#` can only be the separator of child vectors; an id whose encoding
    would leave no room for one (over 480 characters), or that looks like a hash, is hashed.
    """
    encoded = quote(name, safe="")
    if len(encoded) <= MAX_ID_CHARS - 32 and not encoded.startswith(HASHED):
        return encoded
    return HASHED + hashlib.sha256(name.encode()).hexdigest()


def namespace(kind: str, tenant: str) -> str:
    """Return the namespace of a kind ("documents", "memory") for a tenant."""
    return kind if tenant == "default" else f"{kind}--{tenant}"
