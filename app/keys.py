"""API keys: made, found, rotated, revoked. Touches: `api_keys`, `audit_log`.

A key is shown once and stored as its SHA-256: it is 256 bits of chance, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from app.audit import Actor, note
from app.db import Connection, Database
from app.db.tables import api_keys
from app.errors import Conflict, InvalidRequest, KeyExpired, NotFound, Unauthenticated
from app.identity import DEFAULT_TENANT, Caller, Role, check_tenant

State = Literal["valid", "expired", "revoked"]
Spawn = Callable[[str, Coroutine[Any, Any, Any]], object]
USE_IS_NOTED_EVERY = timedelta(minutes=1)
LONGEST_GRACE = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it may be listed: without its secret.

    name: what its owner calls it. last_used_at: to the minute. document_filter: what every
    document has to pass that is read with it. replaces: the id of the key that was rotated.
    """

    id: str
    prefix: str
    tenant_id: str
    user_id: str | None
    role: Role
    created_at: datetime
    revoked_at: datetime | None = None
    name: str | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    document_filter: Mapping[str, Any] | None = None
    replaces: str | None = None

    def state(self, now: datetime) -> State:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


_COLUMNS = [api_keys.c[name] for name in Key.__slots__]
_PRESENTED = sa.select(*_COLUMNS).where(
    api_keys.c.hash == sa.bindparam("presented"), api_keys.c.revoked_at.is_(None)
)
_ANY_KEY = sa.select(api_keys.c.id).limit(1)  # revoked ones too: see `Keys.caller`
_ONE = sa.select(*_COLUMNS).where(
    api_keys.c.id == sa.bindparam("key_id"),
    api_keys.c.tenant_id
    == sa.func.coalesce(sa.bindparam("tenant", type_=sa.Text), api_keys.c.tenant_id),
)
_ONE_TO_CHANGE = _ONE.with_for_update()  # for Postgres: SQLite has one writer anyway
_REPLACED = sa.select(api_keys.c.id).where(api_keys.c.replaces == sa.bindparam("key_id"))
_NOTE_USE = (
    api_keys.update()
    .where(
        api_keys.c.id == sa.bindparam("key_id"),
        sa.or_(
            api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < sa.bindparam("used_at")
        ),
    )
    .values(last_used_at=sa.bindparam("used_at"))
)


