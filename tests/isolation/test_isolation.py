"""Random users of random tenants do all that can be done; nobody is told what is not theirs.

ISOLATION_STEPS is how many steps are taken, ISOLATION_SEED where they begin. A failure says which
seed it had; with ISOLATION_SHRINK=1 hypothesis looks for the shortest way to it, for minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import tests.served
from app.main import create_app
from tests.isolation import operators as o
from tests.isolation import personal as p
from tests.isolation.looking import reads, reads_one
from tests.isolation.world import JWT_SECRET, Clock, World
from tests.postgres import empty_tables
from tests.served import served_at
from tests.wire.pinecone import API_KEY, serving_pinecone

T = TypeVar("T")

STEPS = int(os.environ.get("ISOLATION_STEPS", "300"))
SEED = int(os.environ.get("ISOLATION_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
SHRINKS = bool(os.environ.get("ISOLATION_SHRINK"))
STEPS_OF_ONE = 100
ON_SERVERS = STEPS // 5  # what is out of this process takes longer
NUMBERS = st.integers(0, 2**24 - 1)  # wider ones, hypothesis draws small
ENOUGH = 10_000  # steps to come by every route
MOST_MISSED = 3  # by chance

SAYS = (p.chats, p.completes)
WRITES = (p.stores_a_fact, p.changes_a_fact, p.writes_a_block, p.puts_an_item, p.imports,
          p.describes, *[p.closes] * 2, *[p.marks] * 3, *[p.forgets] * 3, p.evicts)  # fmt: skip
READS = (reads, *[reads_one] * 2)
DOCUMENTS = (o.puts_documents, o.uploads, o.reads_documents, o.deletes_documents, o.sends_a_webhook)
OPERATES = (*[o.operates] * 2, *[o.operates_on_one] * 3, o.makes_a_key)
WHOLE = (*[o.consents] * 2, *[o.exports] * 2, o.restores, o.erases, *[o.works] * 2)
DEEDS = (SAYS, SAYS, WRITES, WRITES, READS, READS, DOCUMENTS, OPERATES, WHOLE)

CHOSEN: dict[str, Any] = {
    "memory_top_k": 50,
    "document_top_k": 50,
    "jwt_secret": JWT_SECRET,
    "jwt_tenant_claim": "org",
    "jwt_filter_claim": "docs",
    "jwt_leeway_seconds": 600.0,
    "webhook_coalesce_seconds": 0.0,
    "webhook_token": o.TOKENS["default"],
    "webhook_sources": json.dumps(
        [{"provider": "generic", "tenant": "acme", "token": o.TOKENS["acme"]}]
    ),
}


class ByNumber:
    """Choices that follow from one number, which hypothesis draws: it is no good at many small
    ones, for it likes them alike."""

    def __init__(self, number: str) -> None:
        self._chance = random.Random(number)

    def one(self, among: Iterable[T]) -> T:
        return self._chance.choice(list(among))


class Isolation(RuleBasedStateMachine):
    """One service, from empty, and what is done to it; a loop of its own runs between the steps."""

    chosen: ClassVar[dict[str, Any]] = CHOSEN
    successes: ClassVar[Counter[tuple[str, str]]] = Counter()
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.told = ""  # the numbers so far: one that comes again means something else
        self.runner = asyncio.Runner()
        clock = Clock()
        self.service = served_at(clock, **self.chosen, **self.empty())
        client, runtime = self.runner.run(self.service.__aenter__())
        self.world = World(client, runtime, clock, type(self).successes)
        self.runner.run(self.world.open())

    def empty(self) -> dict[str, Any]:
        """Return the settings of a store that holds nothing."""
        return {}

    def teardown(self) -> None:
        type(self).steps += self.world.steps
        self.runner.run(self.service.__aexit__(None, None, None))
        self.runner.close()

    @rule(number=NUMBERS)
    def step(self, number: int) -> None:
        """Do one deed: one rule for all, since hypothesis leaves out whole rules at a time."""
        self.told = f"{self.told[-80:]}{number} {self.world.steps} "
        pick = ByNumber(self.told)
        deed = pick.one(pick.one(DEEDS))
        self.runner.run(deed(self.world, pick))


class OnServers(Isolation):
    """The same with its rows in Postgres and its vectors in Pinecone."""

    postgres: ClassVar[str]
    successes: ClassVar[Counter[tuple[str, str]]] = Counter()

    def empty(self) -> dict[str, Any]:
        empty_tables(self.postgres)
        self.servers = ExitStack()
        pinecone = self.servers.enter_context(serving_pinecone(dimension=32))
        return {
            "database_url": self.postgres,
            "pinecone_api_key": API_KEY,
            "pinecone_host": pinecone.url,
            "pinecone_timeout_seconds": 10.0,
        }

    def teardown(self) -> None:
        super().teardown()
        self.servers.close()


def test_nobody_is_told_what_is_not_theirs() -> None:
    run(Isolation, STEPS)
    paths = create_app(tests.served.settings()).openapi()["paths"]
    missed = {(m.upper(), path) for path in paths for m in paths[path]} - set(Isolation.successes)
    print(f"{Isolation.steps} requests; no success at {missed}")
    assert STEPS < ENOUGH or len(missed) <= MOST_MISSED


def test_nobody_is_told_what_is_not_theirs_on_postgres_and_pinecone(postgres_state: str) -> None:
    OnServers.postgres = postgres_state
    run(OnServers, ON_SERVERS)
    print(f"{OnServers.steps} requests")
    assert OnServers.steps > 0


def run(machine: type[Isolation], steps: int) -> None:
    unhealthy = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    print(f"ISOLATION_SEED={SEED}")
    run_state_machine_as_test(
        seed(SEED)(machine),
        settings=settings(
            max_examples=-(-steps // STEPS_OF_ONE),
            stateful_step_count=min(steps, STEPS_OF_ONE),
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink) if SHRINKS else (Phase.generate,),
            suppress_health_check=unhealthy,
        ),
    )
