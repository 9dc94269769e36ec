"""Many memories at once, as conversations would have left them. Touches: a database file.

Through the tables and the index seam instead of a hundred thousand turns. Vectors are random and of
length 1: the arithmetic is the same, and so are the texts' lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes, messages, sessions
from app.index.base import Metadata, Values, Vector
from app.lexical import store
from app.lexical.store import Entry
from app.memory.lexicon import NOTED, SAID, SUMMARY
from app.settings import Settings
from app.wiring import open_runtime

OWNER = "ann"
MEMORIES_OF_ANOTHER = 100
AT_ONCE = 5_000
START = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = "default"


def unit_vectors(count: int, dimension: int, seed: int = 0) -> Values:
    """Return (count, dimension) float32, rows of length 1; the same for the same arguments."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimension), np.float32)
    rows: Values = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return rows


async def fill(settings: Settings, vectors: Values, *, owned: int) -> None:
    """Store one session, two messages, one episode and one vector for each row of `vectors`.

    Their words are in the lexical index, as a checkpoint leaves them there. `OWNER` has `owned` of
    them, spread evenly; others have 100 each.
    """
    every = len(vectors) // owned
    async with open_runtime(settings) as runtime:
        for start in range(0, len(vectors), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, len(vectors)))
            owners = {n: OWNER if n % every == 0 else _other(n) for n in numbers}
            await runtime.database.write(_rows(owners))
            await runtime.index.upsert(
                "memory",
                [Vector(_session(n), vectors[n], _metadata(n, owners[n])) for n in numbers],
            )


def _rows(owners: dict[int, str]) -> Callable[[Connection], None]:
    def write(connection: Connection) -> None:
        for table, row in ((sessions, _session_row), (episodes, _episode_row)):
            rows = [row(n, user) for n, user in owners.items()]
            connection.execute(sa.insert(table), rows)
        said = [_message_row(n, seq) for n in owners for seq in (1, 2)]
        connection.execute(sa.insert(messages), said)
        for user in sorted(set(owners.values())):
            mine = [n for n, owner in owners.items() if owner == user]
            for kind, unit, part in ((SAID, 1, 1), (NOTED, SUMMARY, 0)):
                scope = store.scope_of(kind, TENANT, user)
                entries = [Entry(_session(n), {unit: _text(n)}, part=part) for n in mine]
                store.put(connection, scope, entries)

    return write


def _other(n: int) -> str:
    return f"user-{n // MEMORIES_OF_ANOTHER}"


def _session(n: int) -> str:
    return f"session-{n}"


def _text(n: int) -> str:
    return (
        f"The user asked about order {n} and prefers delivery on weekdays before {n % 12 + 1} "
        f"o'clock. The open action is to send the revised offer over {n * 7 % 9_000} euros, and "
        "the budget was moved to the second quarter."
    )


def _time(n: int) -> datetime:
    return START + timedelta(minutes=n)


def _session_row(n: int, user: str) -> dict[str, Any]:
    return {
        "tenant_id": TENANT,
        "session_id": _session(n),
        "user_id": user,
        "state": "closed",
        "last_seq": 2,
        "covered_seq": 2,
        "memory_revision": 1,
        "created_at": _time(n),
        "last_message_at": _time(n),
        "closed_at": _time(n),
    }


def _episode_row(n: int, user: str) -> dict[str, Any]:
    return {
        "tenant_id": TENANT,
        "session_id": _session(n),
        "user_id": user,
        "text": _text(n),
        "covered_seq": 2,
        "version": 1,
        "indexed_version": 1,
        "dropped_sentences": 0,
        "started_at": _time(n),
        "ended_at": _time(n),
        "created_at": _time(n),
        "updated_at": _time(n),
    }


def _message_row(n: int, seq: int) -> dict[str, Any]:
    return {
        "id": f"{n}-{seq}",
        "tenant_id": TENANT,
        "session_id": _session(n),
        "seq": seq,
        "role": "user" if seq == 1 else "assistant",
        "content": _text(n),
        "status": "complete",
        "memory": "on",
        "created_at": _time(n),
    }


def _metadata(n: int, user: str) -> Metadata:
    return {
        "tenant_id": TENANT,
        "user_id": user,
        "session_id": _session(n),
        "text": _text(n),
        "doc_type": "memory",
        "memory_type": "episode",
        "created_at": _time(n).timestamp(),
    }
