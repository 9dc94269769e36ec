"""Who may send webhooks, and for which tenant. Touches nothing.

A delivery carries no key of ours: it is authenticated by a configured source, which fixes the
tenant. Raw bytes are verified first, and only then parsed.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.errors import (
    AppError,
    Malformed,
    NotFound,
    NotSetUp,
    TooLarge,
    Unauthenticated,
    Unsupported,
)
from ingest.errors import IngestError
from ingest.providers.base import (
    Ack,
    BadSignature,
    Event,
    Incoming,
    NotConfigured,
    Provider,
    Source,
    UnsupportedMediaType,
)

MAX_EVENTS = 5_000  # stored in one transaction, which others wait for


@dataclass(frozen=True, slots=True)
class Received:
    """A verified delivery: its source, its events, and what the sender wants to hear."""

    source: Source
    events: Sequence[Event]
    ack: Ack


class Senders:
    """The configured sources. Blocking: a large body takes time to hash and to parse."""

    def __init__(self, sources: Sequence[Source], providers: Mapping[str, Provider]) -> None:
        self._sources = sources
        self._providers = providers

    def receive(self, provider: str, token: str, incoming: Incoming, now: datetime) -> Received:
        """Verify and parse one request.

        Raises `NotFound` for an unknown provider, `NotSetUp` where no source or secret is
        configured, `Unauthenticated`, `Malformed`, `Unsupported`, `TooLarge`.
        """
        known = self._providers.get(provider)
        if known is None:
            names = ", ".join(sorted(self._providers))
            raise NotFound(f"there is no provider {provider[:80]!r}; there are: {names}")
        source = self._source(provider, token)
        try:
            known.verify(incoming, source, now)
            events, ack = known.parse(incoming)
        except IngestError as error:
            raise _told(error) from error
        if len(events) > MAX_EVENTS:
            raise TooLarge(f"{len(events)} events at once; at most {MAX_EVENTS} are taken")
        return Received(source, events, ack)

    def _source(self, provider: str, token: str) -> Source:
        """Return the source that the URL names."""
        sources = [source for source in self._sources if source.provider == provider]
        if not sources:
            raise NotSetUp(f"no source of {provider} is configured")
        given = token.encode()
        fitting = [it for it in sources if hmac.compare_digest(it.token.encode(), given)]
        if not fitting:
            raise Unauthenticated("the URL does not name a configured source")
        return fitting[0]


def _told(error: IngestError) -> AppError:
    if isinstance(error, BadSignature):
        return Unauthenticated(error.message)
    if isinstance(error, NotConfigured):
        return NotSetUp(error.message)
    if isinstance(error, UnsupportedMediaType):
        return Unsupported(error.message)
    return Malformed(error.message)
