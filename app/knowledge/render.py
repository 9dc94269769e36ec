"""A stored record -> its document, told whole. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.document import Document, Scalar, stable_id
from ingest.kinds import Kinds
from ingest.narrate import choose_kind, metadata, narrate
from ingest.providers.base import ObjectKey, ObjectType

MAX_ID_BYTES = 512
MAX_REFERENCE_CHARS = 100  # no CRM's ids are longer; what is, refers to nothing


def document_id(provider: str, key: ObjectKey) -> str:
    """Return the id of a record's document: readable where it fits."""
    readable = ":".join((provider, key.account, key.type, key.id))
    if len(readable.encode()) <= MAX_ID_BYTES:
        return readable
    return stable_id(provider, key.account, key.type, key.id)


def display_name(fields: Mapping[str, str], about: ObjectType) -> str | None:
    """Return what others call an object, None while nothing says it."""
    for names in about.name:
        parts = [fields[name] for name in names.split() if fields.get(name)]
        if parts:
            return " ".join(parts)
    return None


def references(fields: Mapping[str, str], about: ObjectType) -> set[tuple[str, str]]:
    """Return type and id of the objects that the record's fields point to."""
    return {
        (reference.type, fields[name])
        for name, reference in about.references.items()
        if 0 < len(fields.get(name, "")) <= MAX_REFERENCE_CHARS
    }


def document(
    provider: str,
    key: ObjectKey,
    fields: Mapping[str, str],
    about: ObjectType,
    names: Mapping[tuple[str, str], str],
    kinds: Kinds,
) -> Document | None:
    """Return the record's document, None if there is nothing to tell.

    names: what the objects are called that it points to, by type and id. One that is not known yet
    is told by its id, so that the sentence is true as it stands.
    """
    cells = _cells(fields, about, names)
    if not about.is_told or not cells:
        return None
    kind = about.kind or choose_kind(cells, kinds)
    text = narrate(cells, kind, kinds=kinds)
    if not text:
        return None
    return Document(
        id=document_id(provider, key),
        text=text,
        source=provider,
        doc_type=kind if kind != "generic" else key.type,
        metadata={**metadata(cells, kind, kinds=kinds), **_origin(provider, key)},
    )


def _cells(
    fields: Mapping[str, str], about: ObjectType, names: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    cells: dict[str, str] = {}
    for name, text in fields.items():
        if name in about.hidden:
            continue
        reference = about.references.get(name)
        if reference is None:
            header = about.headers.get(name, name)
            cells[name if header in cells else header] = text
        elif (reference.type, text) in names:
            cells[reference.header] = names[reference.type, text]
        else:
            cells[f"{reference.header} ID"] = text
    return cells


def _origin(provider: str, key: ObjectKey) -> dict[str, Scalar]:
    origin = {
        "provider": provider,
        "account": key.account,
        "object_type": key.type,
        "object_id": key.id,
    }
    return {name: value for name, value in origin.items() if value}
