"""Files -> a sink, one after the other, each with its outcome. Touches: the files, the terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from ingest.errors import IngestError
from ingest.kinds import KINDS, Kinds
from ingest.load import Load, documents_from_file
from ingest.printout import Outcome
from ingest.store import Mode, rehearse, store
from ingest.text_load import TextLoad, is_prose
from ingest.upload import Sink, Stored


@dataclass(frozen=True, slots=True)
class Options:
    """How files are to be read and stored; a text takes only the source and the encoding."""

    kind: str | None = None
    kinds: Kinds = field(default_factory=lambda: KINDS)
    key: str | None = None
    source: str | None = None
    mode: Mode = "upsert"
    encoding: str | None = None
    header: int | Literal["none"] | None = None
    dayfirst: bool | None = None
    currency: str | None = None
    sheet: str | None = None
    strict: bool = False
    with_summary: bool = True


async def ingest_file(file: str, sink: Sink | None, options: Options) -> Outcome:
    """Store one file, or only read it if there is no sink. What fails is in the outcome."""
    try:
        load = await asyncio.to_thread(_opened, Path(file), options)
    except IngestError as error:
        return Outcome(file, error=error.message)
    # A text that shrank must not leave old passages behind.
    mode = options.mode if isinstance(load, Load) else "replace"
    with tqdm(total=load.rows, desc=Path(file).name, unit=" rows", file=sys.stderr) as bar:
        so_far = Stored(0, 0)

        def on_progress(rows_read: int, stored: Stored) -> None:
            nonlocal so_far
            so_far = stored
            bar.update(rows_read - bar.n)

        try:
            if sink is None:
                samples = await rehearse(load, on_progress=on_progress)
                return Outcome(file, load.report(), samples=samples)
            stored = await store(load, sink, mode=mode, on_progress=on_progress)
            return Outcome(file, load.report(), stored)
        except IngestError as error:
            return Outcome(file, load.report(), None if sink is None else so_far, error.message)


def same_source(files: Sequence[str], options: Options) -> str | None:
    """Return the source that two files would take from each other, each replacing the other."""
    taken: set[str] = set()
    for file in files:
        if options.mode == "replace" or is_prose(Path(file)):
            source = options.source or Path(file).name
            if source in taken:
                return source
            taken.add(source)
    return None


def _opened(path: Path, options: Options) -> Load | TextLoad:
    if is_prose(path):
        return TextLoad(path, source=options.source, encoding=options.encoding)
    return documents_from_file(
        path,
        kind=options.kind,
        kinds=options.kinds,
        key=options.key,
        source=options.source,
        encoding=options.encoding,
        header=options.header,
        dayfirst=options.dayfirst,
        currency=options.currency,
        sheet=options.sheet,
        strict=options.strict,
        with_summary=options.with_summary,
    )
