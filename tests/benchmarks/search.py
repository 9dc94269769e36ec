"""Latency of memory search, over HTTP and at the index. Touches: processes, the disk.

Over HTTP one user searches, while the memories of others grow; the embedding is shown beside it (a
question that was asked before is not embedded again). At the index, beside `V @ q` in numpy over
the same vectors: less than reading all of them once an exact search can't do.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.index.base import Index, Values
from app.llm.base import Embedder
from app.settings import Settings
from app.wiring import open_runtime
from tests.benchmarks import report
from tests.benchmarks.chat import PLAIN
from tests.benchmarks.client import Client
from tests.benchmarks.fill import OWNER, fill, unit_vectors
from tests.served import service, settings

COMMAND = "python -m tests.benchmarks.search"
OWNED = 100
TOP_K = 10
WARM_UPS = 5
ASKED_AGAIN = "When should my order be delivered, and what is the open action?"

Works = dict[str, Callable[[], Awaitable[Any]]]


@dataclass(slots=True)
class Store:
    """A service's data: `total` memories, of which one user has `owned`."""

    folder: Path
    label: str
    vectors: Values
    owned: int
    url: str = ""
    process_id: int = 0

    @property
    def settings(self) -> Settings:
        return settings(database_url="", data_dir=self.folder / "data", embedding_model="local")

    def __str__(self) -> str:
        whose = "all" if self.owned == len(self.vectors) else f"{self.owned:,}"
        return f"{whose} of {len(self.vectors):,}"


@dataclass(slots=True)
class Measured:
    """Seconds of each repetition, by what was done."""

    seconds: dict[str, list[list[float]]] = field(default_factory=dict)
    figures: dict[str, float | None] = field(default_factory=dict)

    async def compare(self, works: Works, each: int) -> None:
        """Time each of `works` `each` times, in turns: what else goes on hits all alike."""
        lists: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(each):
            for name, work in works.items():
                began = time.perf_counter()
                await work()
                lists[name].append(time.perf_counter() - began)
        for name, durations in lists.items():
            self.seconds.setdefault(name, []).append(durations)

    def spread(self, name: str) -> report.Spread:
        return report.spread(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        return self.spread(name).p50 / self.spread(to).p50


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Run, print the tables and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), machine, quick=quick))


async def _measure(folder: Path, machine: report.Machine, *, quick: bool) -> report.Figures:
    many, repetitions, each = (10_000, 1, 30) if quick else (100_000, 5, 30)
    few, crowded = "1k", f"{many // 1_000}k"
    vectors = unit_vectors(many, 384)
    stores = [
        Store(folder / few, few, vectors[:1_000], OWNED),
        Store(folder / "own", f"{few}_own", vectors[:1_000], 1_000),
        Store(folder / crowded, crowded, vectors, OWNED),
    ]
    began = time.perf_counter()
    for store in stores:
        await fill(store.settings, store.vectors, owned=store.owned)
    measured = Measured()
    measured.figures["fill_s"] = time.perf_counter() - began
    await _over_http(stores, measured, repetitions, each)
    _show_http(stores, measured, machine)
    async with AsyncExitStack() as opened:
        narrow, wide = Works(), Works()
        for store in (stores[0], stores[-1]):
            slices, products = await _at_the_index(opened, store, measured)
            narrow |= slices
            wide |= products
        for _ in range(repetitions):
            # Apart: a product leaves the caches and numpy's threads to whatever comes next.
            await measured.compare(narrow, each)
            await measured.compare(wide, each)
    _show_index((stores[0], stores[-1]), measured, machine)
    return measured.figures


async def _over_http(
    stores: Sequence[Store], measured: Measured, repetitions: int, each: int
) -> None:
    numbers = itertools.count()
    async with AsyncExitStack() as running:
        for store in stores:
            served = running.enter_context(
                service(store.folder, **PLAIN, GROQ_API_KEY="", EMBEDDING_MODEL="local")
            )
            store.url, store.process_id = served.url, served.process.pid
        clients = [await running.enter_async_context(Client(store.url)) for store in stores]
        async with open_runtime(stores[0].settings) as runtime:
            works = _requests(stores, clients, runtime.embedder, numbers)
            for work in works.values():
                for _ in range(WARM_UPS):
                    await work()
            for _ in range(repetitions):
                await measured.compare(works, each)
        for store, client in zip(stores, clients, strict=True):
            used = await _processor_ms(store, client, each)
            measured.figures[f"search_cpu_ms_{store.label}"] = used
        measured.figures["service_rss_mb"] = report.resident_mb(stores[-1].process_id)


def _requests(
    stores: Sequence[Store],
    clients: Sequence[Client],
    embedder: Embedder,
    numbers: itertools.count[int],
) -> Works:
    """Return what is compared, by name."""

    def new_question() -> str:
        return f"When should order {next(numbers)} be delivered, and what is the open action?"

    async def search_anew(client: Client) -> None:
        await _search(client, new_question())

    works: Works = {
        "floor": lambda: clients[0].get("/health/live"),
        "embedding": lambda: embedder.embed([new_question()], kind="query"),
    }
    for store, client in zip(stores, clients, strict=True):
        works[f"asked again {store.label}"] = partial(_search, client, ASKED_AGAIN)
        works[f"new {store.label}"] = partial(search_anew, client)
    return works


async def _search(client: Client, question: str) -> None:
    found = await client.get(
        f"/memories?user_id={OWNER}&query={quote(question)}&top_k={TOP_K}&min_score=0"
    )
    if len(found["memories"]) != TOP_K:
        raise RuntimeError(f"{len(found['memories'])} memories were found")


