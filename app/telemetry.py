"""Logs as JSON lines with ids of what they are about, and no content. Touches: standard error."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from app.redact import mask_secrets
from app.stderr import standard_error
from app.tracing import trace_id

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
# Shared by all tasks of a request, so that its access line has what was learnt underway.
_about: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER = re.compile(r"[0-9_-]{7,}")  # it may be a telephone's


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, what it is about, a failure's trace.

    Of processes that serve together, each says which one it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = None if multiprocessing.parent_process() is None else os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_secrets(record.getMessage()),
        }
        if self._process is not None:
            line["process"] = self._process
        if (current := request_id.get()) is not None:
            line["request_id"] = current
        line.update(_about.get() or {})
        if (trace := trace_id()) is not None:
            line["trace_id"] = trace
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["error"] = mask_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Have all lines within, and of tasks that begin within, carry these fields and no others."""
    token = _about.set(fields)
    try:
        yield
    finally:
        _about.reset(token)


def note(*, tenant_id: str, session_id: str | None = None) -> None:
    """Have the lines of this request, or of this job, say whose it is and of which session."""
    known = _about.get()
    if known is None:
        return
    known["tenant_id"] = tenant_id
    if session_id is not None:
        known["session_id"] = as_logged(tenant_id, session_id)


def noted() -> Mapping[str, Any]:
    """Return what the lines of this request, or of this job, say of it so far."""
    return dict(_about.get() or {})


def as_logged(tenant_id: str, session_id: str) -> str:
    """Return a session's id as logs may hold it: a client chose it, and may have taken an e-mail.

    One that can't be an address or a telephone number stays as it is, another becomes a hash.
    """
    if _PLAIN.fullmatch(session_id) and not _NUMBER.fullmatch(session_id):
        return session_id
    digest = hashlib.sha256(f"{tenant_id}\n{session_id}".encode()).hexdigest()
    return f"hashed:{digest[:24]}"


def set_up_logs(level: str) -> None:
    """Send all logs, and warnings, through one handler on standard error. For entry points only."""
    handler = standard_error()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx", "httpx2", "pinecone", "groq", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.captureWarnings(True)  # else Python prints them as they are, between the lines
