"""Who may see what: users of two tenants, what each wrote, and a look at every answer. For tests.

Each text that is written holds a word of its own, which tells whose it is. An answer, its headers
too, is searched for such words; one that its caller may not see is a leak.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote

import httpx
import jwt
import sqlalchemy as sa

from app.db import metadata
from app.identity import Role
from app.wiring import Runtime
from tests.api.calls import key

T = TypeVar("T")
Json = dict[str, Any]
Seen = Literal["memory", "documents", "export", "all"]

TENANTS = ("default", "acme")
USERS = ("ada", "ada/1", "memory--acme", "ada%2F1")
BOUND_USER = USERS[3]  # who never asks without a filter, so that no reply tells of other documents
SALES = {"department": "sales"}
JWT_SECRET = "a secret that the identity provider shares"
OFTEN = (True, True, True, False)
WORD = re.compile("quux[a-p]+zz", re.IGNORECASE)
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


class Leak(AssertionError):
    """An answer, or a table, held what it must not."""


class Pick(Protocol):
    """Makes the choices of a step."""

    def one(self, among: Iterable[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Who:
    """A caller. user: whom a key or a JWT is bound to."""

    tenant: str
    role: Role | Literal["nobody"]
    user: str | None = None
    bound: bool = False
    by_jwt: bool = False

    def is_about(self, named: str | None) -> str | None:
        return self.user if self.role == "user" else named


@dataclass(slots=True)
class Text:
    """What one word stands for. owner: whose memory it is; None: it is a document.

    about: the user whom a document names in its metadata. quoted: users whom replies told it.
    """

    tenant: str
    owner: str | None
    department: str | None = None
    about: str | None = None
    quoted: set[str] = field(default_factory=set)
    is_erased: bool = False


class Clock:
    """A clock that moves a second with each look, so that nothing happens at one moment."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass(slots=True)
