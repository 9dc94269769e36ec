"""Where sentences end, in many languages. Touches nothing."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

from app.text.words import ABBREVIATIONS, AFTER_ORDINAL, MONTHS, NEVER_LAST, STOP, fold

_MARKER = re.compile(
    r"(?:\s*(?:[-*•‣▪●◦·–—+>]|#{1,6}|\[[ xX]?\]|\(?\d{1,3}[.)]|\(?[a-z]\)|\d\ufe0f?\u20e3)(?=\s))*"
    r"\s*"
)
_SPACE = re.compile(r"\s*")
_ORDINAL = re.compile(r"\s*\d{1,2}\.\s+([^\W\d_]+)")
_STOP = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]*_]*(?=\s)|[。！？｡؟۔।॥．]+[」』）”’\"]*")
_WORD = re.compile(r"\w+(?![\w.])")  # not an initial
_QUESTION = re.compile(r"[?？؟][\"'”’»)\]」』）*_\s]*$")


def sentences(text: str) -> list[str]:
    """Split a text at sentence and line ends. Only white space is lost; bullets stay in front."""
    return [(lead.strip() + " " + sentence).strip() for lead, sentence in pieces(text)]


def is_question(sentence: str) -> bool:
    """Say whether a sentence ends with a question mark."""
    return _QUESTION.search(sentence) is not None


def cut_to_sentences(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest prefix of whole sentences that fits, or else the start of the first.

    `fits` must hold for every prefix of a text that fits. Empty if not even a character does.
    """
    text = text.strip()
    ends, at = [0], 0
    for lead, sentence in pieces(text):
        at += len(lead) + len(sentence)
        ends.append(at)
    whole = _most(len(ends) - 1, lambda n: fits(text[: ends[n]]))
    if whole or len(ends) == 1:
        return text[: ends[whole]]
    cut = text[: _most(ends[1], lambda n: fits(text[:n]))]
    return (cut.rsplit(None, 1)[0] if re.search(r"\S\s+\S", cut) else cut).rstrip()


def _most(high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest n in 1..high that fits, or 0; each below one that fits must fit too."""
    return bisect_left(range(1, high + 1), True, key=lambda n: not fits(n))


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield (white space and bullet before, sentence): together the text, less its tail."""
    done = 0
    for line in re.finditer(r"[^\n]+", text):
        end = line.start() + len(line[0].rstrip())
        marker = _MARKER.match(text, line.start(), end)
        start = marker.end() if marker and marker.end() < end else line.start()
        if (ordinal := _ORDINAL.match(line[0])) and fold(ordinal[1]) in MONTHS:
            start = line.start()
        for stop in _STOP.finditer(text, start, end):
            if _is_end(text, start, stop, end):
                yield text[done:start], text[start : stop.end()]
                done = stop.end()
                start = _after_space(text, done, end)
        start = _after_space(text, start, end)
        if start < end:
            yield text[done:start], text[start:end]
            done = end


def _after_space(text: str, at: int, end: int) -> int:
    space = _SPACE.match(text, at, end)
    return space.end() if space else at


def _is_end(text: str, start: int, stop: re.Match[str], end: int) -> bool:
    if stop[0][0] not in ".!?…．":
        return True
    after = text[stop.end() : min(end, stop.end() + 40)].lstrip()
    if stop[0] not in {".", "!", "?"}:  # `"Really?" he said`, `Well... maybe`, `３．５`
        return not (after[:1].islower() or (stop[0][0] == "．" and after[:1].isdigit()))
    return stop[0] != "." or _ends_here(text[max(start, stop.start() - 20) : stop.start()], after)


def _ends_here(before: str, after: str) -> bool:
    """Say whether a full stop between two texts ends a sentence, rather than an abbreviation."""
    words = before.split()
    last = fold(words[-1].strip("(\"'“„«[*")) if words else ""
    if re.fullmatch(r"\d{1,2}", last):
        following = re.match(r"\w+", after)
        is_ordinal = following and fold(following[0]) in MONTHS.keys() | AFTER_ORDINAL
        return not is_ordinal and not after[:1].islower()
    if last in NEVER_LAST:
        return False
    if last not in ABBREVIATIONS and not (len(last) == 1 and last.isalpha()):
        return not after[:1].islower() or "." not in last
    # "I work at Acme Corp. We decided" does end there.
    word = _WORD.match(after)
    return word is not None and word[0][0].isupper() and word[0].lower() in STOP
