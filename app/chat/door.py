"""What comes in before anything is done with it: consent, and redaction. Touches: consents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.chat.ask import Ask
from app.consents import Consents
from app.llm.base import Say
from app.redact import Cleaned, Redactor

INLINE_CHARS = 2_000  # to look through so much takes less time than to ask another thread


@dataclass(frozen=True, slots=True)
class Door:
    """Lets questions in as their user allows them to be kept."""

    consents: Consents
    redactor: Redactor

    async def admit(self, ask: Ask) -> Ask:
        """Return a question as it may be kept; without consent, memory is off.

        A text that was admitted already passes as it is.
        """
        consent = await self.consents.of(ask.tenant_id, ask.user_id)
        keeps = consent.pii_storage_allowed
        cleaned = await self.clean(ask.text, keeps_personal=keeps)
        return replace(
            ask,
            text=cleaned.text,
            told=None if ask.told is None else await self.clean_says(ask.told, keeps),
            memory=ask.memory if consent.memory_enabled else "off",
            has_consent=consent.memory_enabled,
            keeps_personal=keeps,
            redacted=dict(ask.redacted or cleaned.counts),
        )

    async def clean(self, text: str, *, keeps_personal: bool) -> Cleaned:
        """Return a text as it may be kept."""
        if len(text) <= INLINE_CHARS:
            return self.redactor.clean(text, keeps_personal=keeps_personal)
        return await asyncio.to_thread(self.redactor.clean, text, keeps_personal=keeps_personal)

    async def clean_says(self, says: Sequence[Say], keeps_personal: bool) -> tuple[Say, ...]:
        """Return what was said as it may be kept."""

        def cleaned() -> tuple[Say, ...]:
            clean = self.redactor.clean
            return tuple(
                replace(say, content=clean(say.content, keeps_personal=keeps_personal).text)
                for say in says
            )

        size = sum(len(say.content) for say in says)
        return cleaned() if size <= INLINE_CHARS else await asyncio.to_thread(cleaned)

    async def clean_steps(
        self, steps: list[dict[str, Any]], *, keeps_personal: bool
    ) -> list[dict[str, Any]]:
        """Return an agent's steps as they may be kept."""
        if not steps:
            return []
        clean = self.redactor.clean_json
        cleaned: list[dict[str, Any]] = await asyncio.to_thread(
            clean, steps, keeps_personal=keeps_personal
        )
        return cleaned
