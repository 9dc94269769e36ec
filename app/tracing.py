"""Spans of what is done, where traces are sent somewhere; else nothing at all. Touches nothing.

A step says `with span("memory search")` and knows no tracer: the door of a request, or of a job,
brings one along for all that happens within (`serving`, `working`). OpenTelemetry stands behind it
in `app.otel`, which is imported only where an endpoint is set. No content and no user belongs in
an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

Value = str | int | float | bool

CARRIED = "traceparent"  # in headers, and in the payload of a job, as W3C's Trace Context has it


class Span(Protocol):
    """A piece of work that is timed; leaving its `with` by an error marks it as failed."""

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def name(self, name: str) -> None:
        """Give it another name, where the right one is known late."""
        ...

    def fail(self, kind: str) -> None:
        """Mark it as failed, with the kind of the error and none of its text."""
        ...


class Tracer(Protocol):
    """Where spans go."""

    def span(self, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """Begin a part of what is under way."""
        ...

    def request(self, name: str, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        """Begin the work for a request, as a part of the caller's trace if it names one."""
        ...

    def job(
        self, name: str, attributes: Mapping[str, Value], asked_by: str | None
    ) -> AbstractContextManager[Span]:
        """Begin a trace of its own, linked to the one that asked for the job."""
        ...

    def happened(
        self, name: str, attributes: Mapping[str, Value], seconds: float, failure: str | None
    ) -> None:
        """Note an outgoing call that has just ended."""
        ...

    def carried(self) -> dict[str, str]:
        """Return the header by which another service goes on with what is under way."""
        ...

    def trace_id(self) -> str | None: ...

    async def close(self) -> None:
        """Send what is left, for some seconds at most."""
        ...


class _Nothing:
    """The span of a service that is not traced."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set(self, attributes: Mapping[str, Value]) -> None:
        return None

    def name(self, name: str) -> None:
        return None

    def fail(self, kind: str) -> None:
        return None


_NOTHING = _Nothing()
_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def span(name: str, attributes: Mapping[str, Value] | None = None) -> AbstractContextManager[Span]:
    """Time a step of what is under way."""
    tracer = _tracer.get()
    if tracer is None:
        return _NOTHING
    return tracer.span(name, attributes or {})


def happened(
    name: str, attributes: Mapping[str, Value], *, seconds: float, failure: str | None
) -> None:
    """Note a call of another service that has just ended; failure: of what kind it was."""
    tracer = _tracer.get()
    if tracer is not None:
        tracer.happened(name, attributes, seconds, failure)


def serving(
    tracer: Tracer | None, name: str, headers: Mapping[str, str]
) -> AbstractContextManager[Span]:
    """Time a request and bring its tracer along; None: nobody traces."""
    if tracer is None:
        return _NOTHING
    return _bringing(tracer, tracer.request(name, headers))


def working(
    tracer: Tracer | None, name: str, attributes: Mapping[str, Value], asked_by: str | None
) -> AbstractContextManager[Span]:
    """Time a job and bring its tracer along; asked_by: what `carried` told whoever asked for it."""
    if tracer is None:
        return _NOTHING
    return _bringing(tracer, tracer.job(name, attributes, asked_by))


def carried() -> dict[str, str]:
    """Return the header by which another service, or a job, knows what asked for it."""
    tracer = _tracer.get()
    return {} if tracer is None else tracer.carried()


def trace_id() -> str | None:
    tracer = _tracer.get()
    return None if tracer is None else tracer.trace_id()


@contextmanager
def _bringing(tracer: Tracer, begun: AbstractContextManager[Span]) -> Iterator[Span]:
    token = _tracer.set(tracer)
    try:
        with begun as span:
            yield span
    finally:
        _tracer.reset(token)
