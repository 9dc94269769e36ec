from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UnknownKind
from ingest.kinds import KINDS, template_of
from ingest.narrate import (
    MAX_METADATA_BYTES,
    MAX_METADATA_CELL_CHARS,
    Narrator,
    choose_kind,
    metadata,
    narrate,
)

ACME = {
    "Company": "Acme Corp",
    "Industry": "Manufacturing",
    "Contract Value": "120000",
    "Renewal Date": "2026-10-15",
    "Account Manager": "Alice Vance",
}
ACME_TEXT = (
    "Company Acme Corp operates in the Manufacturing industry. The account contract value is"
    " $120,000 with a renewal date of 2026-10-15. The assigned account manager is Alice Vance."
)


def test_a_whole_customer_reads_exactly_as_promised() -> None:
    assert narrate(ACME, "customer") == ACME_TEXT


@pytest.mark.parametrize(
    "headers",
    [
        ["company", "industry", "contract_value", "renewal_date", "account_manager"],
        ["NAME", "INDUSTRY", "ANNUAL VALUE", "RENEWAL DATE", "ACCOUNT MANAGER"],
        ["companyName", "Industry", "annualContractValue", "renewalDate", "accountManager"],
        [" Account  Name ", "Sector", "Contract Value (USD)", "Renewal", "Account Owner"],
    ],
)
def test_the_usual_headers_are_understood(headers: list[str]) -> None:
    record = dict(zip(headers, ACME.values(), strict=True))
    assert narrate(record, "customer") == ACME_TEXT
    assert choose_kind(headers) == "customer"
    assert metadata(record, "customer") == {
        "company": "Acme Corp",
        "industry": "Manufacturing",
        "contract_value": 120000,
        "renewal_date": "2026-10-15",
        "account_manager": "Alice Vance",
    }


@pytest.mark.parametrize("filled", list(product([True, False], repeat=5)))
def test_a_blank_cell_leaves_only_its_clause_out(filled: tuple[bool, ...]) -> None:
    record = {
        header: cell if keep else "  "
        for (header, cell), keep in zip(ACME.items(), filled, strict=True)
    }
    company, industry, value, renewal, manager = filled
    first = {
        (True, True): "Company Acme Corp operates in the Manufacturing industry.",
        (True, False): "The company is Acme Corp.",
        (False, True): "The company operates in the Manufacturing industry.",
        (False, False): "",
    }[company, industry]
    second = {
        (True, True): "The account contract value is $120,000 with a renewal date of 2026-10-15.",
        (True, False): "The account contract value is $120,000.",
        (False, True): "The account has a renewal date of 2026-10-15.",
        (False, False): "",
    }[value, renewal]
    third = "The assigned account manager is Alice Vance." if manager else ""
    assert narrate(record, "customer") == " ".join(filter(None, [first, second, third]))
    assert len(metadata(record, "customer")) == sum(filled)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("120000", "$120,000"),
        ("120000.0", "$120,000"),
        ("120,000.00", "$120,000"),
        ("$120,000", "$120,000"),
        ("8400.5", "$8,400.50"),
        ("0.99", "$0.99"),
        ("-1500", "-$1,500"),
        ("EUR 8,400.50", "€8,400.50"),
        ("1200 €", "€1,200"),
        ("£5", "£5"),
        ("120000 CHF", "120,000 CHF"),
        # Not surely a number: said as it stands rather than guessed.
        ("1.200,50 €", "1.200,50 €"),
        ("1.200 €", "1.200 €"),
        ("$1.5M", "$1.5M"),
        ("(1500.25)", "(1500.25)"),
        ("--5", "--5"),
        ("on request", "on request"),
    ],
)
def test_a_contract_value_is_dollars_unless_it_says_otherwise(cell: str, said: str) -> None:
    record = {"Company": "", "Contract Value": cell}
    assert narrate(record, "customer") == f"The account contract value is {said}."


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"Contract Value": "120000", "Currency": "EUR"}, "€120,000"),
        ({"Contract Value": "120000", "Currency": "TRY"}, "120,000 TRY"),
        ({"Contract Value": "120000", "Currency": "pesos"}, "120,000"),
        ({"Contract Value": "120000", "Currency": ""}, "120,000"),
        ({"Contract Value (GBP)": "120000"}, "£120,000"),
    ],
)
def test_a_column_or_header_names_the_currency(record: dict[str, str], said: str) -> None:
    assert narrate(record, "customer").startswith(f"The account contract value is {said}.")


