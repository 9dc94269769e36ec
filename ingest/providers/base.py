"""What every webhook sender becomes: events, and what each says of an object. Touches nothing.

A provider is one file beside this one. `verify` looks at the raw bytes; only then does `parse` cut
a delivery into events. `read` says what an event's stored body means, so that a delivery can be
replayed by a newer version of this code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from ingest.errors import IngestError

Fields = Mapping[str, str]
Action = Literal["create", "change", "snapshot", "delete", "restore", "erase"]


class BadSignature(IngestError):
    """The delivery does not come from the configured source, or not now."""


class NotConfigured(IngestError):
    """Something that verification needs is not set; nothing is accepted without it."""


class UnreadableDelivery(IngestError):
    """Verified bytes that are not what this provider sends: no JSON, forbidden XML."""


class UnsupportedMediaType(UnreadableDelivery):
    """The content type is none that this provider sends."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One HTTP request of a sender. `path` has the query; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Source:
    """A configured sender. It fixes the tenant.

    token: the last part of the URL's path, "" for a URL without one; compared before `verify`.
    secrets: what signs or authenticates, any of them: a client secret, `user:password`, `whsec_…`,
    a bearer token. account: what the sender must call itself, where it says so; "" for any.
    public_base_url: how the outside reaches this service, which HubSpot signs.
    """

    tenant_id: str
    provider: str
    token: str = ""
    secrets: tuple[str, ...] = ()
    account: str = ""
    public_base_url: str = ""


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """One object of a CRM: `account` is the sender's (a portal, an organisation), "" for none."""

    account: str
    type: str
    id: str


@dataclass(frozen=True, slots=True)
class Change:
    """What one event says of one object.

    action: "create" and "snapshot" say that it exists; "change" has some fields of it, and does
    not lift a deletion; "restore" lifts one; "erase" is final.
    time: when it became true; None for a sender that doesn't say: then when it arrived.
    fields: texts by the provider's own names; "" clears a field.
    scope: of a snapshot: fields written under it before and missing now are cleared. "" stands for
    the whole object, another one for those fields that one sender chose.
    tie: orders events of the same time and action (an event id that grows, say).
    is_thin: values are missing; the object has to be fetched.
    """

    object: ObjectKey
    action: Action
    time: datetime | None = None
    fields: Fields = field(default_factory=dict)
    scope: str = ""
    tie: str = ""
    is_thin: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a delivery; it becomes an inbox row for each object that it touches.

    key: the same for every attempt to deliver it, at most 512 bytes of UTF-8.
    body: the event as it came, as JSON. changes: empty if there is nothing to do, and `reason`
    says why. is_key_content: the key is only a hash of the content, so that it repeats when an
    object goes back to an earlier state; it is a duplicate only of the object's newest event.
    """

    key: str
    type: str
    body: Mapping[str, Any]
    changes: tuple[Change, ...] = ()
    reason: str = ""
    is_key_content: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer that a sender expects once its events are stored; no body: our usual JSON."""

    status: int = 202
    media_type: str = "application/json"
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that holds another object's id. `header` is the column its name is told under."""

    type: str
    header: str


@dataclass(frozen=True, slots=True)
class ObjectType:
    """How objects of a type are told.

    kind: the template, "" to choose it from the headers. headers: field -> column header, where
    the field's own name says too little. hidden: fields of the provider's housekeeping.
    name: fields that make its display name, the first that are filled, joined by a space each
    (("name",) or ("firstname lastname", "email")). is_told: False for owners and users, which are
    only names for others.
    """

    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    references: Mapping[str, Reference] = field(default_factory=dict)
    name: tuple[str, ...] = ("name",)
    is_told: bool = True


class Provider(Protocol):
    """One sender's ways. Nothing here blocks or keeps state."""

    @property
    def name(self) -> str: ...

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        """Return if the delivery is the source's. Raises `BadSignature`, `NotConfigured`."""
        ...

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        """Cut verified bytes into events. Raises `UnreadableDelivery`."""
        ...

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        """Return what a stored event says, one change for each object, the same as `parse` gave."""
        ...

    def describe(self, object_type: str) -> ObjectType:
        """Return how objects of a type are told; any type has an answer."""
        ...
