"""The service under load: 1, 2 and 4 processes on Postgres and Pinecone's wire, a 0 ms model.

Touches: processes, the disk. 1, 32 and 256 clients ask in closed loops, each as a user of its own,
in conversations of 10 turns whose replies are streamed. Beside it, the bare route of one process
that makes the same model call. Then, on SQLite, what grows with what (`tests.benchmarks.alone`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import alone, report
from tests.benchmarks.beside import GROQ_KEY, peer
from tests.benchmarks.chat import PLAIN, TURNS_OF_A_CONVERSATION
from tests.benchmarks.client import Client, Refused, closed_loop
from tests.postgres import fresh_database, postgres_server
from tests.served import start_process
from tests.wire.pinecone import API_KEY

COMMAND = "python -m tests.benchmarks.load"
WORKERS = (1, 2, 4)
DIMENSION = 384
DOCUMENTS = 20
START_SECONDS = 300.0
SETTLED_SECONDS = 300.0
# As a server that keeps what it acknowledged, unlike those of tests.
DURABLE = {"fsync": "on", "full_page_writes": "on", "max_connections": "200"}


@dataclass(frozen=True, slots=True)
class Crowd:
    """`each`: turns of each client."""

    clients: int
    each: int


CROWDS = (Crowd(1, 100), Crowd(32, 20), Crowd(256, 4))
QUICK_CROWDS = (Crowd(1, 15), Crowd(32, 2), Crowd(256, 1))


@dataclass(slots=True)
class Measured:
    """Seconds of a crowd's turns, of all together, and of the processor; refusals by code."""

    name: str
    crowd: Crowd
    turns: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    total: float = 0.0
    processor: float | None = None

    def percentile_ms(self, percent: int) -> float:
        return float(np.percentile(self.turns, percent)) * 1_000

    def first_token_ms(self, percent: int) -> float | None:
        if not self.first_tokens:
            return None
        return float(np.percentile(self.first_tokens, percent)) * 1_000

    def rate(self) -> float:
        return len(self.turns) / self.total

    def processor_ms(self) -> float | None:
        """Return the CPU time of a turn in all processes, with its share of a checkpoint."""
        return None if self.processor is None else self.processor / len(self.turns) * 1_000


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Run, print the tables and return the figures."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        model_url = running.enter_context(peer("model")).url
        bare = running.enter_context(peer("bare", model_url))
        crowds = QUICK_CROWDS if quick else CROWDS
        # The first crowd opens connections, and counts for nothing.
        _, *beside = [
            asyncio.run(_crowd("bare route", bare.url, bare.process_id, crowd, is_bare=True))
            for crowd in (Crowd(8, 3), *crowds)
        ]
        found: list[Measured] = []
        server = running.enter_context(postgres_server(**DURABLE))
        for workers in WORKERS:
            served = _served(folder, server, model_url, workers, crowds)
            rows = [_row(one, beside) for one in (*beside, *served)]
            report.show(f"Load, {served[0].name}", COMMAND, machine, HEADER, rows)
            found += served
        figures = _figures(beside, found)
        return figures | alone.measure(COMMAND, machine, model_url, bare.url, folder, quick=quick)


def _served(
    folder: Path, server: str, model_url: str, workers: int, crowds: Sequence[Crowd]
) -> list[Measured]:
    """Measure the service with so many processes, on a database and an index of its own."""
    home = folder / f"workers-{workers}"
    home.mkdir()
    with ExitStack() as running:
        environment = {
            **PLAIN,
            "GROQ_API_KEY": GROQ_KEY,
            "GROQ_API_BASE": model_url,
            "EMBEDDING_MODEL": f"mock:{DIMENSION}",
            "DATABASE_URL": running.enter_context(fresh_database(server)),
            "PINECONE_API_KEY": API_KEY,
            "PINECONE_HOST": running.enter_context(peer("pinecone", str(DIMENSION))).url,
            "WORKERS": str(workers),
        }
        process = start_process(home, environment, patience_seconds=START_SECONDS)
        running.callback(process.kill)
        return asyncio.run(_crowds(process.url, process.process.pid, workers, crowds))


async def _crowds(
    url: str, process_id: int, workers: int, crowds: Sequence[Crowd]
) -> list[Measured]:
    await alone.add_documents(url, DOCUMENTS)
    name = f"{workers} {'process' if workers == 1 else 'processes'}"
    await _crowd(name, url, process_id, Crowd(8 * workers, 3))  # opens connections, fills caches
    return [await _crowd(name, url, process_id, crowd) for crowd in crowds]


_numbers = itertools.count()


async def _crowd(
    name: str, url: str, process_id: int, crowd: Crowd, *, is_bare: bool = False
) -> Measured:
    """Let a crowd ask, wait until its checkpoints are done, and return what it took."""
    measured = Measured(name, crowd)
    number = next(_numbers)

    async def ask(client: Client, who: int, turn: int) -> Any:
        body = {
            "message": alone.message(f"{number}-{who}-{turn}", turn),
            "session_id": f"{number}-{who}-{turn // TURNS_OF_A_CONVERSATION}",
            "user_id": f"user-{who}",
            "stream": True,
        }
        try:
            if is_bare:
                await client.post("/chat", body)
            else:
                measured.first_tokens.append(await client.first_event("/chat", body))
        except Refused as refused:
            measured.refused[refused.code] += 1

    before = _used(process_id)
    seconds, _, measured.total = await closed_loop(url, ask, clients=crowd.clients, each=crowd.each)
    measured.turns = seconds
    if not is_bare:
        await alone.settle(url, SETTLED_SECONDS)
    after = _used(process_id)
    measured.processor = None if before is None or after is None else after - before
    return measured


def _used(process_id: int) -> float | None:
    """Return the CPU time of a process and its children together, where the system tells it."""
    each = [report.processor_seconds(one) for one in report.family(process_id)]
    return None if None in each else sum(one for one in each if one is not None)


HEADER = (
    "`POST /chat`",
    "clients",
    "turns/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "first token p50 ms",
    "p95 ms",
    "CPU ms a turn",
    "refused",
    "p50 to bare",
    "turns/s to bare",
)


def _row(one: Measured, beside: Sequence[Measured]) -> list[str]:
    bare = next(other for other in beside if other.crowd.clients == one.crowd.clients)
    return [
        one.name,
        str(one.crowd.clients),
        f"{one.rate():.0f}",
        *(report.ms(one.percentile_ms(percent)) for percent in (50, 95, 99)),
        *(report.ms(one.first_token_ms(percent)) for percent in (50, 95)),
        report.ms(one.processor_ms()),
        ", ".join(f"{count}× {code}" for code, count in one.refused.items()) or "0",
        report.times(one.percentile_ms(50) / bare.percentile_ms(50)),
        report.times(one.rate() / bare.rate()),
    ]


def _figures(beside: Sequence[Measured], found: Sequence[Measured]) -> dict[str, object]:
    figures: dict[str, object] = {}
    for one in (*beside, *found):
        key = f"load_{one.name.replace(' ', '_')}_{one.crowd.clients}"
        figures |= {
            f"{key}_turns_per_s": one.rate(),
            **{f"{key}_p{percent}_ms": one.percentile_ms(percent) for percent in (50, 95, 99)},
            f"{key}_first_token_p50_ms": one.first_token_ms(50),
            f"{key}_cpu_ms": one.processor_ms(),
            f"{key}_refused": one.refused.total(),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few turns, and 10,000 memories")
    arguments = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "load", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
