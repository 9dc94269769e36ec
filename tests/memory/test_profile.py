"""The profile: what is true of a user now, bounded, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.db import Database, open_database
from app.llm.tokens import estimate_tokens
from app.memory.profile import Profile
from tests.memory.telling import NOW, day, said, take
from tests.seams.stores import database

__all__ = ["database"]


def profile(database: Database, *, facts: int = 30, tokens: int = 400) -> Profile:
    return Profile(database, max_facts=facts, max_tokens=tokens)


async def values(held: Profile, *, user: str = "ada", tenant: str = "default") -> list[str]:
    return [fact.value for fact in await held.of(tenant, user, NOW)]


async def test_a_profile_holds_what_is_true_now_of_the_user(database: Database) -> None:
    await take(
        database,
        "s1",
        said("Lisbon", 1),
        said("window seats", 1, "prefers", kind="preference"),
        said("book a flight", 1, "todo", kind="action"),
        said("pay the rent", 1, "todo", kind="action", ends_at=day(9)),
        said("a holiday", 1, "try", kind="recommendation", said_by="assistant"),
        said("Rome", 1, subject="Ben"),
        said("chess", 1, "learns", valid_from=NOW.replace(year=2030)),
    )
    await take(database, "s2", said("Porto", 5))
    held = profile(database)
    assert await values(held) == ["Porto", "window seats", "book a flight"]
    then = [fact.value for fact in await held.of("default", "ada", day(2))]
    assert then[:2] == ["Lisbon", "window seats"]
    assert sorted(then[2:]) == ["book a flight", "pay the rent"]
    assert await values(held, user="bob") == await values(held, tenant="globex") == []


async def test_marked_ones_come_first_then_what_was_said_often_and_lately(
    database: Database,
) -> None:
    await take(
        database,
        "s1",
        said("tea", 1, "likes"),
        said("jazz", 2, "likes"),
        said("chess", 3, "likes"),
        said("aisle seats", 1, "prefers", kind="preference", mark="pinned"),
        said("peanuts", 1, "allergic_to", mark="critical"),
    )
    await take(database, "s2", said("jazz", 4, "enjoys"))
    assert await values(profile(database)) == ["peanuts", "aisle seats", "jazz", "chess", "tea"]


async def test_no_kind_crowds_out_the_others(database: Database) -> None:
    kinds = {"fact": "owns", "preference": "prefers", "action": "todo"}
    await take(
        database,
        "s1",
        *(
            said(f"{kind} {n}", n, predicate, kind=kind)
            for kind, predicate in kinds.items()
            for n in range(9)
        ),
    )
    shown = await values(profile(database, facts=8))
    assert [value.split()[0] for value in shown] == ["fact"] * 4 + ["preference"] * 2 + [
        "action"
    ] * 2
    await take(database, "t1", *(said(f"x {n}", n, "owns") for n in range(9)), user="bob")
    assert len(await values(profile(database, facts=8), user="bob")) == 8


@pytest.mark.parametrize("tokens", [0, 5, 20, 60])
async def test_a_profile_keeps_to_its_tokens(database: Database, tokens: int) -> None:
    long = "a very long thing that goes on and on " * 20
    await take(
        database,
        "s1",
        said("long", 9, "owns", statement=long),
        *(said(f"thing {n}", n, "owns") for n in range(9)),
    )
    found = await profile(database, tokens=tokens).of("default", "ada", NOW)
    assert sum(estimate_tokens(fact.statement) for fact in found) <= tokens
    assert bool(found) is (tokens >= 20)
    assert "long" not in [fact.value for fact in found]
    assert await profile(database, facts=0).of("default", "ada", NOW) == []


async def test_of_thousands_of_facts_a_profile_reads_a_few(tmp_path: Path) -> None:
    opened = await open_database(f"sqlite:///{tmp_path / 'facts.db'}")
    for start in range(0, 3_000, 1_500):
        told = (said(f"thing {n}", n / 100, "owns", seq=n) for n in range(start, start + 1_500))
        await take(opened, f"s{start}", *told)
    found = await profile(opened, tokens=1_000).of("default", "ada", NOW)
    assert [fact.value for fact in found][:2] == ["thing 2999", "thing 2998"]
    assert len(found) == 30
    await opened.close()
