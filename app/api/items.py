"""Items of agents that run elsewhere: JSON under a namespace and a key. Touches: memory.

`app.clients.langgraph` speaks this as a store of LangGraph; so can any other client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter

from app.api.big_bodies import BigBodies
from app.api.deps import CallerDep, RuntimeDep, UserQuery
from app.api.item_models import (
    BatchIn,
    BatchOut,
    DeletedItem,
    ItemIn,
    ItemOut,
    Key,
    NamespaceQuery,
    item_out,
    result_out,
)
from app.api.responses import documented
from app.chat.door import Cleaner
from app.errors import NotFound
from app.memory.item_ops import Get, Item, Op, Put, Search
from app.memory.items import Items

router = APIRouter(prefix="/store", tags=["items"], route_class=BigBodies)


@router.post("/batch", responses=documented(400, 403, 409, 413, 422, 502, 504, 507))
async def run_batch(body: BatchIn, caller: CallerDep, runtime: RuntimeDep) -> BatchOut:
    """Do operations on a user's items in one transaction.

    Reads see what was there before; of several puts of one key the last one counts.
    """
    user = caller.acts_for(body.user_id)
    cleaner = await runtime.door.cleaner(caller.tenant_id, user)
    wanted = await _clean([operation.wanted() for operation in body.operations], cleaner)
    results = await runtime.items.batch(caller.tenant_id, user, wanted)
    return BatchOut(results=[result_out(op, got) for op, got in zip(wanted, results, strict=True)])


@router.get("/items", responses=documented(403, 404, 422))
async def get_item(
    caller: CallerDep,
    runtime: RuntimeDep,
    namespace: NamespaceQuery,
    key: Key,
    user_id: UserQuery = None,
) -> ItemOut:
    """Return an item."""
    user = caller.acts_for(user_id)
    return item_out(await _one(runtime.items, caller.tenant_id, user, Get(tuple(namespace), key)))


@router.put("/items", responses=documented(400, 403, 409, 413, 422, 507))
async def put_item(
    body: ItemIn, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> ItemOut:
    """Store an item, or replace the one of this key; chats recall what it says."""
    user = caller.acts_for(user_id)
    cleaner = await runtime.door.cleaner(caller.tenant_id, user)
    put = body.wanted()
    await runtime.items.batch(caller.tenant_id, user, await _clean([put], cleaner))
    return item_out(await _one(runtime.items, caller.tenant_id, user, Get(put.namespace, put.key)))


@router.delete("/items", responses=documented(403, 404, 409, 422))
async def delete_item(
    caller: CallerDep,
    runtime: RuntimeDep,
    namespace: NamespaceQuery,
    key: Key,
    user_id: UserQuery = None,
) -> DeletedItem:
    """Remove an item, and the fact that chats recalled it by."""
    user, place = caller.acts_for(user_id), tuple(namespace)
    await _one(runtime.items, caller.tenant_id, user, Get(place, key), Put(place, key, None))
    return DeletedItem(namespace=namespace, key=key)


async def _clean(ops: Sequence[Op], cleaner: Cleaner) -> Sequence[Op]:
    """Return operations with what they store, or look for by its meaning, as it may be kept."""
    if not any(isinstance(op, Put | Search) for op in ops):
        return ops
    return await asyncio.to_thread(lambda: [_cleaned(op, cleaner) for op in ops])


def _cleaned(op: Op, cleaner: Cleaner) -> Op:
    if isinstance(op, Put) and op.value is not None:
        value, text = cleaner.json_here([op.value, op.text])
        return Put(op.namespace, op.key, value, text)
    if isinstance(op, Search) and op.query is not None:
        return replace(op, query=cleaner.json_here(op.query))
    return op


async def _one(store: Items, tenant_id: str, user_id: str, *ops: Op) -> Item:
    """Return what the first operation gets. Raises `NotFound`."""
    got = (await store.batch(tenant_id, user_id, ops))[0]
    if not isinstance(got, Item):
        raise NotFound("there is no such item", param="key")
    return got
