"""Business knowledge in and out, for admins. Touches: knowledge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import (
    BaseModel,
    BeforeValidator,
    FailFast,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from app.api.big_bodies import BigBodies
from app.api.deps import AdminDep, Body, Id, RuntimeDep, Storable, Text
from app.api.responses import documented
from app.errors import NotFound
from ingest.document import Document, stable_id

router = APIRouter(tags=["documents"], route_class=BigBodies)

MAX_DOCUMENTS = 1_000
MAX_TEXT_CHARS = 500_000
MOST_METADATA = 10_000  # more than an index takes: each wrong one is an error of its own


def _few(given: Any) -> Any:
    if isinstance(given, dict) and len(given) > MOST_METADATA:
        raise ValueError(f"has {len(given)} fields, the limit is {MOST_METADATA}")
    return given


def _metadata_value(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Say once what is expected, where pydantic would complain for each member of the union."""
    try:
        return read(given)
    except ValidationError as error:
        raise ValueError(
            "must be a string, a number, true or false, null, or a list of strings"
        ) from error


MetadataValue = Annotated[
    str | bool | int | float | list[str] | None, WrapValidator(_metadata_value)
]


class DocumentIn(Body):
    text: Annotated[
        Text,
        Field(
            max_length=MAX_TEXT_CHARS,
            examples=["Refunds are possible within 30 days of the purchase."],
        ),
    ]
    id: Annotated[
        Id | None, Field(description="Without one: made from the source and the text.")
    ] = None
    source: Annotated[
        Id | None,
        Field(description="Or in the metadata; `api` without one.", examples=["handbook"]),
    ] = None
    doc_type: Annotated[
        Id | None, Field(description="Or in the metadata; `document` without one.")
    ] = None
    metadata: Annotated[
        dict[str, MetadataValue],
        BeforeValidator(_few),
        Storable,
        Field(
            default_factory=dict,
            description="For filters; nulls are left out.",
            examples=[{"department": "sales"}],
        ),
    ]


class DocumentsIn(Body):
    documents: Annotated[
        list[DocumentIn], Field(min_length=1, max_length=MAX_DOCUMENTS), FailFast()
    ]


class StoredOut(BaseModel):
    stored: int
    unchanged: int
    ids: list[str]
    left_out: list[str] = Field(
        default=[], description="Ids of those that name a user who was erased; not stored."
    )
    redacted: dict[str, int] = Field(
        default={},
        description="How many of each kind were taken out: secrets, cards, IBANs, SSNs.",
        examples=[{"CARD": 1}],
    )


class DocumentOut(BaseModel):
    id: str
    text: str
    source: str
    doc_type: str
    metadata: dict[str, Any]
    is_current: bool
    created_at: datetime
    updated_at: datetime


class MarkOut(BaseModel):
    """How a text stands in the quarantine list. `withheld`: answers leave it out."""

    flags: list[str]
    state: str
    withheld: bool


class DocumentDetail(DocumentOut):
    quarantine: MarkOut | None = None


class DocumentList(BaseModel):
    documents: list[DocumentOut]
    next_after: str | None


class DeleteIn(Body):
    ids: Annotated[
        list[Id],
        Field(min_length=1, max_length=MAX_DOCUMENTS, examples=[["handbook/refunds"]]),
    ]


class Deleted(BaseModel):
    deleted: int


@router.post("/documents", responses=documented(400, 403, 413, 422, 502, 504, 507))
async def put_documents(body: DocumentsIn, caller: AdminDep, runtime: RuntimeDep) -> StoredOut:
    """Store texts by id and make them searchable; what is unchanged costs nothing."""
    batch = [_document(document) for document in body.documents]
    stored = await runtime.documents.put(
        caller.tenant_id, batch, within=caller.document_filter, actor=caller.actor
    )
    return StoredOut(
        stored=stored.stored,
        unchanged=stored.unchanged,
        ids=list(stored.ids),
        left_out=list(stored.left_out),
        redacted=dict(stored.redacted),
    )


@router.get("/documents", responses=documented(403, 422))
async def list_documents(
    caller: AdminDep,
    runtime: RuntimeDep,
    source: Annotated[Id | None, Query()] = None,
    after: Annotated[Id | None, Query(description="`next_after` of the last page")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> DocumentList:
    """List documents by id."""
    page = await runtime.documents.list_documents(
        caller.tenant_id, source=source, after=after, limit=limit, within=caller.document_filter
    )
    return DocumentList(
        documents=[DocumentOut.model_validate(d, from_attributes=True) for d in page],
        next_after=page[-1].id if len(page) == limit else None,
    )


@router.get("/documents/{document_id:path}", responses=documented(403, 404, 422))
async def get_document(document_id: Id, caller: AdminDep, runtime: RuntimeDep) -> DocumentDetail:
    """Return one document as it was stored, and whether it reads like instructions to a model."""
    document = await runtime.documents.get(
        caller.tenant_id, document_id, within=caller.document_filter
    )
    if document is None:
        raise NotFound("there is no such document", param="document_id")
    shown = DocumentDetail.model_validate(document, from_attributes=True)
    mark = await runtime.quarantine.mark(caller.tenant_id, "document", document_id)
    if mark is not None:
        told = MarkOut(flags=list(mark.flags), state=mark.state, withheld=mark.is_withheld)
        shown.quarantine = told
    return shown


@router.post("/documents/delete", responses=documented(400, 403, 413, 422, 502, 504, 507))
async def delete_documents(body: DeleteIn, caller: AdminDep, runtime: RuntimeDep) -> Deleted:
    """Remove documents with all their chunks; ids that are not there are fine."""
    deleted = await runtime.documents.delete_ids(
        caller.tenant_id, set(body.ids), within=caller.document_filter, actor=caller.actor
    )
    return Deleted(deleted=deleted)


@router.delete("/documents/{document_id:path}", responses=documented(403, 404, 422, 502, 504))
async def delete_document(document_id: Id, caller: AdminDep, runtime: RuntimeDep) -> Deleted:
    """Remove one document with all its chunks."""
    deleted = await runtime.documents.delete_ids(
        caller.tenant_id, [document_id], within=caller.document_filter, actor=caller.actor
    )
    if not deleted:
        raise NotFound("there is no such document", param="document_id")
    return Deleted(deleted=1)


@router.delete("/documents", responses=documented(403, 422, 502, 504))
async def delete_source(
    source: Annotated[Id, Query()], caller: AdminDep, runtime: RuntimeDep
) -> Deleted:
    """Remove all documents of a source, and cancel its loads.

    With a key that has a document filter: those that pass it, and no load is cancelled.
    """
    deleted = await runtime.documents.delete_source(
        caller.tenant_id, source, within=caller.document_filter, actor=caller.actor
    )
    return Deleted(deleted=deleted)


def _document(given: DocumentIn) -> Document:
    metadata: dict[str, Any] = {k: v for k, v in given.metadata.items() if v is not None}
    source = given.source or _taken(metadata, "source") or "api"
    return Document(
        id=given.id or stable_id(source, given.text),
        text=given.text,
        source=source,
        doc_type=given.doc_type or _taken(metadata, "doc_type") or "document",
        metadata=metadata,
    )


def _taken(metadata: dict[str, Any], name: str) -> str | None:
    """Take one of our own fields out of the metadata, where many clients put it."""
    value = metadata.get(name)
    if not isinstance(value, str) or not value.strip():
        return None
    del metadata[name]
    return value
