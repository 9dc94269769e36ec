"""Episodes kept in columns: the same as what SQL holds, whatever came in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.db import Connection, Database
from app.db.tables import episodes, quarantine
from app.memory import lexicon
from app.memory.known import Known, KnownEpisodes
from app.memory.recall_rows import Whose
from app.memory.standing import standing
from app.sessions.rows import of_session
from tests.seams.stores import database as database

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
ADA = Whose("default", "ada")
SESSIONS = st.sampled_from(["s1", "s2", "s3"])
STEPS = st.tuples(st.sampled_from(["write", "index", "drop", "block", "release", "look"]), SESSIONS)


def write(connection: Connection, session_id: str, now: datetime) -> None:
    """Store an episode, or store it anew."""
    here = of_session(episodes, "default", session_id)
    version = connection.execute(sa.select(episodes.c.version).where(here)).scalar()
    told = {"text": f"Told at {now}.", "ended_at": now, "updated_at": now}
    if version is None:
        row = {
            "tenant_id": "default", "session_id": session_id, "user_id": "ada", "version": 1,
            "indexed_version": 0, "covered_seq": 2, "dropped_sentences": 0, "started_at": now,
            "created_at": now, **told,
        }  # fmt: skip
        connection.execute(episodes.insert().values(row))
    else:
        connection.execute(episodes.update().where(here).values(version=version + 1, **told))
    lexicon.index_notes(connection, "default", "ada", session_id)


def index(connection: Connection, session_id: str) -> None:
    here = of_session(episodes, "default", session_id)
    connection.execute(episodes.update().where(here).values(indexed_version=episodes.c.version))


def drop(connection: Connection, session_id: str) -> None:
    connection.execute(episodes.delete().where(of_session(episodes, "default", session_id)))
    lexicon.drop(connection, "default", "ada", session_id)


def block(connection: Connection, session_id: str, now: datetime) -> None:
    release(connection, session_id)
    row = {
        "tenant_id": "default", "kind": "episode", "ref": session_id, "user_id": "ada",
        "fingerprint": "", "flags": [], "state": "blocked", "created_at": now,
    }  # fmt: skip
    connection.execute(quarantine.insert().values(row))


def release(connection: Connection, session_id: str) -> None:
    connection.execute(quarantine.delete().where(quarantine.c.ref == session_id))


def read(kept: KnownEpisodes, connection: Connection, changed_after: datetime) -> list[Any]:
    now = standing(connection, ADA.shown(), "")
    return rows(kept.read(connection, ADA.params(), now.episodes, now.withheld, changed_after))


def rows(known: Known) -> list[Any]:
    columns = (known.started_at, known.ended_at, known.updated_at, known.covered_seq, known.is_late)
    return sorted(zip(known.session_ids, *(column.tolist() for column in columns), strict=True))


@effort(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=16))
async def test_what_is_kept_is_what_sql_holds(database: Database, steps: list[Any]) -> None:
    kept = KnownEpisodes()

    def follow(connection: Connection) -> None:
        for session_id in ("s1", "s2", "s3"):
            drop(connection, session_id)
            release(connection, session_id)
        for hour, (what, session_id) in enumerate([*steps, ("look", "s1")]):
            now = BEGIN + timedelta(hours=hour)
            match what:
                case "write":
                    write(connection, session_id, now)
                case "index":
                    index(connection, session_id)
                case "drop":
                    drop(connection, session_id)
                case "block":
                    block(connection, session_id, now)
                case "release":
                    release(connection, session_id)
                case _:
                    fresh = read(KnownEpisodes(), connection, now)
                    assert read(kept, connection, now) == fresh

    await database.write(follow)


async def test_a_block_that_moves_to_one_of_the_same_times_is_seen(database: Database) -> None:
    kept = KnownEpisodes()

    def look(connection: Connection) -> list[list[str]]:
        for session_id in ("s1", "s2"):
            write(connection, session_id, BEGIN)
        seen = []
        for blocked, other in (("s1", "s2"), ("s2", "s1")):
            release(connection, other)
            block(connection, blocked, BEGIN)
            seen.append([row[0] for row in read(kept, connection, BEGIN)])
        return seen

    assert await database.write(look) == [["s2"], ["s1"]]


async def test_what_has_to_be_indexed_anew_is_late_though_another_one_was_before(
    database: Database,
) -> None:
    kept = KnownEpisodes()

    def look(connection: Connection) -> list[list[bool]]:
        seen = []
        for hour, session_id in enumerate(("s1", "s2")):
            write(connection, session_id, BEGIN + timedelta(hours=hour))
        for done in ("s1", "s2"):
            connection.execute(episodes.update().values(indexed_version=0))
            index(connection, done)
            after = BEGIN + timedelta(days=1)
            seen.append([row[-1] for row in read(kept, connection, after)])
        return seen

    assert await database.write(look) == [[False, True], [True, False]]


async def test_one_that_changed_just_now_is_late_until_a_while_has_passed(
    database: Database,
) -> None:
    kept = KnownEpisodes()

    def look(connection: Connection) -> list[bool]:
        write(connection, "s1", BEGIN)
        index(connection, "s1")
        before, after = (BEGIN + timedelta(seconds=n) for n in (-1, 1))
        return [read(kept, connection, at)[0][-1] for at in (before, after, before)]

    assert await database.write(look) == [True, False, True]


async def test_one_that_is_blocked_is_not_known(database: Database) -> None:
    kept = KnownEpisodes()

    def look(connection: Connection) -> list[list[str]]:
        def known() -> list[str]:
            return [row[0] for row in read(kept, connection, BEGIN)]

        write(connection, "s1", BEGIN)
        write(connection, "s2", BEGIN + timedelta(hours=1))
        seen = [known()]
        block(connection, "s1", BEGIN)
        seen.append(known())
        release(connection, "s1")
        block(connection, "s2", BEGIN)
        return [*seen, known()]

    assert await database.write(look) == [["s1", "s2"], ["s2"], ["s1"]]
