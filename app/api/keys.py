"""API keys, for admins. Touches: the keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.deps import Body, Id, RuntimeDep, Storable, Text, WholeAdminDep
from app.api.responses import documented
from app.api.times import Moment
from app.errors import Forbidden
from app.identity import Caller, Role
from app.keys import LONGEST_GRACE, Key, State

router = APIRouter(tags=["keys"], route_class=BigBodies)

KeyId = Annotated[Id, Path(description="As `GET /keys` lists it.")]
_ONCE = {"Cache-Control": "no-store"}


class KeyIn(Body):
    """`user_id`: for the role `user`, and only for it."""

    role: Role
    user_id: Id | None = None
    name: Annotated[Text, Field(max_length=200, examples=["sales desk"])] | None = None
    expires_at: Moment | None = None
    document_filter: Annotated[
        dict[str, Any] | None,
        Storable,
        Field(
            description="What every document has to pass that is read with the key.",
            examples=[{"department": "sales"}],
        ),
    ] = None


class Rotation(Body):
    """How long the old secret works on; 0 ends it at once."""

    grace_hours: Annotated[float, Field(ge=0, le=LONGEST_GRACE / timedelta(hours=1))] = 0


class KeyOut(BaseModel):
    """A key without its secret. `last_used_at` is to the minute."""

    id: str
    prefix: str = Field(examples=["rag_4f9ZpQ"])
    name: str | None
    role: Role
    user_id: str | None
    state: State
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    document_filter: Mapping[str, Any] | None
    replaces: str | None


class NewKey(KeyOut):
    """`key` is the secret: it can't be had again."""

    key: str


class KeyList(BaseModel):
    keys: list[KeyOut]


class Revoked(BaseModel):
    revoked: str


async def get_maker(caller: WholeAdminDep) -> Caller:
    """Refuse who came in without any key: a key of theirs would lock out everybody else."""
    if caller.name == "anonymous":
        raise Forbidden("make the first key on the machine: python -m app keys create")
    return caller


MakerDep = Annotated[Caller, Depends(get_maker)]


@router.get("/keys", responses=documented(403))
async def list_keys(caller: WholeAdminDep, runtime: RuntimeDep) -> KeyList:
    """List the tenant's keys, the oldest first; those that are over too."""
    now = runtime.clock()
    listed = await runtime.keys.list_keys(caller.tenant_id)
    return KeyList(keys=[KeyOut(**_shown(key, now)) for key in listed])


@router.post("/keys", responses=documented(400, 403, 413, 422, 507))
async def create_key(
    body: KeyIn, caller: MakerDep, runtime: RuntimeDep, response: Response
) -> NewKey:
    """Make a key. The first one ends that this machine is answered without: make it an admin's."""
    now = runtime.clock()
    name = None if body.name is None else runtime.door.redactor.clean(body.name).text
    key, secret = await runtime.keys.create(
        role=body.role,
        tenant_id=caller.tenant_id,
        user_id=body.user_id,
        name=name,
        expires_at=body.expires_at,
        document_filter=body.document_filter,
        actor=caller.actor,
        now=now,
    )
    response.headers.update(_ONCE)
    return NewKey(key=secret, **_shown(key, now))


@router.get("/keys/{key_id}", responses=documented(403, 404, 422))
async def get_key(key_id: KeyId, caller: WholeAdminDep, runtime: RuntimeDep) -> KeyOut:
    """Return one key, without its secret."""
    return KeyOut(**_shown(await runtime.keys.get(caller.tenant_id, key_id), runtime.clock()))


@router.delete("/keys/{key_id}", responses=documented(403, 404, 422, 507))
async def revoke_key(key_id: KeyId, caller: WholeAdminDep, runtime: RuntimeDep) -> Revoked:
    """Make a key invalid at once and for good."""
    await runtime.keys.revoke(
        key_id, tenant_id=caller.tenant_id, actor=caller.actor, now=runtime.clock()
    )
    return Revoked(revoked=key_id)


@router.post("/keys/{key_id}/rotate", responses=documented(400, 403, 404, 409, 413, 422, 507))
async def rotate_key(
    key_id: KeyId, body: Rotation, caller: MakerDep, runtime: RuntimeDep, response: Response
) -> NewKey:
    """Give a key a new secret and id; the old one works on for the grace, and never longer."""
    now = runtime.clock()
    key, secret = await runtime.keys.rotate(
        key_id,
        grace=timedelta(hours=body.grace_hours),
        tenant_id=caller.tenant_id,
        actor=caller.actor,
        now=now,
    )
    response.headers.update(_ONCE)
    return NewKey(key=secret, **_shown(key, now))


def _shown(key: Key, now: datetime) -> dict[str, Any]:
    fields = {name: getattr(key, name) for name in KeyOut.model_fields if name != "state"}
    return {**fields, "state": key.state(now)}
