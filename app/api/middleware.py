"""Around every request: an id, a limit on its body. Touches nothing."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.responses import render
from app.errors import AppError, TooLarge
from app.telemetry import request_id

log = logging.getLogger("app.access")

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Envelope:
    """Gives each request an id (its own `X-Request-ID` if it has a proper one), returns it in the
    answer, logs one line without content, refuses a body over the limit with 413, and answers
    what nobody foresaw with 500."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
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

        try:
            declared = headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > self._max_body_bytes:
                await render(self._too_large())(scope, receive, tagged)
            else:
                await self._app(scope, self._limited(receive), tagged)
        except Exception:
            # Here and not in a handler of FastAPI's: those of last resort answer outside of us.
            log.exception("unforeseen failure of a request")
            if status:
                raise  # an answer that has begun can only be broken off
            failure = AppError("something went wrong on our side")
            await render(failure)(scope, receive, tagged)
        finally:
            milliseconds = (time.monotonic() - began) * 1000
            log.info("%s %s %d %.1f ms", scope["method"], scope["path"], status, milliseconds)
            request_id.reset(token)

    def _limited(self, receive: Receive) -> Receive:
        """Count a body that does not say its size."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_body_bytes:
                # FastAPI lets its own kind of error pass while it reads a body, and no other.
                raise HTTPException(413, self._too_large().message)
            return message

        return counted

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self._max_body_bytes} bytes")
