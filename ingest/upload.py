"""Documents -> a running service, over HTTP. Touches: the network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
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

_TRY_AGAIN = (429, 503)


@dataclass(frozen=True, slots=True)
class Stored:
    """How many documents of a batch are new or changed, and how many were there as they are."""

    stored: int
    unchanged: int


class Sink(Protocol):
    async def put(self, documents: Sequence[Document]) -> Stored:
        """Store a batch; the same documents again change nothing. Raises NotStored."""
        ...


class HttpSink:
    """`POST /documents` of the service at `root`. The caller closes the client.

    A 429 or 503 is tried again after its Retry-After, up to MAX_TRIES times; a server that wants
    more than MAX_WAIT_SECONDS of patience is taken at its word and left alone.
    """

    def __init__(self, client: httpx.AsyncClient, root: str) -> None:
        self._client = client
        self._url = root.rstrip("/") + "/documents"

    async def put(self, documents: Sequence[Document]) -> Stored:
        body = {"documents": [_wire(document) for document in documents]}
        tries = 0
        while True:
            tries += 1
            response = await self._post(body)
            if response.is_success:
                return _stored(response)
            wait = _wait_seconds(response, tries)
            if wait is None or tries == MAX_TRIES:
                raise NotStored(_told(response), status=response.status_code)
            await asyncio.sleep(wait)

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        try:
            return await self._client.post(self._url, json=body)
        except httpx.TimeoutException as error:
            raise NotStored(f"{self._url} did not answer in time") from error
        except httpx.HTTPError as error:
            raise NotStored(f"{self._url} can't be reached ({type(error).__name__})") from error


def http_client(api_key: str | None) -> httpx.AsyncClient:
    """Return a client with the deadlines of an upload; the caller closes it."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
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


def _stored(response: httpx.Response) -> Stored:
    body = _json(response)
    stored, unchanged = body.get("stored"), body.get("unchanged")
    if not isinstance(stored, int) or not isinstance(unchanged, int):
        raise NotStored(
            f"{response.url} does not answer like this service; is the address right?",
            status=response.status_code,
        )
    return Stored(stored, unchanged)


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
