"""Facts of a user: list, tell, correct, delete; and the profile made of them. Touches: memory.

Times that come in need an offset; those that go out are in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from app.api.big_bodies import BigBodies
from app.api.cursors import decoded, encoded
from app.api.deps import Body, CallerDep, Change, Id, NotBlank, RuntimeDep, Storable, UserQuery
from app.api.fact_models import (
    DeletedFact,
    FactHistory,
    FactKindOut,
    FactList,
    FactOut,
    KeptFact,
    MarkOut,
    ProfileOut,
    SightingOut,
    fact_out,
)
from app.api.looks import note_look
from app.api.responses import documented
from app.api.times import Moment, QueryMoment
from app.errors import InvalidRequest
from app.memory.base import FoundFact
from app.memory.fact_edits import UNSET, Edit
from app.memory.facts import Kept
from app.memory.keys import is_many

router = APIRouter(tags=["facts"], route_class=BigBodies)

MAX_TEXT_CHARS = 2_000
MAX_NAME_CHARS = 200

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS), Storable, NotBlank]
Told = Annotated[str, Field(max_length=MAX_TEXT_CHARS), Storable, NotBlank]
Confidence = Annotated[float, Field(ge=0, le=1)]


class NewFact(Body):
    """A fact to store. Without a statement, one is made of subject, predicate and value."""

    user_id: Id | None = None
    subject: Name = Field("user", examples=["user"])
    predicate: Name = Field(examples=["lives_in"])
    value: Told = Field(examples=["Porto"])
    statement: Told | None = Field(None, examples=["The user lives in Porto."])
    kind: FactKindOut = "fact"
    is_many: bool | None = Field(
        None, description="Several values may hold at once; not sent: as the predicate suggests."
    )
    confidence: Confidence = 1.0
    said_by: Literal["user", "assistant", "tool"] = "user"
    valid_from: Moment | None = Field(None, description="Since when it holds; not sent: now.")
    ends_at: Moment | None = Field(None, description="When it ends, where that is known.")
    mark: MarkOut | None = Field(None, description="Marked: eviction leaves it alone.")


class FactChange(Change):
    """What to correct; what is not sent stays. `mark` and `ends_at` are emptied by null."""

    value: Told | None = Field(None, examples=["Porto"])
    statement: Told | None = Field(None, examples=["The user lives in Porto."])
    kind: FactKindOut | None = None
    confidence: Confidence | None = None
    valid_from: Moment | None = Field(None, examples=["2026-03-01T00:00:00Z"])
    ends_at: Moment | None = Field(None, description="When it ends, where that is known.")
    mark: MarkOut | None = Field(None, description="Marked: eviction leaves it alone.")


@router.get("/memories/facts", responses=documented(403, 422, 507))
async def list_facts(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    subject: Annotated[Name | None, Query(examples=["user"])] = None,
    predicate: Annotated[Name | None, Query(examples=["lives_in"])] = None,
    as_of: Annotated[
        QueryMoment | None, Query(description="What held then; without one: what holds now.")
    ] = None,
    include_past: Annotated[bool, Query(description="What no longer holds, too.")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the last page")] = None,
) -> FactList:
    """List a user's facts, the last said first."""
    user = caller.acts_for(user_id)
    await note_look(runtime, caller, "facts.read", user)
    found = await runtime.facts.of_user(
        caller.tenant_id,
        user,
        subject=subject,
        predicate=predicate,
        as_of=as_of,
        include_past=include_past,
        after=decoded(cursor, of="facts"),
        limit=limit,
    )
    at = as_of or runtime.clock()
    more = None
    if len(found) == limit:
        more = encoded(found[-1].last_seen_at, found[-1].fact_id)
    return FactList(facts=[fact_out(fact, at) for fact in found], next_cursor=more)


