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


def _episode(row: Row, user_id: str) -> Looked:
    return look_at(row["session_id"], row["text"], user_id)


def _fact(row: Row, user_id: str) -> Looked:
    return look_at(row["fact_id"], f"{row['statement']}\n{row['value']}", user_id)


def _block(row: Row, user_id: str) -> Looked:
    return look_at(block_ref(user_id, row["label"]), row["value"], user_id)


def _item(row: Row, user_id: str) -> Looked:
    ref = item_ref(user_id, json.loads(row["namespace"]), row["key"])
    return look_at(ref, text_of(row["value"]), user_id)


_LOOK: Mapping[str, Callable[[Row, str], Looked]] = {
    "episodes": _episode,
    "facts": _fact,
    "memory_blocks": _block,
    "store_items": _item,
}


def look(section: Section, row: Row, user_id: str) -> Looked | None:
    """Look at a row's text; None where it has none; documents are looked at with their words."""
    found = _LOOK.get(section.name)
    return None if found is None else found(row, user_id)
