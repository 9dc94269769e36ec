"""What became of the files, for people and for machines. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ingest.load import Report
from ingest.upload import Stored

MAX_SKIPPED_SHOWN = 20

_DELIMITER_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One file. `error` says why it failed; what was `stored` before that stays stored.

    `report` is None if the file could not be opened as a table; `stored` is None in a dry run.
    `samples` are the first rendered texts of a dry run.
    """

    file: str
    report: Report | None = None
    stored: Stored | None = None
    error: str | None = None
    samples: tuple[str, ...] = ()


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return one JSON object: `{"ok", "files": [{"file", "ok", "error", …report}]}`."""
    whole = {
        "ok": all(outcome.error is None for outcome in outcomes),
        "files": [_as_dict(outcome) for outcome in outcomes],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2)


def as_text(outcomes: Sequence[Outcome]) -> str:
    """Return the report that a person reads."""
    return "\n".join(line for outcome in outcomes for line in _lines(outcome))


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    return {
        "file": outcome.file,
        "ok": outcome.error is None,
        "error": outcome.error,
        **(asdict(outcome.stored) if outcome.stored else {}),
        **(asdict(outcome.report) if outcome.report else {}),
        **({"samples": outcome.samples} if outcome.samples else {}),
    }


def _lines(outcome: Outcome) -> list[str]:
    lines = [f"{outcome.file}: {_headline(outcome)}"]
    if outcome.report is not None:
        lines += [f"  {line}" for line in _details(outcome.report)]
    lines += [f"  > {sample}" for sample in outcome.samples]
    return lines


def _headline(outcome: Outcome) -> str:
    stored = outcome.stored
    tally = f"{stored.stored:,} stored, {stored.unchanged:,} unchanged" if stored else ""
    if outcome.error is not None:
        return f"FAILED: {outcome.error}" + (f" (before that: {tally})" if tally else "")
    documents = outcome.report.documents if outcome.report else 0
    return f"{documents:,} documents ({tally or 'dry run, nothing written'})"


def _details(report: Report) -> list[str]:
    delimiter = _DELIMITER_NAMES.get(report.delimiter, report.delimiter)
    known_by = f"column {report.key!r}" if report.key else "their content"
    lines = [
        f"kind {report.kind}, source {report.source!r}, {report.encoding}, {delimiter}-separated",
        f"{report.rows:,} rows, known by {known_by}",
        "columns: " + ", ".join(f"{name} ({kind})" for name, kind in report.columns.items()),
    ]
    if report.duplicates:
        lines.append(f"{report.duplicates:,} rows repeat an earlier one and were collapsed")
    if report.skipped_total:
        lines.append(f"{report.skipped_total:,} rows skipped:")
        lines += [f"  line {row.line}: {row.reason}" for row in report.skipped[:MAX_SKIPPED_SHOWN]]
        if (more := report.skipped_total - MAX_SKIPPED_SHOWN) > 0:
            lines.append(f"  and {more:,} more")
    return lines + [f"warning: {warning}" for warning in report.warnings]
