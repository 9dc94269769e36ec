"""Tools that an operator adds by import path. Touches: what the operator's own code touches.

A tool is a function with type hints and a docstring, or a LangChain tool.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from app.errors import Misconfigured
from app.llm.own_thread import in_own_thread

SETTING = "AGENT_TOOLS"
CONTEXT = "context"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Who asks; given to a function that has a parameter `context`, which no model sees."""

    tenant_id: str
    user_id: str
    session_id: str


class BadArguments(Exception):
    """What a model wrote does not fit a tool's parameters; `error` says how."""

    def __init__(self, error: ValidationError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class OperatorTool:
    """A tool as it was loaded.

    call: with the arguments as the model wrote them; raises `BadArguments`, and whatever the
    operator's code raises.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any], AgentContext], Awaitable[str]]


def load_tools(paths: str, *, reserved: Collection[str]) -> list[OperatorTool]:
    """Return the tools of a list such as "shop.tools:get_order_status,shop.tools:refund".

    Raises `Misconfigured`, which names the one at fault.
    """
    found: dict[str, OperatorTool] = {}
    for path in filter(None, (part.strip() for part in paths.split(","))):
        tool = _tool(path, _imported(path))
        if not _NAME.fullmatch(tool.name):
            raise _wrong(path, f"{tool.name!r} is no name for a tool")
        if tool.name in reserved:
            raise _wrong(path, f"the name {tool.name!r} is that of a tool of this service")
        if tool.name in found:
            raise _wrong(path, f"there are two tools of the name {tool.name!r}")
        found[tool.name] = tool
    return list(found.values())


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    if not module or not name:
        raise _wrong(path, "expected module:name, as in shop.tools:get_order_status")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise _wrong(path, f"the module {module} has no {name}") from error
    except Exception as error:  # the operator's own code runs here
        raise _wrong(path, f"it can't be imported ({type(error).__name__}: {error})") from error


def _tool(path: str, found: Any) -> OperatorTool:
    if inspect.isfunction(found):
        return _of_function(path, found)
    from langchain_core.tools import BaseTool

    if not isinstance(found, BaseTool):
        raise _wrong(path, "expected a function or a LangChain tool")
    return _of_langchain(path, found)


def _of_function(path: str, function: Callable[..., Any]) -> OperatorTool:
    description = inspect.getdoc(function)
    if not description:
        raise _wrong(path, "it has no docstring, which is what the model knows of it")
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # annotations are evaluated here
        raise _wrong(path, f"its type hints can't be read ({error})") from error
    fields: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.name == CONTEXT:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _wrong(path, f"its parameter {parameter.name!r} can't be given by name")
        if parameter.name not in hints:
            raise _wrong(path, f"its parameter {parameter.name!r} has no type hint")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    try:
        config = ConfigDict(extra="ignore", protected_namespaces=())
        form = create_model(path, __config__=config, **fields)
        schema = form.model_json_schema()
    except Exception as error:  # a type that JSON knows nothing of
        raise _wrong(path, f"its parameters can't be described ({error})") from error
    takes_context = CONTEXT in parameters

    async def call(arguments: Mapping[str, Any], context: AgentContext) -> str:
        try:
            given = _given(form.model_validate(dict(arguments)))
        except ValidationError as error:
            raise BadArguments(error) from error
        if takes_context:
            given[CONTEXT] = context
        if inspect.iscoroutinefunction(function):
            return _text(await function(**given))
        return await in_own_thread(lambda: _text(function(**given)))

    return OperatorTool(function.__name__, description, _plain(schema), call)


def _given(form: BaseModel) -> dict[str, Any]:
    return {name: getattr(form, name) for name in type(form).model_fields}


def _of_langchain(path: str, tool: Any) -> OperatorTool:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    described = convert_to_openai_tool(tool)["function"]
    if not described.get("description"):
        raise _wrong(path, "it has no description, which is what the model knows of it")
    own = getattr(tool, "coroutine", None)  # of a tool that is made of functions
    is_async = own is not None or not (hasattr(tool, "coroutine") or _runs_in_threads(tool))

    async def call(arguments: Mapping[str, Any], context: AgentContext) -> str:
        try:
            if is_async:
                return _text(await tool.ainvoke(dict(arguments)))
            return await in_own_thread(lambda: _text(tool.invoke(dict(arguments))))
        except ValidationError as error:
            raise BadArguments(error) from error

    parameters = described.get("parameters") or {"type": "object", "properties": {}}
    return OperatorTool(tool.name, described["description"], parameters, call)


def _runs_in_threads(tool: Any) -> bool:
    from langchain_core.tools import BaseTool

    return type(tool)._arun is BaseTool._arun


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, BaseModel):
        return result.model_dump_json()
    return json.dumps(result, ensure_ascii=False, default=str)


def _wrong(path: str, reason: str) -> Misconfigured:
    return Misconfigured(f"{SETTING}: {path}: {reason}", param=SETTING)
