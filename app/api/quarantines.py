"""Texts that read like instructions, for review. Touches: quarantine."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["operations"])
