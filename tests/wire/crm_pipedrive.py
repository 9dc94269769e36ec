"""A server that speaks Pipedrive's API, v2 and v1, as far as it is called. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request

from tests.wire.crm import CrmServer, Json, Refused, Stored

TOKEN = "pipedrive-secret"
COMPANY = 123456
V2 = {
    "deals": "deal",
    "persons": "person",
    "organizations": "organization",
    "activities": "activity",
    "products": "product",
    "pipelines": "pipeline",
    "stages": "stage",
}
V1 = {"users": "user", "notes": "note", "leads": "lead"}
BY_TIME = ("deal", "person", "organization", "activity", "product")


@dataclass
class PipedriveServer(CrmServer):
    def answer(self, request: Request, path: str, body: Any) -> Any:
        if request.headers.get("x-api-token") != TOKEN:
            raise Refused(401, _error("unauthorized access"))
        parts = path.strip("/").split("/")
        asked = dict(request.query_params)
        match [request.method, *parts]:
            case ["GET", "v1", "users", "me"]:
                return {"success": True, "data": {"id": 77, "company_id": COMPANY}}
            case ["GET", "v1", "users"]:
                return {"success": True, "data": [_v1(r) for r in self._rows("user")]}
            case ["GET", "v1", plural] if plural in V1:
                return self._backwards(V1[plural], asked)
            case ["GET", "v1", plural, id] if plural in V1:
                return {"success": True, "data": _v1(self._one(V1[plural], id))}
            case ["GET", "api", "v2", plural] if plural in V2:
                return self._list(V2[plural], asked)
            case ["GET", "api", "v2", plural, id] if plural in V2:
                return {"success": True, "data": _v2(self._one(V2[plural], id))}
        raise Refused(404, "<html>no such place</html>")

    def _rows(self, kind: str) -> list[Stored]:
        if kind in self.forbidden:
            raise Refused(403, _error("Scope and URL mismatch"))
        return self.of_type(kind)

    def _one(self, kind: str, id: str) -> Stored:
        row = self.stored.get((kind, id))
        if row is None:
            raise Refused(404, _error(f"{kind} not found"))
        return row

    def _list(self, kind: str, asked: Mapping[str, str]) -> Json:
        known = {"limit", "cursor", "sort_by", "sort_direction"}
        known |= {"updated_since"} if kind in BY_TIME else set()
        known |= {"status"} if kind == "deal" else set()
        if set(asked) - known or not 1 <= int(asked.get("limit", "100")) <= 500:
            raise Refused(400, _error("validation failed"))
        rows = self._rows(kind)
        if "updated_since" in asked:
            since = datetime.fromisoformat(asked["updated_since"])
            rows = [row for row in rows if (row.removed or row.time) >= since]
        wants_deleted = asked.get("status") == "deleted"
        rows = [row for row in rows if (row.removed is not None) == wants_deleted]
        start = int(asked.get("cursor", "c0")[1:])
        end = start + min(int(asked.get("limit", "100")), self.page_rows)
        return {
            "success": True,
            "data": [_v2(row) for row in rows[start:end]],
            "additional_data": {"next_cursor": f"c{end}" if end < len(rows) else None},
        }

    def _backwards(self, kind: str, asked: Mapping[str, str]) -> Json:
        if asked.get("sort") != "update_time DESC" or set(asked) != {"sort", "start", "limit"}:
            raise Refused(400, _error("bad request"))
        rows = self._rows(kind)[::-1]
        start = int(asked["start"])
        end = start + min(int(asked["limit"]), self.page_rows)
        pagination: Json = {"start": start, "limit": int(asked["limit"])}
        pagination["more_items_in_collection"] = end < len(rows)
        if end < len(rows):
            pagination["next_start"] = end
        return {
            "success": True,
            "data": [_v1(row) for row in rows[start:end]],
            "additional_data": {"pagination": pagination},
        }


def _v2(row: Stored) -> Json:
    time = row.removed or row.time
    return {
        "id": int(row.id),
        "custom_fields": {},
        **row.fields,
        "is_deleted": row.removed is not None,
        "update_time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _v1(row: Stored) -> Json:
    time = (row.removed or row.time).strftime("%Y-%m-%d %H:%M:%S")
    clock = "modified" if row.type == "user" else "update_time"
    id = int(row.id) if row.id.isdigit() else row.id
    return {"id": id, **row.fields, "active_flag": row.removed is None, clock: time}


def _error(text: str) -> Json:
    return {"success": False, "error": text, "error_info": f"told of {TOKEN}", "data": None}
