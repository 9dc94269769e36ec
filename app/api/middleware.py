"""Around every request: an id, a limit on its body, safe headers. Touches nothing."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.responses import render
from app.errors import AppError, TooLarge
from app.telemetry import request_id

log = logging.getLogger("app.access")

# A webhook's token stands in its URL, also in one that is misspelt around it.
_SECRET = re.compile(r"(/webhooks/+(?!inbox/)[^/]+/+).+", re.IGNORECASE)
# The id of a user may be an e-mail address, and stands in the names of quarantined memories, too.
_PERSON = re.compile(
    r"(/users/+|/quarantine/+[^/]+/+).+?(/(?:consent|export|import)/*)?$", re.IGNORECASE
)
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# FastAPI's pages of documentation load their parts from elsewhere, and begin with a line of script.
_PAGES = ("/docs", "/docs/oauth2-redirect", "/redoc")
_DOCS = (
    "default-src 'none'; script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'unsafe-inline' https://cdn.jsdelivr.net https://fonts.googleapis.com; "
    "font-src https://fonts.gstatic.com; "
    "img-src 'self' data: https://fastapi.tiangolo.com https://cdn.redoc.ly; "
    "connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
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
        began = time.monotonic()
        status = 0  # until the answer has begun

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = current
            await send(message)

        limit = self._limit(scope["path"])
        try:
            declared = headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > limit:
                await render(_too_large(limit))(scope, receive, tagged)
            else:
                await self._app(scope, _limited(receive, limit), tagged)
        except Exception:
            # Here and not in a handler of FastAPI's: those of last resort answer outside of us.
            log.exception("unforeseen failure of a request")
            if status:
                raise  # an answer that has begun can only be broken off
            failure = AppError("something went wrong on our side")
            await render(failure)(scope, receive, tagged)
        finally:
            milliseconds = (time.monotonic() - began) * 1000
            path = _PERSON.sub(r"\1***\2", _SECRET.sub(r"\1***", scope["path"]))
            log.info("%s %s %d %.1f ms", scope["method"], path, status, milliseconds)
            request_id.reset(token)

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
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        if is_https:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        policy = _DOCS if scope["path"] in _PAGES else _NOTHING

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", policy)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
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
