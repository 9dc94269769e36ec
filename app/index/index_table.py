"""The SQL of the embedded index: its two tables, read and written. Touches: the SQL database.

Every function here returns a plain function for `Database.read` or `Database.write`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from app.db import Connection
from app.db.tables import index_rows, index_vectors
from app.index.base import Scalar, Values, Vector
from app.index.matrix import Floats, Seqs
from app.index.rows import metadata_json

# Above it a database may refuse the statement (SQLite before 3.32: 999 values).
MAX_IN = 500
MAX_KEY_CHARS = 256
# What a field column holds for a value that isn't a string: a list, say, which may hold one.
OTHER = "*"
# The fields with an index, the most selective first.
FIELDS = ("session_id", "document_id", "user_id")

# Built once: to build a statement takes SQLAlchemy longer than SQLite takes to answer it.
_rows, _vectors = index_rows.c, index_vectors.c
_with_vector = index_rows.join(index_vectors, _vectors.seq == _rows.seq)
_here = _rows.namespace == sa.bindparam("in_namespace")
_these_ids = _rows.id.in_(sa.bindparam("ids", expanding=True))
_is_key = {field: _rows[field].in_(sa.bindparam("keys", expanding=True)) for field in FIELDS}
_is_of_another = _rows.session_id.is_distinct_from(sa.bindparam("left_out", type_=sa.Text))
_is_meant = {
    (field, is_less): sa.and_(_here, is_key, *([_is_of_another] if is_less else []))
    for field, is_key in _is_key.items()
    for is_less in (False, True)
}
_page = (
    sa.select(_rows.seq)
    .where(_here, _rows.seq > sa.bindparam("after"))
    .order_by(_rows.seq)
    .limit(sa.bindparam("page", type_=sa.Integer))
)

_count_of = {
    kind: sa.select(sa.func.count()).select_from(
        sa.select(sa.literal_column("1"))
        .where(is_meant)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .subquery()
    )
    for kind, is_meant in _is_meant.items()
}
_slice_of = {
    kind: sa.select(_rows.seq, _rows.id, _rows.metadata, _vectors.embedding)
    .select_from(_with_vector)
    .where(is_meant)
    for kind, is_meant in _is_meant.items()
}
_is_in_slice: dict[str, Sequence[sa.ColumnElement[bool]]] = {
    "": (_here,),
    **{field: (_here, is_key) for field, is_key in _is_key.items()},
}
_state_of: dict[str, sa.Select[int, int]] = {
    field: sa.select(sa.func.count(), sa.func.max(sa.column("seq", sa.BigInteger))).select_from(
        sa.select(_rows.seq).where(*is_in).limit(sa.bindparam("most", type_=sa.Integer)).subquery()
    )
    for field, is_in in _is_in_slice.items()
}
# Not by a join, for which SQLite looks each row up, whether its vector is asked for or not.
_new_vector = sa.case(
    (
        _rows.seq > sa.bindparam("after", type_=sa.BigInteger),
        sa.select(_vectors.embedding).where(_vectors.seq == _rows.seq).scalar_subquery(),
    )
)
_vectors_of = {
    field: sa.select(
        _rows.seq,
        _rows.id,
        _rows.session_id,
        _rows[field] if field else sa.null(),
        _new_vector,
    ).where(*is_in)
    for field, is_in in _is_in_slice.items()
}
_seqs_of = {kind: sa.select(_rows.seq).where(is_meant) for kind, is_meant in _is_meant.items()}
_news = _page.add_columns(_vectors.embedding).select_from(_with_vector)
_fresh = (
    sa.select(_rows.seq, _rows.id, _rows.metadata, _vectors.embedding)
    .select_from(_with_vector)
    .where(_here, _rows.seq > sa.bindparam("after"))
    .order_by(_rows.seq)
    .limit(sa.bindparam("page", type_=sa.Integer))
)
_by_seq = sa.select(_rows.seq, _rows.id, _rows.metadata).where(
    _rows.seq.in_(sa.bindparam("seqs", expanding=True))
)
_newest = sa.select(sa.func.max(_rows.seq)).where(_here)
_by_id = (
    sa.select(_rows.id, _rows.metadata, _vectors.embedding)
    .select_from(_with_vector)
    .where(_here, _these_ids)
)
_seqs_by_id = sa.select(_rows.seq, _rows.id).where(_here, _these_ids)
# By a list, not by a subquery, for which Postgres may read the whole table.
_delete_rows = sa.delete(index_rows).where(_rows.seq.in_(sa.bindparam("seqs", expanding=True)))
_delete_vectors = sa.delete(index_vectors).where(
    _vectors.seq.in_(sa.bindparam("seqs", expanding=True))
)
_counts = sa.select(_rows.namespace, sa.func.count()).group_by(_rows.namespace)


class Row(NamedTuple):
    """A stored row without its vector; `metadata` is JSON."""

    seq: int
    id: str
    metadata: str


class Columns(NamedTuple):
    """Rows without their metadata. is_plain: the columns tell all of what they are of.

    values: the vectors of the last rows; of those in front of them, none was asked for.
    """

    seqs: Seqs
    ids: list[str]
    sessions: NDArray[np.object_]
    is_plain: bool
    values: Floats


@dataclass(frozen=True, slots=True)
class LookUp:
    """The rows that exist of those asked for, by seq, and those that may have replaced the rest."""

    rows: dict[int, Row]
    fresh: list[Row]
    fresh_values: Floats


@dataclass(frozen=True, slots=True)
class Narrow:
    """A condition that an SQL index answers: `field` holds one of `keys`. Wider than the filter.

    field: "" for all rows of the namespace; only for `state_of` and `vectors_of`.
    left_out: a session whose rows are not meant; it may have most of those of its user.
    is_exact: a row has one of the field's values if its column has one of the keys but `OTHER`.
    """

    field: str
    keys: tuple[str, ...]
    left_out: str | None = None
    is_exact: bool = False

    @property
    def kind(self) -> tuple[str, bool]:
        return self.field, self.left_out is not None

    def settles(self, demands: Sequence[tuple[str, str]]) -> bool:
        """Say whether nothing else is demanded, of rows whose columns hold no `OTHER`."""
        met = {(self.field, "$eq"), (self.field, "$in")}
        mine = [demand for demand in demands if demand in met]
        rest = [demand for demand in demands if demand not in met]
        left_out = [("session_id", "$ne")] if self.left_out is not None else []
        return self.is_exact and len(mine) == 1 and rest == left_out

    def parts(self, namespace: str) -> Iterator[dict[str, object]]:
        """Yield the parameters of statements that find no row twice."""
        less = {} if self.left_out is None else {"left_out": self.left_out}
        for keys in _slices(self.keys):
            yield {"in_namespace": namespace, "keys": keys, **less}


def narrow(
    bound: dict[str, frozenset[Scalar]], refused: frozenset[Scalar] = frozenset()
) -> Narrow | None:
    """Return the tightest indexed condition in what a filter requires, if it has one.

    refused: sessions that no row may be of.
    """
    fields = [field for field in FIELDS if field in bound]
    if not fields:
        return None
    field = min(fields, key=lambda name: len(bound[name]))
    left_out = next((value for value in refused if _is_its_key(value)), None)
    keys = tuple({OTHER, *(_key(value) for value in bound[field])})
    is_exact = all(_is_its_key(value) for value in bound[field])
    return Narrow(field, keys, None if left_out is None else str(left_out), is_exact)


def slice_up_to(
    namespace: str, condition: Narrow, limit: int, dimension: int
) -> Callable[[Connection], tuple[list[Row], Floats] | None]:
    """Read the rows that meet the condition, or None if they are more than `limit`."""

    def read(connection: Connection) -> tuple[list[Row], Floats] | None:
        parts = list(condition.parts(namespace))
        total = 0
        for part in parts:
            counted = connection.execute(_count_of[condition.kind], {**part, "most": limit + 1})
            total += counted.scalar_one()
            if total > limit:
                return None
        found = [
            row
            for part in parts
            for row in connection.execute(_slice_of[condition.kind], part).all()
        ]
        rows = [Row(seq, id, metadata) for seq, id, metadata, _ in found]
        return rows, _floats([blob for _, _, _, blob in found], dimension)

    return read


def state_of(
    connection: Connection, namespace: str, condition: Narrow, most: int
) -> tuple[int, int]:
    """Return how many rows have one of the keys, `most` at most, and the newest `seq` of them.

    Nothing is left out. More keys than one statement takes count as too many rows.
    """
    if len(condition.keys) > MAX_IN:
        return most, 0
    which = {**_which(namespace, condition), "most": most}
    count, newest = connection.execute(_state_of[condition.field], which).one()
    return count, newest or 0


def vectors_of(
    connection: Connection, namespace: str, condition: Narrow, dimension: int, after: int = 0
) -> Columns:
    """Return the rows that have one of at most `MAX_IN` keys; the vectors of those after `after`.

    One statement: what is new and what is gone must be of the same moment.
    """
    which = {**_which(namespace, condition), "after": after}
    found = connection.execute(_vectors_of[condition.field], which).all()
    old = [row for row in found if row[0] <= after]
    return _columns_of([*old, *[row for row in found if row[4] is not None]], dimension)


def no_columns(dimension: int) -> Columns:
    """Return the columns of no row."""
    return _columns_of([], dimension)


def _columns_of(found: Sequence[Any], dimension: int) -> Columns:
    return Columns(
        np.array([row[0] for row in found], np.int64),
        [row[1] for row in found],
        np.array([row[2] for row in found], object),
        not any(OTHER in row[2:4] for row in found),
        _floats([row[4] for row in found if row[4] is not None], dimension),
    )


def _which(namespace: str, condition: Narrow) -> dict[str, object]:
    if not condition.field:
        return {"in_namespace": namespace}
    return {"in_namespace": namespace, "keys": condition.keys}


def rows_of(connection: Connection, seqs: Sequence[int]) -> dict[int, Row]:
    """Return the rows that still exist, by seq."""
    return {
        row[0]: Row(*row)
        for part in _slices(seqs)
        for row in connection.execute(_by_seq, {"seqs": part}).all()
    }


def seqs_of(namespace: str, condition: Narrow) -> Callable[[Connection], tuple[Seqs, int]]:
    """Read the seqs of the rows that meet the condition, ascending, and the newest of all rows."""

    def read(connection: Connection) -> tuple[Seqs, int]:
        newest = connection.execute(_newest, {"in_namespace": namespace}).scalar() or 0
        found: list[int] = []
        for part in condition.parts(namespace):
            found += connection.execute(_seqs_of[condition.kind], part).scalars()
        return np.sort(np.array(found, np.int64)), newest

    return read


def seqs_after(namespace: str, after: int, limit: int) -> Callable[[Connection], list[int]]:
    wanted = {"in_namespace": namespace, "after": after, "page": limit}
    return lambda connection: list(connection.execute(_page, wanted).scalars())


def news(
    namespace: str, after: int, limit: int, dimension: int
) -> Callable[[Connection], tuple[list[int], Floats]]:
    """Read the next rows in the order in which they were committed."""

    def read(connection: Connection) -> tuple[list[int], Floats]:
        wanted = {"in_namespace": namespace, "after": after, "page": limit}
        found = connection.execute(_news, wanted).all()
        return [seq for seq, _ in found], _floats([blob for _, blob in found], dimension)

    return read


def unless_news(
    namespace: str, after: int, seqs: Seqs
) -> Callable[[Connection], dict[int, Row] | None]:
    """Read the rows that still exist; None if there are any newer than `after`."""

    def read(connection: Connection) -> dict[int, Row] | None:
        wanted = {"in_namespace": namespace, "after": after, "page": 1}
        if connection.execute(_page, wanted).first() is not None:
            return None
        return rows_of(connection, seqs.tolist())

    return read


def look_up(
    namespace: str, seqs: Seqs, after: int, limit: int, dimension: int
) -> Callable[[Connection], LookUp]:
    """Read the rows that still exist and, if any doesn't, up to `limit` newer than `after`."""

    def read(connection: Connection) -> LookUp:
        found = rows_of(connection, seqs.tolist())
        fresh: Sequence[sa.Row[int, str, str, bytes]] = ()
        if len(found) < len(seqs):
            wanted = {"in_namespace": namespace, "after": after, "page": limit}
            fresh = connection.execute(_fresh, wanted).all()
        values = _floats([row[3] for row in fresh], dimension)
        return LookUp(found, [Row(*row[:3]) for row in fresh], values)

    return read


