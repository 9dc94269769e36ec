"""Texts that read like instructions, for review. Touches: quarantine."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.cursors import decoded, encoded
from app.api.deps import Body, RuntimeDep, Storable, WholeAdminDep
from app.api.responses import documented
from app.quarantine import Kind, State
from app.quarantine.review import Entry

router = APIRouter(tags=["operations"], route_class=BigBodies)

MOST_REF_CHARS = 2_048  # the names of a user, a namespace and a key together


class EntryOut(BaseModel):
    """`withheld`: answers leave it out. `text`: how it begins. `user_id`: of a memory, whose."""

    kind: Kind
    ref: str
    user_id: str | None
    flags: list[str] = Field(examples=[["override", "tool"]])
    state: State
    withheld: bool
    text: str
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None


class EntryList(BaseModel):
    entries: list[EntryOut]
    next_cursor: str | None


class DecisionIn(Body):
    decision: Annotated[
        Literal["release", "block"],
        Field(
            description="`release`: this text is fine; a changed one is looked at anew. `block`: "
            "answers leave it out, whatever it becomes."
        ),
    ]


@router.get("/quarantine", responses=documented(400, 403, 422))
async def list_quarantine(
    caller: WholeAdminDep,
    runtime: RuntimeDep,
    state: Annotated[State | None, Query()] = None,
    kind: Annotated[Kind | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the last page")] = None,
) -> EntryList:
    """List stored texts that read like instructions to a model, the latest first."""
    found = await runtime.quarantine.entries(
        caller.tenant_id,
        state=state,
        kind=kind,
        after=decoded(cursor, of="the quarantine list"),
        limit=limit,
    )
    last = found[-1] if len(found) == limit else None
    return EntryList(
        entries=[_out(entry) for entry in found],
        next_cursor=None if last is None else encoded(last.created_at, f"{last.kind}/{last.ref}"),
    )


@router.post("/quarantine/{kind}/{ref:path}", responses=documented(400, 403, 404, 413, 422, 507))
async def decide_quarantine(
    kind: Kind,
    ref: Annotated[
        str,
        Path(
            min_length=1,
            max_length=MOST_REF_CHARS,
            description="As `GET /quarantine` lists it, escaped.",
        ),
        Storable,
    ],
    body: DecisionIn,
    caller: WholeAdminDep,
    runtime: RuntimeDep,
) -> EntryOut:
    """Say that a text is fine, or that answers must leave it out."""
    decided = await runtime.quarantine.decide(
        caller.tenant_id, kind, ref, body.decision, caller.actor
    )
    return _out(decided)


def _out(entry: Entry) -> EntryOut:
    return EntryOut(
        kind=entry.kind,
        ref=entry.ref,
        user_id=entry.user_id,
        flags=list(entry.flags),
        state=entry.state,
        withheld=entry.is_withheld,
        text=entry.text,
        created_at=entry.created_at,
        decided_at=entry.decided_at,
        decided_by=entry.decided_by,
    )
