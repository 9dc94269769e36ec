"""A long conversation costs no more per turn than a short one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from app.llm.tokens import estimate_tokens
from app.sessions.base import NewTurn
from app.wiring import Runtime
from tests.api.calls import chat, close, groq
from tests.served import served
from tests.wire.memory import summed_up
from tests.wire.openai import ModelServer, model_server

STRATEGIES = ("buffer", "window", "token", "summary", "summary_buffer")
EVERY_STEPS = 10


@dataclass
class Work:
    """What databases did: statements on rows, and tens of steps of SQLite's machine.

    A row that is passed by takes steps too, so a walk through a whole session can't hide.
    """

    statements: int = 0
    steps: int = 0

    def since(self, before: Work) -> Work:
        return Work(self.statements - before.statements, self.steps - before.steps)


@contextmanager
def counted() -> Iterator[Work]:
    """Count the work of all databases that are opened meanwhile."""
    work = Work()

    def step() -> int:
        work.steps += 1
        return 0  # go on

    def connect(connection: Any, _: Any) -> None:
        connection.set_progress_handler(step, EVERY_STEPS)

    def execute(_: Any, __: Any, statement: str, *___: Any) -> None:
        work.statements += statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))

    event.listen(Pool, "connect", connect)
    event.listen(Engine, "after_cursor_execute", execute)
    try:
        yield work
    finally:
        event.remove(Pool, "connect", connect)
        event.remove(Engine, "after_cursor_execute", execute)


async def fill(runtime: Runtime, first: int, last: int) -> None:
    """Store turns as if they had been answered."""
    for n in range(first, last + 1):
        new = NewTurn("default", "s", "default", text(n), None, "on", "run")
        turn = await runtime.sessions.begin_turn(new, now=runtime.clock())
        await runtime.sessions.end_turn(
            turn, status="complete", content=f"It is item {n:04}.", receipt={"why": "x" * 500},
            error=None, now=runtime.clock(),
        )  # fmt: skip


def text(n: int) -> str:
    return f"We looked at item {n:04} of the long list today."


async def cost(
    client: httpx.AsyncClient, model: ModelServer, work: Work, n: int, strategy: str
) -> tuple[Work, int]:
    """Return what a turn costs: the work of databases, and the tokens of its prompt.

    Without recall, whose search is of all that a user has said anywhere.
    """
    before = Work(work.statements, work.steps)
    await chat(client, text(n), session_id="s", history={"strategy": strategy}, memory="off")
    sent = model.requests[-1]["messages"]
    return work.since(before), sum(estimate_tokens(m["content"]) for m in sent)


async def test_turn_three_hundred_costs_what_turn_thirty_cost() -> None:
    def script(body: dict[str, Any]) -> str:
        is_summary = "<transcript" in str(body["messages"][-1]["content"])
        return summed_up("They looked at the list.") if is_summary else "All right."

    with counted() as work, model_server(script=script) as model:
        settings = groq(model, summary_every_messages=100_000, question_rewriting=False)
        async with served(**settings) as (client, runtime):
            costs: list[dict[str, tuple[Work, int]]] = []
            for first, last in ((1, 35), (41, 300)):
                await fill(runtime, first, last)
                await close(client, "s")
                now = enumerate(STRATEGIES, last + 1)
                costs.append({s: await cost(client, model, work, n, s) for n, s in now})
    for strategy in STRATEGIES:
        (early, early_tokens), (late, late_tokens) = (some[strategy] for some in costs)
        assert abs(late.statements - early.statements) <= 2  # what runs beside it
        assert late.steps <= early.steps * 1.1 + 20  # a deeper tree, no more rows
        assert late_tokens == early_tokens
