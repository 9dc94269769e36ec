"""Items of agents that run elsewhere: JSON under a namespace and a key. Touches: memory.

`app.clients.langgraph` speaks this as a store of LangGraph; so can any other client.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, Field

from app.api.deps import Body, CallerDep, Id, NotBlank, RuntimeDep, Storable, UserQuery
from app.api.responses import documented
from app.errors import NotFound
from app.memory import items
from app.memory.item_ops import (
    Get,
    Item,
    ListNamespaces,
    Match,
    Op,
    Put,
    Search,
    check_filter,
    item_text,
)

router = APIRouter(prefix="/store", tags=["items"])

MAX_OPERATIONS = 100
MAX_VALUE_BYTES = 65_536
MAX_PARTS = 20
MAX_NAMESPACE_BYTES = 1_000  # an index entry holds it, the key, the user and the tenant
MAX_KEY_BYTES = 512
MAX_DEPTH = 100


def _sound(given: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [given]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for outer in level
            if isinstance(outer, (dict, list))
            for part in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            break
    if level:
        raise ValueError(f"must be nested at most {MAX_DEPTH} deep")
    try:
        size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise ValueError("must hold finite numbers only") from error
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"must be at most {MAX_VALUE_BYTES} bytes as JSON; it has {size}")
    return given


def _label(part: str) -> str:
    if not part or "." in part:
        raise ValueError(f"must not be empty or contain a period; got {part!r}")
    return part


def _short(namespace: list[str]) -> list[str]:
    if len(json.dumps(namespace, ensure_ascii=False).encode()) > MAX_NAMESPACE_BYTES:
        raise ValueError(f"must be at most {MAX_NAMESPACE_BYTES} bytes as JSON")
    return namespace


def _short_key(key: str) -> str:
    if len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"must be at most {MAX_KEY_BYTES} bytes in UTF-8")
    return key


Label = Annotated[str, Storable, AfterValidator(_label)]
Prefix = Annotated[list[Label], Field(max_length=MAX_PARTS), AfterValidator(_short)]
NamespaceIn = Annotated[Prefix, Field(min_length=1, examples=[["memories", "ada"]])]
Key = Annotated[str, Storable, AfterValidator(_short_key), Field(examples=["food"])]
Json = Annotated[dict[str, Any], Storable, AfterValidator(_sound)]
Limit = Annotated[int, Field(ge=0, le=1_000)]
Offset = Annotated[int, Field(ge=0, le=2**31)]
NamespaceQuery = Annotated[
    NamespaceIn, Query(description="Its parts in order: `namespace=memories&namespace=ada`.")
]


class ItemIn(Body):
    namespace: NamespaceIn
    key: Key
    value: Json = Field(examples=[{"text": "Ada likes pizza."}])
    index: bool = Field(True, description="False: neither searches by meaning nor chats find it.")
    text: Annotated[str, Storable, NotBlank] | None = Field(
        None,
        description="What it is found by, its first 2,000 characters; not sent: the value's "
        "`text`, `memory`, `content` or `data`, else all of it as JSON.",
    )

    def wanted(self) -> Put:
        text = (self.text or item_text(self.value)) if self.index else None
        return Put(tuple(self.namespace), self.key, self.value, text)


class PutIn(ItemIn):
    op: Literal["put"]


class DeleteIn(Body):
    op: Literal["delete"]
    namespace: Prefix
    key: Key

    def wanted(self) -> Put:
        return Put(tuple(self.namespace), self.key, None)


class GetIn(Body):
    op: Literal["get"]
    namespace: Prefix
    key: Key

    def wanted(self) -> Get:
        return Get(tuple(self.namespace), self.key)


class SearchIn(Body):
    op: Literal["search"]
    namespace_prefix: Prefix = Field(default_factory=list)
    filter: Json | None = Field(
        None, description="Fields by value, or by `$eq $ne $gt $gte $lt $lte`."
    )
    limit: Limit = 10
    offset: Offset = 0
    query: Annotated[str, Storable] | None = Field(
        None, description="Ranks by meaning; without it, the latest come first."
    )

    def wanted(self) -> Search:
        if self.filter:
            check_filter(self.filter)
        query = self.query if self.query and self.query.strip() else None
        prefix = tuple(self.namespace_prefix)
        return Search(prefix, self.filter, self.limit, self.offset, query)


class MatchIn(Body):
    match_type: Literal["prefix", "suffix"]
    path: Prefix = Field(description="`*` stands for any part.")


class ListNamespacesIn(Body):
    op: Literal["list_namespaces"]
    match_conditions: list[MatchIn] = Field(default_factory=list, max_length=MAX_PARTS)
    max_depth: Annotated[int, Field(ge=0)] | None = None
    limit: Limit = 100
    offset: Offset = 0

    def wanted(self) -> ListNamespaces:
        matches = tuple(Match(m.match_type, tuple(m.path)) for m in self.match_conditions)
        return ListNamespaces(matches, self.max_depth, self.limit, self.offset)


OpIn = Annotated[PutIn | DeleteIn | GetIn | SearchIn | ListNamespacesIn, Field(discriminator="op")]


class BatchIn(Body):
    user_id: Id | None = None
    operations: list[OpIn] = Field(max_length=MAX_OPERATIONS)


class ItemOut(BaseModel):
    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = Field(None, description="A cosine, of a search that was ranked.")


class GotOut(BaseModel):
    item: ItemOut | None


class FoundOut(BaseModel):
    items: list[ItemOut]
    is_ranked: bool = Field(description="By the query; not while the embedder is away.")


class NamespacesOut(BaseModel):
    namespaces: list[list[str]]


class WrittenOut(BaseModel):
    written: Literal[True] = True


class BatchOut(BaseModel):
    """One result for each operation, in their order."""

    results: list[GotOut | FoundOut | NamespacesOut | WrittenOut]


class DeletedItem(BaseModel):
    namespace: list[str]
    key: str


@router.post("/batch", responses=documented(400, 403, 413, 422, 502, 504, 507))
async def run_batch(body: BatchIn, caller: CallerDep, runtime: RuntimeDep) -> BatchOut:
    """Do operations on a user's items in one transaction.

    Reads see what was there before; of several puts of one key the last one counts.
    """
    wanted: list[Op] = [operation.wanted() for operation in body.operations]
    user = caller.acts_for(body.user_id)
    results = await runtime.items.batch(caller.tenant_id, user, wanted)
    return BatchOut(results=[_result(op, got) for op, got in zip(wanted, results, strict=True)])


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
    return _item(await _one(runtime.items, caller.tenant_id, user, Get(tuple(namespace), key)))


@router.put("/items", responses=documented(400, 403, 413, 422, 507))
async def put_item(
    body: ItemIn, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> ItemOut:
    """Store an item, or replace the one of this key; chats recall what it says."""
    user, put = caller.acts_for(user_id), body.wanted()
    await runtime.items.batch(caller.tenant_id, user, [put])
    return _item(await _one(runtime.items, caller.tenant_id, user, Get(put.namespace, put.key)))


@router.delete("/items", responses=documented(403, 404, 422))
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


async def _one(store: items.Items, tenant_id: str, user_id: str, *ops: Op) -> Item:
    """Return what the first operation gets. Raises `NotFound`."""
    got = (await store.batch(tenant_id, user_id, ops))[0]
    if not isinstance(got, Item):
        raise NotFound("there is no such item", param="key")
    return got


def _result(op: Op, got: items.Result) -> GotOut | FoundOut | NamespacesOut | WrittenOut:
    if isinstance(got, items.Found):
        return FoundOut(items=[_item(item) for item in got.items], is_ranked=got.is_ranked)
    if isinstance(got, list):
        return NamespacesOut(namespaces=[list(name) for name in got])
    if isinstance(op, Put):
        return WrittenOut()
    return GotOut(item=None if got is None else _item(got))


def _item(item: Item) -> ItemOut:
    return ItemOut(
        namespace=list(item.namespace),
        key=item.key,
        value=dict(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=item.score,
    )
