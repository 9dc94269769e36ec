"""All benchmarks, one after the other. Touches: processes, the disk."""

from __future__ import annotations

import argparse

from tests.benchmarks import chat, costs, found, ingest, report, search, soak, webhooks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, with 10,000 memories")
    arguments = parser.parse_args()
    machine = report.this_machine()
    figures = {
        **chat.measure(machine, quick=arguments.quick),
        **soak.measure(machine, quick=arguments.quick),
        **search.measure(machine, quick=arguments.quick),
        **ingest.measure(machine, quick=arguments.quick),
        **found.measure(machine, quick=arguments.quick),
        **webhooks.measure(machine, quick=arguments.quick),
        **costs.measure(machine, quick=arguments.quick),
    }
    report.finish(machine, {"benchmark": "all", **figures})


if __name__ == "__main__":
    main()
