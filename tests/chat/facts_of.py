"""Facts and memories as tests of the prompt need them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from app.memory.base import Fact
from app.memory.recall import Memory

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fact(statement: str, **fields: Any) -> Fact:
    values: dict[str, Any] = {
        "tenant_id": "default",
        "fact_id": f"id of {statement}",
        "user_id": "ada",
        "key": "user lives_in",
        "value_key": statement.lower(),
        "subject": "user",
        "predicate": "lives_in",
        "value": statement.rpartition(" ")[2],
        "statement": statement,
        "kind": "fact",
        "is_many": False,
        "confidence": 0.9,
        "said_by": "user",
        "session_id": "s1",
        "number": 1,
        "seq": 1,
        "quote": statement,
        "learned_at": MARCH,
        "valid_from": MARCH,
        "ends_at": None,
        "valid_to": None,
        "superseded_by": None,
        "sightings": 1,
        "last_seen_at": MARCH,
        "mark": None,
        "used_at": None,
        "uses": 0,
        "version": 1,
        "indexed_version": 1,
        "created_at": MARCH,
        "updated_at": MARCH,
    }
    return Fact(**(values | fields))


def memory(text: str, *facts: Fact, **fields: Any) -> Memory:
    values: dict[str, Any] = {
        "id": "s1",
        "memory_type": "episode",
        "session_id": "s1",
        "score": 0.8,
        "text": text,
        "created_at": MARCH,
        "facts": facts,
    }
    return Memory(**(values | fields))
