"""What redaction takes, and how much of what was marked it finds. Touches nothing.

Milliseconds of the processor for 300 characters, all kinds sought, and beside them the same as a
multiple of what `json.dumps` and `json.loads` of the same text take: that travels between machines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

from app.redact import Redactor
from app.redact.detector import PatternDetector
from tests.benchmarks import report
from tests.redact.labelled import labelled
from tests.redact.scoring import precision, recall, score
from tests.redact.unseen import unseen

COMMAND = "python -m tests.benchmarks.redact"
TITLE = "Redaction: time, and what is found"
CHARS = 300
LONG = 32_000

PLAIN = (
    "We met Ada in Porto last week and talked about the renewal of the contract with Acme; she "
    "said that the price of 1,299.00 EUR is too high, and that order 2026-000123 has not arrived "
    "yet. The password was changed, she thinks. Please look at section 4.1.2 and come "
    "back on 2026-03-14. "
)
TEXTS = {
    "a message": PLAIN,
    "a message, 32,000 characters": (PLAIN * LONG)[:LONG],
    "with an address and a number": PLAIN + "Write to ada@example.org or call +1 415 555 2671. ",
    "with a card and an IBAN": PLAIN + "4111 1111 1111 1111, DE89 3704 0044 0532 0130 00. ",
    "digits alone, 32,000": "1" * LONG,
    "digits in pairs, 32,000": ("11 " * LONG)[:LONG],
    "telephone numbers alone, 32,000": ("+1 650 253 0000, " * LONG)[:LONG],
}


def _ms(do: Callable[[], object], *, seconds: float) -> float:
    """Return the median of runs that take so long together, in milliseconds."""
    do()
    runs: list[float] = []
    began = time.process_time()
    while not runs or time.process_time() - began < seconds:
        start = time.process_time()
        do()
        runs.append(time.process_time() - start)
    return median(runs) * 1_000


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Print two tables, and return milliseconds, ratios, precision and recall."""
    redactor, seconds = Redactor(PatternDetector()), 0.2 if quick else 1.0
    figures: dict[str, object] = {}
    rows = []
    for name, text in TEXTS.items():
        taken = _ms(lambda text=text: redactor.clean(text, keeps_personal=False), seconds=seconds)  # type: ignore[misc]
        beside = _ms(lambda text=text: json.loads(json.dumps(text)), seconds=seconds)  # type: ignore[misc]
        share = CHARS / len(text)
        rows.append(
            [
                name,
                f"{len(text):,}",
                f"{taken * share:.3f}",
                f"{taken:.1f}",
                f"{taken / beside:,.0f}×",
            ]
        )
        figures[f"redact_ms_per_300 {name}"] = round(taken * share, 4)
    header = ["text", "characters", "ms per 300", "ms", "of JSON's"]
    report.show(TITLE, COMMAND, machine, header, rows)
    for name, strings in (("labelled", labelled()), ("unseen", unseen())):
        scores, _ = score(PatternDetector(), strings)
        for kind, counts in scores.items():
            found = precision(counts), recall(counts)
            figures[f"redact_{name}_{kind}"] = found
        report.show(
            f"Found in the {name} strings",
            COMMAND,
            machine,
            ["kind", "right", "wrong", "missed", "precision", "recall"],
            [
                [kind, *map(str, counts), f"{precision(counts):.2f}", f"{recall(counts):.2f}"]
                for kind, counts in scores.items()
            ],
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time")
    arguments = parser.parse_args()
    machine = report.this_machine()
    figures = measure(machine, quick=arguments.quick)
    report.finish(machine, {"benchmark": "redact", **figures})


if __name__ == "__main__":
    main()
