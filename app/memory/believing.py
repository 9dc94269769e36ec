"""Which of the facts that a model read are believed. Touches nothing.

The quote must stand in the message, and what a fact states in what was said. What users
say of themselves is believed; what the assistant said only where a user's own words or a document
that it was given say the same, or else as its recommendation. The rest is refused and counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import chain

from app.memory.base import USER, FoundEntity, FoundFact
from app.memory.grounding import Grounds
from app.memory.parts import day_of, speaker_of
from app.memory.reading import Reading
from app.memory.support import Support
from app.memory.when import validity
from app.memory.written import WrittenEntity, WrittenFact, WrittenRelation
from app.sessions.base import Message
from app.text.sentences import is_question, sentences
from app.text.terms import terms

MOST_SUPPORT_CHARS = 200_000  # of one document

_QUOTE_MARKS = str.maketrans(dict.fromkeys("“”„‟«»＂", '"') | dict.fromkeys("‘’‚‛ʼ＇`´", "'"))
_UNSEEN = re.compile(r"[\u200b-\u200f\u2060\ufe0f\ufeff]")
_LEFT_OUT = re.compile(r"(?:\[\s*)?(?:…|\.{3,})(?:\s*\])?")
_MARKED = re.compile(r"^\s*(?:\[\d+\]\s*)?[\w .'-]{1,60}:\s+")
_CLAUSE = re.compile(r"[,;:–—，、；]|\s-\s")
_ASKS = re.compile(
    r"^\W*(?:(?:and|but|so|or|und|et|y|e)\s+)?(?:who|whom|whose|what|which|when|where|why|how|is|are"
    r"|am|was|were|do|does|did|have|has|had|can|could|would|should|shall|will|may|might|if|whether"
    r"|wer|was|wann|wo|wie|warum|welche\w*|ist|sind|bin|hat|habe|kann|ob|wenn|falls|qui|que|quoi"
    r"|est-ce|si|qué|quién|cuál|cuándo|dónde|cómo|es|chi|che|quando|dove|come|se)\b",
    re.IGNORECASE,
)
_MYSELF = frozenset({"user", "the user", "i", "me", "speaker", "the speaker", "you"})


@dataclass(frozen=True, slots=True)
class Believed:
    """What is stored of a reading. `refused` says how many facts were not believed, by reason."""

    facts: tuple[FoundFact, ...]
    entities: tuple[FoundEntity, ...]
    refused: Mapping[str, int] = field(default_factory=dict)


class _Refused(Exception):
    """A fact is not believed."""


def believe(
    reading: Reading,
    messages: Sequence[Message],
    documents: Mapping[int, Sequence[str]],
    previous: str,
    zone: tzinfo,
) -> Believed:
    """Return the facts that the messages support, in the order in which they were said.

    documents: by the number of a reply, the texts of the documents it was given.
    previous: the summary before, whose names a message may take up.
    """
    written = [*reading.facts, *(_as_fact(relation) for relation in reading.relations)]
    if not written and not reading.entities:
        return Believed((), (), {"could not be read": reading.skipped} if reading.skipped else {})
    conversation = _Conversation(messages, documents, previous, zone)
    placed: list[tuple[Message, WrittenFact]] = []
    found: list[FoundFact] = []
    refused: Counter[str] = Counter()
    for fact in written:
        try:
            placed.append((conversation.message(fact), fact))
        except _Refused as reason:
            refused[str(reason)] += 1
    for message, fact in sorted(placed, key=lambda one: one[0].seq):
        try:
            found.append(conversation.believed(fact, message))
        except _Refused as reason:
            refused[str(reason)] += 1
    if reading.skipped:
        refused["could not be read"] = reading.skipped
    entities = [conversation.entity(one) for one in reading.entities]
    return Believed(tuple(found), tuple(one for one in entities if one is not None), dict(refused))


class _Conversation:
    """What was said, to hold facts against, in the order of their messages.

    Each text is read once: a long conversation has many facts.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        documents: Mapping[int, Sequence[str]],
        previous: str,
        zone: tzinfo,
    ) -> None:
        self._messages = messages
        self._documents = documents
        self._previous = previous
        self._zone = zone
        self._plain = {message.seq: plain(message.content) for message in messages}
        self._by_seq = {message.seq: message for message in messages}
        everything = [plain(previous), *self._plain.values()]
        everything += [plain(speaker_of(message)) for message in messages]
        self._everything = "\n".join(everything)
        self._terms = frozenset(terms(self._everything))
        users = [message for message in messages if message.role == "user"]
        self._replies = deque(message for message in messages if message.role != "user")
        self._grounds = Grounds([previous, "user assistant", *self._sources(users)])
        self._dated: dict[tuple[str, ...], Grounds] = {}
        self._stated = {m.seq: Support(_without_questions(m.content)) for m in users}
        self._questions = {message.seq: _questions(message.content) for message in messages}
        self._given: dict[str, Support] = {}

    def believed(self, fact: WrittenFact, message: Message) -> FoundFact:
        """Return a fact as it is stored. Raises `_Refused` with the reason."""
        if _is_asked(fact.quote, self._questions[message.seq]):
            raise _Refused("a question states nothing")
        is_action = fact.kind == "action"
        holds = validity(fact.when, fact.quote, message.created_at, self._zone, is_action=is_action)
        days = [holds.begins, *([holds.ends] if holds.ends else [])]
        dates = [day.astimezone(self._zone).date().isoformat() for day in days]
        grounds = self._grounds_of(message.seq, tuple(dates))
        if not grounds.support(fact.statement, fact.value, fact.subject):
            raise _Refused("it states what was not said")
        said_by = "user" if message.role == "user" else "assistant"
        if said_by == "assistant" and fact.kind != "recommendation":
            self._check_support(fact, message)
        return FoundFact(
            subject=_subject(fact.subject, message),
            predicate=fact.predicate,
            value=fact.value,
            statement=fact.statement,
            kind=fact.kind,
            is_many=fact.many,
            confidence=fact.confidence,
            said_by="user" if said_by == "user" else "assistant",
            seq=message.seq,
            quote=fact.quote,
            said_at=message.created_at,
            valid_from=holds.begins,
            ends_at=holds.ends,
        )

    def entity(self, entity: WrittenEntity) -> FoundEntity | None:
        """Return what was said of an entity; None if it was not named."""
        if not self._was_said(entity.name):
            return None
        return FoundEntity(
            name=entity.name,
            type=entity.type.lower()[:40] or "thing",
            aliases=tuple(name for name in entity.aliases if self._was_said(name)),
            attributes={
                name: value
                for name, value in entity.attributes.items()
                if self._terms.issuperset(terms(value)) and terms(value)
            },
        )

    def _was_said(self, name: str) -> bool:
        return plain(name) in self._everything

    def message(self, fact: WrittenFact) -> Message:
        """Return the message that holds the quote: the one that is named, else the only one.

        Raises `_Refused`.
        """
        named = self._by_seq.get(fact.seq)
        for quote in (fact.quote, _MARKED.sub("", fact.quote)):
            pieces = [piece for piece in map(plain, _LEFT_OUT.split(quote)) if _says(piece)]
            if not pieces:
                continue
            if named is not None and _holds(self._plain[named.seq], pieces):
                return named
            holding = [m for m in self._messages if _holds(self._plain[m.seq], pieces)]
            if len(holding) == 1:
                return holding[0]
        raise _Refused("its quote is in no message")

    def _grounds_of(self, seq: int, dates: tuple[str, ...]) -> Grounds:
        """Return what a fact of a message may rest upon, with the dates that it tells.

        All that users say, for they tell a name when they get to it, and what the assistant has
        said until then.
        """
        heard: list[Message] = []
        while self._replies and self._replies[0].seq <= seq:
            heard.append(self._replies.popleft())
        if heard:
            self._grounds = self._grounds.and_also(self._sources(heard))
            self._dated = {}
        if dates not in self._dated:
            self._dated[dates] = self._grounds.and_also(dates)
        return self._dated[dates]

    def _sources(self, said: Sequence[Message]) -> list[str]:
        return [
            *dict.fromkeys(day_of(message, self._zone) for message in said),
            *dict.fromkeys(speaker_of(message) for message in said),
            *(message.content for message in said),
        ]

    def _check_support(self, fact: WrittenFact, reply: Message) -> None:
        """Raise unless a user said so, or a document that the assistant was given."""
        by_users = (text for seq, text in self._stated.items() if seq < reply.seq)
        documents = (self._document(text) for text in self._documents.get(reply.seq, ()))
        if not any(text.states(fact) for text in chain(by_users, documents)):
            raise _Refused("only the assistant said it")

    def _document(self, text: str) -> Support:
        if text not in self._given:
            self._given[text] = Support(text[:MOST_SUPPORT_CHARS])
        return self._given[text]


