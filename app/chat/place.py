"""Where a conversation that a client tells goes on, and what it asks again. Touches: sessions.

OpenAI's clients send the whole conversation each time, most of them without an id of it or of the
message. So the session is found by what was said, and a repeat by where it stands.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from app.errors import NotFound
from app.llm.base import Say
from app.sessions.base import Message, SessionStore

TAIL_MESSAGES = 8
CANDIDATES = 8  # conversations with the same first message that are looked through, newest first
RETRY_WITHIN = timedelta(minutes=1)
DELIVERIES = 10_000


@dataclass(frozen=True, slots=True)
class Wish:
    """A question with the conversation before it, as a client tells them.

    session_id: None lets it be found. tells_all: the client always sends the whole conversation.
    client_message_id: the client's own. is_retry: the client says that it sends this again.
    """

    tenant_id: str
    user_id: str
    session_id: str | None
    question: str
    before: tuple[Say, ...]
    tells_all: bool
    client_message_id: str | None = None
    is_retry: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question belongs. told: the conversation before it; None: as it is stored."""

    session_id: str
    client_message_id: str
    told: tuple[Say, ...] | None


@dataclass(frozen=True, slots=True)
class _Exchange:
    question: Message
    reply: Message


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of a stored session; `is_all`: it is the whole of it."""

    last_seq: int
    exchanges: Sequence[_Exchange]
    is_all: bool


class Places:
    """Finds places; knows which replies left this process whole."""

    def __init__(self, sessions: SessionStore, *, clock: Callable[[], datetime]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._delivered: OrderedDict[str, None] = OrderedDict()

    def note_delivered(self, message_id: str) -> None:
        """Note that a reply went out to its end: the same question is then asked anew."""
        self._delivered[message_id] = None
        self._delivered.move_to_end(message_id)
        if len(self._delivered) > DELIVERIES:
            self._delivered.popitem(last=False)

    async def find(self, wish: Wish) -> Place:
        """Return where a question belongs; costs the same for a session of any length.

        Without a session's id, the session is the one that ends as the conversation begins. A
        conversation that none ends with gets a session of its own, also one that was edited.
        """
        if wish.session_id is not None:
            tail = await self._tail(wish, wish.session_id)
            return self._place(wish, wish.session_id, tail)
        first = next((say.content for say in wish.before if say.role == "user"), wish.question)
        stem = f"conv-{_digest(wish.tenant_id, wish.user_id, first)}"
        newest = await self._newest(wish, stem)
        for number in range(newest, max(-1, newest - CANDIDATES), -1):
            session_id = f"{stem}-{number}"
            tail = await self._tail(wish, session_id)
            if tail is not None and self._goes_on(wish, session_id, tail):
                return self._place(wish, session_id, tail)
        return self._place(wish, f"{stem}-{newest + 1}", None)

    def _goes_on(self, wish: Wish, session_id: str, tail: _Tail) -> bool:
        """Say whether the conversation is this session's."""
        if not tail.exchanges:
            return False
        last = tail.exchanges[-1]
        if not _repeats(wish, session_id, last):
            return _end_alike(wish.before, tail.exchanges)
        if not wish.before:  # asked anew, it is no different from another that begins alike
            return self._is_retry(wish, last)
        earlier = [one for one in tail.exchanges if not _repeats(wish, session_id, one)]
        return not earlier or _end_alike(wish.before, earlier)

    def _place(self, wish: Wish, session_id: str, tail: _Tail | None) -> Place:
        told = wish.before or (() if wish.tells_all else None)
        exchanges = [] if tail is None else tail.exchanges
        alike = [one for one in exchanges if _repeats(wish, session_id, one)]
        if tail is not None and tail.is_all and alike and len(alike) == len(exchanges):
            told = told or ()  # its first question again: what is stored is not before it
        if wish.client_message_id is not None:
            return Place(session_id, wish.client_message_id, told)
        # Its place is known by what was told before it; without that, only the last can be meant.
        is_sure = wish.is_retry and (wish.tells_all or bool(wish.before))
        again = [one for one in alike if is_sure or one is exchanges[-1]]
        if again and self._is_retry(wish, again[-1]):
            return Place(session_id, again[-1].question.client_message_id or "", told)
        here = 0 if tail is None else tail.last_seq
        return Place(session_id, f"{_stem(wish, session_id)}-{here}", told)

    def _is_retry(self, wish: Wish, stored: _Exchange) -> bool:
        """Say whether a repeat is for an answer that did not arrive, and not for another one."""
        if wish.client_message_id is not None or wish.is_retry:
            return True
        if stored.reply.status != "complete":
            return True
        is_fresh = self._clock() - stored.reply.created_at < RETRY_WITHIN
        return is_fresh and stored.reply.id not in self._delivered

    async def _newest(self, wish: Wish, stem: str) -> int:
        """Return the number of the newest session of a stem, by doubling steps; -1: none.

        Also one of somebody else counts, who may have named it so to be in the way.
        """
        found, step = -1, 1
        while await self._is_taken(wish, f"{stem}-{found + step}"):
            found += step
            step *= 2
        missing = found + step
        while missing - found > 1:
            middle = (found + missing) // 2
            if await self._is_taken(wish, f"{stem}-{middle}"):
                found = middle
            else:
                missing = middle
        return found

    async def _is_taken(self, wish: Wish, session_id: str) -> bool:
        try:
            await self._sessions.get(wish.tenant_id, session_id, None)
        except NotFound:
            return False
        return True

    async def _last_seq(self, wish: Wish, session_id: str) -> int | None:
        try:
            session = await self._sessions.get(wish.tenant_id, session_id, wish.user_id)
        except NotFound:  # or somebody else's: beginning the turn says so
            return None
        return session.last_seq

    async def _tail(self, wish: Wish, session_id: str) -> _Tail | None:
        last_seq = await self._last_seq(wish, session_id)
        if last_seq is None:
            return None
        after = max(0, last_seq - TAIL_MESSAGES)
        messages = await self._sessions.messages_after(
            wish.tenant_id, session_id, after, limit=2 * TAIL_MESSAGES
        )
        exchanges = [
            _Exchange(one, two)
            for one, two in pairwise(messages)
            if (one.role, two.role) == ("user", "assistant")
        ]
        return _Tail(last_seq, exchanges, is_all=after == 0)


