"""What is remembered of a user: list, search, forget. Touches: memory, the index, the embedder."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.deps import Body, CallerDep, Id, MemoryOut, RuntimeDep, Text, UserQuery
from app.api.looks import note_look
from app.api.responses import documented
from app.api.times import QueryMoment
from app.errors import InvalidRequest, NotFound
from app.index.base import namespace
from app.memory.recall import RecordType, Span
from app.wiring import Runtime

router = APIRouter(tags=["memories"], route_class=BigBodies)

_CHILD = re.compile(r"#[a-z]+\d+$")
_FACT = re.compile(r"facts#([0-9a-f]{32})")
_HASHED = re.compile(r"sha256-[0-9a-f]{64}")  # a long session id: see `vector_id`


class MemoryList(BaseModel):
    """`threshold` and `best_below` are there for a search: what passed, and the nearest miss."""

    memories: list[MemoryOut]
    threshold: float | None = None
    best_below: float | None = None


class MarkIn(Body):
    mark: Literal["critical", "pinned"] | None = Field(examples=["critical"])


class MarkedMemory(BaseModel):
    id: str
    mark: Literal["critical", "pinned"] | None


class DeletedMemory(BaseModel):
    id: str
    vectors: Literal["removed", "being removed"]


@router.get("/memories", responses=documented(403, 422, 502, 504, 507))
async def search_memories(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    query: Annotated[Text | None, Query(description="Without one: the latest memories.")] = None,
    top_k: Annotated[int, Query(ge=1, le=100, description="At most so many records.")] = 10,
    min_score: Annotated[
        float | None,
        Query(
            ge=0,
            le=1,
            description="Only what has this `score`; without it, the measured thresholds gate, and "
            "the question's words let something pass, too.",
        ),
    ] = None,
    memory_type: Annotated[
        RecordType | None,
        Query(
            description="`episode`: conversations. `fact`: facts that are true, each as a record "
            "of its own. `message`: what no summary covers yet. Without it: conversations with "
            "their facts, facts that were stored by themselves, and messages."
        ),
    ] = None,
    as_of: Annotated[
        QueryMoment | None,
        Query(description="As it was then: no later conversation, and the facts true at the time."),
    ] = None,
    since: Annotated[
        QueryMoment | None, Query(description="Only conversations that went on after it.")
    ] = None,
    until: Annotated[
        QueryMoment | None, Query(description="Only conversations that began before it.")
    ] = None,
    recency: Annotated[
        float | None,
        Query(
            ge=0,
            le=10,
            allow_inf_nan=False,
            description="What a day of age takes: relevance / (1 + recency * days). Without it, "
            "the setting's, or 0.1 where the question asks for the latest.",
        ),
    ] = None,
) -> MemoryList:
    """Search a user's memories by meaning and by words, or list the latest."""
    user = caller.acts_for(user_id)
    if since is not None and until is not None and since > until:
        raise InvalidRequest(
            f"since must not be after until; got {since.isoformat()} and {until.isoformat()}",
            param="since",
        )
    await note_look(runtime, caller, "memories.read", user)
    span = Span(since, until, as_of)
    await runtime.sessions.settle(caller.tenant_id, user)
    if query is None:
        latest = await runtime.recall.latest(
            caller.tenant_id, user, top_k=top_k, memory_type=memory_type, span=span
        )
        return MemoryList(memories=[_out(memory) for memory in latest])
    query = await (await runtime.door.cleaner(caller.tenant_id, user)).text(query)
    question = (await runtime.embedder.embed([query], kind="query"))[0]
    found = await runtime.recall.search(
        caller.tenant_id,
        user,
        question,
        words=query,
        top_k=top_k,
        threshold=min_score,
        recency=recency,
        memory_type=memory_type,
        span=span,
    )
    return MemoryList(
        memories=[_out(memory) for memory in found.memories],
        threshold=found.threshold,
        best_below=found.best_below,
    )


@router.patch(
    "/memories/{memory_id:path}", responses=documented(400, 403, 404, 413, 422, 502, 504, 507)
)
async def mark_memory(
    memory_id: Id,
    body: MarkIn,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
) -> MarkedMemory:
    """Mark what a conversation left behind: eviction leaves it alone; null takes the mark away."""
    session_id = await _session_of(runtime, caller.tenant_id, memory_id)
    user = caller.may_see(user_id)
    await runtime.use.mark(caller.tenant_id, user, session_id, body.mark)
    return MarkedMemory(id=memory_id, mark=body.mark)


@router.delete("/memories/{memory_id:path}", responses=documented(403, 404, 422, 502, 504))
async def delete_memory(
    memory_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedMemory:
    """Forget what a conversation left behind; its messages stay, and are not summarised again.

    The id of any of its vectors does; `facts#` and the id of a fact forgets that fact alone.
    """
    fact = _FACT.fullmatch(memory_id)
    if fact is not None:
        owner = caller.may_see(user_id)
        is_gone = await runtime.facts.delete(
            caller.tenant_id, owner, fact[1], actor=caller.on_behalf
        )
        return DeletedMemory(id=memory_id, vectors="removed" if is_gone else "being removed")
    session_id = await _session_of(runtime, caller.tenant_id, memory_id)
    await runtime.sessions.settle(caller.tenant_id, session_id=session_id)
    key = await runtime.episodes.forget(
        caller.tenant_id, caller.may_see(user_id), session_id, actor=caller.on_behalf
    )
    failure = await runtime.worker.run_now(caller.tenant_id, "sync_episode", key)
    return DeletedMemory(id=memory_id, vectors="removed" if failure is None else "being removed")


async def _session_of(runtime: Runtime, tenant_id: str, memory_id: str) -> str:
    """Return the session that a vector id belongs to. Raises `NotFound`."""
    own = _CHILD.sub("", memory_id)
    if _HASHED.fullmatch(own):
        row = (await runtime.index.fetch(namespace("memory", tenant_id), [own])).get(own)
        if row is not None:
            return str(row.metadata["session_id"])
    session_id = unquote(own)
    if "\x00" in session_id:
        raise NotFound("there is no such memory", param="memory_id")
    return session_id


def _out(memory: object) -> MemoryOut:
    return MemoryOut.model_validate(memory, from_attributes=True)
