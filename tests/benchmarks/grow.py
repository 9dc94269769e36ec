"""How a search of one user's memory grows with what others have stored. Touches: the disk.

In this process, without HTTP and the model: the CPU time and the wall time of a recall, by a user
with 100 memories beside 1,000 and 100,000 of others, in turns, so that what else goes on hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from app.index.base import Values
from app.settings import Settings
from app.wiring import Runtime, open_runtime
from tests.benchmarks import report
from tests.benchmarks.fill import OWNER, TENANT, fill, unit_vectors
from tests.served import settings

COMMAND = "python -m tests.benchmarks.grow"
OWNED = 100
FEW = 1_000
DIMENSION = 384
WARM_UPS = 5


@dataclass(slots=True)
class Store:
    """A store of `total` memories, and what its searches took, in seconds."""

    folder: Path
    total: int
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        # Vectors without a model: the embedding has no part in it.
        return settings(database_url="", data_dir=self.folder, embedding_model=f"mock:{DIMENSION}")


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Run, print the table and return the figures."""
    many, each = (10_000, 40) if quick else (100_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        stores = [Store(Path(folder) / str(total), total) for total in (FEW, many)]
        asyncio.run(_measure(stores, each))
    few, crowded = stores
    cpu, wall = median(crowded.cpu) / median(few.cpu), median(crowded.wall) / median(few.wall)
    least = min(crowded.cpu) / min(few.cpu)
    rows = [
        [
            f"{store.total:,}",
            *(
                report.ms(seconds * 1_000)
                for seconds in (median(store.wall), median(store.cpu), min(store.cpu))
            ),
        ]
        for store in stores
    ]
    rows.append(["ratio", *(report.times(ratio) for ratio in (wall, cpu, least))])
    header = ("memories of all", "wall p50 ms", "CPU p50 ms", "CPU least ms")
    report.show(f"Recall of a user with {OWNED} memories", COMMAND, machine, header, rows)
    return {
        "recall_growth_ratio_wall": wall,
        "recall_growth_ratio_cpu": cpu,
        "recall_growth_ratio_cpu_least": least,
    }


async def _measure(stores: list[Store], each: int) -> None:
    vectors = unit_vectors(max(store.total for store in stores), DIMENSION)
    for store in stores:
        await fill(store.settings, vectors[: store.total], owned=OWNED)
    questions = unit_vectors(each + WARM_UPS, DIMENSION, seed=1)
    async with AsyncExitStack() as opened:
        runtimes = [
            (store, await opened.enter_async_context(open_runtime(store.settings)))
            for store in stores
        ]
        for number, question in enumerate(questions):
            for store, runtime in runtimes:
                cpu, wall = time.process_time(), time.perf_counter()
                await _search(runtime, question, number)
                if number >= WARM_UPS:
                    store.cpu.append(time.process_time() - cpu)
                    store.wall.append(time.perf_counter() - wall)


async def _search(runtime: Runtime, question: Values, number: int) -> None:
    words = f"When should order {number} be delivered, and what is the open action?"
    found = await runtime.recall.search(TENANT, OWNER, question, words=words)
    if not found.memories:
        raise RuntimeError("nothing was found")


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 memories")
    arguments = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "grow", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
