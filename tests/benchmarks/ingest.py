"""Rows per second and memory of a large table's load. Touches: processes, the disk.

The generated 100,000 customers of ../shared/csv, read, told, embedded and stored as
`python -m ingest FILE` does it, each time in a process of its own and into an empty store. Then the
same file again, which finds all of it unchanged. The share of the time in which an embedding was
under way is shown beside it: the rest is ours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.knowledge.documents import Documents
from app.llm.base import Embedder, Kind
from app.wiring import Runtime, open_runtime
from app.worker import Worker
from ingest.document import Document
from ingest.load import documents_from_file
from ingest.store import store
from ingest.upload import PAGE_IDS, Stored
from tests.benchmarks import report
from tests.served import ROOT, settings

COMMAND = "python -m tests.benchmarks.ingest"
GENERATOR = ROOT.parent / "shared" / "csv" / "make_customers_100k.py"
TENANT = "default"
MOST_MB = 500


@dataclass(frozen=True, slots=True)
class Run:
    """A model, and how many rows it gets: a real one takes its time."""

    label: str
    model: str
    rows: int


RUNS = (Run("mock", "mock:384", 100_000), Run("bundled", "local", 5_000))
QUICK_RUNS = (Run("mock", "mock:384", 5_000), Run("bundled", "local", 500))


class Timed:
    """An embedder that notes how long at least one of its calls was under way."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._under_way = 0
        self._began = 0.0
        self.seconds = 0.0
        self.name = inner.name
        self.dimension = inner.dimension
        self.thresholds = inner.thresholds
        self.trouble = inner.trouble

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> NDArray[np.float32]:
        if self._under_way == 0:
            self._began = time.perf_counter()
        self._under_way += 1
        try:
            return await self._inner.embed(texts, kind=kind)
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self.seconds += time.perf_counter() - self._began

    async def warm(self) -> None:
        await self._inner.warm()

    async def close(self) -> None:
        return None


class Sink:
    """The documents, as the command line writes to them."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def put(self, documents: Sequence[Document]) -> Stored:
        done = await self._documents.put(TENANT, documents)
        return Stored(done.stored, done.unchanged)

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        return await self._documents.ids(TENANT, source=source, after=after, limit=PAGE_IDS)

    async def delete(self, ids: Sequence[str]) -> int:
        return await self._documents.delete_ids(TENANT, ids)


def measure(machine: report.Machine, *, quick: bool) -> dict[str, object]:
    """Load the file with each model and print a table; returns the figures."""
    if not GENERATOR.is_file():
        print(f"\nNO BENCHMARK OF INGESTION: there is no {GENERATOR.name} in ../shared/csv\n")
        return {}
    figures: dict[str, object] = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for run in QUICK_RUNS if quick else RUNS:
            path = Path(folder) / f"{run.label}.csv"
            made = [sys.executable, str(GENERATOR), str(path), str(run.rows)]
            subprocess.run(made, check=True)
            for again in ("", "_again"):
                found = _in_a_process(Path(folder) / run.label, path, run)
                rows.append(_row(run, found, is_again=bool(again)))
                told = {f"ingest_{run.label}{again}_{name}": value for name, value in found.items()}
                figures |= told
    header = ("", "rows", "rows/s", "survey s", "embedding", "peak MB")
    report.show("Loading a table", COMMAND, machine, header, rows)
    return figures


def _in_a_process(folder: Path, path: Path, run: Run) -> dict[str, float]:
    asked = [sys.executable, "-m", "tests.benchmarks.ingest", "--load", str(path)]
    asked += ["--model", run.model, "--folder", str(folder)]
    told = subprocess.run(asked, check=True, stdout=subprocess.PIPE, cwd=ROOT, text=True).stdout
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    if found["documents"] != run.rows or found["peak_mb"] > MOST_MB:
        raise RuntimeError(f"{run.rows} documents in {MOST_MB} MB at most, not {found}")
    return found


def _row(run: Run, found: dict[str, float], *, is_again: bool) -> list[str]:
    label = f"{run.model}, all unchanged" if is_again else run.model
    return [
        label,
        f"{run.rows:,}",
        f"{found['rows_per_s']:,.0f}",
        f"{found['survey_s']:.1f}",
        f"{found['embedding_share']:.0%}",
        f"{found['peak_mb']:.0f}",
    ]


async def _load(path: Path, folder: Path, model: str) -> dict[str, float]:
    """Load a file in this process; the time is that from the first look at it to the last row."""
    chosen = settings(database_url="", data_dir=folder, embedding_model=model)
    async with open_runtime(chosen) as runtime:
        embedder = Timed(runtime.embedder)
        await embedder.warm()
        documents = _documents(runtime, embedder)
        began = time.perf_counter()
        load = await asyncio.to_thread(documents_from_file, path)
        surveyed = time.perf_counter()
        await store(load, Sink(documents))
        ended = time.perf_counter()
    seconds = ended - began
    return {
        "documents": load.report().documents,
        "rows_per_s": load.rows / seconds,
        "survey_s": surveyed - began,
        "seconds": seconds,
        "embedding_s": embedder.seconds,
        "embedding_share": embedder.seconds / seconds,
        "peak_mb": _peak_mb(),
    }


def _documents(runtime: Runtime, embedder: Embedder) -> Documents:
    """Return the service's documents with another embedder."""
    lease_seconds = runtime.settings.job_lease_seconds

    async def run_now(tenant_id: str, kind: str, key: str) -> BaseException | None:
        return await worker.run_now(tenant_id, kind, key)

    documents = Documents(
        runtime.database,
        runtime.jobs,
        runtime.index,
        embedder,
        redactor=runtime.door.redactor,
        run_now=run_now,
        clock=runtime.clock,
    )
    worker = Worker(runtime.jobs, documents.handlers(), lease_seconds=lease_seconds)
    return documents


def _peak_mb() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 rows and 500")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    arguments: Any = parser.parse_args()
    if arguments.load is not None:
        print(json.dumps(asyncio.run(_load(arguments.load, arguments.folder, arguments.model))))
        return
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "ingest", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
