"""Who and what a user speaks of, and how they are related. Touches: memory."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.api.deps import CallerDep, RuntimeDep, Text, UserQuery
from app.api.responses import documented

router = APIRouter(tags=["entities"])

_RELATION: dict[str, JsonValue] = {
    "fact_id": "5f0c1d7e9a3b4c2d8e6f7a1b2c3d4e5f",
    "subject": "Ben",
    "predicate": "works_at",
    "value": "Acme",
    "statement": "Ben works at Acme.",
}


class RelationOut(BaseModel):
    """A current fact that relates one entity, `subject`, to another, `value`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_RELATION]})

    fact_id: str
    subject: str
    predicate: str
    value: str
    statement: str


class EntityOut(BaseModel):
    """`sessions`: in how many of the user's conversations it came up.

    `relations`: the latest 20; the graph around it has more.
    """

    name: str = Field(examples=["Ben"])
    type: str = Field(examples=["person"])
    aliases: list[str] = Field(examples=[["Benjamin"]])
    attributes: dict[str, str] = Field(examples=[{"role": "brother"}])
    relations: list[RelationOut]
    sessions: int
    last_seen_at: datetime


class EntityList(BaseModel):
    entities: list[EntityOut]


class NodeOut(BaseModel):
    name: str = Field(examples=["Acme"])
    type: str = Field(examples=["organization"])
    distance: int


class GraphOut(BaseModel):
    """`is_cut`: there is more than is shown."""

    nodes: list[NodeOut]
    edges: list[RelationOut]
    is_cut: bool


@router.get("/memories/entities", responses=documented(403, 422))
async def list_entities(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> EntityList:
    """List the people, places and things that a user speaks of, the last seen first."""
    user = caller.acts_for(user_id)
    found = await runtime.entities.of_user(caller.tenant_id, user, limit=limit)
    return EntityList(
        entities=[EntityOut.model_validate(one, from_attributes=True) for one in found]
    )


@router.get("/memories/graph", responses=documented(403, 404, 422))
async def get_graph(
    caller: CallerDep,
    runtime: RuntimeDep,
    entity: Annotated[Text, Query(description="A name or an alias, or `user`.", examples=["Ben"])],
    depth: Annotated[int, Query(ge=1, le=3)] = 1,
    user_id: UserQuery = None,
) -> GraphOut:
    """Return an entity and what is around it, by current facts."""
    user = caller.acts_for(user_id)
    found = await runtime.graph.around(caller.tenant_id, user, entity, depth)
    return GraphOut.model_validate(found, from_attributes=True)
