"""Items of agents as they go in and out over HTTP. Touches nothing."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field

from app.api.deps import Body, Id, NotBlank, Storable
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
from app.memory.items import Found, Result

MAX_OPERATIONS = 100
MAX_FOUND = 2_000  # items of one answer: each may be large
MAX_QUERY_CHARS = 8_000
MAX_VALUE_BYTES = 65_536
MAX_PARTS = 20
MAX_NAMESPACE_BYTES = 1_000  # an index entry holds it, the key, the user and the tenant
MAX_KEY_BYTES = 512
MAX_DEPTH = 100
_as_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


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
        size = len(_as_json(given).encode())
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
    if len(_as_json(namespace).encode()) > MAX_NAMESPACE_BYTES:
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
Offset = Annotated[int, Field(ge=0, le=2**31 - 1)]
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


class DeleteItemIn(Body):
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
        None,
        max_length=MAX_QUERY_CHARS,
        description="Ranks by meaning; without it, the latest come first.",
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


OpIn = Annotated[
    PutIn | DeleteItemIn | GetIn | SearchIn | ListNamespacesIn, Field(discriminator="op")
]


def _answerable(operations: list[OpIn]) -> list[OpIn]:
    asked = sum(one.limit for one in operations if isinstance(one, SearchIn))
    if asked > MAX_FOUND:
        raise ValueError(f"may ask for {MAX_FOUND} items at most with all searches, not {asked}")
    return operations


class BatchIn(Body):
    user_id: Id | None = None
    operations: Annotated[list[OpIn], AfterValidator(_answerable)] = Field(
        max_length=MAX_OPERATIONS,
        examples=[
            [
                {
                    "op": "put",
                    "namespace": ["memories", "ada"],
                    "key": "food",
                    "value": {"text": "Ada likes pizza."},
                },
                {"op": "search", "namespace_prefix": ["memories"], "query": "What does she eat?"},
            ]
        ],
    )


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


def result_out(op: Op, got: Result) -> GotOut | FoundOut | NamespacesOut | WrittenOut:
    if isinstance(got, Found):
        return FoundOut(items=[item_out(item) for item in got.items], is_ranked=got.is_ranked)
    if isinstance(got, list):
        return NamespacesOut(namespaces=[list(name) for name in got])
    if isinstance(op, Put):
        return WrittenOut()
    return GotOut(item=None if got is None else item_out(got))


def item_out(item: Item) -> ItemOut:
    return ItemOut(
        namespace=list(item.namespace),
        key=item.key,
        value=dict(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=item.score,
    )
