"""One client's turns on SQLite: their parts, and how they grow. Touches: processes, the disk.

What is compared is asked in turns, so that what else the machine does hits both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.benchmarks import report
from tests.benchmarks.beside import GROQ_KEY
from tests.benchmarks.chat import PLAIN, TURNS_OF_A_CONVERSATION
from tests.benchmarks.client import Client
from tests.benchmarks.fill import OWNER, fill, unit_vectors
from tests.served import Process, service, settings

DIMENSION = 384
FEW = 1_000
OWNED = 100
DOCUMENTS = 100
LONG = 200
SETTLED_SECONDS = 60.0


@dataclass(slots=True)
class Asked:
    """Who is asked, as which user, in sessions of `turns`; the seconds and the receipts' parts."""

    name: str
    url: str
    user: str = "ann"
    turns: int = TURNS_OF_A_CONVERSATION
    is_service: bool = True
    seconds: list[float] = field(default_factory=list)
    parts: list[Mapping[str, float]] = field(default_factory=list)
    asked: int = 0

    def p50_ms(self) -> float:
        return median(self.seconds) * 1_000

    def part_ms(self, name: str) -> float | None:
        return median(part[name] for part in self.parts) if self.parts else None

    async def ask(self, client: Client, *, is_counted: bool) -> None:
        """Ask once, and wait until a checkpoint that fell due is done: it is not the turn's."""
        turn = self.asked
        self.asked += 1
        body = {
            "message": message(f"{self.name}-{turn}", turn),
            "session_id": f"{self.name}-{turn // self.turns}",
            "user_id": self.user,
        }
        began = time.perf_counter()
        answer = await client.post("/chat", body)
        took = time.perf_counter() - began
        if is_counted:
            self.seconds.append(took)
        if self.is_service:
            if is_counted:
                self.parts.append(answer["receipt"]["milliseconds"])
            await settle(self.url)


def message(item: str, turn: int) -> str:
    """Return the text of a turn: every other one is a question."""
    question = f"What did we decide about item {item} of the offer for the plant in Ghent?"
    statement = f"We want to move item {item} to the second quarter, for 5,400 euros."
    return statement if turn % 2 else question


async def add_documents(url: str, count: int) -> None:
    documents = [
        {
            "id": f"policy-{n}",
            "text": f"Policy {n}: item {n} is delivered within {n % 9 + 2} weeks. Changes to the "
            f"offer are free until {n % 28 + 1} June; later ones cost {n * 10} euros each.",
            "doc_type": "policy",
        }
        for n in range(count)
    ]
    async with Client(url) as client:
        await client.post("/documents", {"documents": documents})


async def settle(url: str, seconds: float = SETTLED_SECONDS) -> None:
    """Wait until the checkpoints are done, which would slow down whoever is asked next."""
    async with asyncio.timeout(seconds), Client(url) as client:
        while (state := await client.get("/health/ready"))["jobs"]:
            if state["status"] != "ok":
                raise RuntimeError(f"the service is not well: {state}")
            await asyncio.sleep(0.1)


async def in_turns(contestants: Sequence[Asked], each: int, *, warm_ups: int = 10) -> None:
    """Let each contestant be asked once, and again, until all were asked so often."""
    async with AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(Client(one.url)) for one in contestants]
        for number in range(warm_ups + each):
            for one, client in zip(contestants, clients, strict=True):
                await one.ask(client, is_counted=number >= warm_ups)


def measure(
    command: str,
    machine: report.Machine,
    model_url: str,
    bare_url: str,
    folder: Path,
    *,
    quick: bool,
) -> dict[str, object]:
    """Run, print the tables and return the figures."""
    each, many = (20, 10_000) if quick else (200, 100_000)
    groq = {**PLAIN, "GROQ_API_KEY": GROQ_KEY, "GROQ_API_BASE": model_url}
    mock = {**groq, "EMBEDDING_MODEL": f"mock:{DIMENSION}"}
    with ExitStack() as running:
        plain = _served(running, folder / "mock", mock)
        bundled = _served(running, folder / "bundled", {**groq, "EMBEDDING_MODEL": "local"})
        figures = _parts(command, machine, bare_url, plain, bundled, each)
        figures |= _length(command, machine, plain, each)
    return figures | _stored(command, machine, mock, folder, each, many)


def _served(running: ExitStack, home: Path, environment: Mapping[str, str]) -> Process:
    home.mkdir(exist_ok=True)
    return running.enter_context(service(home, **environment))


