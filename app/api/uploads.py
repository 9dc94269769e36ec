"""Files in, for admins: tables, and texts of several formats. Touches: loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import (
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from app.api.deps import Body, Id, RuntimeDep, WholeAdminDep
from app.api.forms import form_docs, read_form
from app.api.responses import documented
from app.errors import InvalidRequest, UnreadableFile
from app.jobs import Job
from app.knowledge.uploads import Upload
from app.wiring import Runtime

router = APIRouter(tags=["documents"])

_ID = TypeAdapter(Id)

Short = Annotated[str, Field(min_length=1, max_length=200)]
Source = Annotated[
    Id | None,
    Field(
        description="What the documents belong to; without one: the file's name.",
        examples=["customers.csv"],
    ),
]
Encoding = Annotated[
    Short | None,
    Field(description="Without one: by byte order mark, else UTF-8, else cp1252."),
]
DryRun = Annotated[bool, Field(description="Store nothing, show what it would become.")]


def _header(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Say once what is expected, where pydantic would complain of each alternative."""
    try:
        return read(given)
    except ValidationError as error:
        raise ValueError("must be the number of a line, from 1, or `none`") from error


class TableForm(Body):
    kind: Annotated[
        Short | None,
        Field(description="Without one: chosen from the headers.", examples=["customer"]),
    ] = None
    key: Annotated[
        Short | None,
        Field(
            description="The column that identifies a row; without one: found.",
            examples=["Customer Id"],
        ),
    ] = None
    source: Source = None
    mode: Annotated[
        Literal["upsert", "replace"],
        Field(description="`replace` removes what the source had and the file has not."),
    ] = "upsert"
    encoding: Encoding = None
    header: Annotated[
        Literal["none"] | Annotated[int, Field(ge=1)] | None,
        WrapValidator(_header),
        Field(description="The header's line, or `none`; without one: found."),
    ] = None
    dayfirst: Annotated[
        bool | None, Field(description="How to read dates that could be either.")
    ] = None
    currency: Annotated[
        Short | None,
        Field(description="A code, of amounts that don't say theirs.", examples=["EUR"]),
    ] = None
    sheet: Annotated[Short | None, Field(description="Of a workbook; without one: found.")] = None
    strict: Annotated[bool, Field(description="Refuse a file with rows that don't fit.")] = False
    dry_run: DryRun = False
    summary: Annotated[
        bool, Field(description="Add a document that tells of the table as a whole.")
    ] = True


class TextForm(Body):
    source: Source = None
    encoding: Encoding = None
    dry_run: DryRun = False


class LoadedOut(BaseModel):
    """A file that was stored. `report` tells what became of it."""

    job_id: int
    status_url: str = Field(examples=["/jobs/17"])
    report: dict[str, Any] = Field(
        examples=[
            {
                "source": "customers.csv",
                "kind": "customer",
                "rows": 501,
                "documents": 500,
                "duplicates": 1,
                "skipped": [{"line": 503, "reason": "a total"}],
                "stored": 12,
                "unchanged": 488,
                "removed": 0,
            }
        ]
    )


class RehearsedOut(BaseModel):
    """What a file would become: nothing was stored."""

    dry_run: Literal[True] = True
    report: dict[str, Any]
    samples: list[str]


class QueuedOut(BaseModel):
    """A file that is kept, and that a job stores: ask `status_url` how far it is."""

    job_id: int
    status_url: str = Field(examples=["/jobs/17"])


ANSWERS: dict[int | str, dict[str, Any]] = {
    202: {"model": QueuedOut},
    **documented(400, 403, 413, 422, 502, 504, 507),
}
Answer = LoadedOut | RehearsedOut | QueuedOut


@router.post(
    "/documents/table",
    responses=ANSWERS,
    openapi_extra=form_docs(TableForm, "CSV, TSV, `;` or `|` separated text, or a workbook."),
)
async def put_table(
    request: Request, caller: WholeAdminDep, runtime: RuntimeDep, response: Response
) -> Answer:
    """Store a table's rows as documents; a long one becomes a job."""
    async with read_form(request, TableForm) as (form, path, name):
        options = form.model_dump(
            exclude={"source", "mode", "dry_run", "summary"}, exclude_none=True
        )
        upload = Upload(
            form="table",
            source=form.source or _source(name),
            suffix=path.suffix,
            mode=form.mode,
            options={**options, "with_summary": form.summary},
        )
        if form.dry_run:
            return await _rehearsed(runtime, path, upload)
        job = await runtime.loads.put(caller.tenant_id, path, upload, actor=caller.actor)
        return _answer(job, response)


@router.post(
    "/documents/file",
    responses=ANSWERS,
    openapi_extra=form_docs(TextForm, "Markdown, plain text, HTML, PDF or Word (.docx)."),
)
async def put_text(
    request: Request, caller: WholeAdminDep, runtime: RuntimeDep, response: Response
) -> Answer:
    """Store a text's passages as documents, in place of what its source had before."""
    async with read_form(request, TextForm) as (form, path, name):
        upload = Upload(
            form="text",
            source=form.source or _source(name),
            suffix=path.suffix,
            mode="replace",
            options=form.model_dump(include={"encoding"}, exclude_none=True),
        )
        if form.dry_run:
            return await _rehearsed(runtime, path, upload)
        job = await runtime.loads.put(caller.tenant_id, path, upload, actor=caller.actor)
        return _answer(job, response)


async def _rehearsed(runtime: Runtime, path: Path, upload: Upload) -> RehearsedOut:
    rehearsal = await runtime.loads.rehearse(path, upload)
    return RehearsedOut(report=dict(rehearsal.report), samples=list(rehearsal.samples))


def _answer(job: Job, response: Response) -> LoadedOut | QueuedOut:
    """Say what became of a load. Raises `UnreadableFile` for one that failed at once."""
    result = job.result or {}
    status_url = f"/jobs/{job.id}"
    if error := result.get("error"):
        details = {key: error[key] for key in error.keys() - {"code", "message"}}
        raise UnreadableFile(error["message"], code=error["code"], param="file", details=details)
    if job.state == "done":
        return LoadedOut(job_id=job.id, status_url=status_url, report=result["report"])
    response.status_code = 202
    response.headers["Location"] = status_url
    return QueuedOut(job_id=job.id, status_url=status_url)


def _source(name: str) -> str:
    """Return a source that is named after a file."""
    try:
        return _ID.validate_python(name)
    except ValidationError as error:
        raise InvalidRequest(
            "the file's name can't be the source's: name a source", param="source"
        ) from error
