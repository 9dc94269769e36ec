"""The data of one Pinecone index, strict about what Pinecone refuses. Touches nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.wire import pinecone_filters

DEFAULT_NAMESPACE = "__default__"
DOCUMENT_INDEX = (
    "This index has a document schema, so writes must go through the documents API. "
    "Use the documents endpoints instead."
)


Json = dict[str, Any]
Rows = dict[str, Json]
Change = Callable[[Rows], None]


class Refused(Exception):
    """An answer other than 200, with the gRPC code that the vectors API sends along."""

    def __init__(self, status: int, message: str, code: int = 3) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


@dataclass
class Space:
    """One namespace: what is visible, and writes that are accepted but not visible yet."""

    rows: Rows = field(default_factory=dict)
    pending: list[tuple[float, Change]] = field(default_factory=list)
    written: int = 0
    indexed: int = 0

    def write(self, change: Change, lag: float) -> int:
        self.written += 1
        self.pending.append((time.monotonic() + lag, change))
        return self.written

    def settle(self, until: float) -> None:
        """Make visible, in order, what was due at `until` (of `time.monotonic`)."""
        while self.pending and self.pending[0][0] <= until:
            self.pending.pop(0)[1](self.rows)
            self.indexed += 1


@dataclass
class Data:
    """Namespaces of rows of one dimension; `lag_seconds` is how late writes become visible."""

    dimension: int
    lag_seconds: float = 0.0
    spaces: dict[str, Space] = field(default_factory=dict)

    def settle(self) -> None:
        """Make everything visible now."""
        for space in self.spaces.values():
            space.settle(float("inf"))

    def space(self, namespace: str) -> Space:
        """Return what of a namespace is visible now; an unknown one is empty and stays unknown."""
        space = self.spaces.get(namespace) or Space()
        space.settle(time.monotonic())
        return space

    def upsert(self, namespace: str, vectors: Any) -> int:
        if not isinstance(vectors, list) or not vectors:
            raise Refused(400, "vectors must be a non-empty list")
        if len(vectors) > 1_000:
            raise Refused(400, f"Request has {len(vectors)} vectors, the limit is 1000")
        new = {}
        for vector in vectors:
            only(vector, {"id", "values", "metadata"})
            check_id(vector.get("id"))
            self.check_values(vector.get("values"))
            new[vector["id"]] = {
                "id": vector["id"],
                "values": np.asarray(vector["values"], np.float32).tolist(),
                "metadata": stored_metadata(vector.get("metadata", {})),
            }
        space = self.spaces.setdefault(namespace, Space())
        return space.write(lambda rows: rows.update(new), self.lag_seconds)

    def delete(self, namespace: str, body: Json) -> int:
        if sum(key in body for key in ("ids", "deleteAll", "filter")) != 1:
            raise Refused(400, "exactly one of ids, deleteAll and filter is needed")
        if namespace not in self.spaces:
            raise Refused(404, "Namespace not found", code=5)
        space = self.spaces[namespace]
        if "ids" in body:
            ids = body["ids"]
            if not isinstance(ids, list) or not 0 < len(ids) <= 1_000:
                raise Refused(400, "ids must hold 1 to 1000 ids")
            for id in ids:
                check_id(id)
            return space.write(lambda rows: drop(rows, ids), self.lag_seconds)
        if "filter" in body:
            where = checked_filter(body["filter"])
            return space.write(lambda rows: drop(rows, hits(rows, where)), self.lag_seconds)
        del self.spaces[namespace]
        return space.written + 1

    def query(self, namespace: str, body: Json) -> list[Json]:
        """Return the nearest rows, best first, with the cosine as score."""
        top_k = body.get("topK")
        if type(top_k) is not int or not 1 <= top_k <= 10_000:
            raise Refused(400, f"topK must be between 1 and 10000, got {top_k!r}")
        if ("vector" in body) == ("id" in body):
            raise Refused(400, "exactly one of vector and id is needed")
        where = checked_filter(body["filter"]) if "filter" in body else None
        rows = self.space(namespace).rows
        if "id" in body:
            check_id(body["id"])
            if body["id"] not in rows:
                return []
            vector = rows[body["id"]]["values"]
        else:
            self.check_values(body["vector"])
            vector = body["vector"]
        found = rows if where is None else hits(rows, where)
        scored = [{**rows[id], "score": cosine(rows[id]["values"], vector)} for id in found]
        scored.sort(key=lambda row: (-row["score"], row["id"]))
        return scored[:top_k]

    def fetch(self, namespace: str, ids: list[str]) -> Rows:
        if not 0 < len(ids) <= 1_000:
            raise Refused(400, f"ids must hold 1 to 1000 ids, got {len(ids)}")
        for id in ids:
            check_id(id)
        rows = self.space(namespace).rows
        return {id: rows[id] for id in ids if id in rows}

    def check_values(self, values: Any) -> None:
        if not isinstance(values, list) or not all(
            pinecone_filters.is_number(one) for one in values
        ):
            raise Refused(400, "values must be a list of numbers")
        if len(values) != self.dimension:
            raise Refused(
                400,
                f"Vector dimension {len(values)} does not match the dimension of the index "
                f"{self.dimension}",
            )
        if not any(values):
            raise Refused(400, "Dense vectors must contain at least one non-zero value")


def cosine(one: list[float], other: list[float]) -> float:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def drop(rows: Rows, ids: list[str]) -> None:
    for id in ids:
        rows.pop(id, None)


def hits(rows: Rows, where: Json) -> list[str]:
    return [id for id, row in rows.items() if pinecone_filters.passes(where, row["metadata"])]


def checked_filter(where: Any) -> Json:
    try:
        pinecone_filters.check(where)
    except pinecone_filters.Illegal as error:
        raise Refused(400, str(error)) from error
    checked: Json = where
    return checked


def stored_metadata(metadata: Any) -> Json:
    """Return the metadata as it comes back: every number is a float64."""
    if not isinstance(metadata, dict):
        raise Refused(400, "metadata must be an object")
    size = len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode())
    if size > 40_960:
        raise Refused(
            400,
            f"Metadata size is {size} bytes, which exceeds the limit of 40960 bytes per vector",
        )
    for key, value in metadata.items():
        strings = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if key.startswith("$") or not (strings or pinecone_filters.is_scalar(value)):
            raise Refused(
                400,
                "Metadata value must be a string, number, boolean or list of strings, got "
                f"'{value!r:.16}' for field '{key}'",
            )
    return {
        key: float(value) if pinecone_filters.is_number(value) else value
        for key, value in metadata.items()
    }


def check_id(id: Any) -> None:
    if not isinstance(id, str) or not 1 <= len(id) <= 512 or not id.isascii() or "\x00" in id:
        raise Refused(400, f"Vector ID must be 1 to 512 ASCII characters, got {id!r:.80}")


def check_namespace(namespace: Any) -> str:
    if not isinstance(namespace, str) or len(namespace) > 512 or not namespace.isascii():
        raise Refused(400, f"namespace must be at most 512 ASCII characters, got {namespace!r:.80}")
    return namespace or DEFAULT_NAMESPACE


def only(body: Any, known: set[str]) -> None:
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    if unknown := set(body) - known:
        raise Refused(400, f"unknown fields {sorted(unknown)}")
