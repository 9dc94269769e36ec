"""What an export holds so far, so that it is whole in itself. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.privacy import holdings as h
from app.privacy.holdings import Section


class Whole:
    """Leaves out what came up while an export was written, and belongs to what is not in it.

    last_seqs: of the sessions in it, the last message.
    """

    def __init__(self) -> None:
        self.last_seqs: dict[str, int] = {}
        self._facts: set[str] = set()

    def take(self, section: Section, page: Sequence[Any]) -> Sequence[Any]:
        """Return the rows of a page that belong to what came before; notes what others need."""
        if section is h.SESSIONS:
            self.last_seqs.update((row.session_id, row.last_seq) for row in page)
        elif section is h.EPISODES:
            return [row for row in page if row.session_id in self.last_seqs]
        elif section is h.FACTS:
            page = [row for row in page if row.number is None or row.session_id in self.last_seqs]
            self._facts.update(row.fact_id for row in page)
        elif section is h.SIGHTINGS:
            return [row for row in page if row.fact_id in self._facts]
        return page
