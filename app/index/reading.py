"""What a filter asks of the tables, read once for all questions with the same. Touches nothing.

Only filters of keys are remembered: ids, kinds and times, no words.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.index import index_table as table
from app.index.base import KEYS, Filter
from app.index.filters import Test, demands, fields, matcher, refused, required

MOST = 1_000
LONGEST = 1_000  # of a filter that is remembered, in characters


@dataclass(frozen=True, slots=True)
class Reading:
    """narrow: what an SQL index answers of a filter; is_settled: it is all that the filter asks.

    is_of_keys: the filter asks for nothing but `KEYS`.
    """

    test: Test
    narrow: table.Narrow | None
    is_settled: bool
    is_of_keys: bool


class Readings:
    """Reads filters. May be called from any thread."""

    def __init__(self) -> None:
        self._known: dict[str, Reading] = {}

    def of(self, filter: Filter) -> Reading:
        """Raises `InvalidFilter`."""
        try:
            written = repr(filter)
        except RecursionError:  # nested so deep that it is refused
            return _read(filter)
        known = self._known.get(written)
        if known is None:
            known = _read(filter)
            if known.is_of_keys and len(written) <= LONGEST:
                if len(self._known) >= MOST:
                    self._known = {}
                self._known[written] = known
        return known


def _read(filter: Filter) -> Reading:
    test = matcher(filter)
    narrow = table.narrow(required(filter), refused(filter, "session_id"))
    is_settled = narrow is not None and narrow.settles(demands(filter))
    return Reading(test, narrow, is_settled, fields(filter) <= KEYS)
