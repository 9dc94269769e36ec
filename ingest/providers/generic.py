"""Whatever Zapier, Make, n8n and scripts send: JSON, arrays, forms. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.providers import freeform, standard
from ingest.providers.base import (
    Ack,
    BadSignature,
    Change,
    Event,
    Incoming,
    NotConfigured,
    ObjectType,
    Source,
)
from ingest.providers.payload import FORM, form_of, json_of, looks_like_json, media_type
from ingest.providers.signatures import has_token, raw


class Generic:
    """A sender that is told only a URL and a token, or signs by Standard Webhooks."""

    name = "generic"

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        signing = [secret for secret in source.secrets if secret.startswith(standard.PREFIX)]
        tokens = [raw(one) for one in source.secrets if one and one not in signing]
        if not (signing or tokens or source.token):
            raise NotConfigured("no token and no secret is configured for generic webhooks")
        # A signature is never passed by: it decides as soon as it can be checked.
        if standard.is_signed(incoming.headers) and (signing or not source.token):
            standard.check_signature(incoming, signing, now)
        elif not source.token and not has_token(incoming.headers, tokens):
            raise BadSignature("expected a signature, or the token as a bearer token")

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        headers = incoming.headers
        key = headers.get("idempotency-key", "")
        if standard.is_signed(headers):
            key = standard.message_id(headers)
        is_form = media_type(incoming) == FORM and not looks_like_json(incoming)
        return freeform.events(form_of(incoming) if is_form else json_of(incoming), key), Ack()

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        return freeform.read(body)

    def describe(self, object_type: str) -> ObjectType:
        return freeform.describe(object_type)