def plain(text: str) -> str:
    """Return a text without what may differ in a quote: case, white space, marks, Unicode forms."""
    text = unicodedata.normalize("NFKC", text.translate(_QUOTE_MARKS))
    if not text.isascii():
        text = _UNSEEN.sub("", text.translate(_QUOTE_MARKS))
    return " ".join(text.casefold().split()).strip("\"' ")


def _says(piece: str) -> bool:
    return any(not char.isspace() for char in piece.strip(".,;:!?\"'()[]- "))


def _holds(message: str, pieces: Sequence[str]) -> bool:
    """Say whether the pieces occur one after the other."""
    at = 0
    for piece in pieces:
        at = message.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _questions(message: str) -> list[tuple[str, str]]:
    """Return the questions of a message, as they are and plain."""
    return [(one, plain(one)) for one in sentences(message) if is_question(one)]


def _without_questions(message: str) -> str:
    return "\n".join(one for one in sentences(message) if not is_question(one))


def _is_asked(quote: str, questions: Sequence[tuple[str, str]]) -> bool:
    """Say whether a quote is no more than (a part of) a question of its message.

    A statement may lead to one: `I moved to Porto, where can I eat?`
    """
    wanted = plain(quote)
    for sentence, asked in questions:
        if wanted not in asked and wanted.rstrip("?？؟") not in asked:
            continue
        if _ASKS.match(sentence):
            return True
        clauses = list(_CLAUSE.finditer(asked))
        return not clauses or asked.find(wanted) >= clauses[-1].end()
    return False


def _subject(subject: str, message: Message) -> str:
    """Return whom a fact is about: in an imported conversation the speaker by name."""
    if subject.strip().lower() not in _MYSELF:
        return subject
    return speaker_of(message) if message.speaker and message.role == "user" else USER


def _as_fact(relation: WrittenRelation) -> WrittenFact:
    words = relation.relation.replace("_", " ")
    source = "The user" if relation.source.lower() in _MYSELF else relation.source
    return WrittenFact(
        subject=relation.source,
        predicate=relation.relation,
        value=relation.target,
        statement=f"{source} {words} {relation.target}.",
        many=True,
        seq=relation.seq,
        quote=relation.quote,
    )
