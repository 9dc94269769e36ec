"""`python -m app`: serve, reindex, calibrate, costs, keys. Touches: wiring."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from app.audit import Actor
from app.calibrate.measure import Measure
from app.calibrate.report import report, tells_apart
from app.costs.command import add_command as add_costs
from app.db.tables import documents, episodes, facts
from app.errors import AppError, Misconfigured
from app.gates import Calibrated, apply, reset
from app.identity import DEFAULT_TENANT
from app.key_commands import add_command as add_keys
from app.lexical.version import note_version
from app.settings import Settings, read_settings
from app.stamp import set_stamp
from app.telemetry import set_up_logs
from app.wiring import Runtime, open_runtime, utc_now

MOST_QUESTIONS = 10_000
_SETTINGS = {"memory": "MEMORY_THRESHOLD", "documents": "DOCUMENT_THRESHOLD"}
CALIBRATE = """Measure, with the embedding model in use, how questions score with what belongs to
them and with what does not, and print the threshold with the highest F1 for memories, facts and
documents. The pairs come from the stored data itself; nothing is called but the embedding model.
What --apply stores counts from the service's next start on, for this embedding model only;
MEMORY_THRESHOLD and DOCUMENT_THRESHOLD win over it. GET /stats shows what is in force."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (0 done, 1 failed, 2 wrong usage or settings)."""
    arguments = _parser().parse_args(argv)
    try:
        settings = read_settings()
        set_up_logs(settings.log_level)
        return int(arguments.run(settings, arguments))
    except Misconfigured as error:
        print(error.message, file=sys.stderr)
        return 2
    except AppError as error:
        print(error.message, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="start the service (HOST and PORT, or these)")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int)
    serve.add_argument("--workers", type=int, help="processes that serve together (WORKERS)")
    serve.set_defaults(run=_serve)
    reindex = commands.add_parser(
        "reindex", help="empty the index and fill it from the database, with today's settings"
    )
    reindex.set_defaults(run=lambda settings, _: asyncio.run(_reindex(settings)))
    calibrate = commands.add_parser(
        "calibrate",
        help="measure on the stored data from which score on memories, facts and documents count",
        description=CALIBRATE,
    )
    calibrate.add_argument("--tenant", help="measure this tenant's data only (default: all)")
    calibrate.add_argument(
        "--sample",
        type=_a_sample,
        default=300,
        help="the most questions of each kind and tenant (default: 300)",
    )
    ending = calibrate.add_mutually_exclusive_group()
    ending.add_argument("--apply", action="store_true", help="store what was measured")
    ending.add_argument(
        "--reset", action="store_true", help="take back what was applied, and measure"
    )
    calibrate.set_defaults(run=lambda settings, a: asyncio.run(_calibrate(settings, a)))
    add_costs(commands)
    add_keys(commands)
    return parser


def _serve(settings: Settings, arguments: argparse.Namespace) -> int:
    from app import serving, workers

    host, port = arguments.host or settings.host, arguments.port or settings.port
    number = settings.workers if arguments.workers is None else arguments.workers
    if number != 1:
        return workers.serve(settings, number, host=host, port=port)
    return serving.serve(settings, host=host, port=port)


async def _reindex(settings: Settings) -> int:
    """Fill the index anew; after a run that was cut off, no start is accepted but a new run."""
    async with open_runtime(settings, check=False) as runtime:
        await runtime.index.ping()
        half_filled = replace(runtime.stamp, model=f"{runtime.stamp.model}, but only in part,")
        await set_stamp(runtime.database, half_filled)
        for name in await runtime.index.counts():
            if name.partition("--")[0] in ("documents", "memory"):
                await runtime.index.clear(name)
        for tenant_id in await _tenants(runtime):
            filled = await runtime.documents.refill(tenant_id)
            print(f"{tenant_id}: {filled} documents", flush=True)
            filled = await runtime.checkpoints.refill(tenant_id)
            print(f"{tenant_id}: {filled} episodes", flush=True)
            if filled := await runtime.fact_pusher.refill(tenant_id):
                print(f"{tenant_id}: {filled} facts of no episode", flush=True)
            await runtime.memory_words.all(tenant_id)
            await runtime.audit.write(_operator(tenant_id), "service.reindex")
        await note_version(runtime.database)
        await set_stamp(runtime.database, runtime.stamp)
        print(f"the index is filled with {runtime.stamp}")
    return 0


async def _calibrate(settings: Settings, arguments: argparse.Namespace) -> int:
    async with open_runtime(settings) as runtime:
        embedder, database = runtime.embedder, runtime.database
        await runtime.sessions.settle(arguments.tenant)
        if arguments.reset:
            await reset(database, embedder)
            await runtime.audit.write(_operator(), "thresholds.reset")
            print("what was applied is taken back; a running service follows at its next start")
        measure = Measure(database, runtime.index, embedder, sample=arguments.sample)
        tenants = [arguments.tenant] if arguments.tenant else await _tenants(runtime)
        print(f"{embedder.name} ({embedder.dimension} dimensions)")
        found: dict[str, float] = {}
        for kind, spread in (await measure.all(tenants)).items():
            for line in report(kind, spread, getattr(runtime.gates, kind)):
                print(line)
            if tells_apart(spread):
                found[kind] = spread.best().threshold
        if arguments.apply and found:
            await apply(database, embedder, Calibrated(**found), utc_now())
            await runtime.audit.write(_operator(), "thresholds.apply")
            told = ", ".join(f"{kind} {value:.3f}" for kind, value in found.items())
            print(f"applied: {told}; a running service takes them up at its next start")
            for kind in found:
                if getattr(runtime.gates, kind).origin == "setting":
                    print(f"the setting of {kind} wins over it: {_SETTINGS[kind]}")
        elif arguments.apply:
            print("nothing is applied")
    return 0


def _operator(tenant_id: str = DEFAULT_TENANT) -> Actor:
    return Actor(tenant_id, "cli", "admin")


def _a_sample(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_QUESTIONS:
        raise argparse.ArgumentTypeError(f"expected 1 to {MOST_QUESTIONS}, got {text!r}")
    return int(text)


async def _tenants(runtime: Runtime) -> list[str]:
    every = sa.union(*(sa.select(table.c.tenant_id) for table in (documents, episodes, facts)))
    rows = await runtime.database.read(lambda c: c.execute(every).scalars().all())
    return sorted(rows)
