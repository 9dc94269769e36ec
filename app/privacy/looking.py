"""Which texts of an import are looked at for instructions, as when they are stored. Touches
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from app.memory.item_rows import text_of
from app.privacy.cells import Row
from app.privacy.holdings import Section
from app.quarantine import Kind, Looked, block_ref, item_ref, look_at

KINDS: Mapping[str, Kind] = {
    "documents": "document",
    "episodes": "episode",
    "facts": "fact",
    "memory_blocks": "block",
    "store_items": "item",
}


_REFS: Mapping[str, Callable[[Row, str], str]] = {
    "documents": lambda row, _: row["document_id"],
    "episodes": lambda row, _: row["session_id"],
    "facts": lambda row, _: row["fact_id"],
    "memory_blocks": lambda row, user: block_ref(user, row["label"]),
    "store_items": lambda row, user: item_ref(user, json.loads(row["namespace"]), row["key"]),
}
_TEXTS: Mapping[str, Callable[[Row], str]] = {
    "episodes": lambda row: row["text"],
    "facts": lambda row: f"{row['statement']}\n{row['value']}",
    "memory_blocks": lambda row: row["value"],
    "store_items": lambda row: text_of(row["value"]),
}


def ref_of(section: Section, row: Row, user_id: str) -> str:
    """Return by what the text of a row is known in the quarantine list."""
    return _REFS[section.name](row, user_id)


def look(section: Section, row: Row, user_id: str) -> Looked | None:
    """Look at a row's text; None where it has none; documents are looked at with their words."""
    text = _TEXTS.get(section.name)
    return None if text is None else look_at(ref_of(section, row, user_id), text(row), user_id)
