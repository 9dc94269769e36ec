"""`python -m app`: serve, reindex, keys. Touches: wiring."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from app.db.tables import documents, episodes
from app.errors import AppError, Misconfigured
from app.identity import DEFAULT_TENANT
from app.settings import Settings, read_settings
from app.stamp import set_stamp
from app.telemetry import set_up_logs
from app.wiring import Runtime, open_runtime, utc_now


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
    serve.set_defaults(run=_serve)
    reindex = commands.add_parser(
        "reindex", help="empty the index and fill it from the database, with today's settings"
    )
    reindex.set_defaults(run=lambda settings, _: asyncio.run(_reindex(settings)))
    keys = commands.add_parser("keys", help="create, list and revoke API keys")
    _add_key_commands(keys)
    return parser


def _add_key_commands(keys: argparse.ArgumentParser) -> None:
    commands = keys.add_subparsers(required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="print a new key; it is shown only once")
    create.add_argument("--role", choices=["user", "gateway", "admin"], required=True)
    create.add_argument("--tenant", default=DEFAULT_TENANT)
    create.add_argument("--user", help="the user that a key with the role user speaks for")
    create.set_defaults(run=lambda settings, a: asyncio.run(_create_key(settings, a)))
    show = commands.add_parser("list", help="list the keys, without their secrets")
    show.set_defaults(run=lambda settings, _: asyncio.run(_list_keys(settings)))
    revoke = commands.add_parser("revoke", help="make a key invalid, for good")
    revoke.add_argument("id")
    revoke.set_defaults(run=lambda settings, a: asyncio.run(_revoke_key(settings, a.id)))


def _serve(settings: Settings, arguments: argparse.Namespace) -> int:
    import uvicorn

    from app.main import create_app

    uvicorn.run(
        create_app(settings),
        host=arguments.host or settings.host,
        port=arguments.port or settings.port,
        log_config=None,
        access_log=False,
        # Half of the time for the responses, half for the work behind them (see wiring).
        timeout_graceful_shutdown=max(1, int(settings.shutdown_seconds / 2)),
    )
    return 0


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
        await set_stamp(runtime.database, runtime.stamp)
        print(f"the index is filled with {runtime.stamp}")
    return 0


async def _tenants(runtime: Runtime) -> list[str]:
    both = sa.union(sa.select(documents.c.tenant_id), sa.select(episodes.c.tenant_id))
    rows = await runtime.database.read(lambda c: c.execute(both).scalars().all())
    return sorted(rows)


async def _create_key(settings: Settings, arguments: argparse.Namespace) -> int:
    async with open_runtime(settings, check=False) as runtime:
        key, secret = await runtime.keys.create(
            role=arguments.role, tenant_id=arguments.tenant, user_id=arguments.user, now=utc_now()
        )
    print(f"id:     {key.id}\nrole:   {key.role}\ntenant: {key.tenant_id}")
    if key.user_id:
        print(f"user:   {key.user_id}")
    print(f"key:    {secret}\nIt can't be shown again.")
    return 0


async def _list_keys(settings: Settings) -> int:
    async with open_runtime(settings, check=False) as runtime:
        for key in await runtime.keys.list_keys():
            state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else "valid"
            print(key.id, f"{key.prefix}…", key.tenant_id, key.role, key.user_id or "-", state)
    return 0


async def _revoke_key(settings: Settings, key_id: str) -> int:
    async with open_runtime(settings, check=False) as runtime:
        await runtime.keys.revoke(key_id, now=utc_now())
    print(f"{key_id} is revoked")
    return 0
