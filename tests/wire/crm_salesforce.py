"""A server that speaks Salesforce's REST API as far as it is called. Touches nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from tests.wire.crm import CrmServer, Json, Refused, Stored

CLIENT_ID, CLIENT_SECRET = "3MVG9.app", "salesforce-secret"
ORGANIZATION = "00D5g000004XyZaEAK"
ROOT = "/services/data/v67.0"
TYPES = {"User", "Account", "Contact", "Lead", "Opportunity", "Case", "Product2"}
FIELDS = {
    "Id": "id",
    "IsDeleted": "boolean",
    "Name": "string",
    "AnnualRevenue": "currency",
    "Industry": "picklist",
    "BillingCity": "string",
    "BillingAddress": "address",
    "SystemModstamp": "datetime",
}
QUERY = re.compile(
    r"SELECT Id FROM (\w+) WHERE SystemModstamp >= (\S+) ORDER BY SystemModstamp, Id"
)


@dataclass
class SalesforceServer(CrmServer):
    """`earliest` is since when deletions are told; `next_page`, if set, is a wrong one."""

    earliest: str = "2026-10-01T00:00:00.000+0000"
    next_page: str = ""

    def __post_init__(self) -> None:
        self.sessions: set[str] = set()
        self.logins = 0
        self._queries: dict[str, list[Stored]] = {}

    def end_sessions(self) -> None:
        self.sessions.clear()

    def answer(self, request: Request, path: str, body: Any) -> Any:
        if path == "/services/oauth2/token":
            return self._token(request, body)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.sessions:
            raise Refused(401, _error("INVALID_SESSION_ID"))
        if not path.startswith(ROOT):
            raise Refused(404, _error("NOT_FOUND"))
        parts = path.removeprefix(ROOT).strip("/").split("/")
        asked = dict(request.query_params)
        match [request.method, *parts]:
            case ["GET", "query"]:
                return self._query(asked["q"])
            case ["GET", "query", cursor]:
                name, start = cursor.rsplit("-", 1)
                return self._page(name, int(start))
            case ["GET", "sobjects", kind]:
                return {"objectDescribe": {"name": self._kind(kind)}, "recentItems": []}
            case ["GET", "sobjects", kind, "describe"]:
                fields = [{"name": name, "type": type} for name, type in FIELDS.items()]
                return {"name": self._kind(kind), "fields": fields}
            case ["GET", "sobjects", kind, "deleted"]:
                return self._deleted(self._kind(kind), asked)
            case ["GET", "sobjects", kind, id]:
                return self._record(self._one(self._kind(kind), id), FIELDS)
            case ["POST", "composite", "sobjects", kind]:
                return self._together(self._kind(kind), body)
        raise Refused(404, _error("NOT_FOUND"))

    def _token(self, request: Request, body: str) -> Json:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        right = {
            "grant_type": "client_credentials",
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
        }
        if request.method != "POST" or form != right:
            raise Refused(400, {"error": "invalid_client", "error_description": CLIENT_SECRET})
        self.logins += 1
        token = f"00D5g!token.{self.logins}"
        self.sessions.add(token)
        return {
            "access_token": token,
            "instance_url": "https://elsewhere.example",
            "id": f"https://login.salesforce.com/id/{ORGANIZATION}/0055g00000QwErTAAV",
            "token_type": "Bearer",
        }

    def _kind(self, kind: str) -> str:
        if kind not in TYPES - self.forbidden:
            raise Refused(404, _error("NOT_FOUND"))
        return kind

    def _one(self, kind: str, id: str) -> Stored:
        row = self.stored.get((kind, id))
        if row is None:
            raise Refused(404, _error("NOT_FOUND"))
        if row.removed is not None:
            raise Refused(404, _error("ENTITY_IS_DELETED"))
        return row

    def _record(self, row: Stored, names: Any) -> Json:
        whole = {
            "Id": row.id,
            "IsDeleted": False,
            "BillingAddress": {"city": row.fields.get("BillingCity")},
            "SystemModstamp": _stamp(row.time),
            **row.fields,
        }
        attributes = {"type": row.type, "url": f"{ROOT}/sobjects/{row.type}/{row.id}"}
        return {"attributes": attributes, **{name: whole.get(name) for name in names}}

    def _query(self, query: str) -> Json:
        found = QUERY.fullmatch(query)
        if found is None:
            raise Refused(400, _error("MALFORMED_QUERY"))
        since = datetime.fromisoformat(found[2])
        rows = self.of_type(self._kind(found[1]))
        name = f"01g5g00000{len(self._queries)}"
        self._queries[name] = [r for r in rows if r.removed is None and r.time >= since]
        return self._page(name, 0)

    def _page(self, name: str, start: int) -> Json:
        rows = self._queries[name]
        end = start + min(2000, self.page_rows)
        more: Json = {"nextRecordsUrl": self.next_page or f"{ROOT}/query/{name}-{end}"}
        shown = [self._record(row, ["Id"]) for row in rows[start:end]]
        is_last = end >= len(rows)
        return {"totalSize": len(rows), "done": is_last, "records": shown} | (
            {} if is_last else more
        )

    def _together(self, kind: str, body: Json) -> list[Json | None]:
        names = body["fields"]
        if len(body["ids"]) > 2000 or set(names) - set(FIELDS) or set(body) != {"ids", "fields"}:
            raise Refused(400, _error("INVALID_FIELD"))
        rows = [self.stored.get((kind, id)) for id in body["ids"]]
        return [
            None if row is None or row.removed is not None else self._record(row, names)
            for row in rows
        ]

    def _deleted(self, kind: str, asked: dict[str, str]) -> Json:
        start, end = (datetime.fromisoformat(asked[name]) for name in ("start", "end"))
        if (end - start).total_seconds() <= 60:
            raise Refused(400, _error("INVALID_REPLICATION_DATE"))
        rows = [(row.id, row.removed) for row in self.of_type(kind)]
        return {
            "deletedRecords": [
                {"id": id, "deletedDate": _stamp(gone)}
                for id, gone in rows
                if gone is not None and start <= gone < end
            ],
            "earliestDateAvailable": self.earliest,
            "latestDateCovered": asked["end"],
        }


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000+0000")


def _error(code: str) -> list[Json]:
    return [{"errorCode": code, "message": f"told of {CLIENT_SECRET}"}]
