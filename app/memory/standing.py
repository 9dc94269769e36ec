"""What a user's memory holds, told by numbers and a few ids, in one statement.

Touches: the lexical index, `episodes`, `facts`, `entities`, the quarantine list. To ask takes
longer than to answer: so what every search must know first is asked for at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import entities, facts
from app.lexical import store
from app.lexical.store import Size, State
from app.memory import known
from app.memory.base import USER
from app.memory.keys import fact_key
from app.memory.known import EpisodesState
from app.memory.lexicon import NOTED, SAID

# What a row tells of, where a row of the lexical index has its scope.
_EPISODES, _FACTS, _NAME, _WITHHELD = -1, -2, -3, -4
_NUMBERS = 6

_fact = facts.c
_MY_FACTS = (_fact.tenant_id == sa.bindparam("tenant"), _fact.user_id == sa.bindparam("user"))
_HAS_ENTITIES = sa.exists().where(
    entities.c.tenant_id == sa.bindparam("tenant"), entities.c.user_id == sa.bindparam("user")
)
_NO_TEXT = sa.cast(sa.null(), sa.Text)


def _row(
    what: int, *numbers: sa.ColumnElement[Any], text: sa.ColumnElement[Any] = _NO_TEXT
) -> tuple[sa.ColumnElement[Any], ...]:
    zeros: list[sa.ColumnElement[Any]] = [sa.literal_column("0")] * (_NUMBERS - len(numbers))
    return sa.literal_column(str(what)), *numbers, *zeros, text


_STANDING = sa.union_all(
    store.TWO_STATES.add_columns(_NO_TEXT),
    known.STATE.with_only_columns(*_row(_EPISODES, *known.STATE.selected_columns)),
    sa.select(
        *_row(
            _FACTS,
            sa.func.count(),
            sa.func.count(_fact.number),
            sa.case((_HAS_ENTITIES, 1), else_=0),
        )
    ).where(*_MY_FACTS),
    sa.select(*_row(_NAME, text=_fact.value)).where(
        *_MY_FACTS, _fact.key == fact_key(USER, "name")
    ),
    known.WITHHELD.with_only_columns(*_row(_WITHHELD, text=known.WITHHELD.selected_columns[0])),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Scopes of the lexical index, what each holds, and how much without a session left out.

    withheld: sessions whose episodes are. facts: how many; of them, read_facts were read in what
    was said. names: what the user is called.
    """

    said_scope: int
    noted_scope: int
    said: State
    noted: State
    said_size: Size
    noted_size: Size
    episodes: EpisodesState
    withheld: frozenset[str]
    facts: int
    read_facts: int
    has_entities: bool
    names: Sequence[str]


def standing(connection: Connection, whose: Mapping[str, Any], left_out: str) -> Standing:
    """Read what a user's memory holds. whose: `tenant`, `user` and `withheld`."""
    tenant_id, user_id = whose["tenant"], whose["user"]
    scopes = store.scope_of(SAID, tenant_id, user_id), store.scope_of(NOTED, tenant_id, user_id)
    which = {**whose, "one": scopes[0], "other": scopes[1], "left_out": left_out}
    counted: dict[int, list[int]] = {}
    texts: dict[int, list[str]] = {_NAME: [], _WITHHELD: []}
    for what, *numbers, text in connection.execute(_STANDING, which).all():
        if text is None:
            counted[int(what)] = [int(number) for number in numbers]
        else:
            texts[what].append(text)
    (said, said_size), (noted, noted_size) = store.states_in(counted, scopes)
    every, read, has_entities, *_ = counted[_FACTS]
    return Standing(
        *scopes,
        said,
        noted,
        said_size,
        noted_size,
        (noted, tuple(counted[_EPISODES][: len(known.STATE.selected_columns)])),
        frozenset(texts[_WITHHELD]),
        every,
        read,
        bool(has_entities),
        texts[_NAME],
    )
