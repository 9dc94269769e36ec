"""Tables as a mid-sized trader would keep them, and questions about single rows. For tests.

Made from a seed, so that they are the same everywhere. A question is written as someone would type
it who does not know the table; it names the row that answers it by its key.
"""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tests.knowledge.table_words import (
    ADJECTIVES,
    AGENTS,
    CATEGORIES,
    CITIES,
    COMPANY_ENDS,
    COMPANY_STARTS,
    DEPARTMENTS,
    FIRST_NAMES,
    GERMAN_CUSTOMERS,
    INDUSTRIES,
    JAPANESE_CUSTOMERS,
    MATERIALS,
    POLICIES,
    PROBLEMS,
    SURNAMES,
    THINGS,
)

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table. `key` is the column that tells its rows apart; `kind` is that of its documents."""

    name: str
    kind: str
    key: str
    rows: Sequence[Row]

    def csv(self) -> bytes:
        file = io.StringIO(newline="")
        writer = csv.DictWriter(file, list(self.rows[0]))
        writer.writeheader()
        writer.writerows(self.rows)
        return file.getvalue().encode()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a kind, and the row that answers it: a sheet and the value of its key."""

    kind: str
    text: str
    sheet: str
    key: str


def sheets(size: int, *, seed: int = 7) -> list[Sheet]:
    """Return tables that have about `size` rows together."""
    chance = random.Random(seed)
    companies = _companies(size * 18 // 100, chance)
    products = _products(size * 14 // 100, chance)
    return [
        Sheet("customers", "customer", "customer_id", companies),
        Sheet("products", "product", "sku", products),
        Sheet("orders", "", "order_no", _orders(size * 32 // 100, companies, products, chance)),
        Sheet("tickets", "ticket", "ticket", _tickets(size * 22 // 100, companies, chance)),
        Sheet("staff", "", "email", _staff(size * 14 // 100, chance)),
        Sheet("policies", "", "policy_no", _policies()),
        Sheet("kunden", "", "Kundennummer", GERMAN_CUSTOMERS),
        Sheet("kokyaku", "", "顧客番号", JAPANESE_CUSTOMERS),
    ]


def questions(tables: Sequence[Sheet], count: int, *, seed: int = 11) -> list[Asked]:
    """Return `count` questions, of each kind its share."""
    by_name = {sheet.name: sheet for sheet in tables}
    chance = random.Random(seed)
    asked: list[Asked] = []
    for kind, share, write in _KINDS:
        every = list(write(by_name, chance))
        few = chance.sample(every, min(len(every), max(1, round(share * count))))
        asked += [Asked(kind, *each) for each in few]
    return asked


def _companies(count: int, chance: random.Random) -> Sequence[Row]:
    names = [f"{start} {end}" for start, end in product(COMPANY_STARTS, COMPANY_ENDS)]
    return [
        {
            "customer_id": f"C-{10_000 + 7 * number}",
            "company": name,
            "industry": chance.choice(INDUSTRIES),
            "city": chance.choice(CITIES),
            "plan": chance.choice(["Starter", "Team", "Business", "Enterprise"]),
            "contract_value": f"{chance.randrange(20, 900) * 250:,}.00",
            "renewal_date": _date(chance, 2027),
            "account_manager": chance.choice(AGENTS),
        }
        for number, name in enumerate(chance.sample(names, count))
    ]


def _products(count: int, chance: random.Random) -> Sequence[Row]:
    names = [" ".join(words) for words in product(ADJECTIVES, MATERIALS, THINGS)]
    rows = []
    for number, name in enumerate(chance.sample(names, count)):
        letters = "".join(chance.choices("ABCDEFGHKLMNPRSTVWXZ", k=2))
        rows.append(
            {
                "sku": f"{letters}-{2_000 + 11 * number}-{chance.choice('ABCX')}",
                "name": name,
                "category": CATEGORIES[name.rsplit(" ", 1)[1]],
                "price_eur": f"{chance.randrange(400, 40_000) / 100:.2f}",
                "stock": str(chance.randrange(0, 400)),
                "warehouse": chance.choice(CITIES),
            }
        )
    return rows


def _orders(
    count: int, companies: Sequence[Row], products: Sequence[Row], chance: random.Random
) -> Sequence[Row]:
    rows = []
    for number in range(1, count + 1):
        item = chance.choice(products)
        amount = chance.randrange(1, 60)
        rows.append(
            {
                "order_no": f"ORD-2026-{number:04d}",
                "customer": chance.choice(companies)["company"],
                "product": item["name"],
                "quantity": str(amount),
                "total_eur": f"{amount * float(item['price_eur']):,.2f}",
                "ordered_on": _date(chance, 2026),
                "status": chance.choice(["shipped", "delivered", "cancelled", "on hold", "open"]),
            }
        )
    return rows


def _tickets(count: int, companies: Sequence[Row], chance: random.Random) -> Sequence[Row]:
    return [
        {
            "ticket": f"TCK{40_000 + 13 * number}",
            "customer": chance.choice(companies)["company"],
            "description": chance.choice(PROBLEMS)[0],
            "priority": chance.choice(["low", "normal", "high", "urgent"]),
            "opened": _date(chance, 2026),
            "agent": chance.choice(AGENTS),
            "state": chance.choice(["open", "waiting", "solved"]),
        }
        for number in range(count)
    ]


def _staff(count: int, chance: random.Random) -> Sequence[Row]:
    names = chance.sample(list(product(FIRST_NAMES, SURNAMES)), count)
    rows = []
    for first, last in names:
        department = chance.choice(list(DEPARTMENTS))
        rows.append(
            {
                "name": f"{first} {last}",
                "email": f"{first}.{last}@northwind-trading.example".lower().replace(" ", ""),
                "phone": f"+49 30 {chance.randrange(1_000_000, 9_999_999)}",
                "department": department,
                "job_title": chance.choice(DEPARTMENTS[department]),
                "office": chance.choice(CITIES),
                "since": _date(chance, chance.randrange(2012, 2026)),
            }
        )
    return rows


def _policies() -> Sequence[Row]:
    return [
        {"policy_no": f"P{number:02d}", "topic": topic, "rule": rule}
        for number, (topic, rule, _) in enumerate(POLICIES, start=1)
    ]


def _date(chance: random.Random, year: int) -> str:
    return f"{year}-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"


Sheets = Mapping[str, Sheet]
Draft = tuple[str, str, str]
Writer = Callable[[Sheets, random.Random], Iterator[Draft]]


def _codes(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    ways = {
        "orders": [
            "What is the status of {}?",
            "When was order {} placed?",
            "{lower}",
            "who ordered {}",
        ],
        "products": ["How many of {} are in stock?", "price of {lower}", "What is {}?", "{spaced}"],
        "tickets": ["Who works on ticket {}?", "{lower} priority", "What is {} about?"],
        "customers": ["Which company has the number {}?", "{lower}", "renewal date of {}"],
        "staff": ["Who has the address {}?", "which office does {} sit in"],
    }
    for name, patterns in ways.items():
        for row in chance.sample(list(sheets[name].rows), 25):
            code = row[sheets[name].key]
            way = chance.choice(patterns)
            text = way.format(code, lower=code.lower(), spaced=code.replace("-", " "))
            yield text, name, code
    for row in chance.sample(list(sheets["staff"].rows), 10):
        yield f"Whose phone number is {row['phone']}?", "staff", row["email"]


def _names(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    rows = sheets["staff"].rows
    surnames = Counter(row["name"].split(" ", 1)[1] for row in rows)
    for row in rows:
        last = row["name"].split(" ", 1)[1]
        if surnames[last] == 1:
            way = chance.choice(
                [
                    "Which department is {last} in?",
                    "who is {lower}",
                    "How do I reach Ms or Mr {last}?",
                ]
            )
            yield way.format(last=last, lower=last.lower()), "staff", row["email"]
        else:
            way = chance.choice(
                [
                    "What does {name} do?",
                    "{lower} email",
                    "Where is {name}'s office?",
                    "Since when has {name} been with us?",
                ]
            )
            yield way.format(name=row["name"], lower=row["name"].lower()), "staff", row["email"]


def _companies_asked(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    for row in sheets["customers"].rows:
        way = chance.choice(
            [
                "When does the contract of {} renew?",
                "Who is the account manager for {}?",
                "how much is the {lower} contract worth",
                "Which industry is {} in?",
                "What plan is {} on?",
            ]
        )
        name = row["company"]
        yield way.format(name, lower=name.lower()), "customers", row["customer_id"]


def _several(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    """Yield questions of which one row has every attribute."""
    ways: list[tuple[str, list[str], list[str]]] = [
        (
            "customers",
            ["industry", "city", "plan"],
            [
                "Which {industry} company in {city} is on the {plan} plan?",
                "{industry} customer from {city} with {plan}",
            ],
        ),
        (
            "staff",
            ["job_title", "office"],
            ["Who is the {job_title} in {office}?", "I need a {job_title} at the {office} office"],
        ),
        (
            "orders",
            ["customer", "ordered_on"],
            ["What did {customer} order on {ordered_on}?", "order by {customer} from {ordered_on}"],
        ),
        (
            "orders",
            ["customer", "product"],
            ["Has {customer} got its {product} yet?", "how many {product} did {customer} buy"],
        ),
        (
            "products",
            ["name"],
            ["Do we have the {name} in stock?", "What does a {name} cost?"],
        ),
        (
            "customers",
            ["account_manager", "city", "industry"],
            ["Which {industry} client in {city} does {account_manager} look after?"],
        ),
    ]
    for name, columns, patterns in ways:
        rows = sheets[name].rows
        times = Counter(tuple(row[c] for c in columns) for row in rows)
        single = [row for row in rows if times[tuple(row[c] for c in columns)] == 1]
        for row in chance.sample(single, min(len(single), 40)):
            yield chance.choice(patterns).format(**row), name, row[sheets[name].key]


def _tickets_asked(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    """Yield a problem in other words, with who has it."""
    told = dict(PROBLEMS)
    rows = sheets["tickets"].rows
    times = Counter((row["customer"], row["description"]) for row in rows)
    for row in rows:
        if times[row["customer"], row["description"]] == 1:
            text = told[row["description"]].format(row["customer"])
            yield text, "tickets", row["ticket"]


def _policies_asked(sheets: Sheets, _: random.Random) -> Iterator[Draft]:
    for row, policy in zip(sheets["policies"].rows, POLICIES, strict=True):
        yield policy[2], "policies", row["policy_no"]


def _others(sheets: Sheets, chance: random.Random) -> Iterator[Draft]:
    for row in sheets["kunden"].rows:
        way = chance.choice(
            [
                "Wer betreut {Firma}?",
                "Wann verlängert sich der Vertrag von {Firma}?",
                "In welcher Stadt sitzt {Firma}?",
            ]
        )
        yield way.format(**row), "kunden", row["Kundennummer"]
    for row in sheets["kokyaku"].rows:
        way = chance.choice(
            ["{会社名}の担当者は誰ですか", "{会社名} 契約更新日", "{担当者}の取引先"]
        )
        yield way.format(**row), "kokyaku", row["顧客番号"]


_KINDS: Sequence[tuple[str, float, Writer]] = (
    ("code", 0.25, _codes),
    ("person", 0.125, _names),
    ("company", 0.125, _companies_asked),
    ("several", 0.20, _several),
    ("ticket", 0.10, _tickets_asked),
    ("policy", 0.15, _policies_asked),
    ("language", 0.05, _others),
)
