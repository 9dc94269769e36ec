"""The arguments of an agent's tools, as a model reads of them and writes them. Touches nothing."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.memory.base import USER


def _day(given: Any) -> Any:
    """Return the day of a time, and None for what stands for none."""
    text = given.strip() if isinstance(given, str) else given
    return (text[:10] or None) if isinstance(text, str) else text


def _usual(given: date | None) -> date | None:
    if given is not None and not 1970 < given.year < 3000:
        raise ValueError("expected a day between 1971 and 2999")
    return given


def _none_if_empty(given: Any) -> Any:
    return None if given in ("", {}, "null") else given


Day = Annotated[date | None, BeforeValidator(_day), AfterValidator(_usual)]
Query = Annotated[str, Field(max_length=2_000)]
FactId = Annotated[str, Field(min_length=1, max_length=100, description="As search_memory told.")]
Quote = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4_000,
        description="The user's own words that ask for this or say this, copied exactly.",
    ),
]


class Form(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class SearchMemory(Form):
    """Search what earlier conversations with this user left behind: summaries and facts."""

    query: Annotated[Query, Field(min_length=1)]
    since: Annotated[Day, Field(description="YYYY-MM-DD: conversations from this day on.")] = None
    until: Annotated[Day, Field(description="YYYY-MM-DD: conversations up to this day.")] = None


class SearchHistory(Form):
    """Search the user's messages and your replies word for word, of this session and all others.

    Without a query, the latest messages between two dates.
    """

    query: Query = ""
    since: Annotated[Day, Field(description="YYYY-MM-DD: messages from this day on.")] = None
    until: Annotated[Day, Field(description="YYYY-MM-DD: messages up to this day.")] = None


class SearchDocuments(Form):
    """Search the business documents."""

    query: Annotated[Query, Field(min_length=1)]
    filters: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_none_if_empty),
        Field(
            description='Metadata to equal, or operators such as {"contract_value": {"$gte": 5}}.'
        ),
    ] = None


class Remember(Form):
    """Keep one fact that the user has stated, for later conversations.

    Call it when the user asks for that, or states something lasting.
    """

    statement: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1_000,
            description="One sentence in the user's language and words: The user likes tea.",
        ),
    ]
    predicate: Annotated[
        str,
        Field(min_length=1, max_length=200, description="What it says, as lives_in or likes."),
    ]
    value: Annotated[
        str,
        Field(min_length=1, max_length=500, description="The value, in the user's own words."),
    ]
    quote: Quote
    subject: Annotated[
        str, Field(min_length=1, max_length=200, description="user, or who or what it is about.")
    ] = USER
    kind: Literal["fact", "preference", "action"] = "fact"
    many: Annotated[bool, Field(description="Several values may hold at once, as of likes.")] = (
        False
    )


class Revise(Form):
    """Change a remembered fact to what the user says now; without a value, it holds no longer."""

    fact_id: FactId
    quote: Quote
    value: Annotated[
        str | None,
        BeforeValidator(_none_if_empty),
        Field(max_length=500, description="The new value, in the user's own words."),
    ] = None
    statement: Annotated[
        str | None,
        BeforeValidator(_none_if_empty),
        Field(max_length=1_000, description="The new fact as one sentence."),
    ] = None


class Forget(Form):
    """Delete a remembered fact, because the user asks for it or says that it is wrong."""

    fact_id: FactId
    quote: Quote


class EditBlock(Form):
    """Replace a text that stands in every prompt, with all that is to stay of it.

    human: about the user. persona: how you are to be.
    """

    label: Literal["human", "persona"]
    value: Annotated[str, Field(description="The whole new text; empty to clear it.")]
    quote: Quote


def faults(error: ValidationError) -> str:
    """Return what is wrong with arguments, for the model that wrote them."""
    wrong = [
        f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "The arguments are wrong. " + "; ".join(wrong)
