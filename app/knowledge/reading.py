"""Uploaded files: opened, rehearsed, stored under a claim. Touches: the file, the documents.

Apart from `loads`, which imports it only when a file comes: pandas takes a second to import.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from app.errors import UnreadableFile
from app.jobs import Claim
from app.knowledge.documents import Documents
from app.knowledge.uploads import Upload
from ingest.document import Document
from ingest.errors import IngestError, UnknownColumn, UnknownKind, UnreadableTable
from ingest.kinds import Kinds
from ingest.load import documents_from_file
from ingest.store import Batches, rehearse, store
from ingest.text_load import TextLoad
from ingest.upload import PAGE_IDS, Stored

SAVE_EVERY_SECONDS = 1.0


class Load(Batches, Protocol):
    """A file that was looked through; `rows` are to come, or the passages of a text."""

    @property
    def rows(self) -> int: ...

    def report(self) -> Any: ...


def open_load(path: Path, upload: Upload, kinds: Kinds) -> Load:
    """Look through a file. Raises `UnreadableFile`. Blocking."""
    try:
        return _open(path, upload, kinds)
    except IngestError as error:
        raise _unreadable(error, _skipped(path, upload, kinds)) from error


def _open(path: Path, upload: Upload, kinds: Kinds) -> Load:
    if upload.form == "text":
        return TextLoad(path, source=upload.source, **upload.options)
    return documents_from_file(path, source=upload.source, kinds=kinds, **upload.options)


def _skipped(path: Path, upload: Upload, kinds: Kinds) -> list[dict[str, Any]]:
    """Return the rows for which a file was refused, if it is that they should all fit."""
    if not upload.options.get("strict"):
        return []
    lenient = replace(upload, options={**upload.options, "strict": False})
    try:
        skipped = report_of(_open(path, lenient, kinds), None)["skipped"]
    except IngestError:
        return []
    return list(skipped)


async def rehearse_load(load: Load) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read a file to its end; return its report and its first texts. Raises `UnreadableFile`."""
    try:
        samples = await rehearse(load)
    except IngestError as error:
        raise _unreadable(error) from error
    return report_of(load, None), samples


async def store_load(load: Load, upload: Upload, sink: Sink) -> dict[str, Any]:
    """Store a file whole and return its report. Raises `UnreadableFile`, and what the sink does."""
    try:
        stored = await store(load, sink, mode=upload.mode)
    except IngestError as error:
        raise _unreadable(error) from error
    return report_of(load, stored)


def report_of(load: Load, stored: Stored | None) -> dict[str, Any]:
    """Return a report as JSON."""
    told = asdict(load.report())
    return told if stored is None else {**told, **asdict(stored)}


_TROUBLES: Sequence[tuple[type[IngestError], str, str]] = (
    (UnknownColumn, "unknown_column", "key"),
    (UnknownKind, "unknown_kind", "kind"),
    (UnreadableTable, "unreadable_table", "file"),
    (IngestError, "unreadable_file", "file"),
)


def _unreadable(error: IngestError, skipped: Sequence[Mapping[str, Any]] = ()) -> UnreadableFile:
    code, param = next(
        (code, param) for known, code, param in _TROUBLES if isinstance(error, known)
    )
    details = {"skipped": list(skipped)} if skipped else {}
    return UnreadableFile(error.message, code=code, param=param, details=details)


class Sink:
    """The documents of one tenant, as a place for a load to go, while its claim holds.

    progress: called after a batch, but not more often than each second.
    """

    def __init__(
        self, documents: Documents, claim: Claim, progress: Callable[[], Awaitable[None]]
    ) -> None:
        self._documents = documents
        self._claim = claim
        self._progress = progress
        self._told_at = float("-inf")

    async def put(self, documents: Sequence[Document]) -> Stored:
        done = await self._documents.put(self._claim.tenant_id, documents, held=self._claim)
        if time.monotonic() - self._told_at >= SAVE_EVERY_SECONDS:
            self._told_at = time.monotonic()
            await self._progress()
        return Stored(
            done.stored,
            done.unchanged,
            left_out=len(done.left_out),
            redacted=done.redacted,
        )

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        tenant_id = self._claim.tenant_id
        return await self._documents.ids(tenant_id, source=source, after=after, limit=PAGE_IDS)

    async def delete(self, ids: Sequence[str]) -> int:
        return await self._documents.delete_ids(self._claim.tenant_id, ids, held=self._claim)