def rows_by_id(
    namespace: str, ids: Sequence[str], dimension: int
) -> Callable[[Connection], list[tuple[str, str, Values]]]:
    """Read (id, metadata, values) of at most `MAX_IN` rows."""

    def read(connection: Connection) -> list[tuple[str, str, Values]]:
        found = connection.execute(_by_id, {"in_namespace": namespace, "ids": ids})
        return [(id, metadata, _floats([blob], dimension)[0]) for id, metadata, blob in found]

    return read


def ids_after(
    namespace: str, after: str, limit: int, *, inclusive: bool
) -> Callable[[Connection], list[str]]:
    """Read the next ids in the order of their bytes, whatever language the database sorts in."""

    def read(connection: Connection) -> list[str]:
        plain = "C" if connection.dialect.name == "postgresql" else "BINARY"
        id = sa.collate(index_rows.c.id, plain)
        wanted = (
            sa.select(index_rows.c.id)
            .where(index_rows.c.namespace == namespace, id >= after if inclusive else id > after)
            .order_by(id)
            .limit(limit)
        )
        return list(connection.execute(wanted).scalars())

    return read


def counts(connection: Connection) -> dict[str, int]:
    return dict(connection.execute(_counts).all())


def answer(connection: Connection) -> None:
    connection.execute(sa.select(sa.literal(1)))


