"""What a caller asks. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass

from app.index.base import Filter
from app.sessions.base import MemoryMode


@dataclass(frozen=True, slots=True)
class Ask:
    """One question, checked and entitled. `top_k` is for documents; None means the setting.

    timezone: the user's, an IANA name.
    """

    tenant_id: str
    user_id: str
    session_id: str
    text: str
    client_message_id: str | None = None
    memory: MemoryMode = "on"
    filters: Filter | None = None
    top_k: int | None = None
    timezone: str | None = None
