"""Counters of one service, in the Prometheus text format. Touches nothing.

On a registry of its own, so that two services in one process don't add up. No tenant and no user
is a label: a label's values must stay few. What a tenant or a user has spent is in `usage`.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """What this process has done since it started; another replica counts its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        of_a_model = ("purpose", "model")
        self._calls = self._counter(
            "model_calls", "Calls of a model; counted: it said how many tokens it took.",
            *of_a_model, "counted",
        )  # fmt: skip
        self._tokens = self._counter(
            "model_tokens", "Tokens of model calls, in and out.", *of_a_model, "direction"
        )
        self._cost = self._counter(
            "model_cost_dollars", "US dollars, of calls whose price is known.", *of_a_model
        )
        self._unpriced = self._counter(
            "model_unpriced_calls", "Calls of a model whose price is not known.", *of_a_model
        )
        self._turns = self._counter("turns", "Turns that ended.", "mode", "route", "status")
        self._outgrown = self._counter(
            "outgrown_session_turns", "Turns of sessions that are beyond a limit.", "limit"
        )
        self._refusals = self._counter(
            "budget_refusals", "Questions that came when the tokens of the day were used."
        )
        self._deferrals = self._counter(
            "budget_deferrals", "Background jobs put off because the tokens of the day run low."
        )
        self._unrecorded = self._counter(
            "usage_record_failures", "Bills that could not be added to the usage."
        )
        self._flagged = self._counter(
            "flagged_texts", "Texts in prompts that read like instructions.", "kind"
        )
        self._limited = self._counter(
            "rate_limited_requests", "Requests beyond a rate limit.", "limit"
        )
        self._not_shared = self._counter(
            "rate_limit_redis_failures", "Times that Redis did not count for a rate limit."
        )

    def called(
        self,
        purpose: str,
        model: str,
        *,
        input_tokens: int,
        output_tokens: int,
        is_counted: bool,
        dollars: float | None,
    ) -> None:
        """Count one call of a model; `dollars` is None where the price is not known."""
        self._calls.labels(purpose, model, str(is_counted).lower()).inc()
        self._tokens.labels(purpose, model, "input").inc(input_tokens)
        self._tokens.labels(purpose, model, "output").inc(output_tokens)
        if dollars is None:
            self._unpriced.labels(purpose, model).inc()
        else:
            self._cost.labels(purpose, model).inc(dollars)

    def turn(self, *, mode: str, route: str, status: str) -> None:
        """Count a turn that ended; `route` is "none" where it failed before there was one."""
        self._turns.labels(mode, route, status).inc()

    def outgrown(self, limit: str) -> None:
        """Count a turn of a session that is beyond a limit ("messages" or "tokens")."""
        self._outgrown.labels(limit).inc()

    def refused_for_budget(self) -> None:
        self._refusals.inc()

    def deferred_for_budget(self) -> None:
        self._deferrals.inc()

    def not_recorded(self) -> None:
        """Count a bill that could not be written down."""
        self._unrecorded.inc()

    def flagged(self, kind: str) -> None:
        """Count a text in a prompt that reads like instructions."""
        self._flagged.labels(kind).inc()

    def rate_limited(self, limit: str) -> None:
        """Count a request beyond the limit of its "key" or its "user"."""
        self._limited.labels(limit).inc()

    def limits_not_shared(self) -> None:
        self._not_shared.inc()

    def text(self) -> bytes:
        """Return all counters in the text exposition format (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, namespace="rag", registry=self._registry)
