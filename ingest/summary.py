"""What a whole table says, counted while its rows pass. Touches nothing.

A search finds a few rows, never all, so "how many" and "in total" need a text of their own: a
paragraph a column, each found by itself, and the same text for the same rows in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.columns import label
from ingest.document import CHUNK_CHARS
from ingest.tallies import MAX_VALUE_CHARS, Tally
from ingest.values import ColumnType

MAX_COLUMNS = 100


class Summary:
    """Counts the rows of one table, in bounded memory.

    name: what the table is called; plural: what its rows are. amounts: headers of columns whose
    numbers are money, with the currency that a header names.
    """

    def __init__(
        self,
        name: str,
        plural: str,
        types: Mapping[str, ColumnType],
        amounts: Mapping[str, str | None] | None = None,
    ) -> None:
        self._name = " ".join(name.split())[:MAX_VALUE_CHARS]
        self._plural = plural
        self._labels = [label(header)[:MAX_VALUE_CHARS] for header in types][:MAX_COLUMNS]
        self._more_columns = len(types) - len(self._labels)
        self._amounts = amounts or {}
        self._tallies = [
            Tally(header, "money" if header in self._amounts and held == "number" else held)
            for header, held in list(types.items())[:MAX_COLUMNS]
        ]
        self.rows = 0

    def add(self, record: Mapping[str, str], currency: str | None = None) -> None:
        """Count a row. `currency` is that of its amounts which name none."""
        self.rows += 1
        for tally in self._tallies:
            if cell := record[tally.header]:
                is_amount = tally.header in self._amounts
                tally.add(cell, self._amounts[tally.header] or currency if is_amount else None)

    def text(self) -> str:
        """Return the paragraphs, the one about the table as a whole first."""
        rows = f"{self.rows:,} {self._plural}"
        whole = f"Table {self._name} has {rows}."
        if self._plural != "rows":
            whole = f"{whole} Each row is one of them: there are {rows} in all."
        start = f"Of the {rows} in {self._name},"
        more = [f"{self._more_columns:,} more, not counted here"] if self._more_columns else []
        paragraphs = _listed(f"{whole} Columns", self._labels + more, [])
        too_many = []
        for name, tally in zip(self._labels, self._tallies, strict=True):
            facts, values = tally.facts(name, self.rows), tally.listed()
            by = f"the year of {name}" if tally.type == "date" else name
            if values:
                paragraphs += _listed(f"{start} counted by {by}", values, facts)
            elif facts:
                paragraphs.append(f"{start} {_continued('. '.join(facts))}.")
            elif tally.filled:
                too_many.append(f"{name} ({tally.different()})")
        if too_many:
            paragraphs += _listed(f"{start} columns that are not counted", too_many, [])
        return "\n\n".join(paragraphs)


def _continued(sentence: str) -> str:
    """Return a sentence as it goes on behind a comma."""
    return f"the {sentence[4:]}" if sentence.startswith("The ") else sentence


def _listed(head: str, items: list[str], facts: list[str]) -> list[str]:
    """Return the facts behind the items, cut into paragraphs of CHUNK_CHARS that begin alike."""
    done: list[str] = []
    text = f"{head}: {items[0]}"
    for item in items[1:]:
        if len(text) + len(item) + 3 > CHUNK_CHARS:
            done.append(f"{text}.")
            text = f"{head}, continued: {item}"
        else:
            text += f", {item}"
    for fact in facts:
        if len(text) + len(fact) + 3 <= CHUNK_CHARS:
            text += f". {fact}"
        else:
            done.append(f"{text}.")
            text = fact
    return [*done, f"{text}."]
