"""How long a sender waits for its acknowledgement. Touches: a process, the disk.

HubSpot sends up to 100 events at once and wants to be answered within 5 seconds for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.benchmarks import report
from tests.senders import hubspot, hubspot_event
from tests.served import service

COMMAND = "python -m tests.benchmarks.webhooks"
SECRET = "a-client-secret"
BASE = "https://crm.example"
ENVIRONMENT = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "HUBSPOT_CLIENT_SECRET": SECRET,
    "PUBLIC_BASE_URL": BASE,
}
WARM_UPS = 5
EVENTS_AT_ONCE = 100


def _batches() -> Iterator[list[dict[str, object]]]:
    """Yield batches of events of 100 companies, never the same event twice."""
    for number in itertools.count():
        yield [
            hubspot_event(
                "company.propertyChange",
                object_id,
                number,
                propertyName="city",
                propertyValue=f"City {number}",
                eventId=number * EVENTS_AT_ONCE + object_id,
            )
            for object_id in range(EVENTS_AT_ONCE)
        ]


async def _acknowledged(url: str, batches: int) -> list[float]:
    """Return how many seconds each batch waited for its answer."""
    taken = []
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        for number, events in enumerate(itertools.islice(_batches(), WARM_UPS + batches)):
            now = datetime.now(UTC)
            sent = hubspot(*events, secret=SECRET, base=BASE, now=now)
            began = time.perf_counter()
            response = await sent.to(client)
            seconds = time.perf_counter() - began
            if response.json().get("stored") != EVENTS_AT_ONCE:
                raise RuntimeError(response.text)
            if number >= WARM_UPS:
                taken.append(seconds)
    return taken


async def _floor(url: str, times: int) -> list[float]:
    taken = []
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        for _ in range(times):
            began = time.perf_counter()
            (await client.get("/health/live")).raise_for_status()
            taken.append(time.perf_counter() - began)
    return taken


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    batches = 20 if quick else 100
    with tempfile.TemporaryDirectory() as folder, service(Path(folder), **ENVIRONMENT) as process:
        floor = asyncio.run(_floor(process.url, batches))
        taken = asyncio.run(_acknowledged(process.url, batches))
    least, waited = report.spread([floor]), report.spread([taken])
    rows = [
        ["`GET /health/live` (the floor)", report.ms(least.p50), report.ms(least.p95), "1.00×"],
        [
            f"{EVENTS_AT_ONCE} events of HubSpot, until they are acknowledged",
            report.ms(waited.p50),
            report.ms(waited.p95),
            report.times(waited.p50 / least.p50),
        ],
    ]
    header = ["over HTTP", "p50 ms", "p95 ms", "to the floor"]
    report.show("Webhooks, while earlier events are worked off", COMMAND, machine, header, rows)
    return {
        "webhook_100_events_p50_ms": waited.p50,
        "webhook_100_events_p95_ms": waited.p95,
        "webhook_to_floor": waited.p50 / least.p50,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 batches instead of 100")
    arguments = parser.parse_args()
    machine = report.this_machine()
    figures = measure(machine, quick=arguments.quick)
    report.finish(machine, {"benchmark": "webhooks", **figures})


if __name__ == "__main__":
    main()
