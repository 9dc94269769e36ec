"""What routes share: the runtime, the caller, and the types of what comes in. Touches: identity."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self, TypeVar, cast

from fastapi import Depends, Query, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from app.api.local_door import check_keyless
from app.erased import pseudonym
from app.errors import Forbidden, InvalidRequest, NotFound, Unauthenticated
from app.identity import DEFAULT_TENANT, Caller, check_tenant
from app.jwts import Claims, looks_like_jwt
from app.knowledge.within import check as check_bound_filter
from app.telemetry import note
from app.text.zones import zone_name
from app.wiring import Runtime

T = TypeVar("T")
ID_BYTES = 512  # Postgres refuses an index entry of more than a third of a page
MOST_UNKNOWN = 20  # fields of a body
KEYLESS = ("local", "anonymous")
_HALF_PAIR = re.compile("[\ud800-\udfff]")

_bearer = HTTPBearer(auto_error=False, description="An API key; not needed on this machine")
_header = APIKeyHeader(name="X-API-Key", auto_error=False)


class Body(BaseModel):
    """A request's body: a field that we don't know is an error, for it may have mattered."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_no_flood(cls, given: object) -> object:
        # Each unknown field is an error of its own: a million would stop the service for a while.
        known = len(cls.model_fields)
        if isinstance(given, Mapping) and len(given) > known + MOST_UNKNOWN:
            raise ValueError(f"has {len(given)} fields, of which {known} at most can be known")
        return given


