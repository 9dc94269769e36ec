"""What is not counted as it happens but looked at now and then. Touches: this process's own state.

Where several processes count together, each has to look at itself: `serve` lets all do so every few
seconds, for a scrape reaches only one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.process_collector import ProcessCollector

from app.metrics.families import Families
from app.metrics.sharing import is_shared


class Sampled:
    """Caches, background failures, and the process itself, as far as the platform tells."""

    def __init__(self, make: Families, registry: CollectorRegistry) -> None:
        self._lookups = make.counter(
            "cache_lookups", "Times that something was looked for in a cache.", "cache", "result"
        )
        self._late = make.counter(
            "background_failures", "Pieces of work after a request that failed."
        )
        self._loops = make.gauge(
            "background_loops_failing", "Endless loops whose last pass failed."
        )
        self._caches: dict[str, Callable[[], tuple[int, int]]] = {}
        self._failures: tuple[Callable[[], int], Callable[[], int]] | None = None
        self._seen: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._process: ProcessCollector | None = None
        if not is_shared():
            ProcessCollector(registry=registry)
            return
        # The library's own collector tells of one process: here their sums, by the same names.
        self._process = ProcessCollector(registry=None)
        self._cpu = Counter(
            "process_cpu_seconds", "CPU time of all processes, user and system.", registry=registry
        )
        self._memory = Gauge(
            "process_resident_memory_bytes", "Resident memory of all processes.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip

    def watch(self, name: str, hits_and_misses: Callable[[], tuple[int, int]]) -> None:
        self._caches[name] = hits_and_misses

    def watch_failures(self, late: Callable[[], int], loops: Callable[[], int]) -> None:
        self._failures = late, loops

    def take(self) -> None:
        """Add what has come since the last time."""
        with self._lock:
            for name, cache in self._caches.items():
                new = self._since(name, *cache())
                for result, number in zip(("hit", "miss"), new, strict=True):
                    self._lookups.labels(name, result).inc(number)
            if self._failures is not None:
                late, loops = self._failures
                self._late.inc(self._since("late", late(), 0)[0])
                self._loops.set(loops())
            if self._process is not None:
                self._look_at(self._process)

    def _look_at(self, process: ProcessCollector) -> None:
        told = {sample.name: sample.value for of in process.collect() for sample in of.samples}
        if "process_cpu_seconds_total" in told:  # it has them where there is /proc
            self._cpu.inc(self._since("cpu", told["process_cpu_seconds_total"], 0)[0])
            self._memory.set(told["process_resident_memory_bytes"])

    def _since(self, what: str, *now: float) -> tuple[float, ...]:
        # A cache that was emptied begins anew.
        before = self._seen.get(what, (0.0, 0.0))
        self._seen[what] = now[0], now[1]
        return tuple(max(0.0, n - b) for n, b in zip(now, before, strict=True))
