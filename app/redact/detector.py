"""The detector that ships: patterns with the checks that numbers carry. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.redact.base import Finding, Kind


class PatternDetector:
    """A `Detector`. region: the country of telephone numbers that name none, two letters."""

    def __init__(self, *, region: str = "US") -> None:
        self._region = region

    def find(self, text: str, kinds: frozenset[Kind]) -> Sequence[Finding]:
        return ()