def _parts(
    command: str,
    machine: report.Machine,
    bare_url: str,
    plain: Process,
    bundled: Process,
    each: int,
) -> dict[str, object]:
    bare = Asked("bare route", bare_url, is_service=False)
    mock, local = Asked("mock embedder", plain.url), Asked("bundled embedder", bundled.url)

    async def run() -> None:
        for process in (plain, bundled):
            await add_documents(process.url, DOCUMENTS)
        await in_turns([bare, mock, local], each)

    asyncio.run(run())
    own = mock.p50_ms() - bare.p50_ms()
    embedding = local.p50_ms() - mock.p50_ms()
    names = ("waiting", "understanding", "retrieval", "model")
    rows = [
        [
            one.name,
            report.ms(one.p50_ms()),
            *(report.ms(one.part_ms(name)) for name in names),
            report.ms(one.p50_ms() - bare.p50_ms()) if one.is_service else "",
            report.times(one.p50_ms() / bare.p50_ms()),
        ]
        for one in (bare, mock, local)
    ]
    header = ("one client, SQLite", "p50 ms", *names, "above bare ms", "to bare")
    report.show("A turn's parts", command, machine, header, rows)
    print(f"the service's own p50: {own:.1f} ms (bar: 10 ms); the embedding: {embedding:.1f} ms")
    return {
        "load_bare_p50_ms": bare.p50_ms(),
        "load_sqlite_p50_ms": mock.p50_ms(),
        "load_sqlite_own_p50_ms": own,
        "load_embedding_ms": embedding,
    }


def _length(command: str, machine: report.Machine, plain: Process, each: int) -> dict[str, object]:
    """Ask in one conversation that is long already and in ones of 10 turns, in turns."""
    short = Asked("10 turns", plain.url, user="bea")
    long = Asked(f"{LONG} turns", plain.url, user="cid", turns=LONG + each)

    async def run() -> None:
        async with Client(plain.url) as client:
            for _ in range(LONG - each // 2):
                await long.ask(client, is_counted=False)
        await in_turns([short, long], each)

    asyncio.run(run())
    return _compared(
        command, machine, "A conversation's length", [short, long], "load_length_ratio"
    )


def _stored(
    command: str,
    machine: report.Machine,
    environment: Mapping[str, str],
    folder: Path,
    each: int,
    many: int,
) -> dict[str, object]:
    """Ask as a user with 100 memories, beside few and beside many sessions of others."""
    stores = []
    vectors = unit_vectors(many, DIMENSION)
    with ExitStack() as running:
        for total in (FEW, many):
            home = folder / f"stored-{total}"
            home.mkdir()
            chosen = settings(
                database_url="",
                data_dir=home / "data",
                embedding_model=environment["EMBEDDING_MODEL"],
            )
            asyncio.run(fill(chosen, vectors[:total], owned=OWNED))
            process = _served(running, home, environment)
            stores.append((Asked(f"{total:,} sessions", process.url, user=OWNER), process))
        before = [report.resident_mb(process.process.pid) for _, process in stores]
        asyncio.run(in_turns([one for one, _ in stores], each))
        after = [report.resident_mb(process.process.pid) for _, process in stores]
    figures = _compared(
        command, machine, "What others have stored", [one for one, _ in stores], "load_stored_ratio"
    )
    for (one, _), idle, warm in zip(stores, before, after, strict=True):
        print(f"{one.name}: a process holds {idle:.0f} MB, after the turns {warm:.0f} MB")
    figures |= {"load_memory_mb_few": after[0], "load_memory_mb_many": after[1]}
    return figures


def _compared(
    command: str, machine: report.Machine, title: str, both: Sequence[Asked], key: str
) -> dict[str, object]:
    """Print a small and a large one beside each other, and return the ratio of their medians."""
    small, large = both
    ratio = large.p50_ms() / small.p50_ms()
    least = min(large.seconds) / min(small.seconds)
    rows = [
        [
            one.name,
            *map(report.ms, (one.p50_ms(), min(one.seconds) * 1_000, one.part_ms("retrieval"))),
        ]
        for one in both
    ]
    rows.append(["ratio", report.times(ratio), report.times(least), ""])
    report.show(title, command, machine, ("", "p50 ms", "least ms", "retrieval ms"), rows)
    return {key: ratio, f"{key}_least": least}
