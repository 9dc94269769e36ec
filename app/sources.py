"""Settings to the sources that may send webhooks. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.errors import Misconfigured
from app.identity import check_tenant
from app.settings import Settings
from ingest.providers import PROVIDERS
from ingest.providers.base import Source
from ingest.providers.salesforce_objects import long_id

DEFAULT_TENANT = "default"
_NAMELESS = ("generic", "standard")  # whose events do not say which account they are of


class _SourceIn(BaseModel):
    """One entry of WEBHOOK_SOURCES."""

    model_config = ConfigDict(extra="forbid")

    provider: str
    tenant: str = DEFAULT_TENANT
    token: str = ""
    secrets: Annotated[list[Annotated[str, Field(min_length=1)]], Field(default_factory=list)]
    account: str = ""


_SOURCES = TypeAdapter(list[_SourceIn])


def pick_sources(settings: Settings) -> list[Source]:
    """Return who may send webhooks. Raises `Misconfigured` for WEBHOOK_SOURCES that can't be."""
    base = settings.public_base_url
    tokens = _secrets(settings.webhook_token.get_secret_value())
    salesforce = _secrets(settings.salesforce_webhook_token.get_secret_value())
    # The form in which its own messages name it, so that events without a name join them.
    organization = long_id(settings.salesforce_organization_id)
    signed = tuple(settings.webhook_secret.get_secret_value().split())
    sources = [
        _own("hubspot", _secrets(settings.hubspot_client_secret.get_secret_value()), base),
        _own("pipedrive", _secrets(settings.pipedrive_webhook_login.get_secret_value()), base),
        _own("standard", signed, base),
        _own("generic", signed + tokens, base),
        *(Source(DEFAULT_TENANT, "generic", token=token, secrets=tokens) for token in tokens),
        _own("salesforce", salesforce, base, organization),
        *(
            Source(
                DEFAULT_TENANT,
                "salesforce",
                token=token,
                secrets=salesforce,
                account=organization,
            )
            for token in salesforce
        ),
        *_more(settings.webhook_sources.get_secret_value(), base),
    ]
    configured = [source for source in sources if source.token or source.secrets]
    _check_apart(configured)
    return configured


def _own(provider: str, secrets: tuple[str, ...], base: str, account: str = "") -> Source:
    return Source(DEFAULT_TENANT, provider, secrets=secrets, account=account, public_base_url=base)


def _secrets(value: str) -> tuple[str, ...]:
    return (value,) if value else ()


def _more(value: str, base: str) -> list[Source]:
    if not value:
        return []
    try:
        entries = _SOURCES.validate_json(value)
    except ValidationError as error:
        # Not the error's own text: it quotes what was set, secrets included.
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'the list'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise Misconfigured(f"WEBHOOK_SOURCES is not a JSON list of sources: {wrong}") from None
    for entry in entries:
        check_tenant(entry.tenant)
        if entry.provider not in PROVIDERS:
            known = ", ".join(sorted(PROVIDERS))
            raise Misconfigured(
                f"WEBHOOK_SOURCES: there is no provider {entry.provider!r}; there are: {known}"
            )
        if not entry.token and not entry.secrets:
            raise Misconfigured(
                f"WEBHOOK_SOURCES: a source of {entry.provider} has neither token nor secrets"
            )
    return [
        Source(
            entry.tenant,
            entry.provider,
            token=entry.token,
            secrets=tuple(entry.secrets),
            account=entry.account,
            public_base_url=base,
        )
        for entry in entries
    ]


def _check_apart(sources: Sequence[Source]) -> None:
    """Raise `Misconfigured` where two sources have one URL, or their records would be mixed up."""
    seen: set[tuple[str, str]] = set()
    senders: dict[tuple[str, str], tuple[str, ...]] = {}
    for source in sources:
        if source.provider in _NAMELESS and not source.account:
            sender = (source.tenant_id, source.provider)
            known_by = source.secrets or (source.token,)
            if set(senders.setdefault(sender, known_by)).isdisjoint(known_by):
                raise Misconfigured(
                    f"two senders of {source.provider} events of tenant {source.tenant_id!r} have "
                    "no account; give one of them a name: they may use the same ids"
                )
        place = (source.provider, source.token)
        if place in seen:
            raise Misconfigured(
                f"two sources of {source.provider} have the same URL; give one of them a token"
            )
        seen.add(place)
