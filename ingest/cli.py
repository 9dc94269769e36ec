"""`python -m ingest FILE…`: files -> documents in the service. Touches: files, network, terminal.

Writes through a running service (`--to`), or directly through `app.wiring`. The exit code is 0 if
every file was stored, 1 if one failed (the others are stored all the same), 2 for wrong usage.
`python -m ingest reconcile` asks a CRM for what was changed there and never told.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ingest.arguments import ingest_parser, options_of, reconcile_parser
from ingest.document import Document
from ingest.errors import IngestError, NotStored
from ingest.printout import Outcome, as_json, as_text
from ingest.run import Options, ingest_file, same_source
from ingest.upload import PAGE_IDS, HttpSink, Sink, Stored, http_client

if TYPE_CHECKING:
    from app.wiring import Runtime


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Raises SystemExit(2) for wrong usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that can't show a letter is no reason to lose the report.
        sys.stdout.reconfigure(errors="backslashreplace")
    if given[:1] == ["reconcile"]:
        return _reconcile(reconcile_parser().parse_args(given[1:]))
    parser = ingest_parser()
    arguments = parser.parse_args(given)
    try:
        options = options_of(arguments)
    except IngestError as error:
        parser.error(error.message)
    if (source := same_source(arguments.files, options)) is not None:
        parser.error(
            f"two files would be the source {source!r}, and the second would replace the first;"
            " read them in runs of their own, each with a --source"
        )
    outcomes = asyncio.run(_ingest(arguments, options))
    print(as_json(outcomes) if arguments.json else as_text(outcomes))
    return 0 if all(outcome.error is None for outcome in outcomes) else 1


async def _ingest(arguments: argparse.Namespace, options: Options) -> list[Outcome]:
    try:
        async with _sink(arguments) as sink:
            return [await ingest_file(file, sink, options) for file in arguments.files]
    except NotStored as error:
        return [Outcome(file, error=error.message) for file in arguments.files]


@asynccontextmanager
async def _sink(arguments: argparse.Namespace) -> AsyncIterator[Sink | None]:
    if arguments.dry_run:
        yield None
    elif arguments.to is not None:
        async with http_client(arguments.api_key) as client:
            yield HttpSink(client, arguments.to)
    else:
        async with _opened(arguments.tenant) as runtime:
            yield _DirectSink(runtime, arguments.tenant)


class _DirectSink:
    """The documents of one tenant in this process."""

    def __init__(self, runtime: Runtime, tenant: str) -> None:
        self._documents = runtime.documents
        self._tenant = tenant

    async def put(self, documents: Sequence[Document]) -> Stored:
        with _told():
            result = await self._documents.put(self._tenant, documents)
        return Stored(
            result.stored,
            result.unchanged,
            left_out=len(result.left_out),
            redacted=result.redacted,
        )

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        with _told():
            return await self._documents.ids(
                self._tenant, source=source, after=after, limit=PAGE_IDS
            )

    async def delete(self, ids: Sequence[str]) -> int:
        with _told():
            return await self._documents.delete_ids(self._tenant, ids)


def _reconcile(arguments: argparse.Namespace) -> int:
    try:
        found = asyncio.run(_reconciled(arguments))
    except NotStored as error:
        print(f"FAILED: {error.message}")
        return 1
    changes = "1 change" if found == 1 else f"{found:,} changes"
    print(f"{arguments.provider}: {changes} since {arguments.since.isoformat()} put into the inbox")
    return 0


async def _reconciled(arguments: argparse.Namespace) -> int:
    async with _opened(arguments.tenant) as runtime:
        return await runtime.records.reconcile(
            arguments.tenant, arguments.provider, arguments.since
        )


@asynccontextmanager
async def _opened(tenant: str) -> AsyncIterator[Runtime]:
    """Open the service's parts in this process. Raises NotStored with what is to be changed."""
    from app.identity import check_tenant
    from app.settings import read_settings
    from app.wiring import open_runtime

    with _told():
        check_tenant(tenant)
        async with open_runtime(read_settings()) as runtime:
            yield runtime


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the service raises on purpose into NotStored."""
    from app.errors import AppError

    try:
        yield
    except AppError as error:
        raise NotStored(error.message) from error
