"""Webhooks in, and the inbox for admins. Touches: senders, inbox."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.big_bodies import BigBodies
from app.api.deps import RuntimeDep, WholeAdminDep
from app.api.responses import documented
from ingest.providers.base import Incoming

router = APIRouter(tags=["webhooks"], route_class=BigBodies)

MAX_ID = 2**63 - 1

DeliveryId = Annotated[int, Path(ge=1, le=MAX_ID)]


class ReceivedOut(BaseModel):
    """What became of the events: each is stored, or was known; `skipped` ones need nothing."""

    events: int
    stored: int
    duplicates: int
    skipped: int


class DeliveryOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    provider: str
    type: str
    account: str
    object_type: str
    object_id: str
    body: Annotated[
        dict[str, Any] | None, Field(description="The event as it came; null once it was erased.")
    ]
    state: Literal["pending", "done", "skipped", "failed"]
    attempts: int
    last_error: str | None
    received_at: datetime
    processed_at: datetime | None


class Deliveries(BaseModel):
    deliveries: list[DeliveryOut]
    next_after: int | None


@router.get("/webhooks/inbox", responses=documented(403, 422))
async def list_deliveries(
    caller: WholeAdminDep,
    runtime: RuntimeDep,
    state: Annotated[Literal["pending", "done", "skipped", "failed"] | None, Query()] = None,
    provider: Annotated[str | None, Query(max_length=100)] = None,
    after: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next_after`")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Deliveries:
    """List the events that came, the newest first."""
    page = await runtime.inbox.list_deliveries(
        caller.tenant_id, state=state, provider=provider, after=after, limit=limit
    )
    return Deliveries(
        deliveries=[DeliveryOut.model_validate(delivery) for delivery in page],
        next_after=page[-1].id if len(page) == limit else None,
    )


@router.post("/webhooks/inbox/{id}/replay", responses=documented(403, 404, 409, 422))
async def replay(id: DeliveryId, caller: WholeAdminDep, runtime: RuntimeDep) -> DeliveryOut:
    """Have one event worked on again, whatever became of it."""
    replayed = await runtime.inbox.replay(caller.tenant_id, id, actor=caller.actor)
    return DeliveryOut.model_validate(replayed)


@router.post(
    "/webhooks/{provider}/{token}",
    status_code=202,
    response_model=ReceivedOut,
    responses=documented(400, 404, 413, 415, 422, 507, keyed=False),
)
async def receive_by_token(
    provider: str, token: str, request: Request, runtime: RuntimeDep
) -> Response | ReceivedOut:
    """Store a sender's events; the last part of the URL names the source."""
    return await _receive(provider, token, request, runtime)


@router.post(
    "/webhooks/{provider}",
    status_code=202,
    response_model=ReceivedOut,
    responses=documented(400, 404, 413, 415, 422, 507, keyed=False),
)
async def receive(provider: str, request: Request, runtime: RuntimeDep) -> Response | ReceivedOut:
    """Store a sender's events, before anything is done with them. Salesforce gets its `Ack`."""
    return await _receive(provider, "", request, runtime)


async def _receive(
    provider: str, token: str, request: Request, runtime: RuntimeDep
) -> Response | ReceivedOut:
    incoming = Incoming(request.method, _path(request), _headers(request), await request.body())
    received = await asyncio.to_thread(
        runtime.senders.receive, provider, token, incoming, runtime.clock()
    )
    source = received.source
    receipt = await runtime.inbox.put(
        source.tenant_id, provider, received.events, account=source.account
    )
    if received.ack.body:
        ack = received.ack
        return Response(ack.body, status_code=ack.status, media_type=ack.media_type)
    return ReceivedOut.model_validate(receipt, from_attributes=True)


def _path(request: Request) -> str:
    """Return path and query as they were sent: a signature covers them byte by byte."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


def _headers(request: Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}
