"""Virtual environments of the peers, with pinned versions. Touches: the disk, PyPI.

Each is made once in a folder, and used again as long as its pins are the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PINS = {
    "mem0": ("mem0ai==2.2.1", "qdrant-client==1.20.0", "faiss-cpu==1.15.1", "openai==3.57.0"),
    "langmem": (
        "langmem==0.0.30", "langchain-openai==1.7.4", "langgraph==1.2.24", "trustcall==0.0.39",
        "numpy==2.4.6",
    ),
}  # fmt: skip

INSTALL_SECONDS = 600


def python_of(name: str, folder: Path) -> str:
    """Return the interpreter of a peer's environment, which is made if it is not there.

    Raises `SystemExit` where the packages can't be had.
    """
    home = folder / name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pins = home / "pins.txt"
    wanted = "\n".join(PINS[name])
    if pins.exists() and pins.read_text() == wanted and python.exists():
        return str(python)
    shutil.rmtree(home, ignore_errors=True)
    _run(name, [*_uv(), "venv", "--quiet", "--python", sys.executable, str(home)])
    _run(name, [*_uv(), "pip", "install", "--quiet", "--python", str(python), *PINS[name]])
    pins.write_text(wanted)
    return str(python)


def _uv() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv is needed to make the environments of the peers: pip install uv")
    return [found]


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        raise SystemExit(
            f"{name} can't be installed: this needs PyPI, once; afterwards --folder keeps it.\n"
            f"{' '.join(command)}\n{done.stderr[-2000:]}"
        )
