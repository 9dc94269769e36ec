"""Rows as an export shows them, each as a line of JSON. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from app.db.tables import Instant
from app.privacy import holdings as h
from app.privacy.holdings import Section

# What becomes of a reply whose process is stopped: who imports it has no process that answers.
_ENDED = {"code": "interrupted", "message": "the process that answered was stopped"}


def lines(
    section: Section, rows: Sequence[Any], receipts: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    names = [(column.name, isinstance(column.type, Instant)) for column in section.columns]
    return [json.dumps(_shown(section, row, names, receipts), ensure_ascii=False) for row in rows]


def _shown(
    section: Section, row: Any, names: Sequence[tuple[str, bool]], receipts: Mapping[str, Any]
) -> dict[str, Any]:
    shown = {}
    for name, is_time in names:
        value = getattr(row, name)
        if is_time and value is not None:
            value = value.isoformat(timespec="microseconds")
        shown[name] = value
    if section is h.MESSAGES:
        if shown["id"] in receipts:
            shown["receipt"] = receipts[shown["id"]]
        if shown["status"] == "pending":
            shown |= {"status": "interrupted", "error": _ENDED}
    return shown
