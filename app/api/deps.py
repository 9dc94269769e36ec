"""What routes share: the runtime, the caller, and the types of what comes in. Touches: identity."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated, Self, TypeVar, cast

from fastapi import Depends, Query, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from app.errors import Forbidden
from app.identity import Caller
from app.text.zones import zone_name
from app.wiring import Runtime

T = TypeVar("T")
ID_BYTES = 512  # Postgres refuses an index entry of more than a third of a page
_HALF_PAIR = re.compile("[\ud800-\udfff]")

_bearer = HTTPBearer(auto_error=False, description="An API key; not needed on this machine")
_header = APIKeyHeader(name="X-API-Key", auto_error=False)


class Body(BaseModel):
    """A request's body: a field that we don't know is an error, for it may have mattered."""

    model_config = ConfigDict(extra="forbid")


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

Zone = Annotated[str, AfterValidator(zone_name)]

UserQuery = Annotated[Id | None, Query(description="Whose; counts from gateways and admins only.")]


async def get_runtime(request: Request) -> Runtime:  # async: a plain one costs a thread
    return cast(Runtime, request.app.state.runtime)


RuntimeDep = Annotated[Runtime, Depends(get_runtime)]


async def get_caller(
    request: Request,
    runtime: RuntimeDep,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    header: Annotated[str | None, Security(_header)],
) -> Caller:
    secret = bearer.credentials if bearer is not None else header
    return await runtime.keys.caller(secret, is_local=_is_loopback(request))


CallerDep = Annotated[Caller, Depends(get_caller)]


async def get_admin(caller: CallerDep) -> Caller:
    caller.require_admin()
    return caller


AdminDep = Annotated[Caller, Depends(get_admin)]


def _is_loopback(request: Request) -> bool:
    """Say whether the client is on this machine.

    One without an address came through a Unix socket, so most likely from anywhere, by a proxy.
    """
    if request.client is None:
        return False
    if request.client.host == "testclient":  # Starlette's, in this process: no socket says that
        return True
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError as error:
        raise Forbidden("the client's address can't be read") from error
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
