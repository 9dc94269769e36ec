"""One call to a CRM's API: a deadline, a few attempts, our errors. Touches: the CRM, over HTTPS.

Only what is configured is sent: no redirect is followed, no cookie is kept, and nothing that came
in an event can change the path. Every call is safe to repeat.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from app.errors import (
    Misconfigured,
    UpstreamBusy,
    UpstreamError,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.retry import retried, seconds_asked
from ingest.providers.base import Incoming, ObjectKey, UnreadableDelivery
from ingest.providers.payload import json_of
from ingest.providers.values import moment

PART = "crm"
FURTHER_ATTEMPTS = 4
# Nobody waits at a screen, but an object's job does: a longer pause is the job's own matter.
LONGEST_PAUSE_SECONDS = 15.0
MAX_ANSWER_BYTES = 16 * 2**20
QUICKLY_READ_BYTES = 2**18
LIMITS = httpx.Limits(max_connections=4, max_keepalive_connections=4)


class Refusal(UpstreamRefused):
    """A request that was refused, with what an adapter needs to see why. `answer` is never told."""

    def __init__(self, message: str, *, http_status: int, answer: Any) -> None:
        super().__init__(PART, message)
        self.http_status = http_status
        self.answer = answer


class Calls:
    """The calls to one account's API. `close` closes its connections.

    name: the CRM's, in messages. root: the API's URL, to which paths are added. setting: where the
    root was set. credentials: the settings that a refused key should point to.
    """

    def __init__(
        self,
        name: str,
        root: str,
        *,
        setting: str,
        credentials: str,
        headers: Mapping[str, str],
        timeout_seconds: float,
    ) -> None:
        self.name = name
        self._root = _checked_root(root, setting)
        self._setting = setting
        self._credentials = credentials
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise Misconfigured(f"{credentials} has characters that no key has")
        self._seconds = timeout_seconds
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", **headers},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            limits=LIMITS,
            timeout=None,  # noqa: S113 - the deadline is around the whole call
        )

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON of a path. Raises `UpstreamError` (part "crm"), see `Refusal`."""
        return await self._called("GET", path, params=params, headers=headers)

    async def post(
        self,
        path: str,
        body: Any = None,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON that answers `body`, or a form. Only for calls that change nothing."""
        return await self._called("POST", path, json=body, data=form, headers=headers)

    async def close(self) -> None:
        await self._client.aclose()

    async def _called(self, method: str, path: str, **request: Any) -> Any:
        deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(deadline):
                return await retried(
                    lambda: self._once(method, path, request),
                    times=FURTHER_ATTEMPTS,
                    deadline=deadline,
                    longest_pause=LONGEST_PAUSE_SECONDS,
                )
        except TimeoutError as error:
            raise UpstreamTimeout(
                PART, f"{self.name} did not answer within {self._seconds:g} s."
            ) from error

    async def _once(self, method: str, path: str, request: Mapping[str, Any]) -> Any:
        try:
            async with self._client.stream(method, self._root + path, **request) as response:
                content = await self._read(response)
        except httpx.DecodingError as error:
            raise self._garbage() from error
        except httpx.TransportError as error:
            raise UpstreamUnavailable(PART, f"{self.name} can't be reached.") from error
        if response.is_success:
            return await self._parsed(content)
        raise self._refused(response, content)

    async def _read(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                raise UpstreamInvalid(
                    PART,
                    f"{self.name} answered with more than {MAX_ANSWER_BYTES} bytes, "
                    "which is not read.",
                )
        return bytes(content)

    async def _parsed(self, content: bytes) -> Any:
        answer = Incoming("GET", "", {}, content)
        try:
            if len(content) <= QUICKLY_READ_BYTES:
                return json_of(answer)
            return await asyncio.to_thread(json_of, answer)
        except UnreadableDelivery as error:
            raise self._garbage() from error

    def _garbage(self) -> UpstreamInvalid:
        return UpstreamInvalid(PART, f"{self.name} answered with something that is not JSON.")

    def _refused(self, response: httpx.Response, content: bytes) -> UpstreamError:
        status = response.status_code
        asked = response.headers.get("retry-after")
        retry_after = None if asked is None else seconds_asked(asked)
        if status == 429:
            message = f"{self.name} limits our rate."
            return UpstreamBusy(PART, message, retry_after=retry_after)
        if status == 408 or status >= 500:
            message = f"{self.name} can't answer now ({status})."
            return UpstreamUnavailable(PART, message, retry_after=retry_after)
        if status < 400:
            message = (
                f"{self.name} answered with {status}, which is not followed: check {self._setting}."
            )
            return UpstreamInvalid(PART, message)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        return Refusal(self._refusal(status), http_status=status, answer=answer)

    def _refusal(self, status: int) -> str:
        match status:
            case 401:
                return f"{self.name} refused the credentials (401): check {self._credentials}."
            case 403:
                return f"{self.name} does not allow this to {self._credentials} (403)."
            case 404:
                return f"{self.name} does not know the address (404): check {self._setting}."
            case _:
                return f"{self.name} refused the request ({status})."


def path_of(*parts: str) -> str:
    """Return a path of parts that can't reach beyond their own place in it."""
    for part in parts:
        if not part.strip("."):
            raise UpstreamRefused(PART, f"{part!r} can't be a part of a path.")
    return "".join("/" + quote(part, safe="") for part in parts)


def part_of(answer: Any, *names: str) -> Any:
    """Return what stands inside an answer under `names`, None where it has no such place."""
    for name in names:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def time_of(name: str, value: Any) -> datetime:
    """Return a time of an answer; one that has no zone is in UTC. Raises `UpstreamInvalid`."""
    time = moment(value)
    if time is None:
        raise UpstreamInvalid(PART, f"{name} answered with an object that has no time.")
    return time


def mapping_of(name: str, answer: Any) -> Mapping[str, Any]:
    """Return an answer that must be a JSON object. Raises `UpstreamInvalid`."""
    if not isinstance(answer, Mapping):
        raise UpstreamInvalid(PART, f"{name} answered with something else than was asked for.")
    return answer


def rows_of(name: str, answer: Any, *names: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects listed inside an answer. Raises `UpstreamInvalid`."""
    rows = part_of(answer, *names) if names else answer
    if not isinstance(rows, list):
        raise UpstreamInvalid(PART, f"{name} answered with something else than a list.")
    return [mapping_of(name, row) for row in rows]


def check_account(name: str, ours: str, key: ObjectKey) -> None:
    """Return if the credentials are for the object's account: ids repeat in other accounts."""
    if key.account and key.account != ours:
        raise UpstreamRefused(
            PART,
            f"The configured access is to {name}'s account {ours}, the object is of another "
            f"({key.account[:40]!r}).",
        )


def _checked_root(root: str, setting: str) -> str:
    parts = urlsplit(root)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Misconfigured(f"{setting} must be a URL like https://api.example.com, got {root!r}")
    return root.rstrip("/")
