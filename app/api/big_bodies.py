"""Large bodies are read in a thread, so that other requests go on meanwhile. Touches nothing.

FastAPI reads and checks a body on the event loop: 10 MB of it hold up everybody for up to a second.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Form
from fastapi.routing import APIRoute

BIG_BYTES = 256 * 1024
_UNFIT = object()  # no field takes it


class BigBodies(APIRoute):
    """A route whose one body is checked in a thread where it is large.

    FastAPI gets the checked model, which it takes as it is: who may not call is told so first.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        field = self.body_field
        if field is None or isinstance(field.field_info, Form):
            return handle
        if len(self.dependant.body_params) > 1:
            raise TypeError(f"{self.path}: a route has one body, which is one model")

        async def handle_big(request: Request) -> Response:
            body = await request.body()
            if len(body) < BIG_BYTES:
                return await handle(request)
            checked = _Checked(request, body, field)
            try:
                return await handle(checked)
            except RequestValidationError as error:
                if checked.faults is None:
                    raise
                raise RequestValidationError(checked.faults) from error

        return handle_big


class _Checked(Request):
    """A request whose JSON is its model; `faults`: why there is none."""

    def __init__(self, request: Request, body: bytes, field: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body
        self._field = field
        self.faults: list[Any] | None = None

    async def json(self) -> Any:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Any:
        value, faults = self._field.validate(json.loads(self._body), {}, loc=("body",))
        if not faults:
            return value
        self.faults = list(faults)
        return _UNFIT
