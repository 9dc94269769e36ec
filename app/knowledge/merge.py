"""What is known of a CRM object, merged from its events in any order. Touches nothing.

A state is a join of what the events said: merging is commutative, associative and idempotent, so
that any order and any repetition of the same events ends in the same state. Each part of a state
only ever moves to a newer version, and a version is ordered by the time in the CRM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ingest.providers.base import Action, Change, ObjectKey

WHOLE = ""  # the scope of a snapshot of the whole object

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Of two events at the same moment, the one that more likely came later wins.
_RANKS: Mapping[Action, int] = {
    "create": 0,
    "change": 1,
    "snapshot": 1,
    "delete": 2,
    "restore": 3,
    "erase": 4,
}


class Version(NamedTuple):
    """When something was said: microseconds, the rank of the action, what breaks a tie."""

    at: int
    rank: int
    tie: str


class Said(NamedTuple):
    """A field's newest value; of two at the same moment the greater one wins, for one must.

    A value that a snapshot cleared stays as "": an older one that comes late must not win over it.
    """

    version: Version
    scope: str
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """All that is known of one object.

    snapshots: scope -> the newest snapshot, which clears what was said before under its scope.
    thin: the newest event that came without values; fetched: the newest one answered by a fetch.
    """

    said: Mapping[str, Said] = field(default_factory=dict)
    snapshots: Mapping[str, Version] = field(default_factory=dict)
    exists: Version | None = None
    gone: Version | None = None
    thin: Version | None = None
    fetched: Version | None = None
    is_erased: bool = False

    @property
    def is_deleted(self) -> bool:
        if self.is_erased:
            return True
        return self.gone is not None and (self.exists is None or self.exists < self.gone)

    @property
    def is_stale(self) -> bool:
        """Say if the object exists and its newest thin event has not been filled in since."""
        if self.thin is None or self.is_deleted:
            return False
        filled = (self.fetched, self.snapshots.get(WHOLE))
        return not any(version is not None and version.at >= self.thin.at for version in filled)

    @property
    def deleted_at(self) -> datetime | None:
        return moment(self.gone.at) if self.gone is not None and self.is_deleted else None

    @property
    def stale_since(self) -> datetime | None:
        return moment(self.thin.at) if self.thin is not None and self.is_stale else None

    def fields(self) -> dict[str, str]:
        """Return the fields that have a value now, by name."""
        return {name: it.text for name, it in sorted(self.said.items()) if it.text}


def merge(
    state: State, change: Change, *, arrived: datetime, number: int = 0, is_fetched: bool = False
) -> State:
    """Return the state that also knows what `change` says.

    arrived, number: when and as which delivery it came; they order changes that have no time.
    is_fetched: it was asked for, so that it fills in for thin events up to its time.
    """
    version = _version(change, arrived, number)
    exists, gone = state.exists, state.gone
    if change.action in ("delete", "erase"):
        gone = _newest(gone, version)
    if state.is_erased or change.action == "erase":
        # What was erased is never written down again, whatever comes late.
        return State(gone=gone, is_erased=True)
    said = dict(state.said)
    for name, text in change.fields.items():
        it = Said(version, change.scope, text)
        said[name] = max(it, said[name]) if name in said else it
    snapshots = dict(state.snapshots)
    if change.action == "snapshot":
        snapshots[change.scope] = _newest(snapshots.get(change.scope), version)
    if change.action in ("create", "snapshot", "restore"):
        exists = _newest(exists, version)
    return State(
        said={
            name: it._replace(text="") if _is_cleared(it, snapshots) else it
            for name, it in said.items()
        },
        snapshots=snapshots,
        exists=exists,
        gone=gone,
        thin=_newest(state.thin, version) if change.is_thin else state.thin,
        fetched=_newest(state.fetched, version) if is_fetched else state.fetched,
    )


def fetched_at(change: Change, thin: Version) -> Change:
    """Return what was fetched because of the event `thin`, with the time to merge it under.

    It is at least as new as that event, whatever the clocks say.
    """
    asked_for = moment(thin.at)
    return replace(change, time=asked_for if change.time is None else max(change.time, asked_for))


def buried(state: State, now: datetime) -> State:
    """Return the state after the object was deleted here; an event after `now` may lift that."""
    key = ObjectKey("", "", "")
    return merge(state, Change(key, "delete", now), arrived=now)


def moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND


def to_json(state: State) -> dict[str, Any]:
    return {
        "said": {name: [list(it.version), it.scope, it.text] for name, it in state.said.items()},
        "snapshots": {scope: list(version) for scope, version in state.snapshots.items()},
        **{name: _listed(getattr(state, name)) for name in ("exists", "gone", "thin", "fetched")},
        "is_erased": state.is_erased,
    }


def from_json(stored: Mapping[str, Any]) -> State:
    return State(
        said={
            name: Said(Version(*version), scope, text)
            for name, (version, scope, text) in stored.get("said", {}).items()
        },
        snapshots={
            scope: Version(*version) for scope, version in stored.get("snapshots", {}).items()
        },
        **{
            name: Version(*stored[name])
            for name in ("exists", "gone", "thin", "fetched")
            if stored.get(name)
        },
        is_erased=stored.get("is_erased", False),
    )


def change_to_json(change: Change) -> dict[str, Any]:
    """Return a change as an inbox row holds it, where it came from no provider's event."""
    return {
        "object": [change.object.account, change.object.type, change.object.id],
        "action": change.action,
        "time": None if change.time is None else change.time.isoformat(),
        "fields": dict(change.fields),
        "scope": change.scope,
        "tie": change.tie,
        "is_thin": change.is_thin,
    }


def change_from_json(stored: Mapping[str, Any]) -> Change:
    return Change(
        object=ObjectKey(*stored["object"]),
        action=stored["action"],
        time=None if stored["time"] is None else datetime.fromisoformat(stored["time"]),
        fields=stored["fields"],
        scope=stored["scope"],
        tie=stored["tie"],
        is_thin=stored["is_thin"],
    )


def _version(change: Change, arrived: datetime, number: int) -> Version:
    rank = _RANKS[change.action]
    if change.time is None:
        return Version(_micros(arrived), rank, f"{change.tie}#{number:020d}")
    return Version(_micros(change.time), rank, change.tie)


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _newest(one: Version | None, other: Version) -> Version:
    return other if one is None else max(one, other)


def _is_cleared(it: Said, snapshots: Mapping[str, Version]) -> bool:
    scopes = {it.scope, WHOLE}
    return any(scope in snapshots and it.version < snapshots[scope] for scope in scopes)


def _listed(version: Version | None) -> list[Any] | None:
    return None if version is None else list(version)
