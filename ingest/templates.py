"""The kinds of record that have sentences of their own. Touches nothing.

To add one (a deal, a ticket): name its parts, write its sentences, say which headers give it away,
and put it into TEMPLATES above `generic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ingest.errors import UnknownKind
from ingest.values import ColumnType


@dataclass(frozen=True, slots=True)
class Part:
    """A column that a template speaks of: its name in metadata and its usual headers, best first.

    headers: in snake case. `loose` ones mean this part only once the kind is known: `name` is a
    company among customers. `holds` says what a good value is; money is a number with a currency.
    """

    name: str
    headers: tuple[str, ...]
    loose: tuple[str, ...] = ()
    holds: ColumnType = "text"
    is_money: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """`sentences` gets those parts that have a value, ready to be said, by name.

    fits: whether headers that surely and loosely name these parts make a table of this kind.
    currency: of amounts where neither cell, header nor a currency column names one.
    """

    kind: str
    parts: tuple[Part, ...]
    sentences: Callable[[Mapping[str, str]], list[str]]
    fits: Callable[[frozenset[str], frozenset[str]], bool]
    currency: str | None = None


COMPANY = Part(
    "company",
    (
        "company",
        "company_name",
        "account_name",
        "organization",
        "organisation",
        "organization_name",
        "organisation_name",
        "business_name",
        "firm",
        "firma",
    ),
    loose=("customer_name", "client_name", "customer", "client", "account", "name"),
)
INDUSTRY = Part("industry", ("industry", "industry_name", "account_industry", "sector", "vertical"))
CONTRACT_VALUE = Part(
    "contract_value",
    (
        "contract_value",
        "account_contract_value",
        "annual_contract_value",
        "annual_value",
        "account_value",
        "contract_amount",
        "acv",
    ),
    holds="number",
    is_money=True,
)
RENEWAL_DATE = Part(
    "renewal_date",
    (
        "renewal_date",
        "contract_renewal_date",
        "next_renewal_date",
        "date_of_renewal",
        "contract_renewal",
        "renewal",
        "renews_on",
    ),
    holds="date",
)
ACCOUNT_MANAGER = Part(
    "account_manager",
    (
        "account_manager",
        "assigned_account_manager",
        "account_manager_name",
        "account_owner",
        "account_rep",
    ),
)
DEPARTMENT = Part("department", ("department", "department_name", "dept"))

# One metadata name for one thing, whatever the kind, so that one filter finds all of it.
COMMON_PARTS = (COMPANY, INDUSTRY, CONTRACT_VALUE, RENEWAL_DATE, ACCOUNT_MANAGER, DEPARTMENT)


def template_of(kind: str) -> Template:
    """Return the template of a kind. Raises UnknownKind, which names those there are."""
    try:
        return TEMPLATES[kind]
    except KeyError as error:
        known = ", ".join(TEMPLATES)
        raise UnknownKind(f"there is no kind {kind!r}; the kinds are: {known}") from error


def _customer_sentences(said: Mapping[str, str]) -> list[str]:
    sentences = []
    company, industry = said.get("company"), _industry(said.get("industry", ""))
    if company and industry:
        sentences.append(f"Company {company} operates in the {industry} industry")
    elif company:
        sentences.append(f"The company is {company}")
    elif industry:
        sentences.append(f"The company operates in the {industry} industry")
    value, renewal = said.get("contract_value"), said.get("renewal_date")
    if value and renewal:
        sentences.append(f"The account contract value is {value} with a renewal date of {renewal}")
    elif value:
        sentences.append(f"The account contract value is {value}")
    elif renewal:
        sentences.append(f"The account has a renewal date of {renewal}")
    if manager := said.get("account_manager"):
        sentences.append(f"The assigned account manager is {manager}")
    return sentences


def _industry(value: str) -> str:
    """Return the value without a last word that the sentence says itself."""
    head, _, last = value.rpartition(" ")
    return head if head and last.lower() == "industry" else value


def _is_customer(sure: frozenset[str], loose: frozenset[str]) -> bool:
    details = sure - {"company"}
    return bool(details) if "company" in sure else "company" in loose and len(details) >= 2


TEMPLATES: Mapping[str, Template] = {
    "customer": Template(
        "customer",
        parts=(COMPANY, INDUSTRY, CONTRACT_VALUE, RENEWAL_DATE, ACCOUNT_MANAGER),
        sentences=_customer_sentences,
        fits=_is_customer,
        currency="USD",
    ),
    "generic": Template(
        "generic", parts=(), sentences=lambda said: [], fits=lambda sure, loose: True
    ),
}
