"""Turns per second and latency of `/chat` with a 0 ms model. Touches: processes, the disk.

The service runs as it is served, on SQLite on disk, with the real ChatGroq over HTTP, 100
documents, and checkpoints after every fifth turn. Conversations are 10 turns long. Beside it, a
bare route that makes the same model call: what is above it is the service's own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.beside import GROQ_KEY, MODEL, peer
from tests.benchmarks.client import Ask, Client, closed_loop
from tests.served import service

COMMAND = "python -m tests.benchmarks.chat"
TURNS_OF_A_CONVERSATION = 10
DOCUMENTS = 100
SETTLED_SECONDS = 60.0

# Nothing of the environment's may come in.
PLAIN = {"API_KEY": "", "PINECONE_API_KEY": "", "DATABASE_URL": "", "CHAT_MODEL": ""}


@dataclass(frozen=True, slots=True)
class Load:
    """`each`: turns of each client in a repetition."""

    name: str
    clients: int
    users: int
    each: int


@dataclass(slots=True)
class Contestant:
    """A server and what was measured of it, by the name of the load."""

    name: str
    url: str
    process_id: int
    is_service: bool
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    receipts: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)

    def spread(self, load: Load) -> report.Spread:
        return report.spread(self.seconds[load.name])

    def rate(self, load: Load) -> float:
        return median(self.rates[load.name])

    def processor_ms(self, load: Load) -> float | None:
        """Return the CPU time of a turn, with its share of a checkpoint."""
        used = self.processor.get(load.name)
        return median(used) if used else None

    def part(self, load: Load, name: str) -> float | None:
        """Return the median milliseconds of a part of the turn, as the receipts say."""
        told = [times[name] for times in self.receipts.get(load.name, [])]
        return median(told) if told else None


def run(*, quick: bool) -> tuple[list[list[str]], dict[str, float | None]]:
    """Return the table's rows and the figures."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        model_url = running.enter_context(peer("model")).url
        beside = running.enter_context(peer("bare", model_url))
        bare = Contestant("bare route", beside.url, beside.process_id, False)
        groq = {**PLAIN, "GROQ_API_KEY": GROQ_KEY, "GROQ_API_BASE": model_url}
        offline = {**PLAIN, "GROQ_API_KEY": ""}
        services = [
            _service(running, Path(folder), name, settings)
            for name, settings in {
                "service, mock embedder": {**groq, "EMBEDDING_MODEL": "mock:384"},
                "service, bundled embedder": {**groq, "EMBEDDING_MODEL": "local"},
                "service, bundled embedder, offline answerer": {
                    **offline,
                    "EMBEDDING_MODEL": "local",
                },
            }.items()
        ]
        return asyncio.run(_measure(model_url, bare, services, quick=quick))


def _service(
    running: ExitStack, folder: Path, name: str, settings: Mapping[str, str]
) -> Contestant:
    home = folder / name.replace(", ", "-").replace(" ", "-")
    home.mkdir()
    served = running.enter_context(service(home, **settings))
    return Contestant(name, served.url, served.process.pid, True)


async def _measure(
    model_url: str, bare: Contestant, services: Sequence[Contestant], *, quick: bool
) -> tuple[list[list[str]], dict[str, float | None]]:
    alone = Load("1 client", 1, 1, 20 if quick else 40)
    crowd = Load("32 clients, 1 user", 32, 1, 2 if quick else 5)
    strangers = Load("32 clients, 32 users", 32, 32, crowd.each)
    loads = (alone, crowd, strangers)
    contestants = (bare, *services)
    numbers = itertools.count()
    for one in services:
        await _add_documents(one.url)
    for one in contestants:  # to load the models, open the connections and fill the caches
        for load in (alone, strangers):
            await closed_loop(one.url, _turn(next(numbers), load), clients=load.clients, each=2)
            await _settle(one)
    raw: list[list[float]] = []
    for _ in range(1 if quick else 3):
        raw.append((await closed_loop(model_url, _call, clients=1, each=alone.each))[0])
        for load in loads:
            for one in contestants:
                await _repeat(one, load, next(numbers))
    raw_ms = report.spread(raw).p50
    raw_p95 = report.ms(report.spread(raw).p95)
    rows = [["the model alone, raw HTTP", alone.name, "", report.ms(raw_ms), raw_p95, *[""] * 5]]
    rows += [_row(one, load, bare) for load in loads for one in contestants]
    return rows, _figures(bare, services, loads, raw_ms)