class Keys:
    """Makes, finds, rotates and revokes keys.

    setting: the admin key of the API_KEY variable, or "". has_jwt: users of an identity provider
    may call, so that nobody is let in without a key. check_filter: raises `InvalidFilter`.
    spawn: owns the late work of noting when a key was used.
    """

    def __init__(
        self,
        database: Database,
        *,
        check_filter: Callable[[Mapping[str, Any]], None],
        spawn: Spawn,
        setting: str = "",
        allow_anonymous: bool = False,
        has_jwt: bool = False,
    ) -> None:
        self._database = database
        self._check_filter = check_filter
        self._spawn = spawn
        self._setting = setting
        self._allow_anonymous = allow_anonymous
        self._has_jwt = has_jwt
        self._noted: dict[str, datetime] = {}  # by key, the last use that this process wrote down

    async def create(
        self,
        *,
        role: Role,
        tenant_id: str,
        user_id: str | None,
        name: str | None = None,
        expires_at: datetime | None = None,
        document_filter: Mapping[str, Any] | None = None,
        actor: Actor | None = None,
        now: datetime,
    ) -> tuple[Key, str]:
        """Return a new key and its secret, which can't be had again.

        actor: who makes it; None: the operator, at the command line.
        """
        check_tenant(tenant_id)
        if role == "user" and not user_id:
            raise InvalidRequest("a key with the role user needs a user", param="user_id")
        if role != "user" and user_id:
            raise InvalidRequest(f"a key with the role {role} has no user", param="user_id")
        if expires_at is not None and expires_at <= now:
            raise InvalidRequest("a key's end must lie in the future", param="expires_at")
        if document_filter is not None:
            self._check_filter(document_filter)
        key, secret = _new_key(
            tenant_id=tenant_id,
            user_id=user_id,
            role=role,
            created_at=now,
            name=name,
            expires_at=expires_at,
            document_filter=document_filter,
        )

        def put(connection: Connection) -> None:
            _insert(connection, key, secret)
            note(connection, actor or _operator(key), "key.create", subject=key.id, now=now)

        await self._database.write(put)
        return key, secret

    async def list_keys(self, tenant_id: str | None) -> list[Key]:
        """Return a tenant's keys, or all, the oldest first; those of the past too."""
        statement = sa.select(*_COLUMNS).order_by(api_keys.c.created_at, api_keys.c.id)
        if tenant_id is not None:
            statement = statement.where(api_keys.c.tenant_id == tenant_id)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [Key(*row) for row in rows]

    async def get(self, tenant_id: str | None, key_id: str) -> Key:
        """Return a tenant's key, or anybody's. Raises `NotFound`."""
        return await self._database.read(lambda c: _found(c, tenant_id, key_id))

    async def revoke(
        self,
        key_id: str,
        *,
        tenant_id: str | None = None,
        actor: Actor | None = None,
        now: datetime,
    ) -> None:
        """Make a key invalid, for good. Raises `NotFound`."""

        def end(connection: Connection) -> None:
            key = _found(connection, tenant_id, key_id, lock=True)
            if key.revoked_at is not None:
                raise NotFound("there is no such key that is not revoked", param="key_id")
            one = api_keys.update().where(api_keys.c.id == key_id)
            connection.execute(one.values(revoked_at=now))
            note(connection, actor or _operator(key), "key.revoke", subject=key_id, now=now)

        await self._database.write(end)

    async def rotate(
        self,
        key_id: str,
        *,
        grace: timedelta,
        tenant_id: str | None = None,
        actor: Actor | None = None,
        now: datetime,
    ) -> tuple[Key, str]:
        """Return a key that takes the place of another one, and its secret.

        The old one works on for `grace`, but never longer than it would have; the new one lives as
        long as the old one was made to live. Raises `NotFound`, and `Conflict` for a key that is
        revoked, expired or rotated.
        """
        if not timedelta() <= grace <= LONGEST_GRACE:
            raise InvalidRequest(f"the grace must be 0 to {LONGEST_GRACE.days} days", param="grace")

        def replace(connection: Connection) -> tuple[Key, str]:
            old = _found(connection, tenant_id, key_id, lock=True)
            if (state := old.state(now)) != "valid":
                raise Conflict(f"the key is {state}: make a new one", param="key_id")
            if successor := connection.execute(_REPLACED, {"key_id": key_id}).scalar():
                raise Conflict(f"the key was rotated: {successor} replaces it", param="key_id")
            ends_at = now + grace
            made_for = None if old.expires_at is None else old.expires_at - old.created_at
            new, secret = _new_key(
                tenant_id=old.tenant_id,
                user_id=old.user_id,
                role=old.role,
                created_at=now,
                name=old.name,
                expires_at=None if made_for is None else now + made_for,
                document_filter=old.document_filter,
                replaces=old.id,
            )
            _insert(connection, new, secret)
            one = api_keys.update().where(api_keys.c.id == key_id)
            connection.execute(one.values(expires_at=min(old.expires_at or ends_at, ends_at)))
            note(connection, actor or _operator(old), "key.rotate", subject=key_id, now=now)
            return new, secret

        return await self._database.write(replace)

    def is_setting(self, secret: str) -> bool:
        """Say whether it is the admin key of the API_KEY variable."""
        return bool(self._setting) and hmac.compare_digest(_hash(secret), _hash(self._setting))

    async def caller(self, secret: str | None, *, is_local: bool, now: datetime) -> Caller:
        """Return who presents `secret`; without any key configured, who is on this machine.

        A revoked or expired key still counts as configured, so that the end of the last one opens
        nothing. Raises `Unauthenticated`.
        """
        if secret and self.is_setting(secret):
            return Caller(DEFAULT_TENANT, None, "admin", name="setting")
        known, is_keyed = await self._database.read(lambda c: _look(c, secret))
        if known is not None:
            return self._holder(known, now)
        if is_keyed or self._setting or self._has_jwt:
            what = "API key or JWT" if self._has_jwt else "API key"
            raise Unauthenticated(f"send a valid {what}: Authorization: Bearer …")
        if not (is_local or self._allow_anonymous):
            raise Unauthenticated(
                "without API keys the service answers this machine only: set API_KEY, create one "
                "with `python -m app keys create`, or set ALLOW_ANONYMOUS=true"
            )
        name = "local" if is_local else "anonymous"
        return Caller(DEFAULT_TENANT, None, "admin", is_local=is_local, name=name)

    def _holder(self, key: Key, now: datetime) -> Caller:
        if key.state(now) == "expired":
            raise KeyExpired("the API key has expired")
        self._note_use(key, now)
        name, bound = f"key:{key.id}", key.document_filter
        return Caller(key.tenant_id, key.user_id, key.role, name=name, document_filter=bound)

    def _note_use(self, key: Key, now: datetime) -> None:
        """Have the minute of a use written down, once in that minute and beside the request."""
        minute = now.replace(second=0, microsecond=0)
        known = max(filter(None, (key.last_used_at, self._noted.get(key.id))), default=None)
        if known is not None and minute - known < USE_IS_NOTED_EVERY:
            return
        self._noted[key.id] = minute
        values = {"key_id": key.id, "used_at": minute}
        work = self._database.write(lambda c: c.execute(_NOTE_USE, values).rowcount)
        self._spawn(f"note the use of key {key.id}", work)


def _new_key(**fields: Any) -> tuple[Key, str]:
    secret = "rag_" + secrets.token_urlsafe(32)
    return Key(id=uuid.uuid4().hex[:12], prefix=secret[:10], **fields), secret


def _insert(connection: Connection, key: Key, secret: str) -> None:
    row = {name: getattr(key, name) for name in Key.__slots__} | {"hash": _hash(secret)}
    connection.execute(api_keys.insert().values(**row))


def _look(connection: Connection, secret: str | None) -> tuple[Key | None, bool]:
    """Return the key that is presented, or else whether there is any."""
    if secret and (row := connection.execute(_PRESENTED, {"presented": _hash(secret)}).first()):
        return Key(*row), True
    return None, connection.execute(_ANY_KEY).first() is not None


def _found(
    connection: Connection, tenant_id: str | None, key_id: str, *, lock: bool = False
) -> Key:
    statement = _ONE_TO_CHANGE if lock else _ONE
    row = connection.execute(statement, {"key_id": key_id, "tenant": tenant_id}).first()
    if row is None:
        raise NotFound("there is no such key", param="key_id")
    return Key(*row)


def _operator(key: Key) -> Actor:
    return Actor(key.tenant_id, "cli", "admin")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
