"""Core memory: bounded texts of a user that stand in every prompt. Touches: `memory_blocks`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.db import Database

Label = Literal["human", "persona"]


@dataclass(frozen=True, slots=True)
class Block:
    """human: about the user; persona: how the assistant is to be.

    session_id, seq: the message for which an assistant wrote it.
    """

    label: Label
    value: str
    written_by: Literal["user", "assistant"]
    session_id: str | None
    seq: int | None
    version: int
    updated_at: datetime


class Blocks:
    """Reads and writes blocks. max_chars: the size of one."""

    def __init__(self, database: Database, *, max_chars: int) -> None:
        self._database = database
        self._max_chars = max_chars

    async def of(self, tenant_id: str, user_id: str) -> list[Block]:
        """Return the blocks that are not empty, human first."""
        return []
