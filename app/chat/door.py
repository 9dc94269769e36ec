"""What comes in before anything is done with it: consent, and redaction. Touches: consents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
        # Who set the service up wrote these: an address that they give out is theirs to tell.
        instructions = [await self.clean(one, keeps_personal=True) for one in ask.instructions]
        return replace(
            ask,
            text=cleaned.text,
            told=None if ask.told is None else await self.clean_says(ask.told, keeps),
            instructions=tuple(one.text for one in instructions),
            memory=ask.memory if consent.memory_enabled else "off",
            has_consent=consent.memory_enabled,
            keeps_personal=keeps,
            redacted=dict(ask.redacted or cleaned.counts),
            told_filters=self.redactor.clean_json(ask.filters, keeps_personal=keeps),
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
                replace(
                    say,
                    content=clean(say.content, keeps_personal=keeps_personal).text,
                    calls=tuple(
                        replace(call, arguments=in_json(call.arguments, keeps_personal))
                        for call in say.calls
                    ),
                )
                for say in says
            )

        def in_json(arguments: Mapping[str, Any], keeps: bool) -> Mapping[str, Any]:
            cleaned: Mapping[str, Any] = self.redactor.clean_json(arguments, keeps_personal=keeps)
            return cleaned

        size = sum(len(say.content) + sum(len(call.text) for call in say.calls) for say in says)
        return cleaned() if size <= INLINE_CHARS else await asyncio.to_thread(cleaned)

    async def cleaner(self, tenant_id: str, user_id: str) -> Cleaner:
        """Return what cleans texts of a user's, as the user allows them to be kept."""
        consent = await self.consents.of(tenant_id, user_id)
        return Cleaner(self, consent.pii_storage_allowed)

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


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Cleans what comes in beside questions: facts, items, titles, conversations of old."""

    door: Door
    keeps_personal: bool

    async def text(self, text: str) -> str:
        return (await self.counted(text)).text

    async def counted(self, text: str) -> Cleaned:
        return await self.door.clean(text, keeps_personal=self.keeps_personal)

    async def says(self, says: Sequence[Say]) -> tuple[Say, ...]:
        return await self.door.clean_says(says, self.keeps_personal)

    async def json(self, value: Any) -> Any:
        """Return JSON as it may be kept; the same has the same placeholder all over it."""
        clean = self.door.redactor.clean_json
        return await asyncio.to_thread(clean, value, keeps_personal=self.keeps_personal)

    def json_here(self, value: Any) -> Any:
        """Return JSON as it may be kept, for callers that are in a thread already."""
        return self.door.redactor.clean_json(value, keeps_personal=self.keeps_personal)
