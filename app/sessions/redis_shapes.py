"""Sessions and messages as Redis holds them. Touches nothing.

Times are microseconds since the epoch, texts and what comes with them are JSON in ASCII.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from app.db.tables import micros
from app.sessions.base import Message, NewTurn, Session
from app.sessions.redis_scripts import PREFIX

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = ("id", "role", "content", "memory", "client_message_id", "speaker")
_WITH_IT = ("receipt", "error", "steps")
INTERRUPTED = json.dumps(
    {"error": {"code": "interrupted", "message": "the process that answered was stopped"}}
)


@dataclass(frozen=True, slots=True)
class Line:
    """A message as Redis tells it; without a text, only SQL holds it."""

    seq: int
    text: str | None
    status: str | None
    with_it: str | None
    holder: str | None

    def message(self, session: Session) -> Message:
        told = json.loads(self.text or "{}")
        return Message(
            tenant_id=session.tenant_id,
            session_id=session.session_id,
            seq=self.seq,
            status=self.status,  # type: ignore[arg-type]
            created_at=moment(told.pop("at")),
            **told,
            **(json.loads(self.with_it) if self.with_it else {}),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A message that SQL does not hold as it is. is_wish: it was taken up by a repeat, which says
    anew whether it may be remembered. lease: microseconds that its holder has left."""

    version: str
    lease: int
    holder: str | None
    message: Message

    @property
    def is_wish(self) -> bool:
        return self.version.startswith("w")


def member(tenant_id: str, user_id: str, session_id: str) -> str:
    """Return how a session is named in a set; those of a user begin with `theirs`."""
    return json.dumps([tenant_id, user_id, session_id], separators=(",", ":"))


def theirs(tenant_id: str | None, user_id: str | None) -> str:
    """Return how the names begin of a user's sessions, of a tenant's, of all."""
    named = [one for one in (tenant_id, user_id) if one is not None]
    return json.dumps(named, separators=(",", ":"))[:-1] + "," if named else ""


def named(name: str) -> tuple[str, str, str]:
    tenant_id, user_id, session_id = json.loads(name)
    return tenant_id, user_id, session_id


def keys(tenant_id: str, session_id: str) -> list[str]:
    """Return the keys of a session: no name stands in them."""
    tag = _digest(tenant_id, session_id)
    return [f"{PREFIX}{{{tag}}}:{part}" for part in ("session", "news", "leases", "loader")]


def users_key(tenant_id: str, user_id: str) -> str:
    return f"{PREFIX}user:{_digest(tenant_id, user_id)}"


def said(text: str) -> str:
    """Return by what a text is known again."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def state_of(tenant_id: str, session_id: str, told: Sequence[str]) -> Session:
    """Return a session as a turn needs it: Redis knows nothing of its title."""
    user_id, created, last_seq, at, timezone, tokens, covered, revision, _ = told
    return Session(
        tenant_id=tenant_id,
        session_id=session_id,
        user_id=user_id,
        state="open",
        last_seq=int(last_seq),
        covered_seq=int(covered),
        memory_revision=int(revision),
        created_at=moment(created),
        last_message_at=moment(at),
        closed_at=None,
        timezone=timezone or None,
        tokens=int(tokens),
    )


def line_of(told: Sequence[Any]) -> Line:
    seq, *rest = told
    text, status, with_it, holder = [*rest, None, None, None, None][:4]
    return Line(int(seq), text, status, with_it, holder or None)


def text_of(message: Message) -> str:
    told = {name: getattr(message, name) for name in _TEXT} | {"at": micros(message.created_at)}
    return json.dumps(told, separators=(",", ":"))


def with_it_of(message: Message) -> str:
    told = {name: getattr(message, name) for name in _WITH_IT if getattr(message, name) is not None}
    return json.dumps(told, separators=(",", ":")) if told else ""


def new_message(new: NewTurn, role: Literal["user", "assistant"], now: datetime) -> Message:
    """Return a turn's message or its reply, before it has a number."""
    is_question = role == "user"
    return Message(
        id=uuid.uuid4().hex,
        tenant_id=new.tenant_id,
        session_id=new.session_id,
        seq=0,
        role=role,
        content=new.text if is_question else "",
        status="complete" if is_question else "pending",
        memory=new.memory,
        client_message_id=new.client_message_id if is_question else None,
        created_at=now,
    )


def moment(at: str | int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(at))


def _digest(*names: str) -> str:
    return hashlib.blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()
