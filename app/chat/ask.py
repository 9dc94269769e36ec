"""What a caller asks. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.index.base import Filter
from app.index.filters import both
from app.llm.base import Say
from app.sessions.base import MemoryMode

Mode = Literal["chat", "agent"]
Strategy = Literal["buffer", "window", "token", "summary", "summary_buffer"]


@dataclass(frozen=True, slots=True)
class HistoryWish:
    """How much of the conversation the model sees; None: as the settings say.

    window: the last exchanges. tokens: the most tokens of the last messages.
    """

    strategy: Strategy | None = None
    window: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One question, checked and entitled. `top_k` is for documents; None means the setting.

    timezone: the user's, an IANA name.
    told: the conversation before the question as the client tells it; None: as it is stored.
    instructions: the client's own system messages.
    reply_tokens: the longest reply that the client wants; None: the setting.
    is_streamed: whether the client reads the reply as it comes.
    bound: the filter of every document that the caller may read, beside `filters`.
    has_consent: whether its user allows memory; without it, `memory` is "off".
    keeps_personal: whether its user allows that personal details are stored.
    redacted: how many of each kind were taken out of `text`.
    told_filters: the filters as they may be kept; they search as they came.
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
    mode: Mode = "chat"
    history: HistoryWish = HistoryWish()
    told: tuple[Say, ...] | None = None
    instructions: tuple[str, ...] = ()
    reply_tokens: int | None = None
    is_streamed: bool = False
    bound: Filter | None = None
    has_consent: bool = True
    keeps_personal: bool = True
    redacted: Mapping[str, int] = field(default_factory=dict)
    told_filters: Filter | None = None

    @property
    def document_filter(self) -> Filter | None:
        """Return what documents have to pass: what is asked for, within what may be read."""
        return both(self.bound, self.filters)
