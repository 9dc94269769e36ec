"""Around every request: an id, a limit on its body, safe headers. Touches nothing."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.measuring import Measured, measured
from app.api.responses import render
from app.db.together import reading_together
from app.errors import AppError, ShuttingDown, TooLarge
from app.telemetry import about, request_id

log = logging.getLogger(__name__)

_REQUEST_ID = b"x-request-id"
_NOTHING = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# FastAPI's pages of documentation load their parts from elsewhere, and begin with a line of script.
_PAGES = ("/docs", "/docs/oauth2-redirect", "/redoc")
_DOCS = (
    b"default-src 'none'; script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    b"style-src 'unsafe-inline' https://cdn.jsdelivr.net https://fonts.googleapis.com; "
    b"font-src https://fonts.gstatic.com; "
    b"img-src 'self' data: https://fastapi.tiangolo.com https://cdn.redoc.ly; "
    b"connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Envelope:
    """Gives each request an id (its own `X-Request-ID` if it has a proper one), returns it in the
    answer, logs one line without content, refuses a body over the limit with 413, and answers
    what nobody foresaw with 500. A start that settings stopped says so in one line.

    limits: bytes of a body by the path's beginning, or `beginning*end`, where they differ from
    `max_body_bytes`.
    """

    def __init__(
        self, app: ASGIApp, *, max_body_bytes: int, limits: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._limits = dict(limits or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, _in_words(scope, send))
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        current = given if _ID.fullmatch(given) else uuid.uuid4().hex
        token = request_id.set(current)
        try:
            with about(), reading_together(), measured(scope, headers) as request:
                await self._answer(scope, receive, send, headers, current, request)
        finally:
            request_id.reset(token)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: Headers,
        current: str,
        request: Measured,
    ) -> None:
        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                message["headers"] = [*message["headers"], (_REQUEST_ID, current.encode())]
            await send(message)

        limit = self._limit(scope["path"])
        try:
            declared = headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > limit:
                await render(_too_large(limit))(scope, receive, tagged)
            else:
                await self._app(scope, _limited(receive, limit), tagged)
        except asyncio.CancelledError:
            if request.status or not scope["app"].state.runtime.background.is_stopping:
                raise
            stopped = ShuttingDown("the service is shutting down", retry_after=1)
            await render(stopped)(scope, receive, tagged)
        except Exception:
            # Here and not in a handler of FastAPI's: those of last resort answer outside of us.
            log.exception("unforeseen failure of a request")
            if request.status:
                raise  # an answer that has begun can only be broken off
            failure = AppError("something went wrong on our side")
            await render(failure)(scope, receive, tagged)

    def _limit(self, path: str) -> int:
        for pattern, limit in self._limits.items():
            beginning, _, end = pattern.partition("*")
            if path.startswith(beginning) and path.endswith(end):
                return limit
        return self._max_body_bytes


class SafeHeaders:
    """Tells browsers, with every answer, to keep it to themselves and to run nothing of it.

    is_https: the outside reaches us by https, and only by it.
    """

    def __init__(self, app: ASGIApp, *, is_https: bool) -> None:
        self._app = app
        self._headers = [
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]
        if is_https:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        policy = _DOCS if scope["path"] in _PAGES else _NOTHING
        ours = [(b"content-security-policy", policy), *self._headers]

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = list(message["headers"])
                names = {name.lower() for name, _ in said}
                message["headers"] = said + [one for one in ours if one[0] not in names]
            await send(message)

        await self._app(scope, receive, safe)


def _in_words(scope: Scope, send: Send) -> Send:
    """Let a start that wrong settings stopped end in their message, not in a traceback."""

    async def said(message: Message) -> None:
        refusal = getattr(scope["app"].state, "refusal", None)
        if message["type"] == "lifespan.startup.failed" and refusal is not None:
            message = {**message, "message": refusal}
        await send(message)

    return said


def _limited(receive: Receive, limit: int) -> Receive:
    """Count a body that does not say its size."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # FastAPI lets its own kind of error pass while it reads a body, and no other.
            raise HTTPException(413, _too_large(limit).message)
        return message

    return counted


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes")