class World:
    client: httpx.AsyncClient
    runtime: Runtime
    clock: Clock
    successes: Counter[tuple[str, str]]
    headers: dict[Who, dict[str, str]] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    ids: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    owners: dict[tuple[str, str, Any], str] = field(default_factory=dict)
    exports: dict[tuple[str, str], bytes] = field(default_factory=dict)
    steps: int = 0

    async def open(self) -> None:
        """Give everybody what they present."""
        for tenant in TENANTS:
            for role in ("admin", "gateway"):
                for bound in (False, True):
                    await self.let_in(Who(tenant, role, bound=bound))
            for user in USERS:
                is_bound = user == BOUND_USER
                for by_jwt in (False, True):
                    await self.let_in(Who(tenant, "user", user, is_bound, by_jwt))
            self.headers[Who(tenant, "nobody")] = {}

    async def let_in(self, who: Who) -> None:
        if who.by_jwt:
            bound = SALES if who.bound else {"doc_type": {"$ne": "none"}}  # it has to be there
            claims: Json = {"sub": who.user, "org": who.tenant, "docs": bound}
            claims["exp"] = self.clock.now + timedelta(99)
            token = jwt.encode(claims, JWT_SECRET, "HS256")
            self.headers[who] = {"Authorization": f"Bearer {token}"}
        elif who.role != "nobody":
            bound = {"document_filter": SALES} if who.bound else {}
            made = await key(self.runtime, who.role, tenant=who.tenant, user=who.user, **bound)
            self.headers[who] = made

    def callers(self, *roles: str) -> list[Who]:
        """Return whom a step may choose from: admins of everything more often, who may do most."""
        return [
            who
            for who in self.headers
            if not roles or who.role in roles
            for _ in range(4 if who.role == "admin" and not who.bound else 1)
        ]

    def word(
        self,
        who: Who,
        owner: str | None,
        *,
        department: str | None = None,
        about: str | None = None,
    ) -> str:
        """Return a new word for a text of a user's, or of a document's."""
        word = "quux" + f"{len(self.texts):x}".translate(_LETTERS) + "zz"
        self.texts[word] = Text(who.tenant, owner, department, about)
        return word

    def known(self, who: Who, kind: str, pick: Pick) -> Any:
        """Return an id that exists, or existed, in some tenant: mostly in the caller's own."""
        own = self.ids.get((who.tenant, kind), [])
        foreign = [id for (_, name), ids in self.ids.items() if name == kind for id in ids]
        is_own: bool = bool(own) and pick.one(OFTEN)
        among = own if is_own else foreign
        return pick.one(among[-20:]) if among else "none"

    def note(self, who: Who, kind: str, id: Any, owner: str | None = None) -> None:
        """Note an id that there is from now on, and whose it is."""
        self.ids.setdefault((who.tenant, kind), []).append(id)
        if owner is not None:
            self.owners[who.tenant, kind, id] = owner

    def entitled(
        self, who: Who, named: str | None, kind: str, id: Any, pick: Pick
    ) -> tuple[Who, str | None]:
        """Let, as often as not, somebody ask who may: the gateway, for whose it is."""
        found = [(tenant, self.owners.get((tenant, kind, id))) for tenant in TENANTS]
        known = [(tenant, owner) for tenant, owner in found if owner is not None]
        if not known or pick.one((True, False)):
            return who, named
        tenant, owner = pick.one(known)
        return Who(tenant, "gateway", bound=owner == BOUND_USER), owner

    async def send(
        self,
        who: Who,
        route: str,
        *,
        named: str | None = None,
        sees: Seen = "memory",
        told: Callable[[Text], bool] | None = None,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        """Send a request as `who`, about the user `named`, and look at all that comes back.

        route: "GET /sessions/{session_id}", its parts taken from `path`. sees: which texts of
        documents the answer may hold. told: what else may be there.
        """
        self.steps += 1
        method, template = route.split(" ")
        parts = options.pop("path", {})
        path = template.format(**{name: quote(str(v), safe="") for name, v in parts.items()})
        response = await self.client.request(
            method, path, headers={**self.headers[who], **(headers or {})}, **options
        )
        if response.status_code >= 500:
            raise AssertionError(f"{route} as {who}: {response.status_code} {response.text}")
        if response.is_success:
            self.successes[method, template] += 1
        about = who.is_about(named)
        sent = json.dumps(options, default=repr)
        for word in words_in(response):
            text = self.texts.get(word)
            if text is None:
                raise Leak(f"{word} was never written")
            if word in sent or (told is not None and self._is_same(who, text) and told(text)):
                continue
            if not self._may_see(who, about, text, sees):
                raise Leak(
                    f"{route} as {who} about {about!r} tells {text}: {around(response, word)}"
                )
        return response

    def _is_same(self, who: Who, text: Text) -> bool:
        return who.role != "nobody" and text.tenant == who.tenant and not text.is_erased

    def _may_see(self, who: Who, about: str | None, text: Text, sees: Seen) -> bool:
        if who.role == "nobody" or text.tenant != who.tenant:
            return False
        if text.owner is None:
            if text.quoted and (about in text.quoted or (about is None and who.role == "admin")):
                return True
            if text.is_erased or sees == "memory":
                return False
            if sees == "export" and text.about != about:
                return False
            return not who.bound or text.department == SALES["department"]
        if text.is_erased:
            return False
        return text.owner == about or (about is None and who.role == "admin")

    def quote(self, response: httpx.Response, tenant: str, user: str) -> None:
        """Note what a reply told a user of documents: from now on the user's messages have it."""
        for word in words_in(response):
            if self.texts[word].owner is None:
                self.texts[word].quoted.add(user)

    def erase(self, tenant: str, user: str) -> None:
        """Forget a user: from now on nobody may see what was theirs."""
        for text in self.texts.values():
            if text.tenant == tenant:
                text.quoted.discard(user)
                if user in (text.owner, text.about):
                    text.is_erased = True

    async def look_everywhere(self) -> None:
        """Search every table for what was erased; a document that was quoted is its reader's."""

        def rows(connection: sa.Connection) -> Iterable[tuple[str, str]]:
            return [
                (table.name, repr(tuple(row)))
                for table in metadata.sorted_tables
                for row in connection.execute(sa.select(table))
            ]

        for table, row in await self.runtime.database.read(rows):
            for word in set(map(str.lower, WORD.findall(row))):
                text = self.texts[word]
                if text.is_erased and not text.quoted:
                    raise Leak(f"{table} has {text}, who was erased: {row[:3000]}")


def around(response: httpx.Response, word: str) -> str:
    """Return where a word stands in an answer."""
    at = response.text.lower().find(word)
    return response.text[max(0, at - 700) : at + 300]


def words_in(response: httpx.Response) -> set[str]:
    """Return the words of ours in a body and its headers."""
    told = response.text + "\n" + "\n".join(map(str, response.headers.raw))
    return {found.lower() for found in WORD.findall(told)}
