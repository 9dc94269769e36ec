"""What the command line takes, checked. Touches: the environment, a file of kinds."""

from __future__ import annotations

import argparse
import os
import re
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

from ingest.kinds import KINDS, read_kinds, template_of
from ingest.run import Options

PROVIDERS = ("hubspot", "pipedrive", "salesforce")

# As the service has it, which would list a longer one but could not address it.
MAX_SOURCE_BYTES = 512

_AGO = re.compile(r"([0-9]{1,6})([hd])")


def ingest_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ingest",
        description="Turn files into documents that the service can quote: each row of a table"
        " (CSV, TSV, `;` or `|` separated, Excel), each passage of a text (Markdown, HTML, PDF,"
        " DOCX, plain).",
        epilog="`python -m ingest reconcile --help`: what was changed in a CRM and never told.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    told = parser.add_argument_group("how rows are told")
    told.add_argument(
        "--kind", help=f"{', '.join(KINDS)}, or one of --kinds; default: chosen from the headers"
    )
    told.add_argument("--kinds", metavar="TOML", help="a file with kinds of your own")
    told.add_argument("--key", help="the column that identifies a row; default: found")
    told.add_argument(
        "--source", type=_source, help="what the documents belong to; default: the file's name"
    )
    told.add_argument(
        "--currency", metavar="CODE", help="of amounts that don't say theirs, such as EUR"
    )
    told.add_argument("--no-summary", action="store_true", help="no document about a whole table")
    read = parser.add_argument_group("how tables are read")
    read.add_argument("--encoding", help="default: by byte order mark, else UTF-8, else cp1252")
    read.add_argument(
        "--header",
        type=_header,
        metavar="none|N",
        help="no header, or the line it stands in; default: found",
    )
    order = read.add_mutually_exclusive_group()
    order.add_argument(
        "--dayfirst",
        action="store_const",
        const=True,
        help="03/04/2026 is in April; default: what the column's other dates say",
    )
    order.add_argument("--monthfirst", dest="dayfirst", action="store_const", const=False)
    read.add_argument("--sheet", help="of a workbook; default: the first that holds a table")
    read.add_argument("--strict", action="store_true", help="refuse a file with rows to be skipped")
    kept = parser.add_argument_group("where documents go")
    kept.add_argument(
        "--mode",
        choices=["upsert", "replace"],
        default="upsert",
        help="replace: remove what is not in the file any more; always so for texts;"
        " default: %(default)s",
    )
    kept.add_argument("--dry-run", action="store_true", help="show some texts, write nothing")
    kept.add_argument("--json", action="store_true", help="print the report as one JSON object")
    kept.add_argument(
        "--to", type=_http_url, metavar="URL", help="a running service; default: write directly"
    )
    kept.add_argument(
        "--api-key", default=os.environ.get("API_KEY"), help="for --to; default: $API_KEY"
    )
    kept.add_argument(
        "--tenant", default="default", help="when writing directly; default: %(default)s"
    )
    return parser


def reconcile_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ingest reconcile",
        description="Ask a CRM for what was changed since a time, and put it into the inbox.",
    )
    parser.add_argument("--provider", required=True, choices=PROVIDERS)
    parser.add_argument(
        "--since",
        required=True,
        type=_since,
        metavar="TIME",
        help="a date or time in ISO form (UTC if it doesn't say), or 24h, 7d",
    )
    parser.add_argument("--tenant", default="default", help="default: %(default)s")
    return parser


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the options for every file. Raises BadKinds and UnknownKind."""
    kinds = KINDS if arguments.kinds is None else read_kinds(arguments.kinds)
    if arguments.kind is not None:
        template_of(arguments.kind, kinds)
    return Options(
        kind=arguments.kind,
        kinds=kinds,
        key=arguments.key,
        source=arguments.source,
        mode=arguments.mode,
        encoding=arguments.encoding,
        header=arguments.header,
        dayfirst=arguments.dayfirst,
        currency=arguments.currency,
        sheet=arguments.sheet,
        strict=arguments.strict,
        with_summary=not arguments.no_summary,
    )


def _header(value: str) -> int | Literal["none"]:
    if value.lower() == "none":
        return "none"
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected none or a line from 1 on, got {value!r}")
    return int(value)


def _source(value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value.encode()) > MAX_SOURCE_BYTES:
        raise argparse.ArgumentTypeError(
            f"expected 1 to {MAX_SOURCE_BYTES} bytes without control characters, got {value!r:.50}"
        )
    return value


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{value!r} is no http:// or https:// address")
    return value


def _since(value: str) -> datetime:
    try:
        if ago := _AGO.fullmatch(value):
            hours = int(ago[1]) * (24 if ago[2] == "d" else 1)
            return datetime.now(UTC) - timedelta(hours=hours)
        at = datetime.fromisoformat(value)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"expected an ISO date or time, or a span such as 24h or 7d, got {value!r}"
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
