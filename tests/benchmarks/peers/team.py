"""Contestants as processes of their own, each asked over a pipe. Touches: processes, the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.benchmarks.peers.environments import python_of
from tests.served import ROOT

# Nobody calls home, no matter what this machine's environment says.
SILENT = {
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "DO_NOT_TRACK": "1",
    "NO_PROXY": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One contestant: `environment` None is this one; `module` with `argument` is its script."""

    name: str
    environment: str | None
    module: str
    argument: str

    @property
    def is_ours(self) -> bool:
        return self.environment is None


SERVED = Entry("this service, HTTP", None, "in_service", "served")
EMBEDDED = Entry("this service, in process", None, "in_service", "embedded")
ENTRIES = (
    SERVED,
    EMBEDDED,
    Entry("mem0, Qdrant", "mem0", "in_mem0", "qdrant"),
    Entry("mem0, FAISS", "mem0", "in_mem0", "faiss"),
    Entry("langmem", "langmem", "in_langmem", ""),
)


@dataclass(slots=True)
class Running:
    """A contestant that runs. Its `memory` is the process that holds what it remembers."""

    entry: Entry
    process: subprocess.Popen[str]
    requests: IO[str]
    answers: IO[str]
    memory: int = 0

    def do(self, what: str, **given: Any) -> dict[str, Any]:
        """Let it do something; an `error` in the answer is its own."""
        self.requests.write(json.dumps({"do": what, **given}) + "\n")
        self.requests.flush()
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"{self.entry.name} died at {what!r}; see its log")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def must(self, what: str, **given: Any) -> dict[str, Any]:
        """The same. Raises `RuntimeError` for an error."""
        answer = self.do(what, **given)
        if "error" in answer:
            raise RuntimeError(f"{self.entry.name}, {what!r}: {answer['error']}")
        return answer

    def kill(self) -> None:
        """Kill what holds the memory, in the middle of whatever it does."""
        os.kill(self.memory, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@contextmanager
def running(entry: Entry, url: str, home: Path, environments: Path) -> Iterator[Running]:
    """Open a contestant on what `home` holds, for the length of a `with`."""
    home.mkdir(parents=True, exist_ok=True)
    python = python_of(entry.environment, environments) if entry.environment else sys.executable
    log = (home / "contestant.log").open("a")
    process = subprocess.Popen(
        [python, "-m", f"tests.benchmarks.peers.{entry.module}", entry.argument],
        cwd=ROOT,
        env={**os.environ, **SILENT, "MEM0_DIR": str(home / "mem0"), "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    log.close()
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both were asked for")
    with process:
        try:
            one = Running(entry, process, process.stdin, process.stdout)
            try:
                opened = one.must("open", url=url, folder=str(home))
            except RuntimeError as error:
                told = (home / "contestant.log").read_text()[-3000:]
                raise RuntimeError(f"{error}\n{told}") from error
            one.memory = opened["process_id"]
            yield one
        finally:
            if process.poll() is None:
                process.stdin.close()
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
