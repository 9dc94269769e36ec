"""What is told of each request: a line in the log, a histogram, a span. Touches the log.

By its route's template and never by its path, which may hold a webhook's token, a user's id or
whatever somebody tries out: nothing of that belongs in a log, and a label's values must stay few.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

from app.api.responses import METHODS
from app.telemetry import noted, request_id
from app.tracing import serving

log = logging.getLogger("app.access")

UNKNOWN = "none"
_OF_MACHINES = ("/health/", "/metrics")  # asked every few seconds


@dataclass(slots=True)
class Measured:
    """A request under way; `status` is 0 until its answer has begun."""

    status: int = 0


@contextmanager
def measured(scope: Scope, headers: Headers) -> Iterator[Measured]:
    """Measure what is within, to the last byte of the answer."""
    runtime = scope["app"].state.runtime
    is_machine = scope["path"].startswith(_OF_MACHINES)
    tracer = None if is_machine else runtime.tracer
    method = scope["method"] if scope["method"] in (*METHODS, "OPTIONS") else "OTHER"
    request, began = Measured(), time.monotonic()
    in_progress = runtime.metrics.in_progress
    in_progress.inc()
    somebody_waits = nullcontext() if is_machine else runtime.quiet.serving()
    with somebody_waits, serving(tracer, method, headers) as span:
        try:
            yield request
        finally:
            seconds = time.monotonic() - began
            route = getattr(scope.get("route"), "path_format", UNKNOWN)
            in_progress.dec()
            runtime.metrics.requested(method, route, request.status, seconds)
            if tracer is not None:
                span.name(f"{method} {route}")
                span.set(
                    {
                        "http.request.method": method,
                        "http.route": route,
                        "http.response.status_code": request.status,
                        "rag.request_id": request_id.get() or "",
                        **{f"rag.{name}": value for name, value in noted().items()},
                    }
                )
                if request.status >= 500:
                    span.fail(str(request.status))
            milliseconds = round(seconds * 1000, 1)
            fields = {"method": method, "route": route, "milliseconds": milliseconds}
            log.info(
                "%s %s %d %.1f ms",
                method,
                route,
                request.status,
                milliseconds,
                extra={"fields": {**fields, "status": request.status}},
            )
