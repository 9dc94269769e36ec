"""The common part of the CRMs' test servers: recorded calls, and faults to switch on.

Each CRM is a file beside this one, and speaks as much of its API as is called, strictly. Touches a
loopback socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from tests.wire.serving import serving

Json = dict[str, Any]


class Refused(Exception):
    """An answer that says no, in the CRM's own shape."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Faults:
    """What goes wrong, until it is replaced, or only for the next `times` calls.

    `status` answers instead of working, with `retry_after` as its header. `garbage` answers with
    no JSON, `other` with this JSON, `blank_bytes` with that many spaces.
    `redirect` answers with a place elsewhere. `hang_up` ends the connection without an answer.
    Only calls whose path starts with `under` are hit.
    """

    status: int | None = None
    retry_after: str | None = None
    latency_seconds: float = 0.0
    garbage: bool = False
    other: Any = None
    blank_bytes: int = 0
    redirect: str = ""
    hang_up: bool = False
    times: float = float("inf")
    under: str = "/"


@dataclass(frozen=True)
class Call:
    """One request as it came, its path not decoded; `body` is its JSON, or its form's text."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stored:
    """One object as the CRM has it. `removed` is when it was deleted."""

    type: str
    id: str
    time: datetime
    fields: Json
    removed: datetime | None = None


@dataclass
class CrmServer:
    """The objects behind the wire. A page holds no more than `page_rows`."""

    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list)
    stored: dict[tuple[str, str], Stored] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    page_rows: int = 1000
    url: str = ""

    def forget(self) -> None:
        """Be as new, so that tests can share a running server."""
        vars(self).update(vars(type(self)(url=self.url)))

    def put(self, type: str, id: str, time: datetime, **fields: Any) -> None:
        self.stored[type, id] = Stored(type, id, time, fields)

    def remove(self, type: str, id: str, time: datetime) -> None:
        self.stored[type, id].removed = time

    def of_type(self, type: str) -> list[Stored]:
        """Return the objects of a type, the oldest first."""
        rows = [row for row in self.stored.values() if row.type == type]
        return sorted(rows, key=lambda row: (row.time, row.id))

    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    def answer(self, request: Request, path: str, body: Any) -> Any:
        """Return the JSON of a call. Raises `Refused`."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        raw = await request.body()
        path = scope["raw_path"].decode()
        body = _loads(raw)
        self.calls.append(
            Call(request.method, path, dict(request.query_params), dict(request.headers), body)
        )
        faults = self._due(path)
        await asyncio.sleep(faults.latency_seconds)
        if not faults.hang_up:
            await self._response(request, path, body, faults)(scope, receive, send)

    def _due(self, path: str) -> Faults:
        faults = self.faults
        if not path.startswith(faults.under):
            return Faults()
        left = faults.times - 1
        self.faults = replace(faults, times=left) if left > 0 else Faults()
        return faults

    def _response(self, request: Request, path: str, body: Any, faults: Faults) -> Response:
        if faults.status is not None:
            headers = {"retry-after": faults.retry_after} if faults.retry_after else {}
            return JSONResponse(faults.other or {"told": "by the test"}, faults.status, headers)
        if faults.redirect:
            return RedirectResponse(faults.redirect)
        if faults.garbage:
            return PlainTextResponse("<html>not what you asked for</html>")
        if faults.blank_bytes:
            return PlainTextResponse(" " * faults.blank_bytes)
        if faults.other is not None:
            return JSONResponse(faults.other)
        try:
            response: Response = JSONResponse(self.answer(request, path, body))
        except Refused as error:
            response = JSONResponse(error.body, error.status)
        response.set_cookie("visitor", "followed")
        return response


Server = TypeVar("Server", bound=CrmServer)


@contextmanager
def serving_crm(server: Server) -> Iterator[Server]:
    with serving(server) as server.url:
        yield server


def stamp(time: datetime) -> str:
    """Return a time with milliseconds, in UTC."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _loads(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()
