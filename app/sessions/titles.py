"""What a session is called. Touches nothing."""

from __future__ import annotations

from app.sessions.base import Session

MADE_CHARS = 80
_LONGEST_WORD = 30  # a longer one is cut: else a title of one word would be none


def shown_title(session: Session) -> str | None:
    """Return the session's own title, else one made of its first message; None without either."""
    if session.title is not None:
        return session.title
    return made_title(session.opening or "") or None


def made_title(text: str) -> str:
    """Return a text on one line, cut at a word to `MADE_CHARS` characters at most."""
    line = " ".join(text.split())
    if len(line) <= MADE_CHARS:
        return line
    cut = line[: MADE_CHARS - 1]
    if line[len(cut)] != " ":
        at_word = cut.rpartition(" ")[0]
        if len(cut) - len(at_word) <= _LONGEST_WORD:
            cut = at_word
    return cut.rstrip(" ,;:.-–—") + "…"
