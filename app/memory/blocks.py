"""Core memory: bounded texts of a user that stand in every prompt. Touches: `memory_blocks`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import memory_blocks
from app.errors import Conflict, InvalidRequest, NotFound
from app.text.clean import clean

Label = Literal["human", "persona"]
Writer = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Block:
    """human: about the user; persona: how the assistant is to be.

    session_id, seq: the message for which an assistant wrote it.
    """

    label: Label
    value: str
    written_by: Writer
    session_id: str | None
    seq: int | None
    version: int
    updated_at: datetime


_KEY = ["tenant_id", "user_id", "label"]
_BLOCK = tuple(memory_blocks.c[name] for name in Block.__slots__)
_OF_USER = sa.and_(
    memory_blocks.c.tenant_id == sa.bindparam("tenant"),
    memory_blocks.c.user_id == sa.bindparam("user"),
)
_ONE = sa.and_(_OF_USER, memory_blocks.c.label == sa.bindparam("which"))

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_OF = (
    sa.select(*_BLOCK).where(_OF_USER, memory_blocks.c.value != "").order_by(memory_blocks.c.label)
)
_GET = sa.select(*_BLOCK).where(_ONE)
_LOCK = _GET.with_for_update()
_DELETE = memory_blocks.delete().where(_ONE)
_LOSE_ORIGIN = (
    memory_blocks.update()
    .where(_OF_USER, memory_blocks.c.session_id == sa.bindparam("session"))
    .values(session_id=None, seq=None)
)
_CHANGE = (
    memory_blocks.update()
    .where(_ONE)
    .values({name: sa.bindparam(f"new_{name}") for name in Block.__slots__ if name != "label"})
)


class Blocks:
    """Reads and writes blocks. max_chars: the size of one."""

    def __init__(
        self, database: Database, *, max_chars: int, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._max_chars = max_chars
        self._clock = clock

    async def of(self, tenant_id: str, user_id: str) -> list[Block]:
        """Return the blocks that are not empty, human first."""
        which = {"tenant": tenant_id, "user": user_id}
        rows = await self._database.read(lambda c: c.execute(_OF, which).all())
        return [Block(*row) for row in rows]

    async def get(self, tenant_id: str, user_id: str, label: Label) -> Block:
        """Return a block, an emptied one too. Raises `NotFound`."""
        which = {"tenant": tenant_id, "user": user_id, "which": label}
        row = await self._database.read(lambda c: c.execute(_GET, which).first())
        if row is None:
            raise _none(label)
        return Block(*row)

    async def write(
        self,
        tenant_id: str,
        user_id: str,
        label: Label,
        value: str,
        *,
        written_by: Writer,
        session_id: str | None = None,
        seq: int | None = None,
        expected_version: int | None = None,
    ) -> Block:
        """Replace a block's text; its version grows by one.

        expected_version: the one that the writer has read, 0 for none; None: whatever is there.
        Raises `InvalidRequest` for a text that is too long, `Conflict` where another version is
        there by now.
        """
        value = clean(value).strip()
        if len(value) > self._max_chars:
            raise InvalidRequest(
                f"the block {label} has {len(value)} characters, the limit is {self._max_chars}",
                param="value",
            )
        now = self._clock()
        which = {"tenant": tenant_id, "user": user_id, "which": label}

        def write(connection: Connection) -> Block:
            version = _locked_version(connection, which, now)
            if expected_version is not None and expected_version != version:
                raise Conflict(
                    f"the block {label} is at version {version}, not at {expected_version}: "
                    "read it again",
                    param="version",
                )
            block = Block(label, value, written_by, session_id, seq, version + 1, now)
            new = {f"new_{name}": getattr(block, name) for name in Block.__slots__}
            del new["new_label"]
            connection.execute(_CHANGE, which | new)
            return block

        return await self._database.write(write)

    async def delete(self, tenant_id: str, user_id: str, label: Label) -> None:
        """Remove a block. Raises `NotFound`."""
        which = {"tenant": tenant_id, "user": user_id, "which": label}
        if not await self._database.write(lambda c: c.execute(_DELETE, which).rowcount):
            raise _none(label)


def lose_origin(connection: Connection, tenant_id: str, user_id: str, session_id: str) -> None:
    """Take a deleted session out of the blocks that were written in it: its id is free again."""
    which = {"tenant": tenant_id, "user": user_id, "session": session_id}
    connection.execute(_LOSE_ORIGIN, which)


def _locked_version(connection: Connection, which: dict[str, Any], now: datetime) -> int:
    """Return the version that is there, 0 for a block that is new, and keep others from it."""
    while (row := connection.execute(_LOCK, which).first()) is None:
        empty = {
            "tenant_id": which["tenant"],
            "user_id": which["user"],
            "label": which["which"],
            "value": "",
            "written_by": "user",
            "version": 0,
            "updated_at": now,
        }
        insert_new(connection, memory_blocks, empty, key=_KEY)
    return int(row.version)


def _none(label: Label) -> NotFound:
    return NotFound(f"there is no block {label}", param="label")
