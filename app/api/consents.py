"""What a user allows. Touches: consents."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["privacy"])
