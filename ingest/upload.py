"""Documents -> a running service, over HTTP. Touches: the network."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import httpx

from ingest.document import Document
from ingest.errors import NotStored

# A batch is embedded before it is answered, on a machine that may have no GPU.
READ_SECONDS = 300.0
CONNECT_SECONDS = 5.0
MAX_TRIES = 6
MAX_WAIT_SECONDS = 60.0
PAGE_IDS = 500

_TRY_AGAIN = (429, 503)


@dataclass(frozen=True, slots=True)
class Stored:
    """How many documents are new or changed, were there as they are, or had vanished.

    left_out: those that name a user who was erased.
    redacted: how many secrets, cards and the like were taken out of them, by kind.
    """

    stored: int
    unchanged: int
    removed: int = 0
    left_out: int = 0
    redacted: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Stored) -> Stored:
        return Stored(
            self.stored + other.stored,
            self.unchanged + other.unchanged,
            self.removed + other.removed,
            self.left_out + other.left_out,
            dict(Counter(self.redacted) + Counter(other.redacted)),
        )


class Sink(Protocol):
    """Where documents go. Every method raises NotStored, or an error of the sink's own."""

    async def put(self, documents: Sequence[Document]) -> Stored:
        """Store a batch; the same documents again change nothing."""
        ...

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        """Return a page of the ids that a source has, ascending, after the id `after`."""
        ...

    async def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id, a page of them at most; return how many were there."""
        ...


class HttpSink:
    """`/documents` of the service at `root`. The caller closes the client.

    A 429 or 503 is tried again after its Retry-After, up to MAX_TRIES times; a server that wants
    more than MAX_WAIT_SECONDS of patience is taken at its word and left alone.
    """

    def __init__(self, client: httpx.AsyncClient, root: str) -> None:
        self._client = client
        self._url = root.rstrip("/") + "/documents"

    async def put(self, documents: Sequence[Document]) -> Stored:
        body = {"documents": [_wire(document) for document in documents]}
        answer = await self._answer("POST", self._url, json=body)
        told = _json(answer)
        left_out, redacted = told.get("left_out"), told.get("redacted")
        return Stored(
            _count(answer, "stored"),
            _count(answer, "unchanged"),
            left_out=len(left_out) if isinstance(left_out, list) else 0,
            redacted=redacted if isinstance(redacted, dict) else {},
        )

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        asked = {"source": source, "limit": PAGE_IDS} | ({} if after is None else {"after": after})
        found = _json(await self._answer("GET", self._url, params=asked)).get("documents")
        if not isinstance(found, list):
            raise NotStored(f"{self._url} does not list documents like this service")
        return [str(document["id"]) for document in found]

    async def delete(self, ids: Sequence[str]) -> int:
        answer = await self._answer("POST", f"{self._url}/delete", json={"ids": list(ids)})
        return _count(answer, "deleted")

    async def _answer(self, method: str, url: str, **sent: Any) -> httpx.Response:
        tries = 0
        while True:
            tries += 1
            response = await self._send(method, url, **sent)
            if response.is_success:
                return response
            wait = _wait_seconds(response, tries)
            if wait is None or tries == MAX_TRIES:
                raise NotStored(_told(response), status=response.status_code)
            await asyncio.sleep(wait)

    async def _send(self, method: str, url: str, **sent: Any) -> httpx.Response:
        try:
            return await self._client.request(method, url, **sent)
        except httpx.TimeoutException as error:
            raise NotStored(f"{url} did not answer in time") from error
        except httpx.HTTPError as error:
            raise NotStored(f"{url} can't be reached ({type(error).__name__})") from error


def http_client(api_key: str | None) -> httpx.AsyncClient:
    """Return a client with the deadlines of an upload; the caller closes it."""
    # In bytes: as text, a key beyond ASCII is an error of the client's.
    headers = {b"Authorization": f"Bearer {api_key}".encode()} if api_key else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    return httpx.AsyncClient(headers=headers, timeout=timeout)


def _wire(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "text": document.text,
        "source": document.source,
        "doc_type": document.doc_type,
        "metadata": dict(document.metadata),
    }


def _count(response: httpx.Response, name: str) -> int:
    count = _json(response).get(name)
    if not isinstance(count, int):
        raise NotStored(
            f"{response.url} does not answer like this service; is the address right?",
            status=response.status_code,
        )
    return count


def _wait_seconds(response: httpx.Response, tries: int) -> float | None:
    """Return how long to wait before the next try, None if there should be none."""
    if response.status_code not in _TRY_AGAIN:
        return None
    asked = _retry_after_seconds(response.headers.get("retry-after", ""))
    wait = 0.5 * 2.0**tries if asked is None else asked
    return wait if wait <= MAX_WAIT_SECONDS else None


def _retry_after_seconds(value: str) -> float | None:
    if value.strip().isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _told(response: httpx.Response) -> str:
    """Return what the server said, as text: `HTTP 413, too_large: …`."""
    status = f"HTTP {response.status_code}"
    error = _json(response).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return f"{status} {response.reason_phrase}".strip()
    return f"{status}, {error.get('code') or 'error'}: {error['message']}"


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
