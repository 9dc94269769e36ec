"""No table is forgotten: each is exported, derived, or not about a person, and says so."""

from __future__ import annotations

from collections import Counter

from app.db.tables import metadata
from app.privacy.holdings import HOLDINGS, SECTIONS


def test_every_table_is_listed_once_with_what_it_is_to_a_person() -> None:
    listed = Counter(holding.table.name for holding in HOLDINGS)
    assert listed == Counter(metadata.tables.keys())
    assert all(holding.why for holding in HOLDINGS if holding.kind not in ("kept", "business"))


def test_what_is_kept_of_a_person_is_exported() -> None:
    kept = {holding.table.name for holding in HOLDINGS if holding.kind in ("kept", "business")}
    assert kept == {section.name for section in SECTIONS}


def test_a_table_that_names_users_is_not_taken_for_one_of_nobody() -> None:
    unkept = {holding.table.name for holding in HOLDINGS if holding.kind == "other"}
    of_users = {table.name for table in metadata.tables.values() if "user_id" in table.c}
    assert unkept & of_users == {"api_keys"}  # access: listed, and revoked, as keys


def test_sections_name_columns_that_exist() -> None:
    for section in SECTIONS:
        named = {*section.key, *section.order, *section.left_out, *section.moving}
        named |= {*section.compared, *([section.moves_by] if section.moves_by else [])}
        assert named <= set(section.table.c.keys()), section.name
