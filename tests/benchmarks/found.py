"""Recall of documents over mixed tables. Touches: a temporary folder.

The rows of `tests.knowledge.tables` through the real app with the bundled model, and questions
about single rows: found by meaning and words together, as the service does it; by meaning only; by
words only. A question is answered if its row is among the first, by the id of its document.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.db import Connection
from app.knowledge.asked import Chunk, look, read_question, share
from app.knowledge.postings import Postings
from app.wiring import Runtime
from tests.benchmarks import report
from tests.knowledge.asking import found_ids, load, recall
from tests.knowledge.tables import Asked, questions, sheets
from tests.served import served

COMMAND = "python -m tests.benchmarks.found"
AT = (1, 5, 10)
WAYS = ("fused", "dense", "bm25")


def measure(machine: report.Machine, *, quick: bool) -> dict[str, object]:
    """Load the tables, ask, print a table; returns the figures."""
    with tempfile.TemporaryDirectory() as folder:
        rows, count = (600, 100) if quick else (5_000, 200)
        return asyncio.run(_measure(Path(folder), machine, rows, count))


async def _measure(
    folder: Path, machine: report.Machine, rows: int, count: int
) -> dict[str, object]:
    tables = sheets(rows)
    asked = questions(tables, count)
    address = f"sqlite:///{folder / 'service.db'}"
    async with served(database_url=address, embedding_model="local", upload_inline_rows=rows) as (
        client,
        runtime,
    ):
        began = time.perf_counter()
        keys = await load(client, tables)
        loaded = time.perf_counter() - began
        found: dict[str, list[list[str]]] = {way: [] for way in WAYS}
        durations = []
        for question in asked:
            began = time.perf_counter()
            fused = await found_ids(runtime, question.text, top_k=AT[-1], with_words=True)
            durations.append(time.perf_counter() - began)
            found["fused"].append(fused)
            found["dense"].append(
                await found_ids(runtime, question.text, top_k=AT[-1], with_words=False)
            )
            found["bm25"].append(await _by_words(runtime, question.text))
    shares = {(way, at): recall(asked, keys, found[way], at) for way in WAYS for at in AT}
    _show(machine, asked, shares, len(keys))
    spread = report.spread([durations])
    return {
        "found_rows": len(keys),
        "found_questions": len(asked),
        "found_load_s": loaded,
        "found_search_p50_ms": spread.p50,
        "found_search_p95_ms": spread.p95,
        **{f"found_{way}_recall@{at}": shares[way, at]["all"] for way in WAYS for at in AT},
    }


async def _by_words(runtime: Runtime, text: str) -> list[str]:
    question, most = read_question(text), AT[-1]

    def ranked(connection: Connection) -> list[Chunk]:
        looked = look(connection, "default", question, Postings(), limit=most)
        rows, shared = share(connection, looked, ())
        return sorted(rows, key=lambda chunk: (-shared.score[rows[chunk]], chunk))

    found = await runtime.database.read(ranked)
    return list(dict.fromkeys(document_id for document_id, _ in found))


def _show(
    machine: report.Machine,
    asked: Sequence[Asked],
    shares: Mapping[tuple[str, int], Mapping[str, float]],
    rows: int,
) -> None:
    counts = Counter(question.kind for question in asked)
    header = ["questions", "count", *(f"{way} @{at}" for way in WAYS for at in AT)]
    cells = [
        [kind, str(counts[kind] or len(asked)), *(f"{each[kind]:.3f}" for each in shares.values())]
        for kind in [*counts, "all"]
    ]
    report.show(f"Recall over {rows:,} rows of mixed tables", COMMAND, machine, header, cells)


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="600 rows and 100 questions")
    arguments: Any = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "found", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
