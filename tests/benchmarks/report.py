"""What benchmarks share: percentiles, the machine, tables, one JSON line. Touches: stdout.

Ratios travel between machines, milliseconds don't: every figure here is printed with what it was
measured on and how busy that was.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

Figures = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Machine:
    """`load` is the average number of running processes in the last minute, before we began."""

    cores: int
    memory_gb: float | None
    python: str
    numpy: str
    sqlite: str
    system: str
    load: float | None

    def __str__(self) -> str:
        memory = "" if self.memory_gb is None else f", {self.memory_gb:g} GB"
        load = "" if self.load is None else f"; load average {self.load:g} before the run"
        return (
            f"{self.cores} cores{memory}, {self.system}, Python {self.python}, "
            f"numpy {self.numpy}, SQLite {self.sqlite}{load}"
        )


def this_machine() -> Machine:
    names = getattr(os, "sysconf_names", {})
    has_pages = {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(names)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if has_pages else None
    return Machine(
        cores=os.cpu_count() or 1,
        memory_gb=None if pages is None else round(pages / 2**30, 1),
        python=platform.python_version(),
        numpy=np.__version__,
        sqlite=sqlite3.sqlite_version,
        system=f"{platform.system()} {platform.machine()}",
        load=busy(),
    )


def busy() -> float | None:
    """Return the load average of the last minute, where the system tells it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def resident_mb(process_id: int) -> float | None:
    """Return the memory that a process holds, in MB, where the system tells it."""
    try:
        with open(f"/proc/{process_id}/statm", encoding="ascii") as statm:
            pages = int(statm.read().split()[1])
    except FileNotFoundError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_seconds(process_id: int) -> float | None:
    """Return the CPU time that a process has used, where the system tells it.

    Unlike the clock, it hardly depends on what else the machine does.
    """
    try:
        with open(f"/proc/{process_id}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(process_id: int) -> list[int]:
    """Return a process and all that descend from it, where the system tells it."""
    found = [process_id]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in children.read_text(encoding="ascii").split()]
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the median over repetitions of each repetition's 50th and 95th percentile."""

    p50: float
    p95: float


def spread(repetitions: Sequence[Sequence[float]]) -> Spread:
    """Return the spread of repetitions of durations in seconds."""
    cuts = [np.percentile(durations, [50, 95]) * 1_000 for durations in repetitions]
    return Spread(*(float(median(cut[at] for cut in cuts)) for at in (0, 1)))


def ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f}×"


def show(
    title: str, command: str, machine: Machine, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a Markdown table under what it was measured with."""
    print(f"\n### {title}\n\n`{command}` on {machine}.\n")
    print_row(header)
    print_row(["---"] + ["---:"] * (len(header) - 1))
    for row in rows:
        print_row(row)
    print(flush=True)


def print_row(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |")


def finish(machine: Machine, figures: Figures) -> None:
    """Print the figures as one JSON object on the last line."""
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({"machine": asdict(machine) | {"load_after": busy()}, **rounded}), flush=True)
