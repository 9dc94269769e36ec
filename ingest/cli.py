"""`python -m ingest FILE…`: files -> documents in the service. Touches: files, network, terminal.

Writes through a running service (`--to`), or directly through `app.wiring`. The exit code is 0 if
every file was stored, 1 if one failed (the others are stored all the same), 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tqdm import tqdm

from ingest.document import Document
from ingest.errors import IngestError, NotStored
from ingest.load import documents_from_file
from ingest.printout import Outcome, as_json, as_text
from ingest.templates import TEMPLATES
from ingest.upload import HttpSink, Sink, Stored, http_client

DRY_RUN_SAMPLES = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Raises SystemExit(2) for wrong usage."""
    arguments = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that can't show a letter is no reason to lose the report.
        sys.stdout.reconfigure(errors="backslashreplace")
    outcomes = asyncio.run(_ingest(arguments))
    print(as_json(outcomes) if arguments.json else as_text(outcomes))
    return 0 if all(outcome.error is None for outcome in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ingest",
        description="Turn the rows of CSV files into documents that the service can quote.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="CSV, TSV, `;` or `|` separated")
    parser.add_argument("--kind", choices=list(TEMPLATES), help="default: chosen from the headers")
    parser.add_argument("--key", help="the column that identifies a row; default: found")
    parser.add_argument("--source", help="what the documents belong to; default: the file's name")
    parser.add_argument("--encoding", help="default: by byte order mark, else UTF-8, else cp1252")
    parser.add_argument("--dry-run", action="store_true", help="show some texts, write nothing")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--to", type=_http_url, metavar="URL", help="a running service; default: write directly"
    )
    parser.add_argument(
        "--api-key", default=os.environ.get("API_KEY"), help="for --to; default: $API_KEY"
    )
    parser.add_argument(
        "--tenant", default="default", help="when writing directly; default: %(default)s"
    )
    return parser


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{value!r} is no http:// or https:// address")
    return value


async def _ingest(arguments: argparse.Namespace) -> list[Outcome]:
    try:
        async with _sink(arguments) as sink:
            return [await _ingest_file(file, sink, arguments) for file in arguments.files]
    except NotStored as error:
        return [Outcome(file, error=error.message) for file in arguments.files]


async def _ingest_file(file: str, sink: Sink | None, arguments: argparse.Namespace) -> Outcome:
    try:
        load = documents_from_file(
            Path(file),
            kind=arguments.kind,
            key=arguments.key,
            source=arguments.source,
            encoding=arguments.encoding,
        )
    except IngestError as error:
        return Outcome(file, error=error.message)
    samples: list[str] = []
    total = Stored(0, 0)
    failure: str | None = None
    with tqdm(total=load.rows, desc=Path(file).name, unit=" rows", file=sys.stderr) as bar:
        try:
            for batch in load.batches():
                if sink is None:
                    samples += [document.text for document in batch][
                        : DRY_RUN_SAMPLES - len(samples)
                    ]
                else:
                    new = await sink.put(batch)
                    total = Stored(total.stored + new.stored, total.unchanged + new.unchanged)
                bar.update(load.rows_read - bar.n)
            bar.update(load.rows_read - bar.n)
        except IngestError as error:
            failure = error.message
    stored = None if sink is None else total
    return Outcome(file, load.report(), stored, failure, tuple(samples))


@asynccontextmanager
async def _sink(arguments: argparse.Namespace) -> AsyncIterator[Sink | None]:
    if arguments.dry_run:
        yield None
    elif arguments.to is not None:
        async with http_client(arguments.api_key) as client:
            yield HttpSink(client, arguments.to)
    else:
        async with _direct_sink(arguments.tenant) as sink:
            yield sink


@asynccontextmanager
async def _direct_sink(tenant: str) -> AsyncIterator[Sink]:
    from app.errors import AppError
    from app.identity import check_tenant
    from app.settings import read_settings
    from app.wiring import open_runtime

    class DirectSink:
        async def put(self, documents: Sequence[Document]) -> Stored:
            try:
                result = await runtime.documents.put(tenant, documents)
            except AppError as error:
                raise NotStored(error.message) from error
            return Stored(result.stored, result.unchanged)

    try:
        check_tenant(tenant)
        async with open_runtime(read_settings()) as runtime:
            yield DirectSink()
    except AppError as error:
        raise NotStored(error.message) from error
