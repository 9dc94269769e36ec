"""Whose reads may be answered together: those that one request, or one job, asks for at once.

Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_reader: ContextVar[object | None] = ContextVar("reader", default=None)


@contextmanager
def reading_together() -> Iterator[None]:
    """Let what is read at once within, and by tasks that begin within, be answered together."""
    token = _reader.set(object())
    try:
        yield
    finally:
        _reader.reset(token)


def reader() -> object | None:
    """Return who reads, or None where reads are answered one by one."""
    return _reader.get()
