"""Lines to standard error that never hold up the event loop. Touches: standard error.

Whoever reads it may stop to: a log driver that hangs, a terminal that is paused. A full pipe then
blocks its writer, and with it every request. Here a line waits for a moment at most, is lost where
the reader does not come back, and how many were is said once it does.
"""

from __future__ import annotations

import logging
import os
import select
import sys

PATIENCE_MILLISECONDS = 20  # a reader that is merely slow loses nothing
AT_ONCE_BYTES = 4096  # a pipe that takes anything takes these at once, and whole


class StandardError(logging.Handler):
    """Writes each line in the thread that logs it. file: the number of an open file."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file
        self._room = select.poll()
        self._room.register(file, select.POLLOUT)
        self._lost = 0
        self._is_cut = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._lost and self._room.poll(0):
                told = f"lines of the log that were lost, for nothing took them: {self._lost}"
                self._lost = 0
                self._write(self.format(_warning(told)))
            if not self._write(self.format(record)):
                self._lost += 1
        except Exception:  # noqa: BLE001 — as logging has it: a log does not fail its caller
            self.handleError(record)

    def _write(self, line: str) -> bool:
        """Write a line as far as there is room for it; says whether all of it went."""
        text = f"\n{line}\n" if self._is_cut else f"{line}\n"
        left = text.encode(errors="backslashreplace")
        size = len(left)
        while left:
            # One line that waited in vain is enough: the next ones do not.
            if not self._room.poll(0 if self._lost else PATIENCE_MILLISECONDS):
                self._is_cut = self._is_cut or len(left) < size
                return False
            left = left[os.write(self._file, left[:AT_ONCE_BYTES]) :]
        self._is_cut = False
        return True


def standard_error() -> logging.Handler:
    """Return what writes there; where it is no file, or can't be asked for room, it just writes."""
    try:
        return StandardError(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        return logging.StreamHandler(sys.stderr)


def _warning(message: str) -> logging.LogRecord:
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, None, None)
