"""This service beside mem0 and langmem: the same model, embedder and conversations, in one run.

Touches: processes, the disk; PyPI, where the peers' environments are not made yet.

Each contestant runs in a process of its own and takes its own time; they take turns, so that none
is measured while another works. The model and the embedder answer at once, over HTTP on loopback.
The peers are libraries: a caller's answer is not theirs, so a turn of theirs is a search and an
add, and one of ours is all of POST /chat, with the answer's call.
"""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import report
from tests.benchmarks.peers.lines import Bench, Found, Scale, measure
from tests.benchmarks.peers.stub import stub
from tests.benchmarks.peers.table import LINES, rows, standing
from tests.benchmarks.peers.team import ENTRIES, Entry

COMMAND = "python -m tests.benchmarks.peers"
FULL = Scale(memories=1_000, searches=200, adds=40, chats=3)
QUICK = Scale(memories=100, searches=30, adds=10, chats=1)


def compare(entries: tuple[Entry, ...], scale: Scale, environments: Path) -> dict[str, Found]:
    """Measure the contestants one after the other; returns what was found by their names."""
    results: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as home, stub() as (server, model):
        for entry in entries:
            bench = Bench(server, model, Path(home), environments, scale)
            results[entry.name] = measure(entry, bench)
    return results


def figures(results: Mapping[str, Found], ours: list[str]) -> report.Figures:
    """Return every cell under a key of its own, and the lines where we are not first."""
    flat: dict[str, object] = {
        f"peers_{_key(name)}_{_key(line)}": cell
        for name, found in results.items()
        for line, cell in found.items()
    }
    behind = [line.key for line in LINES if standing(line, results, ours).startswith("behind")]
    return {"benchmark": "peers", **flat, "peers_behind": behind}


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 memories instead of 1,000")
    parser.add_argument("--only", help="contestants whose name has this in it")
    parser.add_argument(
        "--folder", type=Path, help="keeps the peers' environments; without it they are made anew"
    )
    arguments = parser.parse_args()
    logging.disable()
    machine = report.this_machine()
    entries = tuple(one for one in ENTRIES if (arguments.only or "") in one.name)
    ours = [entry.name for entry in ENTRIES if entry.is_ours]
    scale = QUICK if arguments.quick else FULL
    with ExitStack() as kept:
        folder = arguments.folder or Path(kept.enter_context(tempfile.TemporaryDirectory()))
        results = compare(entries, scale, folder.resolve())
    title = f"Beside mem0 and langmem, at {scale.memories:,} memories"
    header = ["", *results, "this service is"]
    command = COMMAND + (" --quick" if arguments.quick else "")
    report.show(title, command, machine, header, rows(results, ours))
    report.finish(machine, figures(results, ours))


if __name__ == "__main__":
    main()
