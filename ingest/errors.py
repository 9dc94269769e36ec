"""What ingest reports on purpose: data that can't become documents. Touches nothing.

The command line prints these, and the service answers an upload with them.
"""

from __future__ import annotations


class IngestError(Exception):
    """A failure whose `message` a person may read: it names what was expected and what came."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnreadableTable(IngestError):
    """The file is not a table that can be read whole. `line` counts from 1, where it is known."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class UndecodableText(UnreadableTable):
    """The bytes are not text in the encoding that was given, or in any that may be assumed."""


class UnknownColumn(IngestError):
    """The column that was asked for is not in the table."""


class UnknownKind(IngestError):
    """There is no template for records of this kind."""


class BadKinds(IngestError):
    """A file of kinds that can't be used; the message names the kind and what is wrong with it."""


class NothingToStore(IngestError):
    """A source would be replaced by nothing at all."""


class NotStored(IngestError):
    """The service did not take a batch. `status` is its HTTP status, None without an answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
