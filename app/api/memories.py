"""What is remembered of a user: list, search, forget. Touches: memory, the index, the embedder."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.deps import CallerDep, Id, MemoryOut, RuntimeDep, Text, UserQuery
from app.api.responses import documented
from app.errors import NotFound
from app.index.base import namespace
from app.memory.recall import as_memories
from app.wiring import Runtime

router = APIRouter(tags=["memories"])

_CHILD = re.compile(r"#[a-z]+\d+$")
_HASHED = re.compile(r"sha256-[0-9a-f]{64}")  # a long session id: see `vector_id`


class MemoryList(BaseModel):
    """`threshold` and `best_below` are there for a search: what passed, and the nearest miss."""

    memories: list[MemoryOut]
    threshold: float | None = None
    best_below: float | None = None


class DeletedMemory(BaseModel):
    id: str
    vectors: Literal["removed", "being removed"]


@router.get("/memories", responses=documented(403, 422, 502, 504))
async def search_memories(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    query: Annotated[Text | None, Query(description="Without one: the latest memories.")] = None,
    top_k: Annotated[int, Query(ge=1, le=100)] = 10,
    min_score: Annotated[float | None, Query(ge=0, le=1)] = None,
) -> MemoryList:
    """Search a user's memories by meaning, or list the latest."""
    user = caller.acts_for(user_id)
    if query is None:
        latest = await runtime.episodes.of_user(caller.tenant_id, user, limit=top_k)
        return MemoryList(memories=[_out(memory) for memory in as_memories(latest)])
    question = (await runtime.embedder.embed([query], kind="query"))[0]
    found = await runtime.recall.search(
        caller.tenant_id,
        user,
        question,
        words=query if min_score is None else "",
        top_k=top_k,
        threshold=min_score,
    )
    return MemoryList(
        memories=[_out(memory) for memory in found.memories],
        threshold=found.threshold,
        best_below=found.best_below,
    )


@router.delete("/memories/{memory_id:path}", responses=documented(403, 404, 422, 502, 504))
async def delete_memory(
    memory_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedMemory:
    """Forget what a conversation left behind; its messages stay, and are not summarised again."""
    session_id = await _session_of(runtime, caller.tenant_id, memory_id)
    key = await runtime.episodes.forget(caller.tenant_id, caller.may_see(user_id), session_id)
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
