"""Items of agents in SQL, and the facts by which they are found; on every database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import fact_sightings, facts, jobs, store_items
from app.memory.forgetting import forget_facts
from app.memory.item_ops import ListNamespaces, Namespace, Put, Search, item_text
from app.memory.item_rows import found, items_at, namespaces, write
from app.memory.recall_rows import Whose
from tests.memory.telling import NOW
from tests.seams.stores import database

__all__ = ["database"]

ADA = Whose("default", "ada")
NOTES = ("notes", "ada")


def note(key: str, text: str | None, **value: Any) -> Put:
    return Put(NOTES, key, {"text": text, **value}, text)


async def apply(database: Database, *puts: Put, owner: Whose = ADA) -> None:
    def store(connection: Connection) -> None:
        lock_user(connection, owner.tenant_id, owner.user_id)
        write(connection, owner, puts, NOW)

    await database.write(store)


async def told(database: Database) -> list[tuple[str, bool]]:
    """Return what facts say, and if it still holds."""
    columns = facts.c.statement, facts.c.valid_to.is_(None)
    query = sa.select(*columns).order_by(facts.c.statement)
    rows = await database.read(lambda c: c.execute(query).all())
    return [(statement, bool(holds)) for statement, holds in rows]


async def links(database: Database) -> dict[str, str | None]:
    """Return what the fact of each item says."""
    query = sa.select(store_items.c.key, facts.c.statement).outerjoin_from(
        store_items, facts, facts.c.fact_id == store_items.c.fact_id
    )
    rows = await database.read(lambda c: c.execute(query).all())
    return {row.key: row.statement for row in rows}


async def test_an_item_is_told_as_a_fact_that_is_replaced_and_removed_with_it(
    database: Database,
) -> None:
    await apply(database, note("food", "Ada likes pizza."), note("drink", "Ada drinks tea."))
    assert await told(database) == [("Ada drinks tea.", True), ("Ada likes pizza.", True)]
    assert await links(database) == {"food": "Ada likes pizza.", "drink": "Ada drinks tea."}
    await apply(database, note("food", "Ada likes soup."))
    assert await told(database) == [("Ada drinks tea.", True), ("Ada likes soup.", True)]
    await apply(database, Put(NOTES, "food", None), Put(NOTES, "drink", {"text": "hidden"}, None))
    assert await told(database) == []
    assert await links(database) == {"drink": None}
    left = await database.read(lambda c: c.execute(sa.select(fact_sightings)).all())
    assert left == []


async def test_an_item_whose_text_stays_keeps_its_fact_and_costs_no_new_vector(
    database: Database,
) -> None:
    await apply(database, note("food", "Ada likes pizza.", stars=1))
    queued = sa.select(sa.func.count()).select_from(jobs)
    before = await database.read(lambda c: c.execute(queued).scalar_one())
    await apply(database, note("food", "Ada likes pizza.", stars=2))
    assert await database.read(lambda c: c.execute(queued).scalar_one()) == before
    where = ('["notes","ada"]', "food")
    (item,) = (await database.read(lambda c: items_at(c, ADA, [where]))).values()
    assert item.value == {"text": "Ada likes pizza.", "stars": 2}
    assert await links(database) == {"food": "Ada likes pizza."}


async def test_no_item_ends_another_whatever_their_keys_are_called(database: Database) -> None:
    puts = [
        note(key, f"The {key} is {number}.")
        for number, key in enumerate(("name", "full_name", "Name", "lives_in", "home", "!", "?"))
    ]
    await apply(database, *puts)
    await apply(database, *(Put(("user",), put.key, put.value, put.text) for put in puts))
    assert [holds for _, holds in await told(database)] == [True] * 14
    subjects = sa.select(facts.c.subject).distinct().order_by(facts.c.subject)
    called = await database.read(lambda c: c.execute(subjects).scalars().all())
    assert called == ["store/notes/ada", "store/user"]


async def test_what_two_items_say_stays_until_both_are_gone(database: Database) -> None:
    await apply(database, note("a", "Ada likes pizza."), note("b", "Ada likes pizza."))
    assert await told(database) == [("Ada likes pizza.", True)]
    assert set((await links(database)).values()) == {"Ada likes pizza."}
    await apply(database, Put(NOTES, "a", None))
    assert await told(database) == [("Ada likes pizza.", True)]
    await apply(database, note("b", "Ada likes soup."))
    assert await told(database) == [("Ada likes soup.", True)]


async def test_a_fact_that_was_forgotten_by_hand_is_told_again_with_the_next_put(
    database: Database,
) -> None:
    await apply(database, note("food", "Ada likes pizza."))

    def forget(connection: Connection) -> None:
        ids = connection.execute(sa.select(facts.c.fact_id)).scalars().all()
        forget_facts(connection, "default", ids, NOW)

    await database.write(forget)
    assert await links(database) == {"food": None}
    await apply(database, note("food", "Ada likes pizza."))
    assert await links(database) == {"food": "Ada likes pizza."}


async def test_items_of_others_are_neither_seen_nor_touched(database: Database) -> None:
    others = [Whose("default", "bob"), Whose("globex", "ada")]
    for owner in (ADA, *others):
        await apply(database, note("food", "Somebody likes pizza."), owner=owner)
    await apply(database, Put(NOTES, "food", None))
    where = ('["notes","ada"]', "food")
    for owner, there in ((ADA, False), (others[0], True), (others[1], True)):
        held = await database.read(lambda c, o=owner: items_at(c, o, [where]))  # type: ignore[misc]
        assert bool(held) is there
    assert len(await told(database)) == 2


async def test_items_are_found_by_what_their_namespace_begins_with(database: Database) -> None:
    every = [("notes",), ("notes", "ada"), ("notes", "ada", "old"), ("Notes", "ada"), ("notes_2",)]
    quoted = ('notes"', "語%_")
    for minute, name in enumerate([*every, quoted]):
        now = NOW + timedelta(minutes=minute)
        put = Put(name, "k", {"n": minute}, f"Note {minute}.")
        await database.write(lambda c, p=put, at=now: write(c, ADA, [p], at))  # type: ignore[misc]

    async def search(op: Search, scores: dict[str, float] | None = None) -> list[Namespace]:
        items = await database.read(lambda c: found(c, ADA, op, scores))
        return [item.namespace for item in items]

    assert await search(Search(("notes",))) == [every[2], every[1], every[0]]
    assert await search(Search(("notes", "ada"))) == [every[2], every[1]]
    assert await search(Search(('notes"',))) == [quoted]
    assert await search(Search(("note",))) == []
    assert await search(Search((), limit=2, offset=1)) == [every[4], every[3]]
    assert await search(Search((), {"n": {"$lt": 3}}, limit=2, offset=1)) == [every[1], every[0]]
    query = sa.select(store_items.c.fact_id).where(store_items.c.namespace == '["notes"]')
    fact_id = await database.read(lambda c: c.execute(query).scalar_one())
    assert fact_id is not None
    assert (await search(Search(()), {fact_id: 0.5}))[:2] == [("notes",), quoted]
    listed = await database.read(lambda c: namespaces(c, ADA, ListNamespaces(max_depth=1)))
    assert listed == [("Notes",), ("notes",), ('notes"',), ("notes_2",)]


async def test_an_item_and_its_fact_are_stored_together_or_not_at_all(database: Database) -> None:
    def fail(connection: Connection) -> None:
        write(connection, ADA, [note("food", "Ada likes pizza.")], NOW)
        raise RuntimeError("the power went")

    with pytest.raises(RuntimeError, match="the power went"):
        await database.write(fail)
    assert (await told(database), await links(database)) == ([], {})


async def test_puts_of_one_key_at_the_same_time_leave_one_item_and_one_fact(
    database: Database,
) -> None:
    await asyncio.gather(*(apply(database, note("food", f"Ada likes dish {n}.")) for n in range(8)))
    ((key, statement),) = (await links(database)).items()
    assert key == "food"
    assert await told(database) == [(statement, True)]


async def test_a_long_text_is_cut_and_a_hundred_items_go_in_one_go(database: Database) -> None:
    await apply(database, *(note(str(n), f"Note {n} " + "ab " * 900) for n in range(100)))
    statements = [statement for statement, _ in await told(database)]
    assert len(statements) == 100
    assert {len(statement) for statement in statements} == {2_000}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"text": "A.", "memory": "B."}, "A."),
        ({"text": " ", "memory": "B."}, "B."),
        ({"kind": "Memory", "content": {"content": "C."}}, "C."),
        ({"data": "D.", "text": 5}, "D."),
        ({"rules": ["short", "ß"]}, '{"rules":["short","ß"]}'),
        ({}, "{}"),
    ],
)
def test_an_item_is_found_by_its_text_wherever_agents_put_it(
    value: dict[str, Any], text: str
) -> None:
    assert item_text(value) == text