async def _processor_ms(store: Store, client: Client, count: int) -> float | None:
    """Return the CPU time that the service needs for one search without the embedding."""
    before = report.processor_seconds(store.process_id)
    for _ in range(count):
        await _search(client, ASKED_AGAIN)
    after = report.processor_seconds(store.process_id)
    return None if before is None or after is None else (after - before) / count * 1_000


def _show_http(stores: Sequence[Store], measured: Measured, machine: report.Machine) -> None:
    few, own, crowded = (f"asked again {store.label}" for store in stores)
    rows = [
        ["`GET /health/live` (the floor)", "", *_cells(measured, "floor", few), ""],
        ["embedding one question, in this process", "", *_cells(measured, "embedding", few), ""],
    ]
    for store in stores:
        label = store.label
        used = report.ms(measured.figures[f"search_cpu_ms_{label}"])
        again = _cells(measured, f"asked again {label}", few)
        rows += [
            ["search, without the embedding", str(store), *again, used],
            ["search, a new question", str(store), *_cells(measured, f"new {label}", few), ""],
        ]
    header = ("over HTTP", "the user's memories", "p50 ms", "p95 ms", "to 1,000", "CPU ms")
    report.show("Memory search over HTTP", COMMAND, machine, header, rows)
    figures: dict[str, float | None] = {
        "http_floor_p50_ms": measured.spread("floor").p50,
        "embedding_p50_ms": measured.spread("embedding").p50,
        "user_search_growth_ratio": measured.ratio(crowded, few),
        "user_search_growth_ratio_with_embedding": measured.ratio(
            f"new {stores[-1].label}", f"new {stores[0].label}"
        ),
        "user_search_own_ratio": measured.ratio(own, few),
    }
    for store in stores:
        beyond = measured.spread(f"asked again {store.label}")
        figures |= {
            f"search_p50_ms_{store.label}": beyond.p50,
            f"search_p95_ms_{store.label}": beyond.p95,
            f"search_new_p50_ms_{store.label}": measured.spread(f"new {store.label}").p50,
        }
    measured.figures.update(figures)


def _cells(measured: Measured, name: str, to: str) -> list[str]:
    spread = measured.spread(name)
    return [report.ms(spread.p50), report.ms(spread.p95), report.times(measured.ratio(name, to))]


async def _at_the_index(
    opened: AsyncExitStack, store: Store, measured: Measured
) -> tuple[Works, Works]:
    """Time the first unfiltered query; return the searches of one user and those of all rows."""
    label = store.label
    questions = itertools.cycle(unit_vectors(1_000, store.vectors.shape[1], seed=1))
    index = (await opened.enter_async_context(open_runtime(store.settings))).index

    async def product() -> None:
        store.vectors @ next(questions)

    async def a_users() -> None:
        await _query(index, next(questions), {"user_id": OWNER})

    async def unfiltered() -> None:
        await _query(index, next(questions), None)

    for _ in range(WARM_UPS):
        await a_users()
    before = report.resident_mb(os.getpid())
    began = time.perf_counter()
    await unfiltered()
    measured.figures[f"unfiltered_first_ms_{label}"] = (time.perf_counter() - began) * 1_000
    after = report.resident_mb(os.getpid())
    grown = None if before is None or after is None else after - before
    measured.figures[f"unfiltered_grows_by_mb_{label}"] = grown
    for _ in range(WARM_UPS):
        await product()
        await unfiltered()
    return (
        {f"slice {label}": a_users},
        {f"numpy {label}": product, f"unfiltered {label}": unfiltered},
    )


async def _query(index: Index, question: Values, filter: dict[str, Any] | None) -> None:
    found = await index.query("memory", question, top_k=TOP_K, filter=filter)
    if len(found) != TOP_K:
        raise RuntimeError(f"{len(found)} vectors were found")


def _show_index(stores: Sequence[Store], measured: Measured, machine: report.Machine) -> None:
    rows = []
    for store in stores:
        label, size = store.label, f"{len(store.vectors):,} × {store.vectors.shape[1]}"
        product = f"numpy {label}"
        rows += [
            ["`V @ q` in numpy (the limit)", size, *_cells(measured, product, product)],
            ["query, unfiltered", size, *_cells(measured, f"unfiltered {label}", product)],
            [f"query, a user's {store.owned}", size, *_cells(measured, f"slice {label}", product)],
        ]
        first_ms = report.ms(measured.figures[f"unfiltered_first_ms_{label}"])
        grown = measured.figures[f"unfiltered_grows_by_mb_{label}"]
        more = "" if grown is None else f" (+{grown:.0f} MB)"
        rows.append([f"the first unfiltered query, which loads{more}", size, first_ms, "", ""])
        figures: dict[str, float | None] = {
            f"numpy_p50_ms_{label}": measured.spread(product).p50,
            f"unfiltered_p50_ms_{label}": measured.spread(f"unfiltered {label}").p50,
            f"unfiltered_to_numpy_ratio_{label}": measured.ratio(f"unfiltered {label}", product),
            f"slice_p50_ms_{label}": measured.spread(f"slice {label}").p50,
        }
        measured.figures.update(figures)
    few, crowded = (f"slice {store.label}" for store in stores)
    measured.figures["slice_growth_ratio"] = measured.ratio(crowded, few)
    header = ("at the index", "vectors", "p50 ms", "p95 ms", "to numpy")
    report.show("Search at the index", COMMAND, machine, header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 memories, one repetition")
    arguments = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "search", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
