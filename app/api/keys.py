"""API keys, for admins. Touches: identity."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["keys"])
