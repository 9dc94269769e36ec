"""What is told of a text, remembered where the same text comes again."""

from __future__ import annotations

from itertools import count

from app.text.remembering import REMEMBERED, REMEMBERED_CHARS, remembering


def test_a_text_that_comes_again_is_worked_out_once() -> None:
    counted: list[str] = []

    def length(text: str) -> int:
        counted.append(text)
        return len(text)

    remembered = remembering(length)
    long = "x" * (REMEMBERED_CHARS + 1)
    told = ["one", "other", "one", "", "", "half a pair \ud83d", "half a pair \ud83d", long, long]
    assert [remembered(text) for text in told] == [len(text) for text in told]
    assert counted == ["one", "other", "", "half a pair \ud83d", long, long]


def test_it_forgets_rather_than_grow() -> None:
    times = count(1)
    remembered = remembering(lambda _: next(times))
    for n in range(REMEMBERED):
        remembered(str(n))
    assert remembered("0") == 1
    remembered("one more")
    assert remembered("0") == REMEMBERED + 2
