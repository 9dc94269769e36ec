"""A store for LangGraph that keeps its items in this service. Touches: the service, over HTTP.

For graphs that run elsewhere; nothing of the service is imported. What a graph stores, chats of the
same user recall, unless it was put with `index=False`; what chats left behind, a graph finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from threading import Lock
from types import TracebackType
from typing import Any, Self

import httpx
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.base.embed import get_text_at_path

TIMEOUT_SECONDS = 30.0
MOST_RECALLED = 100


class StoreError(Exception):
    """The service could not be reached, or could not do what was asked.

    status, code: of its answer; None where there is none.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RefusedError(StoreError, ValueError):
    """The service refuses what was asked; the text says what it expected."""


class MemoryStore(BaseStore):
    """A user's items, read and written over HTTP; a batch is one transaction.

    base_url: of the service. api_key: not needed on its own machine. user_id: whose memory it is;
    a key that is bound to a user needs none. timeout: seconds.
    recalled: a namespace of its own in which `search` finds what the user's conversations left
    behind (at most 100, without a filter); nothing can be put there.
    Whoever made it closes it: `close`, `aclose`, or a `with`. Reads of a batch see what was there
    before it, as in langgraph's own stores.
    """

    __slots__ = ("_async", "_loop", "_opening", "_options", "_recalled", "_sync", "_user_id")

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        user_id: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        recalled: tuple[str, ...] | None = None,
    ) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._options: dict[str, Any] = {
            "base_url": base_url,
            "headers": headers,
            "timeout": timeout,
        }
        self._user_id = user_id
        self._recalled = recalled
        self._opening = Lock()  # nodes of a graph run in threads
        self._sync: httpx.Client | None = None
        self._async: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in one transaction. Raises `StoreError`."""
        asked = list(ops)
        with self._opening:
            client = self._sync = self._sync or httpx.Client(**self._options)
        try:
            answers = [client.request(**request) for request in self._requests(asked)]
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return self._results(asked, answers)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in one transaction. Raises `StoreError`."""
        asked = list(ops)
        requests = self._requests(asked)
        try:
            answers = [await self._client().request(**request) for request in requests]
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return self._results(asked, answers)

    def close(self) -> None:
        """Close the connections of synchronous calls."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None

    async def aclose(self) -> None:
        """Close all connections."""
        self.close()
        if self._async is not None and self._loop is asyncio.get_running_loop():
            await self._async.aclose()
        self._async = self._loop = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _client(self) -> httpx.AsyncClient:
        """Return the client of the running loop: connections don't outlive their loop."""
        loop = asyncio.get_running_loop()
        if self._async is None or self._loop is not loop:
            self._async, self._loop = httpx.AsyncClient(**self._options), loop
        return self._async

    def _requests(self, asked: Sequence[Op]) -> list[dict[str, Any]]:
        """Return what to ask for: each search among memories, then all else at once."""
        requests: list[dict[str, Any]] = []
        operations: list[dict[str, Any]] = []
        for op in asked:
            if (search := self._among_memories(op)) is None:
                operations.append(_operation(op))
            else:
                requests.append(
                    {"method": "GET", "url": "/memories", "params": self._wanted(search)}
                )
        if operations:
            body = {"user_id": self._user_id, "operations": operations}
            requests.append({"method": "POST", "url": "/store/batch", "json": body})
        return requests

    def _results(self, asked: Sequence[Op], answers: Sequence[httpx.Response]) -> list[Result]:
        for answer in answers:
            if not answer.is_success:
                raise _failure(answer)
        bodies = [answer.json() for answer in answers]
        found = iter(bodies)  # the items come last
        items = iter(bodies[-1].get("results", []) if bodies else [])
        results: list[Result] = []
        for op in asked:
            if (search := self._among_memories(op)) is None:
                results.append(_result(op, next(items)))
            else:
                results.append(_memories(search, next(found)["memories"]))
        return results

    def _among_memories(self, op: Op) -> SearchOp | None:
        """Return an operation that is a search among memories. A put there is refused."""
        if self._recalled is None:
            return None
        if isinstance(op, PutOp) and op.namespace == self._recalled:
            raise RefusedError(
                f"{op.namespace} is what conversations left behind: put nothing there"
            )
        if isinstance(op, SearchOp) and op.namespace_prefix == self._recalled:
            return op
        return None

    def _wanted(self, search: SearchOp) -> dict[str, Any]:
        if search.filter:
            raise RefusedError(f"a search in {search.namespace_prefix} takes no filter")
        most = min(search.offset + search.limit, MOST_RECALLED)
        wanted = {"top_k": most, "query": search.query, "user_id": self._user_id}
        return {name: value for name, value in wanted.items() if value is not None}


def _operation(op: Op) -> dict[str, Any]:
    if isinstance(op, GetOp):
        return {"op": "get", "namespace": op.namespace, "key": op.key}
    if isinstance(op, PutOp):
        return _put(op)
    if isinstance(op, SearchOp):
        return {
            "op": "search",
            "namespace_prefix": op.namespace_prefix,
            "filter": op.filter,
            "limit": op.limit,
            "offset": op.offset,
            "query": op.query,
        }
    if isinstance(op, ListNamespacesOp):
        return {
            "op": "list_namespaces",
            "match_conditions": [match._asdict() for match in op.match_conditions or ()],
            "max_depth": op.max_depth,
            "limit": op.limit,
            "offset": op.offset,
        }
    raise ValueError(f"unknown operation: {type(op).__name__}")


def _put(op: PutOp) -> dict[str, Any]:
    place = {"namespace": op.namespace, "key": op.key}
    if op.value is None:
        return {"op": "delete", **place}
    put: dict[str, Any] = {"op": "put", **place, "value": dict(op.value)}
    unfound = {**put, "index": False}
    if op.index is False:
        return unfound
    if op.index:
        texts = [text for path in op.index for text in get_text_at_path(op.value, path)]
        return {**put, "text": "\n".join(texts)} if "".join(texts).strip() else unfound
    return put


def _result(op: Op, result: dict[str, Any]) -> Result:
    if isinstance(op, GetOp):
        return None if result["item"] is None else Item(**_fields(result["item"]))
    if isinstance(op, SearchOp):
        return [SearchItem(**_fields(item), score=item["score"]) for item in result["items"]]
    if isinstance(op, ListNamespacesOp):
        return [tuple(name) for name in result["namespaces"]]
    return None


def _memories(search: SearchOp, found: Sequence[dict[str, Any]]) -> list[SearchItem]:
    page = found[search.offset : search.offset + search.limit]
    return [_memory(search, memory) for memory in page]


def _memory(search: SearchOp, memory: dict[str, Any]) -> SearchItem:
    at = datetime.fromisoformat(memory["created_at"])
    value = {name: memory[name] for name in ("text", "memory_type", "session_id")}
    value["facts"] = [fact["statement"] for fact in memory["facts"]]
    score = None if search.query is None else memory["relevance"]
    return SearchItem(search.namespace_prefix, memory["id"], value, at, at, score)


def _fields(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _failure(response: httpx.Response) -> StoreError:
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):  # a proxy's page, say
        message, code = f"the service answered with status {response.status_code}", None
    kind = RefusedError if response.status_code in (400, 413, 422) else StoreError
    return kind(message, status=response.status_code, code=code)


def _unreachable(error: httpx.HTTPError) -> StoreError:
    return StoreError(f"the service did not answer: {type(error).__name__}: {error}")
