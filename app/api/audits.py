"""The audit log, for admins. Touches: audit."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["operations"])
