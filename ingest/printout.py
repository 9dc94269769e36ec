"""What became of the files, for people and for machines. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ingest.load import Report
from ingest.text_load import TextReport
from ingest.upload import Stored

MAX_SKIPPED_SHOWN = 20
MAX_SAMPLE_CHARS = 1_000

_SEPARATED = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One file. `error` says why it failed; what was `stored` before that stays stored.

    `report` is None if the file could not be opened; `stored` is None in a dry run. `samples` are
    the first rendered texts of a dry run.
    """

    file: str
    report: Report | TextReport | None = None
    stored: Stored | None = None
    error: str | None = None
    samples: tuple[str, ...] = ()


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return one JSON object: `{"ok", "files": [{"file", …as_dict}]}`."""
    whole = {
        "ok": all(outcome.error is None for outcome in outcomes),
        "files": [{"file": outcome.file, **as_dict(outcome)} for outcome in outcomes],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2)


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return `{"ok", "error", "stored", "unchanged", "removed", …report, "samples"}` for JSON.

    The counts are left out of a dry run, and the samples of any other run.
    """
    return {
        "ok": outcome.error is None,
        "error": outcome.error,
        **(asdict(outcome.stored) if outcome.stored else {}),
        **(asdict(outcome.report) if outcome.report else {}),
        **({"samples": list(outcome.samples)} if outcome.samples else {}),
    }


def as_text(outcomes: Sequence[Outcome]) -> str:
    """Return the report that a person reads."""
    return "\n".join(line for outcome in outcomes for line in _lines(outcome))


def _lines(outcome: Outcome) -> list[str]:
    lines = [f"{outcome.file}: {_headline(outcome)}"]
    if isinstance(outcome.report, Report):
        has_summary = outcome.stored is None or not outcome.stored.left_out
        lines += [f"  {line}" for line in _details(outcome.report, has_summary=has_summary)]
    elif outcome.report is not None:
        lines.append(f"  passages of a text, source {outcome.report.source!r}")
        lines += [f"  warning: {warning}" for warning in outcome.report.warnings]
    if outcome.stored is not None:
        lines += [f"  {line}" for line in _withheld(outcome.stored)]
    lines += [_indented(sample) for sample in outcome.samples]
    return lines


def _headline(outcome: Outcome) -> str:
    tally = _tally(outcome.stored) if outcome.stored else ""
    if outcome.error is not None:
        has_begun = outcome.stored not in (None, Stored(0, 0))
        return f"FAILED: {outcome.error}" + (f" (before that: {tally})" if has_begun else "")
    documents = outcome.report.documents if outcome.report else 0
    return f"{_many(documents, 'document')} ({tally or 'dry run, nothing written'})"


def _tally(stored: Stored) -> str:
    told = f"{stored.stored:,} stored, {stored.unchanged:,} unchanged"
    return f"{told}, {stored.removed:,} removed" if stored.removed else told


def _withheld(stored: Stored) -> list[str]:
    lines = []
    if stored.left_out:
        lines.append(f"left out, for they name a user who was erased: {stored.left_out:,}")
    if stored.redacted:
        kinds = sorted(stored.redacted.items())
        lines.append("redacted: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds))
    return lines


def _details(report: Report, *, has_summary: bool) -> list[str]:
    known_by = f"column {report.key!r}" if report.key else "their content"
    lines = [
        f"kind {report.kind}, source {report.source!r}, {_format(report)}",
        f"{_many(report.rows, 'row')}, known by {known_by}",
        "columns: " + ", ".join(f"{name} ({kind})" for name, kind in report.columns.items()),
    ]
    if report.duplicates:
        repeat = "row repeats" if report.duplicates == 1 else "rows repeat"
        lines.append(f"{report.duplicates:,} {repeat} an earlier one and became no document")
    if report.summary_id and has_summary:
        lines.append("a summary of the whole table was written too")
    if report.skipped_total:
        lines.append(f"{_many(report.skipped_total, 'row')} skipped:")
        lines += [f"  line {row.line}: {row.reason}" for row in report.skipped[:MAX_SKIPPED_SHOWN]]
        if (more := report.skipped_total - MAX_SKIPPED_SHOWN) > 0:
            lines.append(f"  and {more:,} more")
    return lines + [f"warning: {warning}" for warning in report.warnings]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _format(report: Report) -> str:
    separated = _SEPARATED.get(report.delimiter, report.delimiter)
    told = f"{report.encoding}, {separated}-separated" if separated else report.encoding
    where = "no header" if report.header_row is None else f"header in line {report.header_row}"
    return f"{told}, {where}"


def _indented(sample: str) -> str:
    if len(sample) > MAX_SAMPLE_CHARS:
        sample = f"{sample[:MAX_SAMPLE_CHARS]} … ({len(sample):,} characters)"
    first, *rest = sample.splitlines()
    return "\n".join([f"  > {first}", *(f"    {line}" for line in rest)])
