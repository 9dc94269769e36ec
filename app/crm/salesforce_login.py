"""A connected app's access to Salesforce, by the client-credentials flow. Touches: Salesforce."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.crm.calls import PART, Calls, Refusal, part_of
from app.errors import UpstreamBusy, UpstreamInvalid, UpstreamRefused
from ingest.providers.salesforce_objects import long_id

TOKEN_PATH = "/services/oauth2/token"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Session:
    token: str = field(repr=False)
    organization: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


class Login:
    """Keeps one session, and opens another when Salesforce has ended it."""

    def __init__(self, calls: Calls, client_id: str, client_secret: str) -> None:
        self._calls = calls
        self._form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret,
        }
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    async def organization(self) -> str:
        """Return the organization's id of 18 characters."""
        return (await self._opened()).organization

    async def authorised(self, call: Callable[[Mapping[str, str]], Awaitable[Any]]) -> Any:
        """Return what `call` returns, given the headers; an ended session is renewed once."""
        session = await self._opened()
        try:
            return await self._limited(call, session)
        except Refusal as error:
            if error.http_status != 401:
                raise
        return await self._limited(call, await self._opened(instead_of=session))

    async def _limited(
        self, call: Callable[[Mapping[str, str]], Awaitable[Any]], session: Session
    ) -> Any:
        try:
            return await call(session.headers)
        except Refusal as error:
            if "REQUEST_LIMIT_EXCEEDED" in str(error.answer):
                raise UpstreamBusy(
                    PART, f"{self._calls.name} has no API calls left for today."
                ) from error
            raise

    async def _opened(self, *, instead_of: Session | None = None) -> Session:
        async with self._opening:
            if self._session is None or self._session is instead_of:
                self._session = await self._new()
            return self._session

    async def _new(self) -> Session:
        try:
            answer = await self._calls.post(TOKEN_PATH, form=self._form)
        except Refusal as error:
            raise UpstreamRefused(
                PART,
                f"{self._calls.name} did not let the app in ({error.http_status}): check "
                "SALESFORCE_INSTANCE_URL, SALESFORCE_CLIENT_ID and SALESFORCE_CLIENT_SECRET, and "
                "that the app may use the client-credentials flow.",
            ) from error
        token, identity = part_of(answer, "access_token"), part_of(answer, "id")
        parts = identity.split("/") if isinstance(identity, str) else []
        if not isinstance(token, str) or not token.isascii() or len(parts) < 2:
            raise UpstreamInvalid(PART, f"{self._calls.name} let the app in without a token.")
        return Session(token, long_id(parts[-2]))
