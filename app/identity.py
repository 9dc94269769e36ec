"""Who calls: API keys and what their role may do. Touches: `api_keys`.

A key is shown once and stored as its SHA-256: it is 256 bits of chance, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import sqlalchemy as sa

from app.audit import Actor
from app.db import Database
from app.db.tables import api_keys
from app.errors import Forbidden, InvalidRequest, NotFound, Unauthenticated

Role = Literal["user", "gateway", "admin"]
DEFAULT_TENANT = "default"
LOCAL_USER = "default"  # whose memory it is when a lone developer names nobody
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")

_PRESENTED = sa.select(api_keys.c.tenant_id, api_keys.c.user_id, api_keys.c.role).where(
    api_keys.c.hash == sa.bindparam("presented"), api_keys.c.revoked_at.is_(None)
)
_ANY_KEY = sa.select(api_keys.c.id).limit(1)  # revoked ones too: see `Keys.caller`


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `is_local`: it came without a key, from this machine.

    name: as the audit log and rate limits know it: `key:ID`, `jwt:…`, `setting`, `local`,
    `anonymous`. document_filter: what every document that is read has to pass; None: nothing.
    """

    tenant_id: str
    user_id: str | None
    role: Role
    is_local: bool = False
    name: str = "local"
    document_filter: Mapping[str, Any] | None = None

    @property
    def actor(self) -> Actor:
        return Actor(self.tenant_id, self.name, self.role)

    def acts_for(self, named: str | None) -> str:
        """Return the user that a request is about; a name counts only from a gateway or admin."""
        if self.role == "user":
            return self._bound(named)
        if named is not None:
            return named
        if self.is_local:
            return LOCAL_USER
        raise InvalidRequest("this key speaks for many users: name one", param="user_id")

    def may_see(self, named: str | None) -> str | None:
        """Return whose things a request may see; None means anybody's, for an admin."""
        return named if self.role == "admin" else self.acts_for(named)

    def require_admin(self) -> None:
        if self.role != "admin":
            raise Forbidden("this needs a key with the role admin")

    def _bound(self, named: str | None) -> str:
        if self.user_id is None:
            raise Forbidden("this key is bound to no user")
        if named is not None and named != self.user_id:
            raise Forbidden("this key speaks for its own user only", param="user_id")
        return self.user_id


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it may be listed: without its secret."""

    id: str
    prefix: str
    tenant_id: str
    user_id: str | None
    role: Role
    created_at: datetime
    revoked_at: datetime | None


class Keys:
    """Makes, finds and revokes keys. `setting` is the admin key of the API_KEY variable, or ""."""

    def __init__(
        self, database: Database, *, setting: str = "", allow_anonymous: bool = False
    ) -> None:
        self._database = database
        self._setting = setting
        self._allow_anonymous = allow_anonymous

    async def create(
        self, *, role: Role, tenant_id: str, user_id: str | None, now: datetime
    ) -> tuple[Key, str]:
        """Return a new key and its secret, which can't be had again."""
        check_tenant(tenant_id)
        if role == "user" and not user_id:
            raise InvalidRequest("a key with the role user needs a user", param="user_id")
        if role != "user" and user_id:
            raise InvalidRequest(f"a key with the role {role} has no user", param="user_id")
        secret = "rag_" + secrets.token_urlsafe(32)
        key = Key(uuid.uuid4().hex[:12], secret[:10], tenant_id, user_id, role, now, None)
        row = {name: getattr(key, name) for name in Key.__slots__} | {"hash": _hash(secret)}
        await self._database.write(lambda c: c.execute(api_keys.insert().values(**row)))
        return key, secret

    async def list_keys(self) -> list[Key]:
        columns = [api_keys.c[name] for name in Key.__slots__]
        statement = sa.select(*columns).order_by(api_keys.c.created_at)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [Key(*row) for row in rows]

    async def revoke(self, key_id: str, *, now: datetime) -> None:
        statement = api_keys.update().where(
            api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)
        )
        if not await self._database.write(
            lambda c: c.execute(statement.values(revoked_at=now)).rowcount
        ):
            raise NotFound("there is no such key that is not revoked")

    async def caller(self, secret: str | None, *, is_local: bool) -> Caller:
        """Return who presents `secret`; without any key configured, who is on this machine.

        A revoked key still counts as configured, so that revoking the last one opens nothing.
        Raises `Unauthenticated`.
        """
        if secret and self._setting and hmac.compare_digest(_hash(secret), _hash(self._setting)):
            return Caller(DEFAULT_TENANT, None, "admin", name="setting")
        presented = {"presented": _hash(secret or "")}
        known, any_key = await self._database.read(
            lambda c: (c.execute(_PRESENTED, presented).first(), c.execute(_ANY_KEY).first())
        )
        if known is not None:
            return Caller(known.tenant_id, known.user_id, cast(Role, known.role))
        if any_key is not None or self._setting:
            raise Unauthenticated("send a valid API key: Authorization: Bearer …")
        if not (is_local or self._allow_anonymous):
            raise Unauthenticated(
                "without API keys the service answers this machine only: set API_KEY, create one "
                "with `python -m app keys create`, or set ALLOW_ANONYMOUS=true"
            )
        name = "local" if is_local else "anonymous"
        return Caller(DEFAULT_TENANT, None, "admin", is_local=is_local, name=name)


def check_tenant(tenant_id: str) -> None:
    """Raise `InvalidRequest` unless the name can be part of a namespace."""
    if not _TENANT.fullmatch(tenant_id):
        raise InvalidRequest(
            "a tenant's name has 1 to 64 of a-z, 0-9, - and _, and begins and ends with a-z or 0-9",
            param="tenant_id",
        )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
