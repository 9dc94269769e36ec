"""Logs as JSON lines with the request's id, and no content. Touches: standard error."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from app.redact import mask_secrets

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request id, and a failure's trace."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_secrets(record.getMessage()),
        }
        if (current := request_id.get()) is not None:
            line["request_id"] = current
        if record.exc_info:
            line["error"] = mask_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(level: str) -> None:
    """Send all logs, and warnings, through one handler on standard error. For entry points only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx", "httpx2", "pinecone", "groq", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.captureWarnings(True)  # else Python prints them as they are, between the lines