def a_stored_dimension(connection: Connection) -> int | None:
    blob = connection.execute(sa.select(index_vectors.c.embedding).limit(1)).scalar()
    return None if blob is None else len(blob) // np.dtype(np.float32).itemsize


def store(namespace: str, vectors: Sequence[Vector]) -> Callable[[Connection], None]:
    """Insert or replace at most `MAX_IN` rows of different ids; a replaced row gets a new `seq`."""
    fresh = [_columns(namespace, vector) for vector in vectors]
    blobs = _blobs(vectors)
    ours = {"in_namespace": namespace, "ids": list(blobs)}

    def write(connection: Connection) -> None:
        _take_turn(connection, namespace)
        _remove(connection, list(connection.execute(_seqs_by_id, ours).scalars()))
        connection.execute(sa.insert(index_rows), fresh)
        stored = connection.execute(_seqs_by_id, ours)
        connection.execute(
            sa.insert(index_vectors), [{"seq": seq, "embedding": blobs[id]} for seq, id in stored]
        )

    return write


def remove(namespace: str, ids: Sequence[str]) -> Callable[[Connection], None]:
    """Delete at most `MAX_IN` rows by id."""

    def write(connection: Connection) -> None:
        _take_turn(connection, namespace)
        ours = {"in_namespace": namespace, "ids": ids}
        _remove(connection, list(connection.execute(_seqs_by_id, ours).scalars()))

    return write


