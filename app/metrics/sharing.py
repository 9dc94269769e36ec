"""One `/metrics` for several processes on one port, through files that all of them map.

Touches: a folder of prometheus_client's, which the parent makes before it starts the others.

A scrape reaches any one of the processes, and a kept connection the same one for ever: so each
writes what it counts into files of its own, and whoever is asked adds all of them up. The library
decides at its import whether it counts in files: a process must find the variable at its start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from app.errors import Misconfigured

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def share() -> None:
    """Have the processes that are started from now on count together. For their parent only.

    A folder that the environment names already is used, and emptied: what stands in it is of
    processes of another life. One that we make goes with the parent.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        made = tempfile.mkdtemp(prefix="rag-metrics-")
        os.environ[VARIABLE] = made
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return
    make_folder()
    folder = Path(named)
    for kind in ("counter", "gauge_*", "histogram", "summary"):  # whatever else is there stays
        for file in folder.glob(f"{kind}_*.db"):
            if file.stem.rpartition("_")[2].isdecimal():  # the id of a process
                file.unlink(missing_ok=True)


def is_shared() -> bool:
    return VARIABLE in os.environ


def make_folder() -> None:
    """Make the folder that the environment names. Raises `Misconfigured` where that can't be."""
    folder = Path(os.environ[VARIABLE])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"{VARIABLE}: the folder {folder} can't be made: {error}") from error


def together() -> CollectorRegistry:
    """Return a registry of what all processes have counted; gauges are of those that live."""
    folder = Path(os.environ[VARIABLE])
    for pid in {file.stem.rpartition("_")[2] for file in folder.glob("gauge_live*.db")}:
        if not _lives(int(pid)):
            mark_process_dead(int(pid))  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def _lives(pid: int) -> bool:
    if sys.platform == "win32":  # where signal 0 is Ctrl+C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
