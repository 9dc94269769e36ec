"""The vector index on Pinecone, through its async SDK (vectors API). Touches: Pinecone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np

from app.breaker import Breaker, guarded
from app.errors import UpstreamTimeout, UpstreamUnavailable
from app.index import filters, rows
from app.index.base import Filter, Match, Metadata, Values, Vector
from app.index.pinecone_calls import PART, called, together
from app.index.pinecone_setup import Wanted, attach, check_stats, connect, host_by_name

if TYPE_CHECKING:
    from pinecone import AsyncIndex, AsyncPinecone
    from pinecone.models.vectors.responses import DescribeIndexStatsResponse, ListResponse

MAX_UPSERT_BYTES = 2_000_000
MAX_UPSERT_ROWS = 1_000
MAX_FETCH_IDS = 100
# They travel in the query string, and proxies cut long ones off.
MAX_FETCH_URL_BYTES = 6_000
MAX_DELETE_IDS = 1_000
LIST_PAGE = 100
# The longest text of a float32 that is read as a float64, with its comma.
BYTES_PER_NUMBER = 25

T = TypeVar("T")
Item = TypeVar("Item")


class PineconeIndex:
    """An index of the vectors API: dense, cosine, one namespace per kind and tenant.

    `host` skips the control plane; else the index is looked up by `index_name`, and created
    (serverless, in `cloud` and `region`) if it is missing and `create` is set. `timeout_seconds`
    is the deadline of one call, its retries included; `ready_seconds` is that of a new index. Of
    a search, for which a person waits, it is `search_seconds`. breaker: of Pinecone; each attempt
    counts.
    """

    lag_seconds = 120.0

    def __init__(
        self,
        *,
        api_key: str,
        index_name: str,
        dimension: int,
        host: str = "",
        create: bool = False,
        cloud: str = "aws",
        region: str = "us-east-1",
        timeout_seconds: float = 10.0,
        search_seconds: float = 3.0,
        ready_seconds: float = 120.0,
        controller_host: str = "",
        breaker: Breaker | None = None,
    ) -> None:
        self.dimension = dimension
        self._api_key = api_key
        self._host = host
        self._controller_host = controller_host
        self._timeout_seconds = timeout_seconds
        self._search_seconds = min(timeout_seconds, search_seconds)
        self._breaker = breaker
        self._wanted = Wanted(
            index_name, dimension, create, cloud, region, timeout_seconds, ready_seconds
        )
        self._client: AsyncPinecone | None = None
        self._index: AsyncIndex | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect and check that the index fits.

        Raises `Misconfigured` with the setting to change, `UpstreamError` if Pinecone fails.
        """
        index: AsyncIndex | None = None
        try:
            client = self._client = connect(
                self._api_key, self._controller_host, seconds=self._timeout_seconds
            )
            host = self._host or await host_by_name(client, self._wanted)
            index = await attach(client, host)
            if self._host:
                check_stats(await self._described(index), host, self.dimension)
        except BaseException:
            if index is not None:
                await index.close()
            await self.close()
            raise
        self._index = index  # only now: others use it as soon as it is there

    async def upsert(self, namespace: str, vectors: Sequence[Vector]) -> None:
        rows.check_namespace(namespace)
        batches = await asyncio.to_thread(self._checked_batches, vectors)

        async def store(batch: list[Vector]) -> None:
            wire = [
                {"id": row.id, "values": row.values.tolist(), "metadata": dict(row.metadata)}
                for row in batch
            ]
            await self._call(
                "store vectors", lambda index: index.upsert(vectors=wire, namespace=namespace)
            )

        await together(store, batches)

    def _checked_batches(self, vectors: Sequence[Vector]) -> list[list[Vector]]:
        for vector in vectors:
            rows.check_vector(vector, self.dimension)
        latest = {vector.id: vector for vector in vectors}.values()
        return list(_batches(latest, _upsert_bytes, MAX_UPSERT_BYTES, MAX_UPSERT_ROWS))

    async def query(
        self,
        namespace: str,
        values: Values,
        *,
        top_k: int,
        filter: Filter | None = None,
        only_keys: bool = False,
    ) -> list[Match]:
        rows.check_namespace(namespace)
        rows.check_query(values, self.dimension, top_k)
        if filter is not None:
            filters.validate(filter)
        vector = values.tolist()
        found = await self._search(
            "search",
            lambda index: index.query(
                namespace=namespace,
                vector=vector,
                top_k=top_k,
                filter=filter,
                include_metadata=True,
            ),
        )
        matches = [
            Match(match.id, min(1.0, max(0.0, match.score)), _metadata(match.metadata))
            for match in found.matches
        ]
        return sorted(matches, key=lambda match: (-match.score, match.id))

    async def fetch(
        self, namespace: str, ids: Sequence[str], *, only_values: bool = False
    ) -> dict[str, Vector]:
        rows.check_namespace(namespace)
        for id in ids:
            rows.check_id(id)

        async def read(batch: list[str]) -> dict[str, Vector]:
            found = await self._search(
                "fetch vectors", lambda index: index.fetch(ids=batch, namespace=namespace)
            )
            return {
                id: Vector(id, np.asarray(row.values, np.float32), _metadata(row.metadata))
                for id, row in found.vectors.items()
            }

        batches = _batches(dict.fromkeys(ids), _url_bytes, MAX_FETCH_URL_BYTES, MAX_FETCH_IDS)
        parts = await together(read, batches)
        return {id: vector for part in parts for id, vector in part.items()}

    async def delete(self, namespace: str, ids: Sequence[str]) -> None:
        rows.check_namespace(namespace)
        for id in ids:
            rows.check_id(id)

        async def remove(batch: list[str]) -> None:
            await self._forget("delete vectors", namespace, ids=batch)

        await together(remove, _batches(dict.fromkeys(ids), len, MAX_UPSERT_BYTES, MAX_DELETE_IDS))

    async def clear(self, namespace: str) -> None:
        rows.check_namespace(namespace)
        await self._forget("clear a namespace", namespace, delete_all=True)

    async def list_ids(self, namespace: str, *, prefix: str = "") -> AsyncIterator[str]:
        rows.check_namespace(namespace)
        if prefix:
            rows.check_id(prefix)

        async def page(token: str | None) -> ListResponse:
            return await self._call(
                "list vectors",
                lambda index: index.list_paginated(
                    namespace=namespace,
                    prefix=prefix or None,
                    limit=LIST_PAGE,
                    pagination_token=token,
                ),
            )

        token: str | None = None
        while True:
            listed = await page(token)
            for item in listed.vectors:
                if item.id is not None:
                    yield item.id
            token = listed.pagination.next if listed.pagination else None
            if not token:
                return

    async def counts(self) -> dict[str, int]:
        stats = await self._call("count vectors", lambda index: index.describe_index_stats())
        return {name: it.vector_count for name, it in stats.namespaces.items() if it.vector_count}

    async def ping(self) -> None:
        await self._search("answer", lambda index: index.describe_index_stats())

    async def close(self) -> None:
        # Closing the client does not close its indexes.
        index, self._index = self._index, None
        client, self._client = self._client, None
        if index is not None:
            await index.close()
        if client is not None:
            await client.close()

    async def _call(self, deed: str, call: Callable[[AsyncIndex], Awaitable[T]]) -> T:
        return await self._within(self._timeout_seconds, deed, call)

    async def _search(self, deed: str, call: Callable[[AsyncIndex], Awaitable[T]]) -> T:
        """Do what a person waits for: it gives up early."""
        return await self._within(self._search_seconds, deed, call)

    async def _within(
        self, seconds: float, deed: str, call: Callable[[AsyncIndex], Awaitable[T]]
    ) -> T:
        index = self._index or await self._opened(seconds)
        return await called(deed, lambda: call(index), seconds=seconds, breaker=self._breaker)

    async def _opened(self, seconds: float) -> AsyncIndex:
        """Return the index; one that could not be reached at start is tried again."""
        with guarded(self._breaker, PART):
            try:
                async with asyncio.timeout(seconds), self._opening:
                    if self._index is None:
                        await self.open()
            except TimeoutError as error:
                raise UpstreamTimeout(PART, "Pinecone can't be reached.") from error
        if self._index is None:
            raise UpstreamUnavailable(PART, "Pinecone could not be reached.")
        return self._index

    async def _described(self, index: AsyncIndex) -> DescribeIndexStatsResponse:
        return await called(
            "describe the index", index.describe_index_stats, seconds=self._timeout_seconds
        )

    async def _forget(self, deed: str, namespace: str, **which: Any) -> None:
        from pinecone.errors import NotFoundError

        async def forget(index: AsyncIndex) -> None:
            with contextlib.suppress(NotFoundError):  # no such namespace: nothing to remove
                await index.delete(namespace=namespace, **which)

        await self._call(deed, forget)


def _batches(
    items: Iterable[Item], size: Callable[[Item], int], max_bytes: int, max_count: int
) -> Iterator[list[Item]]:
    """Cut `items` into lists of at most `max_count` items and `max_bytes` bytes, by `size`."""
    batch: list[Item] = []
    filled = 0
    for item in items:
        length = size(item)
        if batch and (len(batch) == max_count or filled + length > max_bytes):
            yield batch
            batch, filled = [], 0
        batch.append(item)
        filled += length
    if batch:
        yield batch


def _upsert_bytes(vector: Vector) -> int:
    """Return an upper bound of the row's JSON: exact would mean to encode every number twice."""
    frame = len('{"id":,"values":[],"metadata":},')
    numbers = BYTES_PER_NUMBER * len(vector.values)
    return frame + len(json.dumps(vector.id)) + numbers + len(rows.metadata_json(vector))


def _url_bytes(id: str) -> int:
    return len("&ids=") + len(quote(id, safe=""))


def _metadata(metadata: Mapping[str, Any] | None) -> Metadata:
    """Return metadata with whole numbers as int: Pinecone gives every number back as a float."""
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in (metadata or {}).items()
    }
