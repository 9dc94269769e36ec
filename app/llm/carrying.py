"""A hook of httpx clients: a vendor can go on with the trace under way. Touches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tracing import carried

if TYPE_CHECKING:
    import httpx


async def carry(request: httpx.Request) -> None:
    request.headers.update(carried())
