"""Questions as tests of the turn's steps need them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from app.chat.ask import Ask

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)  # a Monday


def asked(text: str, **fields: Any) -> Ask:
    values: dict[str, Any] = {"tenant_id": "default", "user_id": "ada", "session_id": "s1"}
    return Ask(text=text, **{**values, **fields})
