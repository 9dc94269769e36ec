"""Who calls, and what their role may do. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.audit import Actor
from app.errors import Forbidden, InvalidRequest

Role = Literal["user", "gateway", "admin"]
DEFAULT_TENANT = "default"
LOCAL_USER = "default"  # whose memory it is when a lone developer names nobody
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


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

    @property
    def on_behalf(self) -> Actor | None:
        """Return who acts, where that is not the user itself; None: it is."""
        return None if self.role == "user" else self.actor

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


def check_tenant(tenant_id: object) -> None:
    """Raise `InvalidRequest` unless the name can be part of a namespace."""
    if not isinstance(tenant_id, str) or not _TENANT.fullmatch(tenant_id):
        raise InvalidRequest(
            "a tenant's name has 1 to 64 of a-z, 0-9, - and _, and begins and ends with a-z or 0-9",
            param="tenant_id",
        )
