"""How the room of a prompt is shared out among its parts. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import Misconfigured
from app.llm.tokens import FRAME_TOKENS, Count, estimate_tokens
from app.text.sentences import cut_to_sentences, pieces

SMALLEST_CUT_TOKENS = 40  # less of an item than this is not worth its place
LONGEST_TOKEN_CHARS = 16  # on average: a text of more is too long, and is not counted at all
ELLIPSIS = " …"
_SLACK_TOKENS = (0, 8, 64)  # a real tokenizer may count some more for a little less text


@dataclass(frozen=True, slots=True)
class Budget:
    """`context_tokens` is the model's window, `reply_tokens` what the reply may take of it.

    profile_tokens: the most that the lines of the profile take. documents, history, memories:
    their shares of what is left, in any unit. count: how the model counts.
    """

    context_tokens: int
    reply_tokens: int
    profile_tokens: int
    documents: float = 50
    history: float = 30
    memories: float = 20
    count: Count = estimate_tokens

    def __post_init__(self) -> None:
        if self.documents + self.history + self.memories <= 0:
            raise Misconfigured(
                "one of SHARE_DOCUMENTS, SHARE_HISTORY and SHARE_MEMORIES must be more than 0",
                param="SHARE_DOCUMENTS",
            )

    @property
    def prompt_tokens(self) -> int:
        """What the messages may take together."""
        return self.context_tokens - self.reply_tokens - FRAME_TOKENS

    @property
    def shares(self) -> dict[str, float]:
        return {"documents": self.documents, "history": self.history, "memories": self.memories}

    def holds(self, text: str, most_tokens: int) -> bool:
        """Say whether a text has that many tokens at most, in bounded time for any text."""
        return not _is_endless(text, most_tokens) and self.count(text) <= most_tokens


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that wants a place. cost: the tokens of a text in its place, all marks included.

    is_whole: it may not be cut.
    """

    text: str
    cost: Callable[[str], int]
    is_whole: bool = False


def share_out(
    wanted: Mapping[str, Sequence[Item]], room: int, shares: Mapping[str, float]
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the leading items of each part that fit `room` tokens together, and what they cost.

    Each part may take its share; what it needs less goes to those that need more, by their shares.
    The first item that does not fit is cut at a sentence, and nothing after it is kept. What is
    left of the room at last is offered once more to each part in turn.
    """
    costs = {part: _costs(items, room) for part, items in wanted.items()}
    allowed = _allowances({part: sum(found) for part, found in costs.items()}, room, shares)
    kept: dict[str, list[str]] = {}
    spent: dict[str, int] = {}
    for part, items in wanted.items():
        kept[part], spent[part] = _taken(items, costs[part], allowed[part])
    for part, items in wanted.items():
        free = room - sum(spent.values())
        if _can_take_more(items, costs[part], kept[part], free):
            kept[part], spent[part] = _taken(items, costs[part], spent[part] + free)
    return kept, spent


def cut(text: str, most_tokens: int, cost: Callable[[str], int]) -> str:
    """Return the leading sentences of a text that cost `most_tokens` at most.

    Of a first sentence that is too long, the leading words are returned with an ellipsis, and the
    leading characters of a first word that is; empty if even one character is too much.
    """
    text = text[: max(most_tokens, 0) * LONGEST_TOKEN_CHARS].strip()
    first = len("".join(next(pieces(text), ("", ""))))
    for slack in _SLACK_TOKENS:
        piece = _leading(text, most_tokens - slack, cost)
        if len(piece) < first:
            piece = _leading(text, most_tokens - slack, lambda part: cost(part + ELLIPSIS))
            piece += ELLIPSIS if piece else ""
        if cost(piece) <= most_tokens:
            return piece
    return ""


def _leading(text: str, most_tokens: int, cost: Callable[[str], int]) -> str:
    return cut_to_sentences(text, lambda part: cost(part) <= most_tokens)


def _taken(items: Sequence[Item], costs: Sequence[int], room: int) -> tuple[list[str], int]:
    """Return the leading items that fit, the last one of them cut perhaps, and what they cost."""
    kept: list[str] = []
    left = room
    for item, cost in zip(items, costs, strict=False):
        if cost > left:
            if not item.is_whole and left >= SMALLEST_CUT_TOKENS:
                piece = cut(item.text, left, item.cost)
                if piece:
                    return [*kept, piece], room - left + item.cost(piece)
            break
        kept.append(item.text)
        left -= cost
    return kept, room - left


def _can_take_more(
    items: Sequence[Item], costs: Sequence[int], kept: Sequence[str], free: int
) -> bool:
    """Say whether what is free would change a part by enough to be worth the counting."""
    at = len(kept)
    if kept and kept[-1] != items[at - 1].text:  # it was cut
        return free >= SMALLEST_CUT_TOKENS
    return at < len(costs) and (costs[at] <= free or free >= SMALLEST_CUT_TOKENS)


def _costs(items: Sequence[Item], room: int) -> list[int]:
    """Return what the leading items cost, until they are more than the room holds."""
    costs: list[int] = []
    left = room
    for item in items:
        if left < 0:
            break
        is_endless = not item.is_whole and _is_endless(item.text, room)
        costs.append(room + 1 if is_endless else item.cost(item.text))
        left -= costs[-1]
    return costs


def _allowances(needs: Mapping[str, int], room: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return how much of the room each part may take: what it needs, or else its share."""
    allowed = dict.fromkeys(needs, 0)
    open_parts = {part for part, need in needs.items() if need}
    while open_parts:
        weights = {part: shares[part] for part in open_parts}
        if not any(weights.values()):  # what the others leave goes to parts without a share
            weights = dict.fromkeys(open_parts, 1.0)
        whole = sum(weights.values())
        fair = {part: int(room * weight / whole) for part, weight in weights.items()}
        modest = {part for part in open_parts if needs[part] <= fair[part]}
        for part in modest or open_parts:
            allowed[part] = min(needs[part], fair[part])
        if not modest:
            break
        room -= sum(allowed[part] for part in modest)
        open_parts -= modest
    return allowed


def _is_endless(text: str, most_tokens: int) -> bool:
    return len(text) > LONGEST_TOKEN_CHARS * (most_tokens if most_tokens > 1 else 1)
