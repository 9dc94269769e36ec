"""The contract of the store of live sessions. Touches nothing.

A turn takes two sequence numbers at once, for the user's message and for its reply. So the order
of a session is fixed when a message is stored, whoever answers it and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict

from app.audit import Actor

State = Literal["open", "closed"]
Status = Literal["pending", "complete", "interrupted", "failed"]
MemoryMode = Literal["on", "read", "off"]


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of one user. `covered_seq` is the last message that its episode covers.

    timezone: the user's, an IANA name; None: nobody said it.
    metadata: the caller's own. tokens: of all its messages together, by estimate, those included
    that retention has removed.
    opening: the beginning of its first message, where it has no title of its own and is read to
    be shown (`get`, `list_sessions`).
    last_message_at: also when it was opened again without a message.
    """

    tenant_id: str
    session_id: str
    user_id: str
    state: State
    last_seq: int
    covered_seq: int
    memory_revision: int
    created_at: datetime
    last_message_at: datetime
    closed_at: datetime | None
    timezone: str | None
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    tokens: int = 0
    opening: str | None = None


class Described(TypedDict, total=False):
    """What is to be changed of a session; None empties it."""

    title: str | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Message:
    """One utterance. A reply is `pending` until its turn ends; `error` says why one failed.

    speaker: the person's name, in an imported conversation.
    steps: an agent's tool calls before its reply, each `{id, name, arguments, result}`.
    """

    id: str
    tenant_id: str
    session_id: str
    seq: int
    role: Literal["user", "assistant"]
    content: str
    status: Status
    memory: MemoryMode
    client_message_id: str | None
    created_at: datetime
    receipt: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    speaker: str | None = None
    steps: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What a caller posts. `holder` names the run that will answer it.

    timezone: the user's, for the whole session from now on; None changes nothing.
    look_back: how many messages before it are wanted with the turn, where the store has them there.
    """

    tenant_id: str
    session_id: str
    user_id: str
    text: str
    client_message_id: str | None
    memory: MemoryMode
    holder: str
    timezone: str | None = None
    look_back: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A stored user message and its reply; `mine` says that the caller, `holder`, answers it.

    is_taken_over: another run was at it, whose lease ran out.
    is_next: when it was stored, all earlier turns of its session had ended; False: ask.
    before: what `SessionStore.history` tells of `look_back` messages; None: ask.
    """

    session: Session
    question: Message
    reply: Message
    holder: str
    mine: bool
    is_taken_over: bool = False
    is_next: bool = False
    before: Sequence[Message] | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Where live sessions are held, and what is wrong with that."""

    place: str
    trouble: str | None = None


class SessionStore(Protocol):
    """Sessions and messages. Each method is one short transaction that commits itself.

    Live sessions may be held outside of SQL. Then `settle` brings to SQL what is not there yet,
    before SQL is read or changed by anybody else, and `let_go` says that SQL was changed. Where
    SQL holds them all, both do nothing.
    """

    async def open(self) -> None:
        """Connect. Raises `Misconfigured` for a store that may lose what it acknowledges."""
        ...

    async def close(self) -> None: ...

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        """Open the session and store the message; durable on return.

        A repeat (the same `client_message_id`; or, without one, the same text as the session's
        last message when that was not answered) gives the turn that is stored, and takes over the
        answering where nobody is at it. Raises `NotFound` for a session of another user,
        `Conflict` for a `client_message_id` that came with another text.
        """
        ...

    async def is_answered(self, tenant_id: str, session_id: str, client_message_id: str) -> bool:
        """Say whether the message of this id has its whole reply, whoever's session it is."""
        ...

    async def is_next(self, turn: Turn) -> bool:
        """Say whether all earlier turns of the session have ended; lapsed ones are ended here."""
        ...

    async def renew(self, turn: Turn) -> bool:
        """Extend the lease of a pending reply; False if another run holds it or it is gone."""
        ...

    async def end_turn(
        self,
        turn: Turn,
        *,
        status: Status,
        content: str,
        receipt: Mapping[str, Any] | None,
        error: Mapping[str, Any] | None,
        steps: Sequence[Mapping[str, Any]] | None = None,
        now: datetime,
    ) -> Session | None:
        """Store the reply; None if this run no longer holds it (nothing is stored then)."""
        ...

    async def message(self, tenant_id: str, message_id: str) -> tuple[Message, str]:
        """Return a message and the user it belongs to. Raises `NotFound`."""
        ...

    async def history(self, session: Session, *, before_seq: int, limit: int) -> list[Message]:
        """Return the last `limit` messages with content before one, oldest first, no receipts.

        Nothing if the session was deleted meanwhile, whoever has taken over its id.
        """
        ...

    async def get(self, tenant_id: str, session_id: str, user_id: str | None) -> Session:
        """Return a session. Raises `NotFound`, also where `user_id` is given and not its user."""
        ...

    async def list_sessions(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str] | None,
        state: State | None = None,
    ) -> Sequence[Session]:
        """Return sessions, of one state or of both, the latest first; `after` is the last one of
        the page before: its `last_message_at` and its id."""
        ...

    async def describe(
        self, tenant_id: str, session_id: str, user_id: str | None, said: Described
    ) -> Session:
        """Change what is said of a session. Raises `NotFound`, as `get` does."""
        ...

    async def reopen(
        self, tenant_id: str, session_id: str, user_id: str | None, *, now: datetime
    ) -> Session:
        """Open a closed session again; it counts as used now. An open one stays as it is.

        Its episode stays, and covers what it covered. Raises `NotFound`, as `get` does.
        """
        ...

    async def messages_after(
        self, tenant_id: str, session_id: str, after_seq: int, *, limit: int
    ) -> list[Message]:
        """Return messages after `after_seq` in order, unanswered ones included."""
        ...

    async def delete(
        self, tenant_id: str, session_id: str, *, now: datetime, actor: Actor | None = None
    ) -> tuple[str, int]:
        """Remove a session, its messages and its episode; cancel its jobs.

        actor: who does it on its user's behalf, for the audit log.
        Returns the key of the `sync_episode` job that it leaves for the vectors, and the number
        of messages removed.
        Raises `NotFound`.
        """
        ...

    async def gone_quiet(self, *, before: datetime, limit: int) -> list[Session]:
        """Return open sessions without a message since `before`, the longest quiet first."""
        ...

    async def end_lapsed(self) -> int:
        """Mark replies whose run has died as interrupted; returns how many."""
        ...

    async def counts(self, tenant_id: str) -> Mapping[str, int]:
        """Return the numbers of sessions (open, closed) and messages of a tenant."""
        ...

    async def settle(
        self,
        tenant_id: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """Return once SQL holds all that was acknowledged: of a session, of a user, of a tenant,
        of all. Raises `StorageUnavailable`."""
        ...

    async def let_go(
        self, tenant_id: str, session_ids: Iterable[str] = (), *, user_id: str | None = None
    ) -> None:
        """Forget copies of sessions that SQL has changed by itself, or holds no more.

        user_id: of all sessions of this user. What was acknowledged and is not in SQL yet settles
        first, unless its session is gone. Raises `StorageUnavailable`.
        """
        ...

    async def withhold(self, tenant_id: str, session_id: str) -> bool:
        """Keep a session from being held outside of SQL until `let_go` (a minute at most): who
        removes it because nobody uses it must not miss a message. False: it is in use."""
        ...

    async def held(self, tenant_id: str, user_id: str) -> int:
        """Return how many sessions of a user are held outside of SQL."""
        ...

    async def tend(self) -> None:
        """Settle what a run that died has left; to be called every few seconds."""
        ...

    async def health(self) -> Health:
        """Say where live sessions are held, and look if that answers."""
        ...