class Change(Body):
    """What to change of something: what is not sent stays, and something has to be sent."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"needs at least one of {', '.join(type(self).model_fields)}")
        return self


class MemoryFactOut(BaseModel):
    """A fact that fits the question; true from `valid_from` until `valid_to`, null: it still is."""

    fact_id: str
    subject: str
    predicate: str
    value: str
    statement: str
    kind: str
    confidence: float
    said_by: str
    session_id: str | None
    seq: int | None
    quote: str | None
    learned_at: datetime
    valid_from: datetime
    valid_to: datetime | None


class MemoryOut(BaseModel):
    """One record for each session, with its facts that fit.

    `score` is the best cosine of its vectors; `relevance` (0 to 1) is the order, by meaning, words
    and age together, the best match being 1 before its age counts. `why` it passed: `dense` or
    `fact` (the cosine of the conversation, of a fact), `lexical` (the question's words), `related`
    (a name that belongs to whom the question names), `current` (it says what holds now, where the
    one that was asked for is over); `recency`: age counted fully.
    """

    id: str
    memory_type: str
    session_id: str
    score: float
    text: str
    created_at: datetime
    relevance: float = 0.0
    why: list[str] = []
    facts: list[MemoryFactOut] = []


def _storable(given: T) -> T:
    """Refuse what no database or backend can hold, in a text or anywhere within JSON."""
    left: list[object] = [given]
    while left:  # a loop, for JSON can be nested deeper than calls
        part = left.pop()
        if isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str):
            if "\x00" in part:
                raise ValueError("must not contain NUL")
            if _HALF_PAIR.search(part):
                raise ValueError("must be valid Unicode, without half surrogate pairs")
    return given


def _short(text: str) -> str:
    if len(text.encode()) > ID_BYTES:
        raise ValueError(f"must be at most {ID_BYTES} bytes in UTF-8")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _addressable(text: str) -> str:
    if text in (".", ".."):  # a URL can't carry them: clients and proxies resolve them away
        raise ValueError("must not be . or ..")
    return text


def _printable(text: str) -> str:
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError("must not contain control characters")
    return text


Storable = AfterValidator(_storable)
Printable = AfterValidator(_printable)
NotBlank = AfterValidator(_not_blank)
Text = Annotated[str, Storable, NotBlank]
Id = Annotated[
    str,
    Field(min_length=1, max_length=ID_BYTES),
    AfterValidator(_short),
    Printable,
    NotBlank,
    AfterValidator(_addressable),
]

_ID: TypeAdapter[str] = TypeAdapter(Id)

Zone = Annotated[str, AfterValidator(zone_name)]

UserQuery = Annotated[Id | None, Query(description="Whose; counts from gateways and admins only.")]


async def get_runtime(request: Request) -> Runtime:  # async: a plain one costs a thread
    return cast(Runtime, request.app.state.runtime)


RuntimeDep = Annotated[Runtime, Depends(get_runtime)]


async def get_caller(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    header: Annotated[str | None, Security(_header)],
) -> Caller:
    runtime = await get_runtime(request)  # to have it handed in takes FastAPI longer
    secret = bearer.credentials if bearer is not None else header
    caller = await _who(runtime, secret, is_local=_is_loopback(request))
    note(tenant_id=caller.tenant_id, session_id=request.path_params.get("session_id"))
    if caller.name in KEYLESS and not _is_in_process(request):
        limits = runtime.limits
        check_keyless(
            request.headers,
            base_url=limits.public_base_url,
            origins=limits.origins,
            any_host=limits.any_host,
        )
    await runtime.limiter.count_key(caller.tenant_id, caller.name)
    if caller.role == "user" and caller.user_id is not None:
        await runtime.limiter.count_user(caller.tenant_id, caller.user_id)
    return caller


async def _who(runtime: Runtime, secret: str | None, *, is_local: bool) -> Caller:
    keys, jwts, now = runtime.keys, runtime.jwts, runtime.clock()
    if jwts is None or not secret or not looks_like_jwt(secret) or keys.is_setting(secret):
        return await keys.caller(secret, is_local=is_local, now=now)
    return caller_of(await jwts.verify(secret, now))


def caller_of(claims: Claims) -> Caller:
    """Return the user whom a verified token names. Raises `Unauthenticated` for odd claims."""
    tenant_id = DEFAULT_TENANT if claims.tenant is None else claims.tenant
    bound = claims.document_filter
    try:
        user_id = _ID.validate_python(claims.user_id, strict=True)
    except ValidationError as error:
        raise Unauthenticated("the JWT does not count: its sub can't be a user's id") from error
    try:
        check_tenant(tenant_id)
        if bound is not None:
            check_bound_filter(_storable(bound))
    except (InvalidRequest, ValueError) as error:
        raise Unauthenticated(f"the JWT does not count: {error}") from error
    name = f"jwt:{pseudonym(tenant_id, user_id)}"
    return Caller(tenant_id, user_id, "user", name=name, document_filter=bound)


CallerDep = Annotated[Caller, Depends(get_caller)]


async def count_question(caller: Caller, user_id: str, runtime: Runtime) -> None:
    """Count a question of a user whom the caller named; a user's own key counts by itself."""
    if caller.role != "user":
        await runtime.limiter.count_user(caller.tenant_id, user_id)


async def get_admin(caller: CallerDep) -> Caller:
    caller.require_admin()
    return caller


AdminDep = Annotated[Caller, Depends(get_admin)]


async def get_whole_admin(caller: AdminDep) -> Caller:
    """Return an admin of all documents: some routes tell of things that no filter can pass."""
    if caller.document_filter is not None:
        raise Forbidden("this needs a key without a document filter: it is about all documents")
    return caller


WholeAdminDep = Annotated[Caller, Depends(get_whole_admin)]


async def user_in_path(user_id: Id, caller: CallerDep) -> str:
    """Return whom `/users/{user_id}/…` is about: a user may name itself, others anybody."""
    if caller.role == "user" and caller.user_id != user_id:
        raise NotFound("there is no such user", param="user_id")
    return user_id


UserInPath = Annotated[str, Depends(user_in_path)]


def _is_loopback(request: Request) -> bool:
    """Say whether the client is on this machine.

    One without an address came through a Unix socket, so most likely from anywhere, by a proxy.
    """
    if request.client is None:
        return False
    if _is_in_process(request):
        return True
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError as error:
        raise Forbidden("the client's address can't be read") from error
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_in_process(request: Request) -> bool:
    """Say whether Starlette's test client asks: no socket has that for an address."""
    return request.client is not None and request.client.host == "testclient"
