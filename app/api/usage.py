"""What model calls cost, by tenant, user, purpose or model. Touches: the ledger."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.deps import CallerDep, RuntimeDep, UserQuery
from app.api.responses import documented
from app.api.times import QueryMoment
from app.errors import Forbidden, InvalidRequest
from app.usage import HOUR, Breakdown, Used, floor_hour

router = APIRouter(tags=["operations"])

DEFAULT_SPAN = timedelta(days=30)
OF_A_TENANT = ("tenant", "user")


class UsageRow(BaseModel):
    """`usd`: of the calls whose model has a known price; the others are `unpriced_calls`.

    `estimated_calls`: those whose provider told no tokens.
    """

    key: str
    calls: int
    input_tokens: int
    output_tokens: int
    estimated_calls: int
    unpriced_calls: int
    usd: float


class Usage(BaseModel):
    """`since` and `until` are the whole hours that were counted.

    `rows`, the most tokens first, end where `is_cut` is true; `total` is of all.
    """

    since: datetime
    until: datetime
    by: Breakdown
    rows: list[UsageRow]
    is_cut: bool
    total: UsageRow


@router.get("/usage", responses=documented(403, 422))
async def usage(
    caller: CallerDep,
    runtime: RuntimeDep,
    since: Annotated[
        QueryMoment | None,
        Query(alias="from", description="From the hour of this on; default: 30 days before `to`."),
    ] = None,
    until: Annotated[
        QueryMoment | None,
        Query(alias="to", description="To the end of the hour that holds it; default: now."),
    ] = None,
    by: Annotated[
        Breakdown, Query(description="`tenant` and `user` are for admins; of their own tenant.")
    ] = "purpose",
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> Usage:
    """Add up the model calls of some time by the hour: their tokens, and what they cost.

    An admin sees the whole tenant, or the user that is named; anybody else what is their own.
    """
    if by in OF_A_TENANT and caller.role != "admin":
        raise Forbidden(f"by={by} needs a key with the role admin", param="by")
    user = caller.may_see(user_id)
    to = until or runtime.clock()
    start = floor_hour(since or to - DEFAULT_SPAN)
    end = floor_hour(to) if to == floor_hour(to) else floor_hour(to) + HOUR
    if (since or start) >= to:
        raise InvalidRequest("from must be before to", param="from")
    rows, total = await runtime.ledger.used(
        caller.tenant_id, user, since=start, until=end, by=by, limit=limit + 1
    )
    return Usage(
        since=start,
        until=end,
        by=by,
        rows=[_row(row) for row in rows[:limit]],
        is_cut=len(rows) > limit,
        total=_row(total),
    )


def _row(used: Used) -> UsageRow:
    return UsageRow(**asdict(used))