def _repeats(wish: Wish, session_id: str, stored: _Exchange) -> bool:
    given = stored.question.client_message_id or ""
    if wish.client_message_id is not None:
        return given == wish.client_message_id
    return given.startswith(_stem(wish, session_id) + "-")


def _end_alike(before: Sequence[Say], stored: Sequence[_Exchange]) -> bool:
    """Say whether what was told ends with the stored exchanges, as far as both go back.

    Of a question that was asked anew, any of its replies may be the one that is told.
    """
    told = _exchanges(before)
    matched = None
    for one in reversed(stored):
        if not told:
            break
        if _is_told(told[-1], one):
            matched = told.pop()
            continue
        asked = {told[-1][0], None if matched is None else matched[0]}
        if _bare(one.question.content) not in asked and one.reply.status == "complete":
            return False
    return matched is not None


def _exchanges(before: Sequence[Say]) -> list[tuple[str, str]]:
    """Return the last questions that were told, each with what was said to it."""
    found: list[tuple[str, str]] = []
    said: list[str] = []
    for say in reversed(before):
        if say.role == "assistant":
            said.append(say.content)
        elif say.role == "user":
            found.append((_bare(say.content), _bare(" ".join(reversed(said)))))
            said = []
            if len(found) == 2 * TAIL_MESSAGES:  # a tail holds no more
                break
    return found[::-1]


def _is_told(told: tuple[str, str], stored: _Exchange) -> bool:
    """Say whether a stored exchange is the one that is told.

    A reply may be told in part (its reader stopped it) or with something added.
    """
    question, said = told
    if question != _bare(stored.question.content):
        return False
    kept = _bare(stored.reply.content)
    if stored.reply.status != "complete" or not said:
        return True
    return kept.startswith(said) or said.startswith(kept)


def _stem(wish: Wish, session_id: str) -> str:
    """Return what the ids of a question at its place in a session begin with."""
    return f"told-{_digest(session_id, str(len(wish.before)), wish.question)}"


def _digest(*parts: str) -> str:
    told = "\n".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _bare(text: str) -> str:
    return " ".join(text.split())
