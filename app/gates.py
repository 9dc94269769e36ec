"""From which score on a memory, a fact, a document counts, and who says so. Touches: `about_store`.

What was measured on the store's own data holds for the embedding model that it was measured with,
and for no other: scores of two models do not compare.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import about_store
from app.llm.base import Embedder, Thresholds

Origin = Literal["setting", "calibrated", "default"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A threshold as max(0, cosine). `origin`: the environment, `calibrate`, or the model's own."""

    value: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Gates:
    """The thresholds in force."""

    memory: Gate
    facts: Gate
    documents: Gate


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What `calibrate --apply` left in the store; None for a kind with too little data."""

    memory: float | None = None
    facts: float | None = None
    documents: float | None = None


def settle(
    calibrated: Calibrated, measured: Thresholds, *, memory: float | None, documents: float | None
) -> Gates:
    """Return what is in force: a setting wins over what was calibrated, and that over the default.

    memory, documents: MEMORY_THRESHOLD and DOCUMENT_THRESHOLD.
    """
    return Gates(
        memory=_gate(memory, calibrated.memory, measured.memory),
        facts=_gate(None, calibrated.facts, measured.facts),
        documents=_gate(documents, calibrated.documents, measured.documents),
    )


async def read_calibrated(database: Database, embedder: Embedder) -> Calibrated:
    """Return what was applied for this embedding model."""
    return await database.read(lambda c: _read(c, _name(embedder)))


async def apply(
    database: Database, embedder: Embedder, found: Calibrated, now: datetime
) -> Calibrated:
    """Store what was measured, and return all that is applied now.

    A kind without a value keeps the one that it had.
    """
    return await database.write(lambda c: _apply(c, _name(embedder), found, now))


async def reset(database: Database, embedder: Embedder) -> None:
    """Take back what was applied for this embedding model."""
    this = about_store.c.name == _name(embedder)
    await database.write(lambda c: c.execute(about_store.delete().where(this)))


def _name(embedder: Embedder) -> str:
    """Return the name of the row that belongs to a model; a shortened vector scores otherwise."""
    return f"thresholds of {embedder.name} ({embedder.dimension})"


def _gate(setting: float | None, calibrated: float | None, measured: float) -> Gate:
    if setting is not None:
        return Gate(setting, "setting")
    return Gate(measured, "default") if calibrated is None else Gate(calibrated, "calibrated")


def _read(connection: Connection, name: str) -> Calibrated:
    this = sa.select(about_store.c.value).where(about_store.c.name == name)
    value = connection.execute(this).scalar_one_or_none()
    return Calibrated() if value is None else Calibrated(**value["thresholds"])


def _apply(connection: Connection, name: str, found: Calibrated, now: datetime) -> Calibrated:
    new = {kind: value for kind, value in asdict(found).items() if value is not None}
    together = Calibrated(**{**asdict(_read(connection, name)), **new})
    value = {"thresholds": asdict(together), "measured_at": now.isoformat()}
    if not insert_new(connection, about_store, {"name": name, "value": value}, key=["name"]):
        this = about_store.c.name == name
        connection.execute(about_store.update().where(this).values(value=value))
    return together
