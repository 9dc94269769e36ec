"""`python -m app keys`: API keys, for who runs the service. Touches: the keys, through wiring."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.api.deps import Id
from app.errors import InvalidRequest
from app.identity import DEFAULT_TENANT
from app.keys import LONGEST_GRACE, Key
from app.settings import Settings
from app.wiring import open_runtime, utc_now

MOST_DAYS = 36_500
_ID: TypeAdapter[str] = TypeAdapter(Id)
Command = Callable[[Settings, argparse.Namespace], Coroutine[Any, Any, None]]


def add_command(commands: Any) -> None:
    """Add `keys` to the commands of an `ArgumentParser`."""
    keys = commands.add_parser("keys", help="create, list, rotate and revoke API keys")
    under = keys.add_subparsers(required=True, metavar="COMMAND")
    create = under.add_parser("create", help="print a new key; it is shown only once")
    create.add_argument("--role", choices=["user", "gateway", "admin"], required=True)
    create.add_argument("--tenant", default=DEFAULT_TENANT)
    create.add_argument("--user", help="the user that a key with the role user speaks for")
    create.add_argument("--name", help="what the key is for, as the list shows it")
    create.add_argument(
        "--expires-days", type=_number(0.001, MOST_DAYS), metavar="DAYS", help="default: never"
    )
    create.add_argument(
        "--filter", type=_json, metavar="JSON",
        help='what every document has to pass, as in \'{"department": "sales"}\'',
    )  # fmt: skip
    create.set_defaults(run=_runs(_create))
    show = under.add_parser("list", help="list the keys, without their secrets")
    show.add_argument("--tenant", help="of this tenant only (default: all)")
    show.set_defaults(run=_runs(_list))
    rotate = under.add_parser("rotate", help="print a new key that replaces one")
    rotate.add_argument("id")
    rotate.add_argument(
        "--grace-hours", type=_number(0, LONGEST_GRACE / timedelta(hours=1)), default=0.0,
        metavar="HOURS", help="how long the old one works on (default: not at all)",
    )  # fmt: skip
    rotate.set_defaults(run=_runs(_rotate))
    revoke = under.add_parser("revoke", help="make a key invalid, for good")
    revoke.add_argument("id")
    revoke.set_defaults(run=_runs(_revoke))


def _runs(command: Command) -> Callable[[Settings, argparse.Namespace], int]:
    def run(settings: Settings, arguments: argparse.Namespace) -> int:
        asyncio.run(command(settings, arguments))
        return 0

    return run


async def _create(settings: Settings, arguments: argparse.Namespace) -> None:
    now = utc_now()
    days = arguments.expires_days
    async with open_runtime(settings, check=False) as runtime:
        key, secret = await runtime.keys.create(
            role=arguments.role,
            tenant_id=arguments.tenant,
            user_id=_user(arguments.user),
            name=arguments.name,
            expires_at=None if days is None else now + timedelta(days=days),
            document_filter=arguments.filter,
            now=now,
        )
    _print_new(key, secret)


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    now = utc_now()
    async with open_runtime(settings, check=False) as runtime:
        for key in await runtime.keys.list_keys(arguments.tenant):
            print(_line(key, now))


async def _rotate(settings: Settings, arguments: argparse.Namespace) -> None:
    grace = timedelta(hours=arguments.grace_hours)
    async with open_runtime(settings, check=False) as runtime:
        key, secret = await runtime.keys.rotate(arguments.id, grace=grace, now=utc_now())
        old = await runtime.keys.get(None, arguments.id)
    _print_new(key, secret)
    print(f"{old.id} ends at {old.expires_at:%Y-%m-%d %H:%M} UTC.")


async def _revoke(settings: Settings, arguments: argparse.Namespace) -> None:
    async with open_runtime(settings, check=False) as runtime:
        await runtime.keys.revoke(arguments.id, now=utc_now())
    print(f"{arguments.id} is revoked")


def _print_new(key: Key, secret: str) -> None:
    print(f"id:     {key.id}\nrole:   {key.role}\ntenant: {key.tenant_id}")
    if key.user_id:
        print(f"user:   {key.user_id}")
    if key.expires_at:
        print(f"ends:   {key.expires_at:%Y-%m-%d %H:%M} UTC")
    print(f"key:    {secret}\nIt can't be shown again.")


def _line(key: Key, now: datetime) -> str:
    state = key.state(now)
    if key.revoked_at is not None:
        state_told = f"{state} {key.revoked_at:%Y-%m-%d}"
    elif key.expires_at is not None:
        told = "at" if state == "expired" else "until"
        state_told = f"{state} {told} {key.expires_at:%Y-%m-%d %H:%M}"
    else:
        state_told = state
    used = f"used {key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never used"
    told_of = [
        f"{key.id} {key.prefix}… {key.tenant_id} {key.role} {key.user_id or '-'} {state_told}",
        used,
        *([f"replaces {key.replaces}"] if key.replaces else []),
        *([f"filter {json.dumps(key.document_filter)}"] if key.document_filter else []),
        *([repr(key.name)] if key.name else []),
    ]
    return ", ".join(told_of)


def _user(given: str | None) -> str | None:
    try:
        return None if given is None else _ID.validate_python(given)
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"--user {told}", param="user_id") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text[:80]!r}") from error


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g}, got {text!r}")
        return value

    return read
