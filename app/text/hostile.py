"""Whether a text reads like instructions to a model. Touches nothing."""

from __future__ import annotations


def flags_of(text: str) -> tuple[str, ...]:
    """Return what makes a text suspicious, each by its name; nothing for a plain one."""
    return ()
