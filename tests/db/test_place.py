"""Where the embedded database may lie: in its folder, whatever a URL or a name says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from app.errors import Misconfigured
from app.wiring import open_runtime
from tests.api.calls import key
from tests.served import served, settings


def _chosen(folder: Path, database_url: str) -> dict[str, Any]:
    return {"data_dir": folder / "data", "database_url": database_url}


@pytest.mark.parametrize(
    "path",
    [
        "{0}/elsewhere/service.db",
        "{0}/data/../elsewhere/service.db",
        "{0}/data-of-others/service.db",
        "{0}/data/link/service.db",
        "{0}/data/link.db",
        "elsewhere/service.db",
        "file:{0}/elsewhere/service.db",
        "file:{0}/elsewhere/service.db?mode=rwc&uri=true",
    ],
)
async def test_a_database_outside_of_the_data_directory_is_refused(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "elsewhere"
    for folder in (outside, tmp_path / "data", tmp_path / "data-of-others"):
        folder.mkdir()
    (tmp_path / "data" / "link").symlink_to(outside)
    (tmp_path / "data" / "link.db").symlink_to(outside / "service.db")
    url = f"sqlite:///{path.format(tmp_path)}"
    with pytest.raises(Misconfigured) as failure:
        async with open_runtime(settings(**_chosen(tmp_path, url))):
            pass
    assert "DATA" in failure.value.message
    assert list(outside.iterdir()) == []
    assert list((tmp_path / "data-of-others").iterdir()) == []


async def test_the_data_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "volume")
    for url in ("", f"sqlite:///{tmp_path}/data/deeper/../service.db"):
        async with served(**_chosen(tmp_path, url)):
            assert (tmp_path / "volume" / "service.db").exists()


async def test_a_folder_of_any_name_holds_the_database(tmp_path: Path) -> None:
    folder = tmp_path / "what? %2F is: this#"
    async with served(data_dir=folder, database_url=""):
        pass
    assert os.listdir(tmp_path) == [folder.name]
    assert (folder / "service.db").exists()


async def test_no_name_that_a_client_gives_becomes_a_file(tmp_path: Path) -> None:
    odd = "../../odd"
    async with served(**_chosen(tmp_path, "")) as (client, runtime):
        for body in (
            {"message": "hello", "session_id": odd, "user_id": odd},
            {"message": "hello", "session_id": "/tmp/odd", "user_id": "a/../../odd"},
        ):
            assert (await client.post("/chat", json=body)).status_code == 200
        document = {"id": odd, "text": "A text.", "source": odd, "doc_type": odd}
        assert (await client.post("/documents", json={"documents": [document]})).status_code == 200
        item = {"namespace": ["up", "/tmp/odd"], "key": odd, "value": {"text": "A text."}}
        assert (await client.put("/store/items", json=item)).status_code == 200
        form = {"file": ("../../../odd.txt", b"A text.")}
        assert (await client.post("/documents/file", files=form)).status_code == 200
        headers = await key(runtime, "admin", tenant="a--b")
        answer = await client.post("/documents", json={"documents": [document]}, headers=headers)
        assert answer.status_code == 200
    found = {name for _, _, names in os.walk(tmp_path) for name in names}
    assert {name.partition("-")[0] for name in found} <= {"service.db", "service.db.lock"}
