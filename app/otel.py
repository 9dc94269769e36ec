"""Traces by OpenTelemetry, sent as OTLP over HTTP. Touches: the network, from a thread of its own.

The extra `otel` brings what is imported here. An exporter that fails costs spans and never a
request: what does not fit into its queue is dropped, and an outage is logged once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app import __version__
from app.errors import AppError
from app.tracing import CARRIED, Span, Value

log = logging.getLogger(__name__)

SERVICE = "conversational-rag"
EXPORT_SECONDS = 3.0
CLOSE_SECONDS = 5.0

_PROPAGATOR = TraceContextTextMapPropagator()
_FAILED = Status(StatusCode.ERROR)


class OpenTelemetry:
    """A `Tracer` with a provider of its own; endpoint: the collector's, without /v1/traces.

    OpenTelemetry's other variables (headers, the sampler, the name of the service) count as usual.
    """

    def __init__(self, endpoint: str) -> None:
        # What its exporter and its queue say at each failure is said once, by us.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        url = f"{endpoint.rstrip('/').removesuffix('/v1/traces')}/v1/traces"
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": SERVICE}
        self._provider = TracerProvider(
            resource=Resource.create({**named, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(_Told(OTLPSpanExporter(url, timeout=EXPORT_SECONDS), endpoint))
        )
        self._tracer = self._provider.get_tracer(SERVICE, __version__)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value]) -> Iterator[Span]:
        with self._begun(self._tracer.start_span(name, attributes=dict(attributes))) as span:
            yield span

    def happened(
        self, name: str, attributes: Mapping[str, Value], seconds: float, failure: str | None
    ) -> None:
        ended = time.time_ns()
        span = self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=dict(attributes),
            start_time=ended - int(seconds * 1e9),
        )
        if failure is not None:
            _Span(span).fail(failure)
        span.end(ended)

    @contextmanager
    def request(self, name: str, headers: Mapping[str, str]) -> Iterator[Span]:
        caller = _PROPAGATOR.extract(headers)
        with self._begun(self._tracer.start_span(name, caller, kind=SpanKind.SERVER)) as span:
            yield span

    @contextmanager
    def job(
        self, name: str, attributes: Mapping[str, Value], asked_by: str | None
    ) -> Iterator[Span]:
        asked = _PROPAGATOR.extract({CARRIED: asked_by} if asked_by else {})
        asking = trace.get_current_span(asked).get_span_context()
        links = [Link(asking)] if asking.is_valid else []
        begun = self._tracer.start_span(
            name,
            trace.set_span_in_context(trace.INVALID_SPAN),
            kind=SpanKind.CONSUMER,
            attributes=dict(attributes),
            links=links,
        )
        with self._begun(begun) as span:
            yield span

    def carried(self) -> dict[str, str]:
        header: dict[str, str] = {}
        _PROPAGATOR.inject(header)
        return {name: value for name, value in header.items() if name == CARRIED}

    def trace_id(self) -> str | None:
        current = trace.get_current_span().get_span_context()
        return trace.format_trace_id(current.trace_id) if current.is_valid else None

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            log.warning("the last traces could not be sent in %.0f s", CLOSE_SECONDS)

    @contextmanager
    def _begun(self, span: trace.Span) -> Iterator[Span]:
        """Have a span under way; of an error its kind is told, for its text may hold anything."""
        told = _Span(span)
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield told
            except BaseException as error:
                told.fail(error.code if isinstance(error, AppError) else type(error).__name__)
                raise


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes(dict(attributes))

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, kind: str) -> None:
        self._span.set_attribute("error.type", kind)
        self._span.set_status(_FAILED)


class _Told(SpanExporter):
    """Exports, and logs the beginning and the end of an outage."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception:  # noqa: BLE001 — whatever it is, it is told below
            result = SpanExportResult.FAILURE
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            log.warning(
                "traces can't be sent to %s: they are lost until it answers", self._endpoint
            )
        elif self._fails and not fails:
            log.info("traces are sent again: %s answers", self._endpoint)
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
