"""What was erased is in no file of the service any more: neither at once nor ever after."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

from app.db import open_database
from tests.api.calls import at, chat
from tests.privacy.life import live, mark, ok
from tests.senders import GENERIC_TOKEN
from tests.served import service

QUICK = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "PINECONE_API_KEY": "",
    "WEBHOOK_TOKEN": GENERIC_TOKEN,
    "WEBHOOK_COALESCE_SECONDS": "0",
    "MONITOR_INTERVAL_SECONDS": "3600",
    "JOB_POLL_SECONDS": "0.1",
    "JOB_LEASE_SECONDS": "1",
    "TURN_LEASE_SECONDS": "1",
}
SAID = 12


def bytes_in(folder: Path) -> bytes:
    """Return all that lies in the folder, logs too, in lower case as the words are indexed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"\n".join(path.read_bytes() for path in files).lower()


def traces(folder: Path, user: str) -> int:
    """Count what is left of a user: words that only they said, and the names of their sessions.

    The access log has names of sessions as they stood in the paths of requests, and no content.
    """
    names = bytes_in(folder / "data")
    found = sum(names.count(name.encode()) for name in (f"one {user}", f"one%20{user}"))
    return found + bytes_in(folder).count(mark(user).encode())


def of_jobs(folder: Path, statement: str) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "data" / "service.db", timeout=30)) as database:
        found = database.execute(statement).fetchall()
        database.commit()
        return found


def until(is_so: Callable[[], bool]) -> None:
    patience = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < patience
        time.sleep(0.05)


def jobs_are_done(folder: Path, *, also_late: bool = False) -> bool:
    late = "" if also_late else " AND key NOT LIKE '%:late' AND kind != 'erase_user_late'"
    return not of_jobs(folder, f"SELECT kind, key FROM jobs WHERE state != 'done'{late}")


async def fill(url: str) -> None:
    """Have two users live, and talk at once in messages of many sizes, so that pages are split."""
    chance = random.Random(7)
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for user in ("zoe", "bo"):
            await live(client, user)
        for _ in range(SAID):
            size = chance.choice((3, 40, 300, 700))
            await asyncio.gather(
                *(
                    chat(
                        client, f"{mark(user)}said " * size, session_id=f"one {user}", user_id=user
                    )
                    for user in ("zoe", "bo")
                )
            )


def test_no_file_has_a_word_of_an_erased_user_ever_again(tmp_path: Path) -> None:
    with service(tmp_path, **QUICK) as process:
        asyncio.run(fill(process.url))
        until(lambda: jobs_are_done(tmp_path))
        assert traces(tmp_path, "zoe") > SAID
        receipt = ok(httpx.delete(process.url + at("users", "zoe"), timeout=60))
        assert (receipt["bytes"], receipt["verified"]) == ("scrubbed", True)
        assert traces(tmp_path, "zoe") == 0
        process.stop()
    assert traces(tmp_path, "zoe") == 0
    with service(tmp_path, **{**QUICK, "MONITOR_INTERVAL_SECONDS": "0.2"}) as process:
        time.sleep(1.0)
        until(lambda: jobs_are_done(tmp_path))
        assert traces(tmp_path, "zoe") == 0
        of_jobs(tmp_path, "UPDATE jobs SET due_at = 0 WHERE state = 'due'")  # the longest lease
        until(lambda: jobs_are_done(tmp_path, also_late=True))
        assert traces(tmp_path, "zoe") == 0
        payloads = "SELECT kind, payload FROM jobs WHERE kind != 'load'"
        assert not [row for row in of_jobs(tmp_path, payloads) if "zoe" in str(row)]
        assert traces(tmp_path, "bo") > SAID


async def test_bytes_that_were_deleted_before_go_too(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old:  # as an older version deleted
        old.execute("PRAGMA secure_delete=OFF")
        old.execute("CREATE TABLE notes (text TEXT)")
        old.executemany(
            "INSERT INTO notes VALUES (?)", [(f"quuxold {n} " * 50,) for n in range(99)]
        )
        old.commit()
        old.execute("DELETE FROM notes")
        old.commit()
    assert b"quuxold" in path.read_bytes()
    database = await open_database(f"sqlite:///{path}")
    assert all(await asyncio.gather(database.scrub(), database.scrub()))
    assert b"quuxold" not in bytes_in(tmp_path)
    await database.close()


async def test_who_still_reads_what_was_there_keeps_the_bytes_and_that_is_said(
    tmp_path: Path,
) -> None:
    path = tmp_path / "service.db"
    database = await open_database(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM alembic_version").fetchall()
        assert await database.scrub() is False
    assert await database.scrub() is True
    await database.close()


async def test_who_gives_up_waiting_for_the_bytes_leaves_a_database_that_writes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "service.db"
    database = await open_database(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as other:  # so much that it takes a while to rewrite
        other.execute("CREATE TABLE notes (text BLOB)")
        other.execute("INSERT INTO notes VALUES (zeroblob(8000000))")
        other.commit()
    for thousandth in (1, 3, 10, 30):  # before its turn, or while it goes on
        waiting = asyncio.ensure_future(database.scrub())
        await asyncio.sleep(thousandth / 1_000)
        waiting.cancel()
        assert await database.write(lambda _: "written") == "written"
    assert await database.scrub()
    await database.close()
