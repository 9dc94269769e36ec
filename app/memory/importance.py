"""How much a memory is worth keeping, from 0 to 1. Touches nothing.

What is not used is forgotten along a curve, and each use makes the curve flatter: exp(-t / S),
where t is the time since the memory was last used and S grows with every use. Source: MemoryBank
(Zhong et al., AAAI 2024), after Ebbinghaus' forgetting curve. That is weighed by kind, for a fact
says in a line what an episode says in a paragraph; what is marked is worth 1.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Literal

from app.memory.base import FactKind, Mark

MemoryKind = FactKind | Literal["episode"]

STRENGTH_DAYS = 90.0  # S of what was never used
KINDS: dict[MemoryKind, float] = {
    "fact": 1.0,
    "preference": 1.0,
    "action": 1.0,
    "recommendation": 0.75,
    "episode": 0.5,
}


def importance(
    kind: MemoryKind,
    *,
    last: datetime,
    uses: int,
    mark: Mark | None,
    now: datetime,
    sightings: int = 1,
) -> float:
    """Return the importance of an episode or a fact.

    last: when it was last used; else its own time. uses: how often it stood in a prompt.
    sightings: in how many places a fact was said; each after the first counts as a use.
    """
    if mark is not None:
        return 1.0
    strength = STRENGTH_DAYS * (1 + uses + max(sightings - 1, 0))
    unused = max((now - last) / timedelta(days=1), 0.0)
    return KINDS[kind] * math.exp(-unused / strength)


def worth_at_least(least: float, now: datetime) -> datetime:
    """Return since when a memory has to be used to be worth `least` for sure, whatever it is."""
    weakest = min(KINDS.values())
    if not 0 < least <= weakest:
        zone = now.tzinfo
        return (
            datetime.min.replace(tzinfo=zone) if least <= 0 else datetime.max.replace(tzinfo=zone)
        )
    return now - timedelta(days=STRENGTH_DAYS * (math.log(weakest) - math.log(least)))
