"""Counters and histograms of one service, in the Prometheus text format. Touches nothing.

On a registry of its own, so that two services in one process don't add up. No tenant, no user and
no session is a label: a label's values must stay few. What a tenant or a user has spent is in
`usage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from app.metrics import sharing
from app.metrics.families import Families
from app.metrics.sampled import Sampled

CONTENT_TYPE = CONTENT_TYPE_LATEST

Space = Literal["memory", "documents"]
BreakerState = Literal["closed", "half_open", "open"]
Family = TypeVar("Family", Counter, Gauge, Histogram)

_BREAKER: Mapping[BreakerState, int] = {"closed": 0, "half_open": 1, "open": 2}


class Metrics:
    """What this process has done since it started; another replica counts its own.

    Processes that were started by `serve` on one port count together (see `sharing`).
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._children: dict[tuple[object, tuple[str, ...]], Any] = {}
        self.is_shared = sharing.is_shared()
        if self.is_shared:
            sharing.make_folder()
        make = Families(self._registry)
        self._requests = make.seconds(
            "http_request_duration", "Time of a request, from its arrival to the last byte sent.",
            "method", "route", "status",
        )  # fmt: skip
        self.in_progress = make.gauge(
            "http_requests_in_progress", "Requests that are being answered; streams to their end."
        )
        self._turns = make.counter("turns", "Turns that ended.", "mode", "route", "status")
        self._parts = make.seconds(
            "turn_part_duration",
            "Time of a complete turn by part: waiting, understanding, retrieval, model.",
            "part",
        )
        self._first = make.seconds(
            "first_token", "Time from the start of a turn to the first token of a streamed reply."
        )
        self._outgrown = make.counter(
            "outgrown_session_turns", "Turns of sessions that are beyond a limit.", "limit"
        )
        self._flagged = make.counter(
            "flagged_texts", "Texts in prompts that read like instructions.", "kind"
        )
        self._search = make.seconds(
            "retrieval_duration", "Time of one search of a kind of namespace.", "namespace"
        )
        self._best = make.scores(
            "retrieval_best_score", "Best cosine of a search, whether it passed or not.",
            "namespace",
        )  # fmt: skip
        self._used = make.scores(
            "retrieval_used_score", "Cosines of what came into prompts.", "namespace"
        )
        self._unavailable = make.counter("retrieval_failures", "Searches that failed.", "namespace")
        self._embedding = make.seconds(
            "question_embedding_duration", "Time to embed a question, or to remember its vector."
        )
        of_a_model = ("purpose", "model")
        self._calls = make.counter(
            "model_calls", "Calls of a model; counted: it said how many tokens it took.",
            *of_a_model, "counted",
        )  # fmt: skip
        self._took = make.seconds(
            "model_call_duration", "Time of a call of a model, to its last token.",
            *of_a_model, "outcome",
        )  # fmt: skip
        self._tokens = make.counter(
            "model_tokens", "Tokens of model calls, in and out.", *of_a_model, "direction"
        )
        self._cost = make.counter(
            "model_cost_dollars", "US dollars, of calls whose price is known.", *of_a_model
        )
        self._unpriced = make.counter(
            "model_unpriced_calls", "Calls of a model whose price is not known.", *of_a_model
        )
        self._running = make.gauge("model_calls_in_progress", "Calls of models that run.")
        self._queued = make.gauge("model_calls_queued", "Calls of models that wait for a place.")
        self._full = make.counter(
            "model_queue_refusals", "Calls of models refused because too many waited."
        )
        self._breakers = make.gauge(
            "circuit_breaker_state", "0: closed, all is well; 1: one call tries; 2: open.",
            "host", joined="livemax",
        )  # fmt: skip
        self._opened = make.counter(
            "circuit_breaker_openings", "Times that a host was left alone after failures.", "host"
        )
        self._refusals = make.counter(
            "budget_refusals", "Questions that came when the tokens of the day were used."
        )
        self._deferrals = make.counter(
            "budget_deferrals", "Background jobs put off because the tokens of the day run low."
        )
        self._unrecorded = make.counter(
            "usage_record_failures", "Bills that could not be added to the usage."
        )
        self._limited = make.counter(
            "rate_limited_requests", "Requests beyond a rate limit.", "limit"
        )
        self._not_shared = make.counter(
            "rate_limit_redis_failures", "Times that Redis did not count for a rate limit."
        )
        self._reads = make.seconds("database_read_duration", "Time of a read, with its wait.")
        self._writes = make.seconds(
            "database_write_duration", "Time of a transaction, from its wait to its commit."
        )
        self.writes_in_progress = make.gauge(
            "database_writes_in_progress", "Transactions that wait, run or are being committed."
        )
        self._taken_over = make.counter(
            "leases_taken_over", "Leases that ran out and were taken by another.", "kind"
        )
        self._jobs = make.seconds("job_duration", "Time of one try of a job.", "kind", "outcome")
        self._sampled = Sampled(make, self._registry)

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a template or "none", never a path that somebody chose."""
        self._of(self._requests, method, route, f"{status // 100}xx").observe(seconds)

    def turn(self, *, mode: str, route: str, status: str) -> None:
        """Count a turn that ended; `route` is "none" where it failed before there was one."""
        self._of(self._turns, mode, route, status).inc()

    def turn_took(self, milliseconds: Mapping[str, float], first_token: float | None) -> None:
        """Measure a turn by its parts; first_token: seconds, if it was streamed."""
        for part, took in milliseconds.items():
            self._of(self._parts, part).observe(took / 1000)
        if first_token is not None:
            self._first.observe(first_token)

    def outgrown(self, limit: str) -> None:
        """Count a turn of a session that is beyond a limit ("messages" or "tokens")."""
        self._of(self._outgrown, limit).inc()

    def flagged(self, kind: str) -> None:
        """Count a text in a prompt that reads like instructions."""
        self._of(self._flagged, kind).inc()

    def searched(self, space: Space, seconds: float, best: float | None) -> None:
        """Measure a search; best: the highest cosine that was seen, None: there was nothing."""
        self._of(self._search, space).observe(seconds)
        if best is not None:
            self._of(self._best, space).observe(best)

    def search_failed(self, space: Space) -> None:
        self._of(self._unavailable, space).inc()

    def used(self, space: Space, scores: Iterable[float]) -> None:
        """Measure what came into a prompt."""
        observe = self._of(self._used, space).observe
        for score in scores:
            observe(score)

    def embedded(self, seconds: float) -> None:
        self._embedding.observe(seconds)

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
        self._of(self._calls, purpose, model, str(is_counted).lower()).inc()
        self._of(self._tokens, purpose, model, "input").inc(input_tokens)
        self._of(self._tokens, purpose, model, "output").inc(output_tokens)
        if dollars is None:
            self._of(self._unpriced, purpose, model).inc()
        else:
            self._of(self._cost, purpose, model).inc(dollars)

    def call_took(self, purpose: str, model: str, outcome: str, seconds: float) -> None:
        """Measure a call of a model; outcome: "ok", or the code of what it failed with."""
        self._of(self._took, purpose, model, outcome).observe(seconds)

    def model_queue(self, *, running: int, queued: int) -> None:
        """Say how many calls of models run and wait in this process."""
        self._running.set(running)
        self._queued.set(queued)

    def refused_for_queue(self) -> None:
        self._full.inc()

    def breaker(self, host: str, state: BreakerState) -> None:
        """Say what state the circuit breaker of a host ("groq", "pinecone") has come to."""
        self._of(self._breakers, host).set(_BREAKER[state])
        if state == "open":
            self._of(self._opened, host).inc()

    def refused_for_budget(self) -> None:
        self._refusals.inc()

    def deferred_for_budget(self) -> None:
        self._deferrals.inc()

    def not_recorded(self) -> None:
        """Count a bill that could not be written down."""
        self._unrecorded.inc()

    def rate_limited(self, limit: str) -> None:
        """Count a request beyond the limit of its "key" or its "user"."""
        self._of(self._limited, limit).inc()

    def limits_not_shared(self) -> None:
        self._not_shared.inc()

    def read(self, seconds: float) -> None:
        self._reads.observe(seconds)

    def wrote(self, seconds: float) -> None:
        self._writes.observe(seconds)

    def lease_taken_over(self, kind: str) -> None:
        """Count a lease that ran out and was taken: of a "turn", or a job by its kind."""
        self._of(self._taken_over, kind).inc()

    def job(self, kind: str, outcome: str, seconds: float) -> None:
        """Measure one try of a job; outcome: "done", "failed", "deferred" or "lost"."""
        self._of(self._jobs, kind, outcome).observe(seconds)

    def watch_cache(self, name: str, hits_and_misses: Callable[[], tuple[int, int]]) -> None:
        """Have a cache's hits and misses told; both only ever grow."""
        self._sampled.watch(name, hits_and_misses)

    def watch_failures(self, late: Callable[[], int], loops: Callable[[], int]) -> None:
        """Have background work that failed told: so far, and the loops that fail now."""
        self._sampled.watch_failures(late, loops)

    def sample(self) -> None:
        """Take down what is only looked at: caches, background failures, the process."""
        self._sampled.take()

    def text(self, stored: Collector | None = None) -> bytes:
        """Return all of it in the text exposition format (`CONTENT_TYPE`).

        stored: what was read elsewhere for this answer.
        """
        self.sample()
        counted = sharing.together() if self.is_shared else self._registry
        told = generate_latest(counted)
        if stored is None:
            return told
        read = CollectorRegistry(auto_describe=False)
        read.register(stored)
        return told + generate_latest(read)

    def _of(self, family: Family, *labels: str) -> Family:
        """Return the child of a family with these labels; kept, for a family takes long to find it.

        From any thread: two who miss it at once get the same child of the family.
        """
        child: Family | None = self._children.get((family, labels))
        if child is None:
            child = self._children[family, labels] = family.labels(*labels)
        return child
