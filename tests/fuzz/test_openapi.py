"""Requests made from the OpenAPI, also in chains: no server error, no answer that it omits.

SCHEMA_SECONDS is how long they are sent: 6 in the usual run, more in CI, 300 in the long one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.served import service

SECONDS = int(os.environ.get("SCHEMA_SECONDS", "6"))
CONFIG = Path(__file__).with_name("schemathesis.toml")
ADMIN = "an admin's key of the settings"
SENDERS = {
    "HUBSPOT_CLIENT_SECRET": "hs-client-secret-123",
    "PIPEDRIVE_WEBHOOK_LOGIN": "pd:s3cret",
    "SALESFORCE_WEBHOOK_TOKEN": "TOKEN",
    "SALESFORCE_ORGANIZATION_ID": "00D5g000004XyZaEAK",
    "WEBHOOK_SECRET": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    "WEBHOOK_TOKEN": "gen-token",
    "PUBLIC_BASE_URL": "http://localhost",
}
# By the command line: its process has warnings of its own, and its threads and settings of
# hypothesis are not those of this run.
COMMAND = (sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run")


@pytest.mark.parametrize("role", ["admin", "user"])
def test_every_answer_is_one_that_the_openapi_has(role: str, tmp_path: Path) -> None:
    """An admin's requests get two thirds of the time: a user is refused at most doors."""
    seconds = max(1, SECONDS * 2 // 3 if role == "admin" else SECONDS // 3)
    environment = {"EMBEDDING_MODEL": "mock:32", "API_KEY": ADMIN, "JOB_POLL_SECONDS": "0.5"}
    with service(tmp_path, **environment, **SENDERS) as served:
        key = ADMIN if role == "admin" else a_users_key(served.url)
        run = subprocess.run(
            [
                *COMMAND,
                f"{served.url}/openapi.json",
                *("--max-time", str(seconds), "--max-examples", "20", "--request-timeout", "20"),
                *(
                    "--continue-on-failure",
                    "--warnings",
                    "off",
                    "-H",
                    f"Authorization: Bearer {key}",
                ),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=seconds + 120,
            check=False,
        )
        log = (tmp_path / "service.log").read_text()
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert "unforeseen failure" not in log, log[-20_000:]
    sent = re.search(r"(\d+) generated", run.stdout)
    assert sent is not None, run.stdout
    assert int(sent[1]) > 0, run.stdout  # how many, the machine says


def a_users_key(url: str) -> str:
    made = httpx.post(
        f"{url}/keys", json={"role": "user", "user_id": "ada"}, headers={"X-API-Key": ADMIN}
    )
    assert made.status_code == 200, made.text
    secret: str = made.json()["key"]
    return secret
