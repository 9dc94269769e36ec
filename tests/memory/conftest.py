"""What the tests of memory share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of a store in each database."""
    if request.param == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgres_state")}
