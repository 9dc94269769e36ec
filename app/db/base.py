"""The contract of the database. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from sqlalchemy import Connection as Connection

T = TypeVar("T")
Dialect = Literal["sqlite", "postgresql"]


class Database(Protocol):
    """One short transaction per call; nothing is open across an await.

    `fn` must be quick, touch nothing but its connection, and may run in another thread. A `write`
    returns after its commit is durable. Both raise `StorageUnavailable` and `StorageFull`; an
    exception of `fn` rolls back what it wrote and comes back to the caller.
    """

    @property
    def dialect(self) -> Dialect: ...

    async def read(self, fn: Callable[[Connection], T]) -> T: ...

    async def write(self, fn: Callable[[Connection], T]) -> T: ...

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        """Run a write that no deadline cuts off: cut off, it would begin anew at each start."""
        ...

    async def scrub(self) -> bool | None:
        """Leave nothing in the files of what was deleted; other writes wait for as long.

        False: somebody still reads what was there before. None: the bytes are a server's to remove.
        Raises `StorageUnavailable` and `StorageFull`.
        """
        ...

    async def close(self) -> None: ...
