"""Where a page of a listing ended: its last row's time and id, as one text. Touches nothing."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, TypeAdapter

from app.api.deps import Storable
from app.errors import InvalidRequest

_CURSOR = TypeAdapter[tuple[datetime, str]](tuple[AwareDatetime, Annotated[str, Storable]])


def encoded(moment: datetime, id: str) -> str:
    return urlsafe_b64encode(json.dumps([moment.isoformat(), id]).encode()).decode()


def decoded(cursor: str | None, *, of: str) -> tuple[datetime, str] | None:
    """Return the time, in UTC, and the id. Raises `InvalidRequest`; `of` names what is listed."""
    if cursor is None:
        return None
    try:
        moment, id = _CURSOR.validate_json(urlsafe_b64decode(cursor.encode()))
        return moment.astimezone(UTC), id
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f"this is no cursor of a page of {of}", param="cursor") from error
