"""The tags between which data stands in a prompt. Touches nothing."""

from __future__ import annotations

TAGS = (
    "core_memory",
    "profile",
    "memories",
    "memory",
    "documents",
    "document",
    "question",
    "question_meant",
    "transcript",
    "previous_summary",
    "known_facts",
    "conversation_summary",
    "recent_messages",
    "messages",
    "message",
    "tool_result",
)
UNSEEN = (  # characters that most fonts show nothing of
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
GAP = rf"[\s{UNSEEN}]*+"  # what is not seen; read once, with no way back
