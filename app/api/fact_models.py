"""Facts as they go out over HTTP. Touches nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from app.memory.base import Fact

FactKindOut = Literal["fact", "preference", "action", "recommendation"]
MarkOut = Literal["critical", "pinned"]

_EXAMPLE: dict[str, JsonValue] = {
    "fact_id": "5f0c1d7e9a3b4c2d8e6f7a1b2c3d4e5f",
    "user_id": "ada",
    "subject": "user",
    "predicate": "lives_in",
    "value": "Porto",
    "statement": "The user lives in Porto.",
    "kind": "fact",
    "is_many": False,
    "confidence": 0.95,
    "said_by": "user",
    "session_id": "s2",
    "seq": 1,
    "quote": "I moved to Porto",
    "learned_at": "2026-03-04T09:00:00Z",
    "valid_from": "2026-03-04T09:00:00Z",
    "ends_at": None,
    "valid_to": None,
    "is_current": True,
    "superseded_by": None,
    "sightings": 2,
    "last_seen_at": "2026-04-01T12:00:00Z",
    "mark": None,
    "used_at": None,
    "uses": 0,
}


class FactOut(BaseModel):
    """A fact holds from `valid_from` until `valid_to`; null: it still does.

    `is_current` is meant for the time that was asked for, `as_of` or now. `session_id`, `seq` and
    `quote` say where it was said first.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    fact_id: str
    user_id: str
    subject: str
    predicate: str
    value: str
    statement: str
    kind: FactKindOut
    is_many: bool
    confidence: float
    said_by: Literal["user", "assistant", "tool"]
    session_id: str | None
    seq: int | None
    quote: str | None
    learned_at: datetime
    valid_from: datetime
    ends_at: datetime | None
    valid_to: datetime | None
    is_current: bool
    superseded_by: str | None
    sightings: int
    last_seen_at: datetime
    mark: MarkOut | None
    used_at: datetime | None
    uses: int


class KeptFact(FactOut):
    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "vectors": "indexed"}]})

    vectors: Literal["indexed", "being indexed"]


class FactList(BaseModel):
    facts: list[FactOut]
    next_cursor: str | None


class SightingOut(BaseModel):
    session_id: str | None
    seq: int | None
    quote: str
    said_by: Literal["user", "assistant", "tool"]
    said_at: datetime
    statement: str


class FactHistory(BaseModel):
    """`facts` are the periods of all values of this subject and predicate, the first one first.

    `is_cut`: there are more than the latest 500.
    """

    facts: list[FactOut]
    sightings: list[SightingOut]
    is_cut: bool


class ProfileOut(BaseModel):
    user_id: str
    facts: list[FactOut]


class DeletedFact(BaseModel):
    fact_id: str
    vectors: Literal["removed", "being removed"]


def fact_out(fact: Fact, at: datetime) -> FactOut:
    fields = {name: getattr(fact, name) for name in FactOut.model_fields if name != "is_current"}
    return FactOut(**fields, is_current=fact.holds(at))
