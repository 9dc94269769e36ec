"""Whether the rows of an export belong together. Touches nothing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from app.errors import InvalidRequest
from app.privacy import holdings as h
from app.privacy.cells import Row
from app.privacy.holdings import Section
from app.privacy.looking import KINDS, ref_of


class Checker:
    """Sees all rows once, sessions and facts before what belongs to them.

    strays: of a quarantine list, the memories that did not come: somebody else's, or gone.
    """

    def __init__(self, user_id: str) -> None:
        self._user_id = user_id
        self.strays: set[tuple[str, str]] = set()
        self._seen: set[Hashable] = set()
        self._last_seqs: dict[str, int] = {}
        self._facts: set[str] = set()

    def check(self, section: Section, rows: Sequence[Row], first: int) -> None:
        """Raise `InvalidRequest` for the first row that is amiss; `first` is their number."""
        for number, row in enumerate(rows, first):
            place = f"{section.name}.{number}"
            key = (section.name, *(row[name] for name in section.key))
            if key in self._seen:
                raise InvalidRequest(f"{place}: the same row stands there twice", param=place)
            self._seen.add(key)
            self._belongs(section, row, place)
            if section is h.QUARANTINE and row["kind"] != "document":
                self.strays.add((row["kind"], row["ref"]))
            elif self.strays and section.name in KINDS:
                self.strays.discard((KINDS[section.name], ref_of(section, row, self._user_id)))

    def _belongs(self, section: Section, row: Row, place: str) -> None:
        if section is h.SESSIONS:
            _within(row, "last_seq", 2**31, place)
            _within(row, "covered_seq", row["last_seq"], place)
            self._last_seqs[row["session_id"]] = row["last_seq"]
        elif section is h.FACTS:
            self._facts.add(row["fact_id"])
            if row["number"] is not None and row["session_id"] not in self._last_seqs:
                raise InvalidRequest(f"{place}: its session is not in the export", param=place)
        elif section in (h.MESSAGES, h.EPISODES):
            if row["session_id"] not in self._last_seqs:
                raise InvalidRequest(f"{place}: its session is not in the export", param=place)
            last = self._last_seqs[row["session_id"]]
            if section is h.MESSAGES:
                _within(row, "seq", last, place)
        elif section is h.SIGHTINGS and row["fact_id"] not in self._facts:
            raise InvalidRequest(f"{place}: its fact is not in the export", param=place)


def _within(row: Row, name: str, most: int, place: str) -> None:
    if not 0 <= row[name] <= most:
        raise InvalidRequest(
            f"{place}.{name}: expected 0 to {most}, came {row[name]}", param=f"{place}.{name}"
        )
