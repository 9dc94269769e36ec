"""Multipart forms with one file, read after the caller is known. Touches: the disk.

FastAPI reads a form before it asks who sends it, and keeps the file in a place without a name;
here a stranger's file is not read, and the readers of files get a path.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

FormT = TypeVar("FormT", bound=BaseModel)

COPY_BYTES = 1024 * 1024
MAX_FIELDS = 50
MAX_FIELD_BYTES = 64 * 1024
KNOWN_SUFFIX_CHARS = 10


@asynccontextmanager
async def read_form(request: Request, model: type[FormT]) -> AsyncIterator[tuple[FormT, Path, str]]:
    """Read a form with a `file`; gives its other fields, the file's path, and its base name.

    A field that is sent empty counts as not sent. Raises `RequestValidationError`.
    """
    limits = {"max_files": 1, "max_fields": MAX_FIELDS, "max_part_size": MAX_FIELD_BYTES}
    try:
        form = await request.form(**limits)
    except ClientDisconnect as error:
        raise HTTPException(400, "the client left before the body was whole") from error
    with TemporaryDirectory(prefix="upload-") as folder:
        try:
            file = _file(form)
            fields = _fields(form, model)
            name = base_name(file.filename or "")
            path = Path(folder) / f"upload{_suffix(name)}"
            await asyncio.to_thread(_copy, file.file, path)
        finally:
            await form.close()
        yield fields, path, name


def form_docs(model: type[BaseModel], about_file: str) -> dict[str, Any]:
    """Return what OpenAPI shows of a form that is read here."""
    schema = model.model_json_schema()
    file = {"type": "string", "format": "binary", "description": about_file}
    schema["properties"] = {"file": file, **schema["properties"]}
    schema["required"] = ["file", *schema.get("required", [])]
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }


def base_name(name: str) -> str:
    """Return the last part of a file's name, whichever system it comes from."""
    return PurePosixPath(name.replace("\\", "/")).name


def _file(form: FormData) -> UploadFile:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        message = "a form (multipart/form-data) with a file in the field `file` is expected"
        raise _invalid("missing", ("body", "file"), message)
    return file


def _fields(form: FormData, model: type[FormT]) -> FormT:
    given: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name in given:
            raise _invalid("repeated", ("body", name), "it is given more than once")
        if name != "file" and value != "":
            given[name] = value
    try:
        return model.model_validate(given)
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(errors) from error


def _invalid(kind: str, where: tuple[str, ...], message: str) -> RequestValidationError:
    return RequestValidationError([{"type": kind, "loc": where, "msg": message}])


def _suffix(name: str) -> str:
    """Return the end of a name, by which readers know a file, if it is a plain one."""
    suffix = PurePosixPath(name).suffix.lower()
    is_plain = suffix[1:].isascii() and suffix[1:].isalnum() and len(suffix) <= KNOWN_SUFFIX_CHARS
    return suffix if is_plain else ""


def _copy(file: BinaryIO, path: Path) -> None:
    file.seek(0)
    with path.open("wb") as target:
        shutil.copyfileobj(file, target, COPY_BYTES)
