"""A user's episodes without their texts, kept in memory while none of them changes.

Touches: `episodes`. Ids, numbers and times are kept, no words: a user may have thousands, and to
read them takes longer than to see that they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from app.db import Connection
from app.db.tables import episodes, micros
from app.lexical.kept import Kept
from app.lexical.store import State, scope_of
from app.quarantine import shown

MOST_NUMBERS = 4_000_000  # of all users together: 32 MB
NUMBERS_OF_ONE = 20  # what an episode takes, with its id
PRIME = 1_000_000_007  # times are summed modulo it, or SQLite's sum would overflow

_episode = episodes.c
_MINE = (
    _episode.tenant_id == sa.bindparam("tenant"),
    _episode.user_id == sa.bindparam("user"),
    shown("episode", _episode.session_id),
)
_STARTED, _ENDED, _UPDATED = (
    sa.type_coerce(at, sa.BigInteger)
    for at in (_episode.started_at, _episode.ended_at, _episode.updated_at)
)
_STATE = sa.select(
    sa.func.count(),
    *(
        sa.func.coalesce(sa.func.sum(number), 0)
        for number in (
            _episode.version,
            _episode.indexed_version,
            _UPDATED % PRIME,
            _ENDED % PRIME,
        )
    ),
).where(*_MINE)
_ROWS = sa.select(
    _episode.session_id,
    _STARTED,
    _ENDED,
    _UPDATED,
    _episode.covered_seq,
    _episode.version - _episode.indexed_version,
).where(*_MINE)

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """Episodes in columns. is_late: whether the index does not hold it yet.

    Times are microseconds since the epoch.
    """

    session_ids: Sequence[str]
    started_at: Numbers
    ended_at: Numbers
    updated_at: Numbers
    covered_seq: Numbers
    is_late: Flags

    def __len__(self) -> int:
        return len(self.session_ids)

    def those(self, which: Flags) -> Known:
        """Return some of them."""
        places = which.nonzero()[0]
        return Known(
            [self.session_ids[at] for at in places.tolist()],
            self.started_at[places],
            self.ended_at[places],
            self.updated_at[places],
            self.covered_seq[places],
            self.is_late[places],
        )


_NO_NUMBERS = np.empty(0, np.int64)
NOBODY = Known((), _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class _Held:
    """Episodes as they were at a state; is_late: that some were written after they were indexed."""

    state: tuple[Any, ...]
    known: Known


class KnownEpisodes:
    """Answers which episodes a user has. May be called from any thread."""

    def __init__(self) -> None:
        self._kept: Kept[_Held] = Kept(MOST_NUMBERS)

    def read(
        self,
        connection: Connection,
        whose: Mapping[str, Any],
        noted: State,
        changed_after: datetime,
    ) -> Known:
        """Return a user's episodes that are not withheld.

        whose: `tenant`, `user` and `withheld`. noted: the state of the user's notes, read in this
        transaction: an episode that comes, goes or is written anew gives them new ids. The version
        of one that changes otherwise moves; which are withheld, the sums of their times tell.
        One is late also if it changed after `changed_after`: an index may take a while to show
        what it has acknowledged.
        """
        scope = scope_of("episodes", whose["tenant"], whose["user"])
        state = (noted, *map(int, connection.execute(_STATE, whose).one()))
        held = self._kept.get(scope)
        if held is None or held.state != state:
            known = _known(connection.execute(_ROWS, whose).all())
            held = _Held(state, known)
            self._kept.keep(scope, held, NUMBERS_OF_ONE * len(known))
        known = held.known
        return Known(
            known.session_ids,
            known.started_at,
            known.ended_at,
            known.updated_at,
            known.covered_seq,
            known.is_late | (known.updated_at > micros(changed_after)),
        )


def _known(rows: Sequence[Any]) -> Known:
    if not rows:
        return NOBODY
    ids, started, ended, updated, covered, behind = zip(*rows, strict=True)
    return Known(
        ids,
        np.array(started, np.int64),
        np.array(ended, np.int64),
        np.array(updated, np.int64),
        np.array(covered, np.int64),
        np.array(behind, np.int64) > 0,
    )
