"""Databases of each revision, with rows in every table: up, in use, back down, up again."""

from __future__ import annotations

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from app.db import Connection, open_database
from tests.db.lives import Life, answers, as_known, keys_of, lived, put_at, rows
from tests.db.shape import config, migrating
from tests.senders import receiving

REVISIONS = list(reversed(list(ScriptDirectory.from_config(config()).walk_revisions())))
NAMES = [script.revision for script in REVISIONS]
# The way up from the first leads through all others; EVERY_REVISION=1 begins at each.
TRIED = NAMES[:-1] if os.environ.get("EVERY_REVISION") else [NAMES[0], NAMES[-2]]


@pytest.fixture(scope="module")
def life() -> Life:
    with ThreadPoolExecutor(1) as thread:  # the test that asks first has a loop
        return thread.submit(asyncio.run, lived()).result()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    return str(request.getfixturevalue("postgres_database"))


def test_the_rows_that_we_try_it_with_are_in_every_table(life: Life) -> None:
    assert [name for name, there in life.rows.items() if not there] == []


@pytest.mark.parametrize("revision", TRIED)
async def test_what_was_stored_lives_through_the_way_up_and_back(
    url: str, revision: str, life: Life
) -> None:
    database = await open_database(url)
    old = await put_at(database, revision, life.rows)
    assert [name for name, there in old.items() if not there] == []
    await database.close()

    async with receiving(database_url=url) as (client, runtime):
        await answers(client, runtime, life)

    database = await open_database(url)
    new = await database.read(rows)
    new_keys = await database.read(lambda c: keys_of(c, new))
    for name, keys in (await database.read(lambda c: keys_of(c, old))).items():
        assert keys <= new_keys[name], name
    for script in reversed(REVISIONS[NAMES.index(revision) + 1 :]):
        await database.write(migrating(command.downgrade, str(script.down_revision)))
        left = await database.read(rows)
        new["about_store"] = as_known(new["about_store"], set(left))
        for name, there in left.items():
            assert there == [{c: row[c] for c in there[0]} for row in new[name]], name
    assert {n: set(r[0]) for n, r in left.items()} == {n: set(r[0]) for n, r in old.items()}
    await database.close()

    async with receiving(database_url=url) as (client, runtime):
        await answers(client, runtime, life)


async def test_what_a_way_back_loses_is_said_in_its_migration(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    for script in reversed(REVISIONS):
        before = await database.read(columns)
        await database.write(migrating(command.downgrade, str(script.down_revision or "base")))
        after = await database.read(columns)
        tables_lost = {name for name in before if name not in after}
        columns_lost = {c for name in after for c in before[name] - after[name]}
        said = set(re.findall(r"\w+", str(script.module.__doc__)))
        assert (tables_lost | columns_lost) - said == set(), script.revision
    await database.close()


def columns(connection: Connection) -> dict[str, set[str]]:
    inspector = sa.inspect(connection)
    return {
        name: {column["name"] for column in inspector.get_columns(name)}
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }
