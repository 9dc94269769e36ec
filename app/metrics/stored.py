"""Gauges of what was read for one answer: it is in the database, and the same for all processes.

Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True, eq=False)
class Stored(Collector):
    """None is what could not be read. errors: by part, whether reading it failed.

    jobs: by kind and state. failed_jobs: by kind. vectors: by kind of namespace.
    """

    jobs: Mapping[tuple[str, str], int] | None = None
    failed_jobs: Mapping[str, int] | None = None
    summaries: Mapping[str, int] | None = None
    deliveries: Mapping[str, int] | None = None
    oldest_delivery_seconds: float | None = None
    vectors: Mapping[str, int] | None = None
    errors: Mapping[str, bool] = field(default_factory=dict)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge("jobs", "Jobs that are not done.", ("kind", "state"), self.jobs)
        yield _gauge(
            "failed_jobs", "Jobs whose last try failed; they are tried again.", ("kind",),
            _single(self.failed_jobs),
        )  # fmt: skip
        yield _gauge(
            "summaries", "Checkpoints of sessions: pending, and failed among them.", ("state",),
            _single(self.summaries),
        )  # fmt: skip
        yield _gauge(
            "inbox_deliveries", "Webhook events that wait, and that were put aside.", ("state",),
            _single(self.deliveries),
        )  # fmt: skip
        age = self.oldest_delivery_seconds
        yield _gauge(
            "inbox_oldest_delivery_seconds", "Age of the oldest webhook event that waits; 0: none.",
            (), None if age is None else {(): age},
        )  # fmt: skip
        yield _gauge(
            "index_vectors", "Vectors in the index, as they were counted some time ago.",
            ("namespace",), _single(self.vectors),
        )  # fmt: skip
        yield _gauge(
            "scrape_errors", "1: this part could not be read for this answer.", ("part",),
            _single(self.errors),
        )  # fmt: skip


def _single(values: Mapping[str, int] | None) -> Mapping[tuple[str, ...], float] | None:
    return None if values is None else {(name,): float(number) for name, number in values.items()}


def _gauge(
    name: str,
    about: str,
    labels: tuple[str, ...],
    values: Mapping[Any, float] | None,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"rag_{name}", about, labels=labels)
    for of, value in (values or {}).items():
        family.add_metric(of, value)
    return family
