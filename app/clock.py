"""The time by the database's clock, so that replicas agree on it. Touches: the database.

A replica whose own clock is wrong would close sessions that go on, take what was said last for
what was said before, and let in what was begun before its user was erased.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import sqlalchemy as sa

from app.db import Database, db_now

log = logging.getLogger(__name__)

HARMLESS = timedelta(seconds=1)  # less may be the way to the database and back
LOOK_AGAIN_SECONDS = 60.0

_NOW = sa.select(db_now())


class DatabaseClock:
    """This machine's clock, moved by how far it is off; call `set` before it is read.

    own: the machine's.
    """

    def __init__(self, database: Database, own: Callable[[], datetime]) -> None:
        self._database = database
        self._own = own
        self._behind = timedelta()

    def __call__(self) -> datetime:
        return self._own() + self._behind

    async def set(self) -> None:
        """Ask the database for its time. Raises `StorageUnavailable`."""
        asked = self._own()
        theirs = await self._database.read(lambda c: c.execute(_NOW).scalar_one())
        took = self._own() - asked
        behind = theirs - (asked + took / 2)
        if abs(behind - self._behind) <= HARMLESS + took / 2:
            return
        if abs(behind) <= HARMLESS + took / 2:
            self._behind = timedelta()
            log.warning("this machine's clock agrees with the database's")
            return
        self._behind = behind
        log.warning(
            "this machine's clock is %.1f s %s the database's, which counts",
            abs(behind.total_seconds()),
            "behind" if behind > timedelta() else "ahead of",
        )
