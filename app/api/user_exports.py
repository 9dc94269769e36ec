"""All that is held about a user, out and in again. Touches: privacy."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["privacy"])
