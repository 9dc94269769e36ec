"""How things leave over HTTP: the one error shape, and server-sent events. Touches nothing.

The error shape is OpenAI's, so that its SDKs show our text.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.errors import AppError, InvalidRequest, TooLarge, Unauthenticated
from app.telemetry import request_id

_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MOST_TOLD_CHARS = 1_000
# What OpenAPI shows of a stream: of one event, for the next of them has another type.
EVENTS: dict[str, Any] = {
    "text/event-stream": {
        "itemSchema": {
            "type": "object",
            "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
        }
    }
}
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
_OPENAI = "/v1/"
# Where OpenAI's clients call with a base URL that lacks its /v1, or an endpoint that we don't have.
_OPENAI_PATHS = re.compile(r"/(?:completions|models|embeddings|responses)/?$")


class ErrorDetail(BaseModel):
    code: str = Field(examples=["not_found"])
    message: str = Field(examples=["there is no such session"])
    type: str = Field(examples=["invalid_request_error"])
    param: str | None = Field(None, examples=["session_id"])
    request_id: str | None = None


class ErrorBody(BaseModel):
    error: ErrorDetail


_BY_REFERENCE: dict[str, Any] = {
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
}


def documented(*statuses: int, keyed: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the error statuses that a route may answer with.

    keyed: it needs a caller, who may be of the wrong kind or ask too often; the call is noted.
    """
    of_callers = (401, 403, 429, 507) if keyed else (401,)
    # Named once as a model, then by reference: FastAPI builds a validator for every model named.
    others = dict.fromkeys(sorted({*of_callers, *statuses, 500, 503}), _BY_REFERENCE)
    return {**others, 401: {"model": ErrorBody}}


def error_body(error: AppError) -> dict[str, Any]:
    """Return the body of an error; also the data of an `error` event."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "type": error.type,
            "param": error.param,
            "request_id": request_id.get(),
            **error.details,
        }
    }


def render(error: AppError) -> Response:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), error.status, headers)


def install_error_handlers(app: FastAPI) -> None:
    """Make every foreseen failure of every route come out in the one shape."""

    @app.exception_handler(AppError)
    async def _ours(request: Request, error: AppError) -> Response:
        return _rendered(request, error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        return _rendered(request, _as_app_error(error))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        told = str(error.detail)
        if error.status_code == 404 and _OPENAI_PATHS.search(request.url.path):
            told = (
                f"there is no {request.method} {request.url.path}: the base URL for OpenAI's "
                "clients ends in /v1, and there are /v1/chat/completions and /v1/models"
            )
        failure = AppError(told)
        failure.status = error.status_code
        failure.code = _CODES.get(error.status_code, "http_error")
        failure.type = "invalid_request_error" if error.status_code < 500 else "server_error"
        response = render(failure)
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["Allow"] = _allowed(request)
        return response


def in_openai_terms(error: AppError) -> AppError:
    """Return an error with the status and the code by which OpenAI's clients know it."""
    told = AppError(
        error.message, param=error.param, retry_after=error.retry_after, details=error.details
    )
    told.status, told.code, told.type = error.status, error.code, error.type
    if isinstance(error, InvalidRequest):
        told.status = 400
    elif isinstance(error, Unauthenticated):
        told.code = "invalid_api_key"
    elif isinstance(error, TooLarge):
        told.status, told.code, told.param = 400, "context_length_exceeded", "messages"
    return told


def _rendered(request: Request, error: AppError) -> Response:
    is_theirs = request.url.path.startswith(_OPENAI)
    return render(in_openai_terms(error) if is_theirs else error)


def _allowed(request: Request) -> str:
    """Return the methods of all routes that a path fits; Starlette tells those of one."""
    tried = [{**request.scope, "method": method} for method in METHODS]
    routes = request.app.routes
    fit = [s["method"] for s in tried if any(r.matches(s)[0] == Match.FULL for r in routes)]
    return ", ".join(fit)


def _as_app_error(error: RequestValidationError) -> InvalidRequest:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])  # after "body", "query" or "path"
    kind = first["type"]
    if kind == "json_invalid":
        message = f"the body is not valid JSON: {first['ctx']['error']}, at character {where}"
        where = ""
    elif kind == "model_attributes_type":
        message = (
            f"{where} must be a JSON object"
            if where
            else "the body must be a JSON object, sent with Content-Type: application/json"
        )
    elif kind == "value_error":
        message = f"{where or 'the body'} {first['ctx']['error']}"
    elif kind == "extra_forbidden":
        message = f"unknown field {where!r}"
    else:
        message = f"{where or 'body'}: {first['msg']}"
    return InvalidRequest(_short(message), param=_short(where) or None)


def _short(told: str) -> str:
    """Return a text that may hold what was sent, cut: that may be megabytes."""
    return told if len(told) <= MOST_TOLD_CHARS else told[: MOST_TOLD_CHARS - 1] + "…"


def event(name: str, data: Mapping[str, Any]) -> str:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {one_line(data)}\n\n"


def one_line(data: Mapping[str, Any]) -> str:
    """Return JSON without any of the line ends of Unicode, at which some clients cut an event."""
    return json.dumps(data, ensure_ascii=False).translate(_LINE_ENDS)


def event_stream(events: AsyncIterator[str], *, heartbeat_seconds: float) -> StreamingResponse:
    """Answer with server-sent events, and a comment wherever they pause for long."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _with_heartbeat(events, heartbeat_seconds), media_type="text/event-stream", headers=headers
    )


async def _with_heartbeat(events: AsyncIterator[str], seconds: float) -> AsyncIterator[str]:
    upcoming: asyncio.Future[str] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait([upcoming], timeout=seconds)
            if not done:
                yield ": still here\n\n"
                continue
            try:
                piece = upcoming.result()
            except StopAsyncIteration:
                return
            upcoming = None
            yield piece
    finally:
        if upcoming is not None:
            upcoming.cancel()