@pytest.mark.parametrize("cell", ["N/A", "-", "NULL", "#N/A", "None", "nan", "NaN"])
def test_a_placeholder_is_no_contract_value(cell: str) -> None:
    record = {"Company": "Acme", "Contract Value": cell, "Renewal Date": cell}
    assert narrate(record, "customer") == "The company is Acme."
    assert metadata(record, "customer") == {"company": "Acme"}


@pytest.mark.parametrize(
    ("header", "cell", "sentence"),
    [
        ("seller_city", "campinas", "Seller city: campinas."),
        ("City", "Austin", "City: Austin."),
        ("customerID", "7590-VHVEG", "Customer ID: 7590-VHVEG."),
        ("StreamingTV", "No", "Streaming TV: No."),
        ("Revenue", "1054.0", "Revenue: 1,054."),
        ("Revenue", "30024968", "Revenue: 30,024,968."),
        ("Revenue", "$1.50", "Revenue: $1.50."),
        ("lat", "-45.4478739", "Lat: -45.4478739."),
        ("Employee Number", "120034", "Employee Number: 120034."),
        ("Zip", "06652", "Zip: 06652."),
        ("Postal Code", "90210", "Postal Code: 90210."),
        ("Phone", "4915112345678", "Phone: 4915112345678."),
        ("Score", "007", "Score: 007."),
        ("year_established", "1996", "Year established: 1996."),
        ("Version", "2.0", "Version: 2.0."),
        ("Country", "NA", "Country: NA."),
        ("Surname", "Null", "Surname: Null."),
        ("Created", "2026-10-15 00:00:00", "Created: 2026-10-15."),
        ("Created", "2026-10-15T08:30:00Z", "Created: 2026-10-15T08:30:00Z."),
        ("Notes", "Line 1\r\nLine  2\n\n", "Notes: Line 1 / Line 2."),
        ("Notes", "Really?", "Notes: Really?"),
        ("Contract Value", "120000", "Contract Value: 120,000."),
    ],
)
def test_other_columns_keep_their_names_and_values(header: str, cell: str, sentence: str) -> None:
    assert narrate({header: cell}, "generic") == sentence


def test_a_column_decides_what_its_cells_are() -> None:
    assert narrate({"Room": "1200"}, "generic", {"Room": "text"}) == "Room: 1200."
    assert narrate({"Opened": "1998"}, "generic", {"Opened": "year"}) == "Opened: 1998."
    assert narrate({"Delay": "NA", "To": "NA"}, "generic", {"Delay": "number", "To": "text"}) == (
        "To: NA."
    )


def test_a_customer_keeps_its_other_columns() -> None:
    text = narrate({**ACME, "City": "Austin", "Employees": "2822.0", "Fax": ""}, "customer")
    assert text == f"{ACME_TEXT} City: Austin. Employees: 2,822."


def test_a_deal_of_each_crm_is_told() -> None:
    salesforce = {
        "Name": "Acme renewal",
        "AccountName": "Acme",
        "StageName": "Negotiation",
        "Amount": "120000",
        "CloseDate": "2026-12-01",
        "Description": "Two years",
    }
    assert narrate(salesforce, "deal") == (
        "Deal Acme renewal with Acme is in stage Negotiation. The deal amount is 120,000 with a"
        " close date of 2026-12-01. Description: Two years."
    )
    hubspot = {"dealname": "Pilot", "dealstage": "closedwon", "closedate": "2026-12-01"}
    assert narrate(hubspot, "deal") == (
        "Deal Pilot is in stage closedwon. The deal has a close date of 2026-12-01."
    )
    pipedrive = {"title": "Pilot", "value": "8400.5", "currency": "EUR", "status": "won"}
    assert narrate(pipedrive, "deal") == (
        "The deal is Pilot. The deal amount is €8,400.50. The deal status is won. Currency: EUR."
    )
    assert metadata(pipedrive, "deal") == {
        "deal": "Pilot",
        "amount": 8400.5,
        "currency": "EUR",
        "deal_status": "won",
    }


