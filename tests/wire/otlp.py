"""A collector of traces: OTLP over HTTP, read by OpenTelemetry's own protobuf classes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.wire.serving import serving

PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class SpanSeen:
    """A span as it arrived. `parent` is "" for the first of a trace; kind: 2 server, 3 client."""

    name: str
    id: str
    parent: str
    trace: str
    kind: int
    attributes: dict[str, Any]
    is_error: bool
    links: tuple[str, ...]
    events: int
    status_message: str


@dataclass
class Collector:
    """What came, in the order of its arrival. status: what it answers."""

    url: str = ""
    status: int = 200
    spans: list[SpanSeen] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    refused: int = 0

    def of(self, trace: str) -> list[SpanSeen]:
        return [span for span in self.spans if span.trace == trace]

    def tree(self, trace: str) -> dict[str, list[str]]:
        """Return the names of the spans of a trace by the name of what they are a part of."""
        names = {span.id: span.name for span in self.spans}
        found: dict[str, list[str]] = {}
        for span in sorted(self.of(trace), key=lambda span: span.name):
            found.setdefault(names.get(span.parent, ""), []).append(span.name)
        return found

    def take(self, body: bytes) -> None:
        told = ExportTraceServiceRequest()
        told.ParseFromString(body)
        self.raw.append(body)
        for resource in told.resource_spans:
            self.resource = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [_seen(span) for span in scope.spans]


@contextmanager
def collector() -> Iterator[Collector]:
    seen = Collector()

    async def take(request: Request) -> Response:
        body = await request.body()
        if seen.status != 200:
            seen.refused += 1
            return Response(status_code=seen.status)
        seen.take(body)
        told = ExportTraceServiceResponse().SerializeToString()
        return Response(told, media_type="application/x-protobuf")

    with serving(Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])) as url:
        seen.url = url
        yield seen


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so; it has to be within some seconds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.01)


def _seen(span: Any) -> SpanSeen:
    return SpanSeen(
        name=span.name,
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        trace=span.trace_id.hex(),
        kind=span.kind,
        attributes=_values(span.attributes),
        is_error=span.status.code == 2,
        links=tuple(link.trace_id.hex() for link in span.links),
        events=len(span.events),
        status_message=span.status.message,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
