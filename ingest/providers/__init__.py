"""The senders of webhooks. Each is a file with a `Provider` and a line here. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.providers.base import Provider
from ingest.providers.generic import Generic
from ingest.providers.hubspot import HubSpot
from ingest.providers.pipedrive import Pipedrive
from ingest.providers.salesforce import Salesforce
from ingest.providers.standard import Standard

_ALL: tuple[Provider, ...] = (HubSpot(), Salesforce(), Pipedrive(), Standard(), Generic())

PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _ALL}
