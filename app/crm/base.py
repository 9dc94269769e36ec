"""The contract for asking a CRM itself, where an event says too little. Touches nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Protocol

from ingest.providers.base import Change, ObjectKey


class Fetcher(Protocol):
    """Reads objects of one provider's account over its API.

    Every call has a deadline of its own, and raises `UpstreamError` with the part "crm": what may
    be tried again is `UpstreamUnavailable`, `UpstreamBusy` (with `retry_after`) or
    `UpstreamTimeout`; a bad key, an unknown type and an object of another account than the
    configured one are `UpstreamRefused`.
    """

    @property
    def provider(self) -> str: ...

    async def fetch(self, key: ObjectKey, known: Collection[str]) -> Change:
        """Return what the object is now, with its time in the CRM.

        known: the fields that are stored of it, to be asked for beside the usual ones. An object
        that is not there comes as a "delete" without a time.
        """
        ...

    def changed_since(
        self, since: datetime, known: Mapping[str, Collection[str]] | None = None
    ) -> AsyncIterator[Change]:
        """Yield every object that was changed or deleted since, in no particular order.

        known: the types that are stored beside the usual ones, and the fields that are stored of
        each type. A type that the credentials may not read is left out, with a warning in the log.
        Raises `InvalidRequest` for a time that the CRM does not remember.
        """
        ...

    async def close(self) -> None: ...
