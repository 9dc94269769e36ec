"""`python -m app keys`: API keys at the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import cli
from tests.served import served

REMOTE = "203.0.113.9"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with settings of its own; the logs are put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EMBEDDING_MODEL", "mock:32")
    yield tmp_path
    root.handlers = handlers
    root.setLevel(level)


def _field(printed: str, name: str) -> str:
    return next(line.split()[-1] for line in printed.splitlines() if line.startswith(f"{name}:"))


async def _who(folder: Path, secret: str) -> int:
    async with served(
        address=REMOTE, database_url=f"sqlite:///{folder / 'data' / 'service.db'}"
    ) as (client, _):
        response = await client.get("/sessions", headers={"X-API-Key": secret})
    return response.status_code


def test_keys_are_made_listed_and_revoked_from_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["keys", "create", "--role", "user", "--user", "ada", "--tenant", "acme"]) == 0
    printed = capsys.readouterr().out
    secret, key_id = _field(printed, "key"), _field(printed, "id")
    assert (_field(printed, "tenant"), _field(printed, "user")) == ("acme", "ada")
    assert asyncio.run(_who(folder, secret)) == 200

    assert cli.main(["keys", "list"]) == 0
    listed = capsys.readouterr().out
    assert f"{key_id} {secret[:10]}… acme user ada valid" in listed
    assert secret not in listed

    assert cli.main(["keys", "revoke", key_id]) == 0
    assert cli.main(["keys", "list"]) == 0
    assert f"{key_id} {secret[:10]}… acme user ada revoked" in capsys.readouterr().out
    assert asyncio.run(_who(folder, secret)) == 401
    assert cli.main(["keys", "revoke", key_id]) == 1
    assert "no such key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--role", "user"], "needs a user"),
        (["--role", "admin", "--user", "ada"], "has no user"),
        (["--role", "admin", "--tenant", "Acme Corp"], "tenant's name"),
        (["--role", "admin", "--tenant", "a--b/../c"], "tenant's name"),
        (["--role", "user", "--user", "ada\n"], "--user must not contain control characters"),
        (["--role", "user", "--user", "é" * 300], "--user must be at most 512 bytes"),
        (["--role", "gateway", "--filter", "{}"], "at least one field"),
        (["--role", "gateway", "--filter", '"sales"'], "at least one field"),
        (["--role", "gateway", "--filter", '{"text": "x"}'], "passage"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert cli.main(["keys", "create", *arguments]) == 1
    assert told in capsys.readouterr().err
    assert cli.main(["keys", "list"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create", "--role", "admin", "--expires-days", "0"], "expected 0.001 to 36500, got '0'"),
        (["create", "--role", "admin", "--expires-days", "soon"], "got 'soon'"),
        (["create", "--role", "admin", "--expires-days", "nan"], "got 'nan'"),
        (["create", "--role", "admin", "--filter", "{sales}"], "expected a JSON object"),
        (["rotate", "k", "--grace-hours", "2161"], "expected 0 to 2160"),
        (["create", "--role", "owner"], "invalid choice"),
    ],
)
def test_an_argument_that_can_not_be_read_is_refused_with_what_was_expected(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["keys", *arguments])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_key_is_rotated_from_the_command_line_and_the_list_says_how_all_stand(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--name", "phone", "--filter", '{"department": "sales"}', "--expires-days", "30"]
    assert cli.main(["keys", "create", "--role", "user", "--user", "ada", *named]) == 0
    printed = capsys.readouterr().out
    old, old_secret = _field(printed, "id"), _field(printed, "key")

    assert cli.main(["keys", "rotate", old, "--grace-hours", "24"]) == 0
    printed = capsys.readouterr().out
    new, new_secret = _field(printed, "id"), _field(printed, "key")
    assert f"{old} ends at 20" in printed
    assert [asyncio.run(_who(folder, secret)) for secret in (old_secret, new_secret)] == [200, 200]
    assert cli.main(["keys", "rotate", old]) == 1
    assert f"{new} replaces it" in capsys.readouterr().err

    assert cli.main(["keys", "rotate", new]) == 0
    third = _field(capsys.readouterr().out, "id")
    assert [asyncio.run(_who(folder, secret)) for secret in (old_secret, new_secret)] == [200, 401]
    assert cli.main(["keys", "create", "--role", "admin", "--tenant", "acme"]) == 0
    capsys.readouterr()

    assert cli.main(["keys", "list", "--tenant", "default"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    filtered = 'filter {"department": "sales"}, \'phone\''
    assert first.startswith(f"{old} {old_secret[:10]}… default user ada valid until 20")
    assert first.endswith(filtered)
    assert ", used 20" in first
    assert f"{new} {new_secret[:10]}… default user ada expired at 20" in second
    assert f"replaces {old}, {filtered}" in second
    assert last.startswith(third)
    assert f"never used, replaces {new}, {filtered}" in last
    assert cli.main(["keys", "list", "--tenant", "acme"]) == 0
    assert ", never used" in capsys.readouterr().out
    assert cli.main(["keys", "rotate", "nobody"]) == 1
    assert "no such key" in capsys.readouterr().err
