"""A conversation of 1,000 turns: what the last hundred cost beside the first hundred.

Touches: processes, the disk. The service runs as it is served, on SQLite on disk, with the real
ChatGroq over HTTP to a 0 ms model, and checkpoints after every fifth turn. One client asks, so
the mean is a turn's own time; the CPU time has its share of the checkpoints in it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.beside import GROQ_KEY, peer
from tests.benchmarks.chat import PLAIN
from tests.benchmarks.client import Client, closed_loop
from tests.served import service

COMMAND = "python -m tests.benchmarks.soak"
HUNDRED = 100
BAR = 1.2
SETTLED_SECONDS = 60.0


async def _run(url: str, process_id: int, turns: int) -> list[dict[str, float]]:
    """Return of each hundred turns the mean, the median and the CPU time, in ms, and tokens."""
    await _hundred(url, "warm", 0, 40)
    await _settle(url)
    found = []
    for start in range(0, turns, HUNDRED):
        before = report.processor_seconds(process_id)
        seconds, answers = await _hundred(url, "long", start, HUNDRED)
        await _settle(url)
        after = report.processor_seconds(process_id)
        used = 0.0 if before is None or after is None else after - before
        tokens = [sum(a["receipt"]["tokens"]["estimated_by_part"].values()) for a in answers]
        found.append(
            {
                "turns": float(start + HUNDRED),
                "mean_ms": mean(seconds) * 1_000,
                "p50_ms": median(seconds) * 1_000,
                "cpu_ms": used / HUNDRED * 1_000,
                "tokens": mean(tokens),
            }
        )
    return found


async def _hundred(url: str, session: str, start: int, each: int) -> tuple[list[float], list[Any]]:
    async def ask(client: Client, _: int, turn: int) -> Any:
        item = start + turn
        question = f"What did we decide about item {item} of the offer for the plant in Ghent?"
        statement = f"We want to move item {item} to the second quarter, for 5,400 euros."
        body = {"message": statement if turn % 2 else question, "session_id": session}
        return await client.post("/chat", body | {"user_id": f"user-{session}"})

    seconds, answers, _ = await closed_loop(url, ask, clients=1, each=each)
    return seconds, answers


async def _settle(url: str) -> None:
    """Wait until the checkpoints are done."""
    async with asyncio.timeout(SETTLED_SECONDS), Client(url) as client:
        while (state := await client.get("/health/ready"))["jobs"]:
            if state["status"] != "ok":
                raise RuntimeError(f"the service: {state}")
            await asyncio.sleep(0.1)


HEADER = ("turns", "mean ms", "p50 ms", "CPU ms", "prompt tokens")


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Run, print the table and return the figures."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        model_url = running.enter_context(peer("model")).url
        settings = {**PLAIN, "GROQ_API_KEY": GROQ_KEY, "GROQ_API_BASE": model_url}
        served = running.enter_context(
            service(Path(folder), **settings, EMBEDDING_MODEL="mock:384")
        )
        turns = 300 if quick else 1_000
        found = asyncio.run(_run(served.url, served.process.pid, turns))
    rows = [
        [
            f"{hundred['turns'] - HUNDRED + 1:.0f} to {hundred['turns']:.0f}",
            *(report.ms(hundred[name]) for name in ("mean_ms", "p50_ms", "cpu_ms")),
            f"{hundred['tokens']:.0f}",
        ]
        for hundred in found
    ]
    first, last = found[0], found[-1]
    ratios = {
        name: last[f"{name}_ms"] / first[f"{name}_ms"] if first[f"{name}_ms"] else None
        for name in ("mean", "p50", "cpu")
    }
    report.show(f"One conversation of {turns:,} turns", COMMAND, machine, HEADER, rows)
    for name, ratio in ratios.items():
        told = "not measured" if ratio is None else report.times(ratio)
        print(f"last to first hundred, {name}: {told} (bar: {BAR:g}×)")
    return {
        **{f"soak_{name}_ratio": ratio for name, ratio in ratios.items()},
        "soak_first_mean_ms": first["mean_ms"],
        "soak_last_mean_ms": last["mean_ms"],
        "soak_first_cpu_ms": first["cpu_ms"],
        "soak_last_cpu_ms": last["cpu_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="300 turns")
    arguments = parser.parse_args()
    machine = report.this_machine()
    report.finish(machine, {"benchmark": "soak", **measure(machine, quick=arguments.quick)})


if __name__ == "__main__":
    main()