@router.post("/memories/facts", responses=documented(400, 403, 409, 413, 422, 507))
async def store_fact(body: NewFact, caller: CallerDep, runtime: RuntimeDep) -> KeptFact:
    """Store a fact by itself; one that is known already is seen once more, and no second one."""
    now = runtime.clock()
    valid_from = body.valid_from or now
    if body.ends_at is not None and body.valid_from is not None and body.ends_at < valid_from:
        raise InvalidRequest("ends_at lies before valid_from", param="ends_at")
    user = caller.acts_for(body.user_id)
    cleaner = await runtime.door.cleaner(caller.tenant_id, user)
    subject, predicate, value, statement = await cleaner.json(
        [body.subject, body.predicate, body.value, body.statement or ""]
    )
    told = FoundFact(
        subject=subject,
        predicate=predicate,
        value=value,
        statement=statement,
        kind=body.kind,
        is_many=is_many(body.predicate, body.is_many),
        confidence=body.confidence,
        said_by=body.said_by,
        seq=None,
        quote=None,
        said_at=now,
        valid_from=valid_from,
        ends_at=body.ends_at,
        mark=body.mark,
    )
    kept = await runtime.facts.store(caller.tenant_id, user, told)
    return _kept(kept, now)


@router.get("/memories/facts/{fact_id}", responses=documented(403, 404, 422))
async def get_fact(
    fact_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> FactOut:
    """Return a fact."""
    fact = await runtime.facts.get(caller.tenant_id, caller.may_see(user_id), fact_id)
    return fact_out(fact, runtime.clock())


@router.get("/memories/facts/{fact_id}/history", responses=documented(403, 404, 422))
async def get_history(
    fact_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> FactHistory:
    """Return what held before and after a fact, in order, and each time that it was said."""
    found = await runtime.facts.history(caller.tenant_id, caller.may_see(user_id), fact_id)
    now = runtime.clock()
    return FactHistory(
        facts=[fact_out(fact, now) for fact in found.facts],
        sightings=[
            SightingOut.model_validate(said, from_attributes=True) for said in found.sightings
        ],
        is_cut=found.is_cut,
    )


@router.patch("/memories/facts/{fact_id}", responses=documented(400, 403, 404, 413, 422, 507))
async def change_fact(
    fact_id: Id,
    body: FactChange,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
) -> KeptFact:
    """Correct a fact; one that then says what another says becomes part of that."""
    sent: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set}
    for name in ("ends_at", "mark"):
        sent.setdefault(name, UNSET)
    user = caller.may_see(user_id)
    fact = await runtime.facts.get(caller.tenant_id, user, fact_id)
    cleaner = await runtime.door.cleaner(caller.tenant_id, fact.user_id)
    texts = {name: sent[name] for name in ("value", "statement") if name in sent}
    sent |= await cleaner.json(texts)
    kept = await runtime.facts.change(caller.tenant_id, user, fact_id, Edit(**sent))
    return _kept(kept, runtime.clock())


@router.delete("/memories/facts/{fact_id}", responses=documented(403, 404, 422))
async def delete_fact(
    fact_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedFact:
    """Forget a fact, wherever it was said; what it had superseded holds again."""
    user = caller.may_see(user_id)
    is_gone = await runtime.facts.delete(caller.tenant_id, user, fact_id, actor=caller.on_behalf)
    return DeletedFact(fact_id=fact_id, vectors="removed" if is_gone else "being removed")


@router.get("/memories/profile", responses=documented(403, 422))
async def get_profile(
    caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> ProfileOut:
    """Return what is currently true of a user, as every prompt has it: bounded, and no model."""
    now, user = runtime.clock(), caller.acts_for(user_id)
    found = await runtime.profile.of(caller.tenant_id, user, now)
    return ProfileOut(user_id=user, facts=[fact_out(fact, now) for fact in found])


def _kept(kept: Kept, now: datetime) -> KeptFact:
    return KeptFact(
        **fact_out(kept.fact, now).model_dump(),
        vectors="indexed" if kept.is_indexed else "being indexed",
    )
