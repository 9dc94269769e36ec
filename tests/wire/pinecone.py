"""A server that speaks Pinecone's wire protocol (API 2026-07), strictly, with faults to switch on.

It serves one index: its data calls at the root, and the control calls that find, create and delete
it. Shapes and refusals follow the SDK's decoders and real error texts. Touches a loopback socket.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from tests.wire.held import Held
from tests.wire.pinecone_data import DOCUMENT_INDEX, Data, Refused, check_namespace, only
from tests.wire.serving import serving

API_KEY = "pcsk_test_key"
INDEX_NAME = "conversational-rag"
MAX_BODY_BYTES = 2_000_000
MAX_URL_BYTES = 8_000
PLACE = {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}

Json = dict[str, Any]


@dataclass(frozen=True)
class Faults:
    """What goes wrong, until it is replaced, or only for the next `times` calls.

    `status` answers instead of working, with `retry_after` as its header. `reset` does the work and
    then breaks the connection in mid-answer. `garbage` answers 200 with no JSON. `unsorted` gives
    matches in another order than by score. `lag_seconds` is how late writes become visible:
    infinity means when the test calls `settle()`.
    """

    status: int | None = None
    retry_after: str | None = None
    latency_seconds: float = 0.0
    reset: bool = False
    garbage: bool = False
    unsorted: bool = False
    lag_seconds: float = 0.0
    times: float = float("inf")


@dataclass(frozen=True)
class Call:
    """One request as it came; `body` is its JSON."""

    method: str
    path: str
    headers: dict[str, str]
    size: int
    body: Any


@dataclass
class PineconeServer:
    """The state behind the wire; `url` is both the control plane's and the index's host.

    An index exists from the start if there is a `schema` (or a `dimension`, for a vector index).
    For the first `describes_until_ready` looks it is still being made, and its `state` is told.
    """

    dimension: int | None = None
    metric: str = "cosine"
    name: str = INDEX_NAME
    schema: Json | None = None
    deployment: Json = field(default_factory=lambda: dict(PLACE))
    state: str = "Ready"
    describes_until_ready: int = 0
    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list)
    held: Held | None = None  # holds searches back
    url: str = ""

    def __post_init__(self) -> None:
        if self.dimension is not None and self.schema is None:
            dense = {"type": "dense_vector", "dimension": self.dimension, "metric": self.metric}
            self.schema = {"_values": dense}
        self.data = Data(self.dimension or 0)

    def forget(self) -> None:
        """Drop rows, faults and recorded calls, so that tests can share a running server."""
        self.data = Data(self.dimension or 0)
        self.faults = Faults()
        self.calls.clear()

    def settle(self) -> None:
        """Make every write visible."""
        self.data.settle()

    def paths(self) -> list[str]:
        """Return the paths that were called, in order."""
        return [call.path for call in self.calls]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        raw = await request.body()
        self.calls.append(
            Call(request.method, request.url.path, dict(request.headers), len(raw), _loads(raw))
        )
        faults, self.faults = self._due()
        await asyncio.sleep(faults.latency_seconds)
        if self.held is not None and request.url.path == "/query":
            await self.held.pass_by()
        response = self._answer(request, raw, faults)
        if faults.reset:
            await _break_off(response, send)
        else:
            await response(scope, receive, send)

    def _due(self) -> tuple[Faults, Faults]:
        """Return the faults of this call and of those after it."""
        left = self.faults.times - 1
        if left <= 0:
            return self.faults, Faults(lag_seconds=self.faults.lag_seconds)
        return self.faults, Faults(**{**vars(self.faults), "times": left})

    def _answer(self, request: Request, raw: bytes, faults: Faults) -> Response:
        control = request.url.path.startswith("/indexes")
        self.data.lag_seconds = faults.lag_seconds
        try:
            if faults.status is not None:
                raise Refused(faults.status, "the test wants it so")
            if request.headers.get("api-key") != API_KEY:
                return PlainTextResponse("Invalid API Key", status_code=401)
            if not re.fullmatch(r"\d{4}-\d{2}", request.headers.get("x-pinecone-api-version", "")):
                raise Refused(400, "X-Pinecone-Api-Version is missing")
            if faults.garbage:
                return PlainTextResponse("<html>not what you asked for</html>")
            return self._control(request, raw) if control else self._data(request, raw, faults)
        except Refused as error:
            headers = {"retry-after": faults.retry_after} if faults.retry_after else {}
            return JSONResponse(_error(error, control), status_code=error.status, headers=headers)

    # The control plane.

    def _control(self, request: Request, raw: bytes) -> Response:
        asked = request.url.path.removeprefix("/indexes").removeprefix("/")
        if request.method == "POST" and not asked:
            return self._create(_body(request, raw))
        if request.method == "GET" and not asked:
            return JSONResponse({"indexes": [self._model()] if self.schema else []})
        if self.schema is None or asked != self.name:
            raise Refused(404, f"Resource {asked} not found")
        if request.method == "DELETE":
            self.schema = None
            return Response(status_code=202)
        model = self._model()
        self.describes_until_ready = max(0, self.describes_until_ready - 1)
        return JSONResponse(model)

    def _create(self, body: Json) -> Response:
        only(body, {"name", "schema", "deployment"})
        if self.schema is not None and body["name"] == self.name:
            raise Refused(409, "Resource already exists")
        fields = body["schema"]["fields"]
        if set(body["deployment"]) != {"deployment_type", "cloud", "region"}:
            raise Refused(400, "deployment must name its type, cloud and region")
        self.name, self.schema, self.deployment = body["name"], fields, body["deployment"]
        self.dimension, self.metric = fields["_values"]["dimension"], fields["_values"]["metric"]
        self.data = Data(self.dimension or 0)
        return JSONResponse(self._model(), status_code=201)

    def _model(self) -> Json:
        ready = self.describes_until_ready == 0 and self.state == "Ready"
        state = self.state if self.state != "Ready" or ready else "Initializing"
        return {
            "name": self.name,
            "host": self.url if ready else None,
            "status": {"ready": ready, "state": state},
            "schema": {"fields": self.schema},
            "deployment": self.deployment,
            "deletion_protection": "disabled",
            "tags": None,
        }

    # The data plane.

    def _data(self, request: Request, raw: bytes, faults: Faults) -> Response:
        if len(str(request.url)) > MAX_URL_BYTES:
            raise Refused(414, "URI too long")
        if len(raw) > MAX_BODY_BYTES:
            raise Refused(413, f"Request size {len(raw)} exceeds the limit of {MAX_BODY_BYTES}")
        route = (request.method, request.url.path)
        if route == ("POST", "/describe_index_stats"):
            return self._stats(_body(request, raw))
        if self.dimension is None:
            raise Refused(400, DOCUMENT_INDEX, code=9)
        match route:
            case ("POST", "/vectors/upsert"):
                return self._upsert(_body(request, raw))
            case ("POST", "/vectors/delete"):
                return self._delete(_body(request, raw))
            case ("POST", "/query"):
                return self._query(_body(request, raw), faults)
            case ("GET", "/vectors/fetch"):
                return self._fetch(request)
            case ("GET", "/vectors/list"):
                return self._list(request)
        raise Refused(404, f"no such call {route}", code=12)

    def _stats(self, body: Json) -> Response:
        only(body, set())
        counts = {name: len(self.data.space(name).rows) for name in self.data.spaces}
        return JSONResponse(
            {
                "namespaces": {name: {"vectorCount": count} for name, count in counts.items()},
                "totalVectorCount": sum(counts.values()),
                "indexFullness": 0.0,
                **({} if self.dimension is None else _dense(self.dimension, self.metric)),
            }
        )

    def _upsert(self, body: Json) -> Response:
        only(body, {"vectors", "namespace"})
        lsn = self.data.upsert(check_namespace(body.get("namespace", "")), body.get("vectors"))
        return JSONResponse(
            {"upsertedCount": len(body["vectors"])},
            headers={"x-pinecone-request-lsn": str(lsn)},
        )

    def _delete(self, body: Json) -> Response:
        only(body, {"namespace", "ids", "deleteAll", "filter"})
        lsn = self.data.delete(check_namespace(body.get("namespace", "")), body)
        return JSONResponse({}, headers={"x-pinecone-request-lsn": str(lsn)})

    def _query(self, body: Json, faults: Faults) -> Response:
        only(
            body,
            {"topK", "includeValues", "includeMetadata", "namespace", "vector", "id", "filter"},
        )
        namespace = check_namespace(body.get("namespace", ""))
        rows = self.data.query(namespace, body)
        if faults.unsorted:
            rows = rows[1::2] + rows[::2]
        shown = {"id", "score"} | ({"metadata"} if body.get("includeMetadata") else set())
        shown |= {"values"} if body.get("includeValues") else set()
        matches = [{"values": [], **{key: row[key] for key in shown}} for row in rows]
        return JSONResponse(
            {"matches": matches, "namespace": namespace, "usage": {"readUnits": 1}},
            headers={"x-pinecone-max-indexed-lsn": str(self.data.space(namespace).indexed)},
        )

    def _fetch(self, request: Request) -> Response:
        namespace = check_namespace(request.query_params.get("namespace", ""))
        rows = self.data.fetch(namespace, request.query_params.getlist("ids"))
        return JSONResponse({"vectors": rows, "namespace": namespace, "usage": {"readUnits": 1}})

    def _list(self, request: Request) -> Response:
        asked = request.query_params
        namespace = check_namespace(asked.get("namespace", ""))
        limit = int(asked.get("limit", "100"))
        if not 1 <= limit <= 100:
            raise Refused(400, f"limit must be between 1 and 100, got {limit}")
        after = asked.get("paginationToken", "")
        prefix = asked.get("prefix", "")
        ids = sorted(id for id in self.data.space(namespace).rows if id.startswith(prefix))
        ids = [id for id in ids if id > after]
        answer: Json = {
            "vectors": [{"id": id} for id in ids[:limit]],
            "namespace": namespace,
            "usage": {"readUnits": 1},
        }
        if len(ids) > limit:
            answer["pagination"] = {"next": ids[limit - 1]}
        return JSONResponse(answer)


@contextmanager
def serving_pinecone(**state: Any) -> Iterator[PineconeServer]:
    """Serve a `PineconeServer` made with `state`, and yield it with its `url`."""
    server = PineconeServer(**state)
    with serving(server) as server.url:
        yield server


async def _break_off(response: Response, send: Send) -> None:
    """Promise a whole answer, send half of it, and let the connection fall."""
    start = {"type": "http.response.start", "status": response.status_code}
    await send({**start, "headers": [(b"content-length", b"100000")]})
    half = {"type": "http.response.body", "body": b'{"half":', "more_body": True}
    await send(half)


def _error(error: Refused, control: bool) -> Json:
    if control:
        known = {404: "NOT_FOUND", 409: "ALREADY_EXISTS"}
        code = known.get(error.status, "INVALID_ARGUMENT")
        return {"error": {"code": code, "message": error.message}, "status": error.status}
    return {"code": error.code, "message": error.message, "details": []}


def _dense(dimension: int, metric: str) -> Json:
    return {"dimension": dimension, "metric": metric, "vectorType": "dense"}


def _body(request: Request, raw: bytes) -> Json:
    if request.headers.get("content-type") != "application/json":
        raise Refused(400, "Content-Type must be application/json")
    body = _loads(raw)
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    return body


def _loads(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
