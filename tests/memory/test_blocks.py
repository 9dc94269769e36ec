"""Core memory blocks in the store: bounded, versioned, one user's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from app.consents import Consent, Consents
from app.db import Database
from app.errors import Conflict, InvalidRequest, NotFound
from app.memory.blocks import Blocks
from app.sessions.base import NewTurn
from app.sessions.sql import SqlSessions
from tests.seams.stores import database

__all__ = ["database"]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def blocks(database: Database) -> Blocks:
    consents = Consents(database, default=Consent(True, True), clock=lambda: NOON)
    return Blocks(database, consents, max_chars=20, clock=lambda: NOON)


async def begin(database: Database, session_id: str, user_id: str) -> None:
    new = NewTurn("default", session_id, user_id, "Hello.", "c", "on", "run-1")
    await SqlSessions(database, lease_seconds=60, count_tokens=len).begin_turn(new, now=NOON)


async def test_blocks_are_there_with_the_human_first_and_without_empty_ones(
    blocks: Blocks, database: Database
) -> None:
    assert await blocks.of("default", "ada") == []
    await begin(database, "s", "ada")
    await blocks.write("default", "ada", "persona", "Be brief.", written_by="user")
    human = await blocks.write(
        "default", "ada", "human", " A nurse. ", written_by="assistant", session_id="s", seq=3
    )
    assert (human.value, human.version, human.updated_at) == ("A nurse.", 1, NOON)
    assert (human.written_by, human.session_id, human.seq) == ("assistant", "s", 3)
    assert [block.label for block in await blocks.of("default", "ada")] == ["human", "persona"]
    await blocks.write("default", "ada", "human", "  ", written_by="user")
    assert [block.label for block in await blocks.of("default", "ada")] == ["persona"]
    emptied = await blocks.get("default", "ada", "human")
    assert (emptied.value, emptied.version, emptied.session_id) == ("", 2, None)


async def test_an_assistant_writes_nothing_for_a_session_that_is_gone(
    blocks: Blocks, database: Database
) -> None:
    await begin(database, "bo's", "bo")
    for session_id in ("erased meanwhile", "bo's"):
        with pytest.raises(NotFound, match="deleted meanwhile"):
            await blocks.write(
                "default", "ada", "human", "A.", written_by="assistant", session_id=session_id
            )
    assert await blocks.of("default", "ada") == []


async def test_blocks_of_other_users_and_tenants_are_their_own(blocks: Blocks) -> None:
    await blocks.write("default", "ada", "human", "Ada.", written_by="user")
    await blocks.write("acme", "ada", "human", "Another Ada.", written_by="user")
    await blocks.write("default", "bob", "human", "Bob.", written_by="user")
    await blocks.delete("default", "ada", "human")
    assert await blocks.of("default", "ada") == []
    assert (await blocks.get("acme", "ada", "human")).value == "Another Ada."
    assert (await blocks.get("default", "bob", "human")).value == "Bob."
    with pytest.raises(NotFound):
        await blocks.get("default", "ada", "human")
    with pytest.raises(NotFound):
        await blocks.delete("default", "ada", "human")


async def test_a_text_over_the_limit_is_refused_and_the_old_one_stays(blocks: Blocks) -> None:
    await blocks.write("default", "ada", "human", "x" * 20, written_by="user")
    with pytest.raises(InvalidRequest) as refused:
        await blocks.write("default", "ada", "human", "x" * 21, written_by="assistant")
    assert refused.value.message == "the block human has 21 characters, the limit is 20"
    assert (await blocks.get("default", "ada", "human")).version == 1


async def test_what_no_store_can_hold_is_taken_out(blocks: Blocks) -> None:
    block = await blocks.write("default", "ada", "human", "a\x00b\ud83dc", written_by="assistant")
    assert (await blocks.get("default", "ada", "human")).value == block.value == "ab\ufffdc"


async def test_a_writer_who_read_another_version_is_told_so(blocks: Blocks) -> None:
    await blocks.write("default", "ada", "human", "one", written_by="user", expected_version=0)
    for stale in (0, 2):
        with pytest.raises(Conflict):
            await blocks.write(
                "default", "ada", "human", "no", written_by="user", expected_version=stale
            )
    await blocks.write("default", "ada", "human", "two", written_by="user", expected_version=1)
    assert (await blocks.get("default", "ada", "human")).value == "two"
    with pytest.raises(Conflict):
        await blocks.write("acme", "eve", "human", "x", written_by="user", expected_version=1)
    with pytest.raises(NotFound):  # and a refused write leaves nothing
        await blocks.get("acme", "eve", "human")


async def test_of_writers_at_once_only_one_wins_a_version(blocks: Blocks) -> None:
    async def attempt(n: int) -> bool:
        try:
            await blocks.write(
                "default", "ada", "human", f"by {n}", written_by="user", expected_version=0
            )
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt(n) for n in range(8)))) == 1
    await asyncio.gather(
        *(
            blocks.write("default", "ada", "human", f"by {n}", written_by="assistant")
            for n in range(8)
        )
    )
    assert (await blocks.get("default", "ada", "human")).version == 9
