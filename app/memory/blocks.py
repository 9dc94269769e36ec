"""Core memory: bounded texts of a user that stand in every prompt. Touches: `memory_blocks`,
the quarantine list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from app import quarantine
from app.audit import Actor, note
from app.consents import Consents
from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import memory_blocks
from app.erased import pseudonym, refuse
from app.errors import Conflict, InvalidRequest, NotFound
from app.quarantine import BLOCKED, State, block_ref, look_at
from app.sessions.rows import lock_session
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
    """Reads and writes blocks.

    max_chars: the size of one. withholds: the states in the quarantine list of what is left out.
    """

    def __init__(
        self,
        database: Database,
        consents: Consents,
        *,
        max_chars: int,
        clock: Callable[[], datetime],
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._consents = consents
        self._max_chars = max_chars
        self._clock = clock
        self._withholds = withholds

    async def of(self, tenant_id: str, user_id: str) -> list[Block]:
        """Return the blocks that stand in prompts. See `within`."""
        return await self._database.read(lambda c: self.within(c, tenant_id, user_id))

    def within(self, connection: Connection, tenant_id: str, user_id: str) -> list[Block]:
        """Return them as a transaction sees them: neither empty nor withheld, human first."""
        rows = connection.execute(_OF, {"tenant": tenant_id, "user": user_id}).all()
        refs = {block_ref(user_id, row.label): Block(*row) for row in rows}
        hidden = quarantine.withheld(connection, tenant_id, "block", refs, self._withholds)
        return [block for ref, block in refs.items() if ref not in hidden]

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
        session_id: where an assistant writes it, and for which message.
        Raises `InvalidRequest` for a text that is too long, `Conflict` where another version is
        there by now, `NotFound` for a session that is gone, and `MemoryDisabled`.
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
            if session_id is not None:  # it may have been erased since its question was asked
                session = lock_session(connection, tenant_id, session_id)
                if session is None or session.user_id != user_id:
                    raise NotFound("the session was deleted meanwhile", param="session_id")
            self._consents.require_memory(connection, tenant_id, user_id)
            refuse(connection, tenant_id, user_id, now)
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
            looked = look_at(block_ref(user_id, label), value, user_id)
            quarantine.note(connection, tenant_id, "block", [looked], now)
            return block

        return await self._database.write(write)

    async def delete(
        self, tenant_id: str, user_id: str, label: Label, *, actor: Actor | None = None
    ) -> None:
        """Remove a block. Raises `NotFound`.

        actor: who does it on its user's behalf, for the audit log.
        """
        which = {"tenant": tenant_id, "user": user_id, "which": label}
        now = self._clock()

        def delete(connection: Connection) -> None:
            quarantine.drop(connection, tenant_id, "block", [block_ref(user_id, label)])
            if not connection.execute(_DELETE, which).rowcount:
                raise _none(label)
            if actor is not None:
                whose = pseudonym(tenant_id, user_id)
                note(connection, actor, "block.delete", subject=whose, now=now)

        await self._database.write(delete)


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
