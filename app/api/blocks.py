"""Core memory of a user, which stands in every prompt: read, write, remove. Touches: memory."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.deps import Body, CallerDep, RuntimeDep, Storable, UserQuery
from app.api.responses import documented
from app.memory.blocks import Block

router = APIRouter(tags=["memories"], route_class=BigBodies)

LabelPath = Annotated[
    Literal["human", "persona"],
    Path(description="`human`: about the user; `persona`: how the assistant is to be."),
]


class BlockIn(Body):
    value: Annotated[str, Storable] = Field(
        description="The whole text; at most BLOCK_MAX_CHARS.", examples=["Ada, a nurse in Porto."]
    )
    version: int | None = Field(
        None,
        ge=0,
        description="The version that was read, 0 for none: 409 if another is there by now. "
        "Without it, the text replaces whatever is there.",
    )


class BlockOut(BaseModel):
    """`session_id` and `seq`: the message for which an assistant wrote it."""

    label: Literal["human", "persona"]
    value: str
    version: int
    written_by: Literal["user", "assistant"]
    session_id: str | None
    seq: int | None
    updated_at: datetime


class BlockList(BaseModel):
    user_id: str
    blocks: list[BlockOut]


class DeletedBlock(BaseModel):
    user_id: str
    label: Literal["human", "persona"]


@router.get("/memories/blocks", responses=documented(403, 422))
async def list_blocks(
    caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> BlockList:
    """Return what stands in every prompt of a user: the blocks that are not empty."""
    user = caller.acts_for(user_id)
    found = await runtime.blocks.of(caller.tenant_id, user)
    return BlockList(user_id=user, blocks=[_out(block) for block in found])


@router.get("/memories/blocks/{label}", responses=documented(403, 404, 422))
async def get_block(
    label: LabelPath, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> BlockOut:
    """Return a block with its version."""
    return _out(await runtime.blocks.get(caller.tenant_id, caller.acts_for(user_id), label))


@router.put("/memories/blocks/{label}", responses=documented(400, 403, 409, 413, 422, 507))
async def write_block(
    label: LabelPath,
    body: BlockIn,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
) -> BlockOut:
    """Write a block, whole; an empty text leaves it out of prompts."""
    user = caller.acts_for(user_id)
    cleaner = await runtime.door.cleaner(caller.tenant_id, user)
    written = await runtime.blocks.write(
        caller.tenant_id,
        user,
        label,
        await cleaner.text(body.value),
        written_by="user",
        expected_version=body.version,
    )
    return _out(written)


@router.delete("/memories/blocks/{label}", responses=documented(403, 404, 422))
async def delete_block(
    label: LabelPath, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedBlock:
    """Remove a block."""
    user = caller.acts_for(user_id)
    await runtime.blocks.delete(caller.tenant_id, user, label, actor=caller.on_behalf)
    return DeletedBlock(user_id=user, label=label)


def _out(block: Block) -> BlockOut:
    return BlockOut.model_validate(block, from_attributes=True)
