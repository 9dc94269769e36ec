"""A user's episodes without their texts, kept in memory while none of them changes.

Touches: `episodes`, the quarantine list. Ids, numbers and times are kept, no words: a user may have
thousands, and to read them takes longer than to see that they are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from app.db import Connection
from app.db.tables import episodes, micros, quarantine
from app.lexical.kept import Kept
from app.lexical.store import State, scope_of

MOST_NUMBERS = 4_000_000  # of all users together: 32 MB
NUMBERS_OF_ONE = 20  # what an episode takes, with its id
PRIME = 1_000_000_007  # times are summed modulo it, or SQLite's sum would overflow

_episode, _mark = episodes.c, quarantine.c
_MINE = (
    _episode.tenant_id == sa.bindparam("tenant"),
    _episode.user_id == sa.bindparam("user"),
)
# Parameters of these: `tenant`, `user` and `withheld`.
WITHHELD = sa.select(_mark.ref).where(
    _mark.tenant_id == sa.bindparam("tenant"),
    _mark.user_id == sa.bindparam("user"),
    _mark.kind == "episode",
    _mark.state.in_(sa.bindparam("withheld", expanding=True)),
)
_STARTED, _ENDED, _UPDATED = (
    sa.type_coerce(at, sa.BigInteger)
    for at in (_episode.started_at, _episode.ended_at, _episode.updated_at)
)
_IS_LATE = _episode.indexed_version < _episode.version
STATE = sa.select(
    sa.func.count(),
    *(
        sa.func.coalesce(sa.func.sum(number), 0)
        for number in (
            _episode.version,
            _UPDATED % PRIME,
            _ENDED % PRIME,
            sa.case((_IS_LATE, _UPDATED % PRIME + _STARTED % PRIME), else_=0),
        )
    ),
).where(*_MINE)
_ROWS = sa.select(
    _episode.session_id,
    _STARTED,
    _ENDED,
    _UPDATED,
    _episode.covered_seq,
    sa.case((_IS_LATE, 1), else_=0),
    _episode.version,
).where(*_MINE)

# The state of the user's notes, and the numbers of `STATE`: an episode that comes, goes or is
# written anew gives the notes new ids; the version of one that changes otherwise moves.
EpisodesState = tuple[State, tuple[int, ...]]
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
    """Episodes as they were at a state."""

    state: EpisodesState
    known: Known


class KnownEpisodes:
    """Answers which episodes a user has. May be called from any thread."""

    def __init__(self) -> None:
        self._kept: Kept[_Held] = Kept(MOST_NUMBERS)

    def read(
        self,
        connection: Connection,
        whose: Mapping[str, Any],
        state: EpisodesState,
        withheld: Collection[str],
        changed_after: datetime,
    ) -> Known:
        """Return a user's episodes but for those that are withheld.

        whose: `tenant` and `user`. state, withheld: as they were read before in this transaction.
        One is late also if it changed after `changed_after`: an index may take a while to show what
        it has acknowledged.
        """
        scope = scope_of("episodes", whose["tenant"], whose["user"])
        held = self._kept.get(scope)
        if held is None or held.state != state:
            held = _read(connection.execute(_ROWS, whose).all(), state[0])
            self._kept.keep(scope, held, NUMBERS_OF_ONE * len(held.known))
        known = held.known
        if withheld:
            known = known.those(np.array([one not in withheld for one in known.session_ids], bool))
        return Known(
            known.session_ids,
            known.started_at,
            known.ended_at,
            known.updated_at,
            known.covered_seq,
            known.is_late | (known.updated_at > micros(changed_after)),
        )


def _read(rows: Sequence[Any], noted: State) -> _Held:
    """Lay the rows out. Their state is their own: they may have changed since it was asked for."""
    if not rows:
        return _Held((noted, (0, 0, 0, 0, 0)), NOBODY)
    ids, *columns = zip(*rows, strict=True)
    started, ended, updated, covered, late, version = (np.array(it, np.int64) for it in columns)
    known = Known(ids, started, ended, updated, covered, late > 0)
    # A remainder has the sign of what is divided, as in SQL.
    of_started, of_ended, of_updated = (np.fmod(at, PRIME) for at in (started, ended, updated))
    sums = (version, of_updated, of_ended, (of_updated + of_started) * late)
    return _Held((noted, (len(rows), *(int(it.sum()) for it in sums))), known)
