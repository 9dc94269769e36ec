"""DELETE /users/{id}. Touches: privacy."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["privacy"])