def _turn(number: int, load: Load) -> Ask:
    """Each client has conversations of its own; every message is new, every other one a question.

    number: tells this repetition's sessions and texts from all others.
    """

    async def ask(client: Client, who: int, turn: int) -> Any:
        item = f"{number}-{who}-{turn}"
        question = f"What did we decide about item {item} of the offer for the plant in Ghent?"
        statement = f"We want to move item {item} to the second quarter, for 5,400 euros."
        body = {
            "message": statement if turn % 2 else question,
            "session_id": f"{number}-{who}-{turn // TURNS_OF_A_CONVERSATION}",
            "user_id": f"user-{who % load.users}",
        }
        return await client.post("/chat", body)

    return ask


async def _call(client: Client, who: int, turn: int) -> Any:
    message = {"role": "user", "content": f"What did we decide about item {turn}?"}
    body = {"model": MODEL, "messages": [message], "stream": True}
    return await client.post("/openai/v1/chat/completions", body)


async def _repeat(one: Contestant, load: Load, number: int) -> None:
    before = report.processor_seconds(one.process_id)
    ask = _turn(number, load)
    seconds, answers, total = await closed_loop(one.url, ask, clients=load.clients, each=load.each)
    one.seconds.setdefault(load.name, []).append(seconds)
    one.rates.setdefault(load.name, []).append(len(seconds) / total)
    if one.is_service:
        told = [answer["receipt"]["milliseconds"] for answer in answers]
        one.receipts.setdefault(load.name, []).extend(told)
    await _settle(one)
    after = report.processor_seconds(one.process_id)
    if before is not None and after is not None:
        used_ms = (after - before) / len(seconds) * 1_000
        one.processor.setdefault(load.name, []).append(used_ms)


async def _settle(one: Contestant) -> None:
    """Wait until the checkpoints are done, which would slow down the next contestant."""
    if not one.is_service:
        return
    async with asyncio.timeout(SETTLED_SECONDS), Client(one.url) as client:
        while (state := await client.get("/health/ready"))["jobs"]:
            if state["status"] != "ok":
                raise RuntimeError(f"{one.name}: {state}")
            await asyncio.sleep(0.1)


async def _add_documents(url: str) -> None:
    documents = [
        {
            "id": f"policy-{n}",
            "text": f"Policy {n}: item {n} is delivered within {n % 9 + 2} weeks. Changes to the "
            f"offer are free until {n % 28 + 1} June; later ones cost {n * 10} euros each.",
            "doc_type": "policy",
        }
        for n in range(DOCUMENTS)
    ]
    async with Client(url) as client:
        await client.post("/documents", {"documents": documents})


def _row(one: Contestant, load: Load, bare: Contestant) -> list[str]:
    measured, beside = one.spread(load), bare.spread(load)
    return [
        one.name,
        load.name,
        f"{one.rate(load):.0f}",
        report.ms(measured.p50),
        report.ms(measured.p95),
        report.ms(one.part(load, "retrieval")),
        report.ms(one.part(load, "model")),
        report.ms(one.processor_ms(load)),
        report.ms(measured.p50 - beside.p50) if one.is_service else "",
        report.times(measured.p50 / beside.p50),
    ]


def _figures(
    bare: Contestant, services: Sequence[Contestant], loads: Sequence[Load], raw_ms: float
) -> dict[str, float | None]:
    """Return the figures; without a name in their key they are of the mock embedder."""
    figures: dict[str, float | None] = {"chat_model_raw_p50_ms": raw_ms}
    names = ("bare_", "", "local_", "offline_")
    for name, one in zip(names, (bare, *services), strict=True):
        for load, label in zip(loads, ("1", "32", "32_users"), strict=True):
            measured, beside = one.spread(load), bare.spread(load)
            figures |= {
                f"chat_{name}p50_ms_{label}": measured.p50,
                f"chat_{name}p95_ms_{label}": measured.p95,
                f"chat_{name}turns_per_s_{label}": one.rate(load),
                f"chat_{name}cpu_ms_{label}": one.processor_ms(load),
            }
            if one.is_service:
                figures |= {
                    f"chat_{name}p50_overhead_ms_{label}": measured.p50 - beside.p50,
                    f"chat_{name}p95_overhead_ms_{label}": measured.p95 - beside.p95,
                    f"chat_{name}to_bare_ratio_{label}": measured.p50 / beside.p50,
                }
    return figures


HEADER = (
    "`POST /chat`",
    "load",
    "turns/s",
    "p50 ms",
    "p95 ms",
    "retrieval ms",
    "model ms",
    "CPU ms",
    "above bare ms",
    "to bare",
)


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Run, print the table and return the figures."""
    rows, figures = run(quick=quick)
    report.show("Chat with a 0 ms model", COMMAND, machine, HEADER, rows)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repetition")
    arguments = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "chat", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
