"""Makes counters, gauges and histograms of one registry, in base units. Touches nothing."""

from __future__ import annotations

from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

# When a counter began would be half of all samples, and nobody asks.
disable_created_metrics()  # type: ignore[no-untyped-call]

# Upper bounds: from a read of a warm cache to the longest stream that is let be.
SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Joined = Literal["livesum", "livemax"]


class Families:
    """All names begin with `rag_`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, namespace="rag", registry=self._registry)

    def seconds(self, name: str, about: str, *labels: str) -> Histogram:
        """Return a histogram of durations; `name` lacks the unit."""
        return self._histogram(f"{name}_seconds", about, labels, SECONDS)

    def scores(self, name: str, about: str, *labels: str) -> Histogram:
        """Return a histogram of cosines (0 to 1)."""
        return self._histogram(name, about, labels, SCORES)

    def gauge(self, name: str, about: str, *labels: str, joined: Joined = "livesum") -> Gauge:
        """Return a gauge; `joined` says how those of several processes become one."""
        return Gauge(
            name,
            about,
            labels,
            namespace="rag",
            registry=self._registry,
            multiprocess_mode=joined,
        )

    def _histogram(
        self, name: str, about: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            name, about, labels, namespace="rag", registry=self._registry, buckets=bounds
        )