def test_people_products_and_tickets_are_told() -> None:
    person = {"firstname": "Jo", "lastname": "Doe", "jobtitle": "CTO", "company": "Acme"}
    assert narrate(person, "contact") == "Contact Jo Doe works at Acme as CTO."
    assert narrate({"Name": "Jo Doe", "Phone": "012"}, "contact") == (
        "The contact is Jo Doe. The contact can be reached by phone at 012."
    )
    ticket = {"CaseNumber": "0012", "Subject": "Login fails", "Priority": "High", "Status": "New"}
    assert narrate(ticket, "ticket") == (
        "Ticket 0012: Login fails. The ticket has priority High and status New."
    )
    product = {"Product Name": "Widget", "Price": "$19.90", "SKU": "W-1", "Stock": "5"}
    assert narrate(product, "product") == (
        "The product is Widget. The price is $19.90. The SKU is W-1. Stock: 5."
    )


def test_what_no_sentence_says_is_told_all_the_same() -> None:
    record = {"First Name": "", "Last Name": "Doe", "Job Title": "CTO", "Contact": "J. Doe"}
    assert narrate(record, "contact") == ("Contact J. Doe works as CTO. Last Name: Doe.")


def test_a_long_text_is_told_whole_as_the_last_paragraph() -> None:
    body = "We met.\r\n\r\n\r\n" + "It  was good. " * 30
    record = {"Title": "Kickoff", "Notes": body, "Date": "2026-12-01", "Room": "4"}
    told = " ".join(["It was good."] * 30)
    assert narrate(record, "meeting_note") == (
        f"Meeting Kickoff took place on 2026-12-01. Room: 4.\n\nNotes: We met.\n\n{told}"
    )


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"Deal Name": "A", "Amount": "1200"}, "€1,200"),
        ({"Deal Name": "A", "Amount": "1200", "Currency": "GBP"}, "£1,200"),
        ({"Deal Name": "A", "Amount (CHF)": "1200"}, "1,200 CHF"),
        ({"Deal Name": "A", "Amount": "$1200"}, "$1,200"),
    ],
)
def test_a_given_currency_is_for_amounts_that_name_none(record: dict[str, str], said: str) -> None:
    narrator = Narrator(template_of("deal"), tuple(record), currency="EUR")
    assert f"The deal amount is {said}." in narrator.tell(record)[0]


def test_a_value_with_its_own_full_stop_gets_no_second_one() -> None:
    record = {"Company": "Acme Inc.", "Industry": "Automotive Industry", "Manager": "J. Smith Jr."}
    assert narrate(record, "customer") == (
        "Company Acme Inc. operates in the Automotive industry. Manager: J. Smith Jr."
    )


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["Company", "Industry"], "customer"),
        (["Account Name", "Renewal Date", "Phone"], "customer"),
        (["Name", "Annual Value", "Account Manager"], "customer"),
        (["Name", "Industry"], "generic"),
        (["First Name", "Last Name", "Company", "Email"], "contact"),
        (["firstname", "lastname", "jobtitle"], "contact"),
        (["Contact Name", "Job Title"], "contact"),
        (["dealname", "dealstage", "amount", "closedate"], "deal"),
        (["AccountName", "Name", "StageName", "CloseDate", "Amount"], "deal"),
        (["Deal - Title", "Deal - Value", "Deal - Status"], "deal"),
        (["opportunity_id", "account", "deal_stage", "close_date", "close_value"], "deal"),
        (["CaseNumber", "Subject", "Status", "Priority"], "ticket"),
        (["Summary", "Issue key", "Labels"], "ticket"),
        (["Ticket name", "Ticket status"], "ticket"),
        (["Product Name", "SKU", "Price"], "product"),
        (["Handle", "Title", "Vendor", "Type", "Variant SKU", "Variant Price"], "product"),
        (["Title", "Date", "Attendees", "Notes"], "meeting_note"),
        (["Meeting", "Date", "Participants"], "meeting_note"),
        # Near to one of them, but no such thing.
        (["name", "alpha-2", "region"], "generic"),
        (["Name", "Email", "Phone", "Website"], "generic"),
        (["Project", "Stage", "Owner", "Amount"], "generic"),
        (["Order ID", "Order Date", "Customer Name", "Product Name", "Category"], "generic"),
        (["Name", "Notes"], "generic"),
        (["title", "value", "status"], "generic"),
        (["Description", "status"], "generic"),
        (["product_category_name", "product_category_name_english"], "generic"),
        ([], "generic"),
    ],
)
def test_the_headers_choose_the_kind(columns: list[str], kind: str) -> None:
    assert choose_kind(columns) == kind


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    kinds = "customer, contact, deal, product, ticket, meeting_note, generic"
    with pytest.raises(UnknownKind, match=f"'poem'; the kinds are: {kinds}"):
        narrate(ACME, "poem")


