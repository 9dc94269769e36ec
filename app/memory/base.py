"""What memory is made of, apart from episodes: facts and entities. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

FactKind = Literal["fact", "preference", "action", "recommendation"]
SaidBy = Literal["user", "assistant", "tool"]
Mark = Literal["critical", "pinned"]

USER = "user"  # the subject of what users say of themselves


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A statement read in a conversation, or told through the API; not stored yet.

    seq, quote: the message, and what it says word for word; none for one that was told.
    said_at: when the message was written; valid_from: since when it holds, which may be earlier.
    is_many: several values may hold at once (`likes`), so that a new one supersedes none.
    """

    subject: str
    predicate: str
    value: str
    statement: str
    kind: FactKind
    is_many: bool
    confidence: float
    said_by: SaidBy
    seq: int | None
    quote: str | None
    said_at: datetime
    valid_from: datetime
    ends_at: datetime | None = None
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """A person, place or thing that a conversation speaks of."""

    name: str
    type: str
    aliases: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored fact. It holds from `valid_from` until `valid_to`; None: it still does.

    `session_id`, `seq` and `quote` say where it was said first; `number` is its number within that
    session. `sightings` counts how often it was said.
    """

    tenant_id: str
    fact_id: str
    user_id: str
    key: str
    value_key: str
    subject: str
    predicate: str
    value: str
    statement: str
    kind: FactKind
    is_many: bool
    confidence: float
    said_by: SaidBy
    session_id: str | None
    number: int | None
    seq: int | None
    quote: str | None
    learned_at: datetime
    valid_from: datetime
    ends_at: datetime | None
    valid_to: datetime | None
    superseded_by: str | None
    sightings: int
    last_seen_at: datetime
    mark: Mark | None
    used_at: datetime | None
    uses: int
    version: int
    indexed_version: int
    created_at: datetime
    updated_at: datetime

    def but(self, **changed: Any) -> Fact:
        """Return it with something changed; `dataclasses.replace` asks for each field by itself."""
        return Fact(**dict(zip(_FIELDS, _values(self), strict=True)) | changed)

    def holds(self, at: datetime) -> bool:
        """Say whether it was true at a time."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)


_FIELDS = Fact.__slots__
_values = attrgetter(*_FIELDS)
