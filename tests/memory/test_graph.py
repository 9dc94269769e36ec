"""Entities, merged over sessions; what relates them; whom a question names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.db import Database
from app.errors import NotFound
from app.memory import entities as rows
from app.memory.base import FoundEntity
from app.memory.entities import Entities
from app.memory.graph import Graph
from app.memory.names import Names, name_key
from tests.memory.telling import NOW, day, forget, said, take
from tests.seams.stores import database

__all__ = ["database"]


@pytest.fixture
def known(database: Database) -> Entities:
    return Entities(database, clock=lambda: NOW)


@pytest.fixture
def graph(database: Database) -> Graph:
    return Graph(database, clock=lambda: NOW)


async def seen(
    database: Database, session_id: str, on: float, *found: FoundEntity, user: str = "ada"
) -> None:
    await database.write(lambda c: rows.take(c, "default", user, session_id, found, day(on)))


def person(name: str, *aliases: str, type: str = "person", **attributes: str) -> FoundEntity:
    return FoundEntity(name, type, aliases, attributes)


def thing(name: str, *aliases: str) -> FoundEntity:
    return person(name, *aliases, type="organization")


async def a_family(database: Database) -> None:
    """Ben, the user's brother, works at Acme in Rome, where Mia lives; Zoë is on her own."""
    await seen(database, "s1", 1, person("Ben", "Benny"), thing("Acme"), person("Mia"))
    await seen(database, "s1", 1, person("Rome", type="place"), person("Zoë"))
    await take(
        database,
        "s1",
        said("Ben", 1, "brother", statement="Ben is the user's brother."),
        said("Acme Ltd.", 1, "works_at", subject="Ben", seq=2),
        said("Rome", 1, "office_in", subject="Acme", seq=3),
        said("an old flat in Rome", 1, "lives_in", subject="Mia", seq=4),
    )


async def test_what_sessions_say_of_an_entity_is_merged(
    database: Database, known: Entities
) -> None:
    await seen(database, "s1", 1, person("Ben", "Benny", role="cook", city="Rome"))
    await seen(database, "s2", 5, person("ben", "Big Ben", type="friend", role="baker"))
    await seen(database, "s3", 3, person("Ben"), person("Mia"))
    ben, mia = await known.of_user("default", "ada", limit=10)
    assert (ben.name, ben.type, ben.sessions, ben.last_seen_at) == ("Ben", "person", 3, day(5))
    assert sorted(ben.aliases) == ["Benny", "Big Ben"]
    assert ben.attributes == {"role": "baker", "city": "Rome"}
    assert (mia.name, mia.sessions) == ("Mia", 1)
    assert [one.name for one in await known.of_user("default", "ada", limit=1)] == ["Ben"]


async def test_one_that_is_another_s_alias_is_the_same(database: Database, known: Entities) -> None:
    await seen(database, "s1", 1, person("Robert Smith", "Bob", city="Rome"))
    await seen(database, "s2", 2, person("Bob", role="baker"))
    (bob,) = await known.of_user("default", "ada", limit=10)
    assert {bob.name, *bob.aliases} == {"Robert Smith", "Bob"}
    assert bob.attributes == {"city": "Rome", "role": "baker"}


async def test_a_session_that_says_more_adds_to_what_it_said(
    database: Database, known: Entities
) -> None:
    await seen(database, "s1", 1, person("Ben", "Benny", role="cook"))
    await seen(database, "s1", 2, person("Ben", "Big Ben", role="baker"), person("User"))
    (ben,) = await known.of_user("default", "ada", limit=10)
    assert (sorted(ben.aliases), ben.attributes) == (["Benny", "Big Ben"], {"role": "baker"})


async def test_entities_have_the_relations_that_current_facts_tell(
    database: Database, known: Entities
) -> None:
    await a_family(database)
    await take(database, "s2", said("Rome", 9, "lives_in", subject="Zoë", ends_at=day(20)))
    found = {one.name: one for one in await known.of_user("default", "ada", limit=10)}
    told = {
        name: sorted((r.subject, r.predicate, r.value) for r in one.relations)
        for name, one in found.items()
    }
    assert told["Ben"] == [("Ben", "works_at", "Acme"), ("user", "has_sibling", "Ben")]
    assert told["Acme"] == [("Acme", "office_in", "Rome"), ("Ben", "works_at", "Acme")]
    assert told["Mia"] == [("Mia", "lives_in", "Rome")]
    assert told["Zoë"] == []


@pytest.mark.parametrize(
    ("entity", "depth", "nodes"),
    [
        ("Ben", 1, {"Ben": 0, "Acme": 1, "user": 1}),
        ("benny", 2, {"Ben": 0, "Acme": 1, "user": 1, "Rome": 2}),
        ("BEN", 3, {"Ben": 0, "Acme": 1, "user": 1, "Rome": 2, "Mia": 3}),
        ("zoe", 3, {"Zoë": 0}),
        ("me", 1, {"user": 0, "Ben": 1}),
    ],
)
async def test_a_graph_reaches_as_far_as_it_is_asked_to(
    database: Database, graph: Graph, entity: str, depth: int, nodes: Mapping[str, int]
) -> None:
    await a_family(database)
    found = await graph.around("default", "ada", entity, depth)
    assert {node.name: node.distance for node in found.nodes} == nodes
    assert not found.is_cut
    for edge in found.edges:
        assert {edge.subject, edge.value} <= set(nodes)
    assert len(found.edges) == len(nodes) - 1


async def test_nobody_knows_whom_another_user_speaks_of(database: Database, graph: Graph) -> None:
    await a_family(database)
    for user, name in (("bob", "Ben"), ("ada", "Benedict"), ("ada", "%")):
        with pytest.raises(NotFound) as failure:
            await graph.around("default", user, name, 1)
        assert failure.value.param == "entity"


async def test_a_question_about_a_person_finds_what_is_related_to_them(
    database: Database, known: Entities
) -> None:
    await a_family(database)
    assert set(await known.related("default", "ada", "Where does Benny work?")) == {
        "Acme",
        "Acme Ltd.",
        "Ben",
    }
    assert "Mia" in await known.related("default", "ada", "who is in ROME's centre?")
    assert await known.related("default", "ada", "What about benches?") == []
    assert await known.related("default", "bob", "Where does Ben work?") == []


async def test_what_is_related_is_bounded(database: Database, known: Entities) -> None:
    await seen(database, "s1", 1, person("Ben"))
    await take(
        database, "s1", *(said(f"book {n}", 1, "read", subject="Ben", seq=n) for n in range(99))
    )
    assert len(await known.related("default", "ada", "What did Ben read?")) == 20


async def test_a_forgotten_session_takes_its_entities_along(
    database: Database, known: Entities, graph: Graph
) -> None:
    await a_family(database)
    await seen(database, "s2", 2, person("Ben"))
    assert (await forget(database, "s1")).entities == 5
    (ben,) = await known.of_user("default", "ada", limit=10)
    assert (ben.name, ben.aliases, ben.relations, ben.sessions) == ("Ben", (), (), 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ben and Big Ben", ["Ben", "Big Ben"]),
        ("big ben's hands", ["Big Ben"]),
        ("Benches", []),
        ("ZOE!", ["Zoë"]),
        ("田中さんと話した", ["田中"]),
        ("", []),
    ],
)
def test_names_are_found_as_whole_words(text: str, found: Sequence[str]) -> None:
    names: Any = Names({name_key(name): name for name in ("Ben", "Big Ben", "Zoë", "田中")})
    assert names.within(text) == found