def test_metadata_has_numbers_dates_and_texts_under_names_of_their_own() -> None:
    record = {
        "Customer ID": "007",
        "Dept": "Sales",
        "Sub-Region": "North",
        "sub region": "South",
        "Score": "4.50",
        "Seats": "1,200",
        "Since": "2026-10-15 00:00:00",
        "Source": "fair",
        "%": "5",
        "Blank": "",
    }
    assert metadata(record, "generic") == {
        "customer_id": "007",
        "department": "Sales",
        "sub_region": "North",
        "sub_region_2": "South",
        "score": 4.5,
        "seats": 1200,
        "since": "2026-10-15",
        "record_source": "fair",
        "column": 5,
    }


def test_metadata_stays_small_for_wide_tables_and_long_cells() -> None:
    wide = {f"c{n}": "é" * MAX_METADATA_CELL_CHARS for n in range(100)}
    kept = metadata({"Essay": "x" * (MAX_METADATA_CELL_CHARS + 1), **wide, "z": "1"}, "generic")
    assert "essay" not in kept
    assert kept["z"] == 1
    assert len(str(kept).encode()) <= MAX_METADATA_BYTES
    assert len(kept) > 10


_HEADERS = st.sampled_from(
    [
        *[*ACME, "City", "Seats", "Customer Id", "first_seen", "Zip", "Last Name", "Deal Name"],
        *["Stage", "Amount", "Close Date", "Subject", "Priority", "Notes", "Meeting", "Price"],
    ]
)
_CELLS = st.one_of(
    st.sampled_from(["", " ", "NULL", "nan", "NaN", "#N/A", r"\N", "<NA>"]),
    st.from_regex(r"[A-Z][a-z]{0,6}(  ?[A-Za-z&]{1,6}){0,2}\n?", fullmatch=True),
    st.integers(-(10**12), 10**12).map(str),
    st.integers(0, 10**6).map(lambda n: f"{n}.0"),
    st.decimals(0, 10**6, places=2).map(lambda d: f"{d:,}"),
    st.dates().map(str),
)


@settings(deadline=None)
@given(st.dictionaries(_HEADERS, _CELLS), st.sampled_from(list(KINDS)))
def test_no_record_reads_like_a_machine_wrote_it(record: dict[str, str], kind: str) -> None:
    # Only amounts come as floats; ids and zip codes are kept as they stand.
    record = {k: v for k, v in record.items() if k not in ("Zip", "Customer Id") or "." not in v}
    text = narrate(record, kind)
    words = text.replace(":", " ").replace(".", " ").split()
    assert not {"nan", "NaN", "None", "NULL", "NA>"} & set(words)
    assert ".0 " not in f"{text} ".replace(". ", " ")
    assert "  " not in text
    assert " ." not in text
    assert ".." not in text
    assert text == text.strip()
    assert bool(text) == bool(metadata(record, kind))
