"""A server that speaks HubSpot's CRM API v3 as far as it is called. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request

from tests.wire.crm import CrmServer, Json, Refused, Stored, stamp

TOKEN = "pat-eu1-secret"
PORTAL = 4455667
PLURALS = {
    "contacts": "contact",
    "companies": "company",
    "deals": "deal",
    "tickets": "ticket",
    "products": "product",
}
CREATED = datetime(2026, 1, 2, tzinfo=UTC)
SEARCH_REACH = 10_000
MAX_URL_BYTES = 16_000


@dataclass
class HubSpotServer(CrmServer):
    """`merged` holds ids that lead to another object."""

    def __post_init__(self) -> None:
        self.merged: dict[str, str] = {}

    def answer(self, request: Request, path: str, body: Any) -> Any:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, _error("INVALID_AUTHENTICATION"))
        if len(str(request.url)) > MAX_URL_BYTES:
            raise Refused(414, _error("URI_TOO_LONG"))
        parts = path.strip("/").split("/")
        asked = dict(request.query_params)
        match [request.method, *parts]:
            case ["GET", "account-info", "v3", "details"]:
                return {"portalId": PORTAL, "accountType": "STANDARD"}
            case ["GET", "crm", "v3", "owners"]:
                return self._list("owner", asked)
            case ["GET", "crm", "v3", "owners", id]:
                return self._owner(self._one("owner", id, asked))
            case ["POST", "crm", "v3", "objects", plural, "search"]:
                return self._search(self._kind(plural), body)
            case ["GET", "crm", "v3", "objects", plural]:
                return self._list(self._kind(plural), asked)
            case ["GET", "crm", "v3", "objects", plural, id]:
                kind = self._kind(plural)
                return self._object(self._one(kind, self.merged.get(id, id), asked), asked)
        raise Refused(404, "<html>no such place</html>")

    def _kind(self, plural: str) -> str:
        kind = PLURALS.get(plural, plural)
        if kind in self.forbidden:
            raise Refused(403, _error("MISSING_SCOPES"))
        if plural not in PLURALS and not plural[0].isdigit():
            raise Refused(400, _error("VALIDATION_ERROR"))
        return kind

    def _one(self, kind: str, id: str, asked: dict[str, str]) -> Stored:
        row = self.stored.get((kind, id))
        if row is None or (row.removed is not None) != (asked.get("archived") == "true"):
            raise Refused(404, _error("OBJECT_NOT_FOUND"))
        return row

    def _object(self, row: Stored, asked: dict[str, str]) -> Json:
        names = asked["properties"].split(",") if "properties" in asked else ["name"]
        clock = "lastmodifieddate" if row.type == "contact" else "hs_lastmodifieddate"
        always = {"hs_object_id": row.id, "createdate": stamp(CREATED), clock: stamp(row.time)}
        gone = {} if row.removed is None else {"archivedAt": stamp(row.removed)}
        return {
            "id": row.id,
            "properties": {**{name: row.fields.get(name) for name in names}, **always},
            "createdAt": stamp(CREATED),
            "updatedAt": stamp(row.time),
            "archived": row.removed is not None,
            **gone,
        }

    def _owner(self, row: Stored) -> Json:
        return {
            "id": row.id,
            "type": "PERSON",
            **row.fields,
            "userId": int(row.id) + 1,
            "createdAt": stamp(CREATED),
            "updatedAt": stamp(row.time),
            "archived": row.removed is not None,
        }

    def _list(self, kind: str, asked: dict[str, str]) -> Json:
        most = 500 if kind == "owner" else 100
        if not 1 <= int(asked["limit"]) <= most:
            raise Refused(400, _error("VALIDATION_ERROR"))
        wanted = asked.get("archived") == "true"
        rows = [row for row in self.of_type(kind) if (row.removed is not None) == wanted]
        rows.sort(key=lambda row: int(row.id))
        rows = [row for row in rows if int(row.id) > int(asked.get("after", "0"))]
        page = rows[: min(int(asked["limit"]), self.page_rows)]
        shown = [self._owner(r) if kind == "owner" else self._object(r, asked) for r in page]
        return _page(shown, page[-1].id if len(page) < len(rows) else None)

    def _search(self, kind: str, body: Json) -> Json:
        only = {"filterGroups", "sorts", "properties", "limit", "after"}
        [group] = body["filterGroups"]
        [since] = group["filters"]
        clock = "lastmodifieddate" if kind == "contact" else "hs_lastmodifieddate"
        start = int(body.get("after", "0"))
        if (
            set(body) - only
            or since["propertyName"] != clock
            or since["operator"] != "GTE"
            or body["sorts"] != [{"propertyName": clock, "direction": "ASCENDING"}]
            or not 1 <= body["limit"] <= 200
            or start + body["limit"] > SEARCH_REACH
        ):
            raise Refused(400, _error("VALIDATION_ERROR"))
        earliest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(since["value"]))
        rows = [r for r in self.of_type(kind) if r.removed is None and r.time >= earliest]
        end = start + min(body["limit"], self.page_rows)
        names = {"properties": ",".join(body["properties"])}
        shown = [self._object(row, names) for row in rows[start:end]]
        return {"total": len(rows), **_page(shown, str(end) if end < len(rows) else None)}


def _page(rows: list[Json], after: str | None) -> Json:
    paging = {} if after is None else {"paging": {"next": {"after": after, "link": "?"}}}
    return {"results": rows, **paging}


def _error(category: str) -> Json:
    return {
        "status": "error",
        "message": f"told of {TOKEN}",
        "correlationId": "5d1c0c43-4a6c-4b76-9d1c-6f5a0f6e3c55",
        "category": category,
    }
