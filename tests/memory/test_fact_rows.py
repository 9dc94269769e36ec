"""Facts in SQL: new, seen again, superseded, forgotten; on every database."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from app.db import Database, open_database
from app.db.tables import episodes, fact_sightings, jobs, sessions
from app.memory import fact_rows
from app.memory.base import FoundFact
from app.memory.fact_edits import Edit, edit
from app.memory.fact_rows import Taken
from tests.memory.telling import NOW, current, day, forget, said, stored, take, timeline
from tests.seams.stores import database

__all__ = ["database"]

PEANUTS = {"predicate": "allergic_to", "statement": "The user is allergic to peanuts."}


async def test_a_move_ends_what_was_before_and_keeps_it(database: Database) -> None:
    assert await take(database, "s1", said("Lisbon", 1)) == Taken(1, 0, 0)
    assert await take(database, "s2", said("Porto", 5, "moved_to")) == Taken(1, 0, 1)
    lisbon, porto = await stored(database)
    assert timeline([lisbon, porto]) == [("Lisbon", 1, 5), ("Porto", 5, None)]
    assert (lisbon.superseded_by, porto.superseded_by) == (porto.fact_id, None)
    assert current([lisbon, porto]) == ["Porto"]
    assert current([lisbon, porto], day(3)) == ["Lisbon"]
    assert current([lisbon, porto], day(0)) == []


async def test_an_allergy_in_three_sessions_is_one_fact_seen_three_times(
    database: Database,
) -> None:
    await take(database, "s1", said("peanuts", 1, **PEANUTS))
    await take(database, "s2", said("a peanut", 2, "has_allergy", statement="Ada: peanut allergy."))
    again = await take(database, "s3", said("Peanut allergy", 3, "allergies", statement="Nuts."))
    (fact,) = await stored(database)
    assert again == Taken(0, 1, 0)
    assert (fact.sightings, fact.session_id, fact.number) == (3, "s1", 1)
    assert (fact.learned_at, fact.last_seen_at) == (day(1), day(3))
    assert fact.statement == "The user is allergic to peanuts."


@pytest.mark.parametrize(
    ("predicate", "value", "statement", "is_same"),
    [
        ("seat_choice", "window seat", "The user prefers the window seats", True),
        ("seat_choice", "window seat", "The user never prefers window seats", False),
        ("used_to_prefer", "window seat", "The user used to prefer window seats", False),
        ("prefers", "window seats, always", "A user prefers window seats!", True),
        ("prefers", "aisle seats", "The user prefers aisle seats", False),
    ],
)
async def test_the_same_statement_in_nearly_the_same_words_is_the_same_fact(
    database: Database, predicate: str, value: str, statement: str, is_same: bool
) -> None:
    await take(
        database,
        "s1",
        said("window seats", 1, "prefers", statement="The user prefers window seats"),
    )
    await take(database, "s2", said(value, 2, predicate, statement=statement))
    assert len(await stored(database)) == (1 if is_same else 2)


async def test_long_statements_that_differ_in_a_number_are_two_facts(database: Database) -> None:
    told = "The user ordered the black leather sofa of the spring catalogue as number {}"
    for n, number in enumerate(("1234", "1235")):
        await take(database, f"s{n}", said("a sofa", n, f"p{n}", statement=told.format(number)))
        await take(
            database, f"s{n}", said(f"sofa {number}", n, "ordered", statement=told.format(number))
        )
    ordered = [fact.value for fact in await stored(database) if fact.predicate == "ordered"]
    assert ordered == ["sofa 1234", "sofa 1235"]


async def test_there_and_back_again_is_a_new_period(database: Database) -> None:
    for n, city in enumerate(["Lisbon", "Porto", "Lisbon", "Lisbon"]):
        await take(database, f"s{n}", said(city, n))
    found = await stored(database)
    assert timeline(found) == [("Lisbon", 0, 1), ("Porto", 1, 2), ("Lisbon", 2, None)]
    assert [fact.sightings for fact in found] == [1, 1, 2]
    assert len({fact.fact_id for fact in found}) == 3


async def test_of_a_contradiction_within_a_session_the_later_message_wins(
    database: Database,
) -> None:
    both = [said("Porto", 1, seq=1, valid_from=day(1)), said("Lisbon", 1, seq=5)]
    taken = await take(database, "s1", *both[::-1])
    found = await stored(database)
    assert current(found) == ["Lisbon"]
    assert {fact.value for fact in found} == {"Porto", "Lisbon"}
    assert (taken.new, taken.superseded) == (2, 1)
    assert sorted(fact.number or 0 for fact in found) == [1, 2]


async def test_several_values_hold_at_once_where_they_may(database: Database) -> None:
    await take(
        database, "s1", said("tea", 1, "likes"), said("Rust", 1, "certificate", is_many=True)
    )
    await take(
        database, "s2", said("jazz", 2, "enjoys"), said("Go", 2, "certificate", is_many=True)
    )
    assert sorted(current(await stored(database))) == ["Go", "Rust", "jazz", "tea"]


async def test_a_value_that_turns_out_to_be_one_of_several_holds_beside_the_others(
    database: Database,
) -> None:
    told = [
        said("Acme", 1, "works_at", is_many=False),
        said("Globex", 2, "works_at", is_many=False),
        said("Acme", 3, "works_at", is_many=True),
    ]
    for n, one in enumerate(told):
        await take(database, f"s{n}", one)
    assert sorted(current(await stored(database))) == ["Acme", "Globex"]
    for n, one in enumerate(told):
        await take(database, f"t{n}", one, user="bob")
    assert sorted(current(await stored(database, user="bob"))) == ["Acme", "Globex"]


async def test_a_recommendation_supersedes_nothing_and_is_no_sighting(database: Database) -> None:
    advice = {"kind": "recommendation", "said_by": "assistant"}
    await take(database, "s1", said("Lisbon", 1))
    await take(database, "s2", said("Porto", 2, **advice), said("Lisbon", 2, seq=4, **advice))
    found = await stored(database)
    (mine,) = [fact for fact in found if fact.kind == "fact"]
    assert (mine.valid_to, mine.sightings, len(found)) == (None, 1, 3)
    await take(database, "s3", said("Porto", 3))
    kinds = {(f.value, f.kind): f.valid_to for f in await stored(database)}
    assert kinds["Lisbon", "fact"] == day(3)
    assert kinds["Porto", "recommendation"] is None


async def test_the_user_s_own_name_is_the_user_once_it_is_known(database: Database) -> None:
    await take(database, "s1", said("Ada Lovelace", 1, "name"))
    await take(
        database, "s2", said("Porto", 2, subject="Ada Lovelace"), said("Rome", 2, subject="Ben")
    )
    assert {(f.subject, f.value) for f in await stored(database)} == {
        ("user", "Ada Lovelace"),
        ("user", "Porto"),
        ("Ben", "Rome"),
    }


async def test_a_message_that_is_read_twice_counts_once(database: Database) -> None:
    for _ in range(2):
        taken = await take(database, "s1", said("Porto", 1), said("Porto", 1))
    assert taken == Taken(0, 0, 0)
    (fact,) = await stored(database)
    assert fact.sightings == 1


async def test_marks_survive_what_is_said_again(database: Database) -> None:
    await take(database, "s1", said("peanuts", 1, mark="critical", **PEANUTS))
    await take(database, "s2", said("peanuts", 2, mark="pinned", **PEANUTS))
    (fact,) = await stored(database)
    assert fact.mark == "critical"


async def test_users_and_tenants_know_nothing_of_each_other(database: Database) -> None:
    await take(database, "s1", said("Lisbon", 1))
    await take(database, "s2", said("Porto", 2), user="bob")
    await take(database, "s1", said("Braga", 3), tenant="globex")
    assert timeline(await stored(database)) == [("Lisbon", 1, None)]
    assert timeline(await stored(database, user="bob")) == [("Porto", 2, None)]
    assert timeline(await stored(database, tenant="globex")) == [("Braga", 3, None)]


async def test_an_old_conversation_that_is_read_late_ends_the_same(database: Database) -> None:
    told = [("a", "Lisbon", 1), ("b", "Porto", 5), ("c", "Lisbon", 9), ("d", "Lisbon", 11)]
    for user, order in enumerate([*permutations(told)][::4]):
        for session, city, on in order:
            await take(database, f"{user}{session}", said(city, on), user=str(user))
        found = await stored(database, user=str(user))
        assert timeline(found) == [("Lisbon", 1, 5), ("Porto", 5, 9), ("Lisbon", 9, None)]
        assert [fact.sightings for fact in found] == [1, 1, 2]
        assert [fact.session_id for fact in found] == [f"{user}{s}" for s in "abc"]
        following = [*[fact.fact_id for fact in found[1:]], None]
        assert [fact.superseded_by for fact in found] == following


async def test_a_fact_keeps_its_id_where_it_was_first_said(database: Database) -> None:
    await take(database, "new", said("Lisbon", 9))
    (now,) = await stored(database)
    await take(database, "old", said("Lisbon", 1), said("Porto", 5, seq=3))
    assert timeline(await stored(database)) == [
        ("Lisbon", 1, 5),
        ("Porto", 5, 9),
        ("Lisbon", 9, None),
    ]
    assert (await stored(database))[-1].fact_id == now.fact_id


async def test_another_session_that_is_concerned_is_brought_up_to_date(
    database: Database,
) -> None:
    await take(database, "new", said("Lisbon", 9))
    await take(database, "old", said("Lisbon", 1))
    (fact,) = await stored(database)
    assert (fact.session_id, fact.sightings) == ("old", 2)
    which = sa.select(episodes.c.session_id, episodes.c.version, sessions.c.memory_revision).join(
        sessions, sessions.c.session_id == episodes.c.session_id
    )
    versions = {row[0]: row[1:] for row in await database.read(lambda c: c.execute(which).all())}
    assert versions == {"new": (2, 1), "old": (1, 1)}
    waiting = sa.select(jobs.c.kind, jobs.c.subject).where(jobs.c.key.not_like("%:late"))
    rows = await database.read(lambda c: c.execute(waiting).all())
    assert [tuple(row) for row in rows] == [("sync_episode", "memory:new")]


async def test_checkpoints_at_once_make_no_fact_twice(database: Database) -> None:
    async def reads(n: int) -> Taken:
        session_id = f"s{n % 3}"
        city = said("Porto" if n % 2 else "Lisbon", n, seq=n)
        return await database.write(
            lambda c: fact_rows.take(
                c, "default", "ada", session_id, [city, said("tea", n, "likes", seq=n)], NOW
            )
        )

    taken = await asyncio.gather(*(reads(n) for n in range(12)))
    found = await stored(database)
    cities = [fact for fact in found if fact.predicate == "lives_in"]
    assert [fact.value for fact in cities] == ["Lisbon", "Porto"] * 6
    assert current(cities) == ["Porto"]
    (tea,) = [fact for fact in found if fact.predicate == "likes"]
    assert (tea.sightings, sum(one.new for one in taken)) == (12, 13)
    numbers = [(fact.session_id, fact.number) for fact in found if fact.number is not None]
    assert len(set(numbers)) == len(numbers)


async def test_a_session_is_forgotten_with_what_it_alone_said(database: Database) -> None:
    await take(database, "s1", said("Lisbon", 1), said("tea", 1, "likes", seq=2))
    await take(database, "s2", said("Porto", 5), said("green tea", 5, "likes", seq=2))
    await take(database, "s3", said("tea", 7, "enjoys", statement="Tea it is.", seq=9))
    gone = await forget(database, "s1")
    assert (gone.episodes, gone.facts, gone.moved) == (1, 1, 1)
    found = {fact.value: fact for fact in await stored(database)}
    assert set(found) == {"Porto", "green tea", "tea"}
    tea = found["tea"]
    assert (tea.session_id, tea.number, tea.seq, tea.sightings) == ("s3", 1, 9, 1)
    assert tea.statement == "Tea it is."
    gone = await forget(database, "s2")
    assert (gone.facts, gone.moved) == (2, 0)
    await forget(database, "s3")
    left = sa.select(sa.func.count()).select_from(fact_sightings)
    assert await stored(database) == []
    assert await database.read(lambda c: c.execute(left).scalar_one()) == 0


async def test_what_a_forgotten_session_had_superseded_holds_again(database: Database) -> None:
    for n, city in enumerate(["Lisbon", "Porto", "Lisbon"]):
        await take(database, f"s{n}", said(city, n))
    await forget(database, "s1")
    (fact,) = await stored(database)
    assert (fact.value, fact.valid_from, fact.valid_to) == ("Lisbon", day(0), None)
    assert fact.sightings == 2


async def test_facts_that_are_kept_stand_alone_and_still_go_with_their_session(
    database: Database,
) -> None:
    await take(database, "s1", said("Lisbon", 1), said("tea", 1, "likes", seq=2))
    kept = await forget(database, "s1", keep_facts=True)
    assert (kept.episodes, kept.facts, kept.moved) == (1, 0, 2)
    assert {job.kind for job in kept.jobs} == {"sync_fact"}
    assert [(f.session_id, f.number) for f in await stored(database)] == [("s1", None)] * 2
    await take(database, "s2", said("Porto", 5))
    assert timeline(await stored(database))[1:] == [("Lisbon", 1, 5), ("Porto", 5, None)]
    await forget(database, "s1")
    assert [fact.value for fact in await stored(database)] == ["Porto"]


VALUES = st.sampled_from(["Lisbon", "Porto", "lisbon.", "Braga"])
# Near to each other, and farther apart than what a change may overtake.
DAYS = st.sampled_from([0, 1, 3, 40, 62, 63, 125, 190, 260, 330])
TOLD = st.lists(
    st.builds(
        lambda value, on, since, seq, many, kind: (
            on,
            said(
                value, on, seq=seq, is_many=many, kind=kind,
                predicate="works_at", valid_from=day(min(on, since)),
            ),
        ),
        VALUES,
        DAYS,
        DAYS,
        st.integers(1, 3),
        st.booleans(),
        st.sampled_from(["fact", "fact", "recommendation"]),
    ),
    max_size=9,
    unique_by=lambda told: (told[0], told[1].seq),
)  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[Database]:
    """A database for many examples, each of which has users of its own."""
    opened = asyncio.run(open_database("sqlite:///:memory:"))
    yield opened
    asyncio.run(opened.close())


@settings(max_examples=40, deadline=None)
@given(told=TOLD, random=st.randoms(use_true_random=False))
def test_the_order_in_which_sessions_are_read_does_not_matter(
    shared: Database, told: list[tuple[int, FoundFact]], random: Random
) -> None:
    async def ends_as(order: list[tuple[int, FoundFact]]) -> list[tuple[object, ...]]:
        user = uuid.uuid4().hex
        for on, one in order:
            await take(shared, f"{user}{on}", one, user=user)
        return sorted(
            (f.value_key, f.kind, f.valid_from, str(f.valid_to), f.sightings, f.seq, f.last_seen_at)
            for f in await stored(shared, user=user)
        )

    shuffled = random.sample(told, len(told))
    assert asyncio.run(ends_as(shuffled)) == asyncio.run(ends_as(told))


async def test_ten_thousand_facts_of_one_user(tmp_path: Path) -> None:
    opened = await open_database(f"sqlite:///{tmp_path / 'facts.db'}")
    many = [said(f"thing {n}", n / 100, "likes", seq=n) for n in range(9_000)]
    moods = [said(f"mood {n}", n / 100, "mood", seq=n) for n in range(1_000)]
    for start in range(0, 9_000, 1_000):
        await take(opened, f"s{start}", *many[start : start + 1_000])
    await take(opened, "moods", *moods)
    assert await take(
        opened, "s", said("thing 17", 99, "enjoys"), said("calm", 99, "mood")
    ) == Taken(1, 1, 1)
    found = await stored(opened)
    assert len(found) == 10_001
    assert current([f for f in found if f.predicate == "mood"], NOW) == ["calm"]
    assert NOW - day(99) > timedelta(days=1)
    await opened.close()


async def test_a_correction_in_time_moves_what_was_said_first_and_no_more(
    database: Database,
) -> None:
    for n, on in enumerate([3, 6, 9]):
        await take(database, f"s{n}", said("Porto", on))
    (fact,) = await stored(database)
    begins = sa.select(fact_sightings.c.valid_from).order_by(fact_sightings.c.said_at)
    for moved, expected in ((1, [1, 6, 9]), (7, [7, 7, 9])):
        await database.write(
            lambda c, moved=moved: edit(  # type: ignore[misc]
                c, "default", "ada", fact.fact_id, Edit(valid_from=day(moved)), NOW
            )
        )
        found = await database.read(lambda c: c.execute(begins).scalars().all())
        assert found == [day(on) for on in expected]
        (now,) = await stored(database)
        assert (now.fact_id, now.valid_from, now.sightings) == (fact.fact_id, day(moved), 3)