def remove_seqs(namespace: str, seqs: Sequence[int]) -> Callable[[Connection], None]:
    def write(connection: Connection) -> None:
        _take_turn(connection, namespace)
        _remove(connection, seqs)

    return write


def _remove(connection: Connection, seqs: Sequence[int]) -> None:
    for part in _slices(seqs):
        connection.execute(_delete_vectors, {"seqs": part})
        connection.execute(_delete_rows, {"seqs": part})


def _take_turn(connection: Connection, namespace: str) -> None:
    """Let `seq` grow in the order of commits: who reads past a row must never miss it.

    Postgres gives the lock back once the commit can be seen. SQLite has one writer anyway.
    Plans are made for the values at hand: a general one compares each row with each of 500 ids.
    """
    if connection.dialect.name == "postgresql":
        digest = hashlib.blake2b(namespace.encode(), digest_size=8, person=b"index").digest()
        key = int.from_bytes(digest, "big", signed=True)
        custom = sa.func.set_config("plan_cache_mode", "force_custom_plan", True)
        connection.execute(sa.select(custom, sa.func.pg_advisory_xact_lock(key)))


def _columns(namespace: str, vector: Vector) -> dict[str, str | None]:
    held = {field: vector.metadata.get(field) for field in FIELDS}
    return {
        "namespace": namespace,
        "id": vector.id,
        "metadata": metadata_json(vector).decode(),
        **{
            field: None if value is None else OTHER if isinstance(value, list) else _key(value)
            for field, value in held.items()
        },
    }


def _key(value: Scalar) -> str:
    """Return what a field column holds: cut to what an index takes, without what Postgres refuses.

    Two values may get the same key, which only makes the condition wider.
    """
    if not isinstance(value, str):
        return OTHER
    return value[:MAX_KEY_CHARS].replace("\0", "\N{REPLACEMENT CHARACTER}")


def _is_its_key(value: Scalar) -> bool:
    """Say whether a field column holds the value for rows that have it, and for no others."""
    return (
        isinstance(value, str)
        and value != OTHER
        and len(value) < MAX_KEY_CHARS
        and not {"\0", "\N{REPLACEMENT CHARACTER}"} & set(value)
    )


def _blobs(vectors: Sequence[Vector]) -> dict[str, bytes]:
    exact = np.stack([vector.values for vector in vectors]).astype(np.float64)
    stored = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype("<f4")
    return {vector.id: row.tobytes() for vector, row in zip(vectors, stored, strict=True)}


def _floats(blobs: Iterable[bytes], dimension: int) -> Floats:
    values = np.frombuffer(b"".join(blobs), "<f4").astype(np.float32, copy=False)
    return values.reshape(-1, dimension)


def _slices(items: Sequence[str] | Sequence[int]) -> Iterator[Sequence[str] | Sequence[int]]:
    for start in range(0, len(items), MAX_IN):
        yield items[start : start + MAX_IN]
