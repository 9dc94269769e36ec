"""How much is tried, and that nothing hangs. FUZZ_EXAMPLES multiplies the examples of each test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("FUZZ_EXAMPLES", "1"))
SECONDS = 20.0  # far more than any example needs: it is there for what never ends


class Hangs(BaseException):
    """An example took so long that it may never end."""


def tried(examples: int) -> Callable[[Any], Any]:
    """Try so many examples, or FUZZ_EXAMPLES times as many."""
    unhealthy = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=examples * TIMES, deadline=None, suppress_health_check=unhealthy)


@contextmanager
def watched() -> Iterator[None]:
    """Raise `Hangs` where an example does not end; a regular expression looks up, too."""
    if not hasattr(signal, "SIGALRM"):  # on Windows: then the run itself is what is watched
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"an example took more than {SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


CUTS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "put", "twice", "swap", "end"]),
        st.floats(0, 1),
        st.floats(0, 0.2),
        st.binary(min_size=1, max_size=12)
        | st.sampled_from(
            [
                *[
                    b'"',
                    b'""',
                    b",",
                    b";",
                    b"\t",
                    b"|",
                    b"\n",
                    b"\r",
                    b"\r\n",
                    b"\x00",
                    b"\xff\xfe",
                ],
                *[b"\xef\xbb\xbf", b"\xc3", b"\x80", b"<", b">", b"&#0;", b"{", b"}", b"[", b"]"],
                *[b"null", b"-0", b"1e999", b"\\ud800", b"\x1a", b"'", b"=1+1", b"\xe2\x80\xae"],
            ]
        ),
    ),
    min_size=1,
    max_size=6,
)


def cut_up(whole: bytes, cuts: list[tuple[str, float, float, bytes]]) -> bytes:
    """Return bytes with parts cut out, put in, said twice, swapped, or with their end gone."""
    for deed, at, length, put in cuts:
        start = int(at * len(whole))
        end = start + int(length * len(whole))
        if deed == "cut":
            whole = whole[:start] + whole[end:]
        elif deed == "put":
            whole = whole[:start] + put + whole[start:]
        elif deed == "twice":
            whole = whole[:end] + whole[start:]
        elif deed == "swap":
            whole = whole[end:] + whole[:start] + put
        else:
            whole = whole[:start]
    return whole
