"""The image without an engine. Touches: a temporary folder, the package index, a loopback port.

Runs the commands of the Dockerfile's first stage in a clean folder, as they stand there; then the
command of its second stage as `nobody`, for whom the whole file system is read-only but DATA_DIR
and the folder for temporary files. Needs root, for both. The second stage's own RUN is left out:
it would add a user to this machine. `python -m tests.image`
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
OPENS_SECONDS = 60

# A mount namespace of its own, all of it read-only but two folders; then nobody, with no rights.
NOBODY = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
    "--bounding-set=-all", "--inh-caps=-all", "--",
]  # fmt: skip
READ_ONLY = f"""
set -e
mount --make-rprivate /
for folder in "$DATA_DIR" "$TMPDIR"; do mount --bind "$folder" "$folder"; done
mount -o remount,bind,ro /
exec {shlex.join(NOBODY)} "$@"
"""


def main() -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        print("SKIPPED: the Dockerfile's commands are not run, for that takes root, and mounts")
        return
    builder, image = stages((CHECKOUT / "Dockerfile").read_text(encoding="utf-8"))
    work = Path(tempfile.mkdtemp(prefix="image-"))
    try:
        work.chmod(0o755)
        build(builder, work)
        serve(image, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def stages(dockerfile: str) -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage: (ENV, "…")."""
    found: list[list[tuple[str, str]]] = []
    plain = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, plain.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        else:
            found[-1].append((word, rest.strip()))
    return found


def build(instructions: list[tuple[str, str]], work: Path) -> None:
    """Do what the builder does; its /opt/service comes to lie in `work`."""
    tools = work / "tools"
    python = python_for_all()
    subprocess.run([python, "-m", "venv", tools], check=True)
    environment = {**os.environ, "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"}
    environment["UV_PYTHON"] = python  # the image has one only
    environment.pop("VIRTUAL_ENV", None)
    folder = work
    for word, rest in instructions:
        if word == "ENV":
            environment.update(variables(rest, work))
        elif word == "WORKDIR":
            folder = work / rest.lstrip("/")
            folder.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                copy(CHECKOUT / source, folder / target)
        elif word == "RUN":
            print(f"-- {rest}", flush=True)
            subprocess.run(["sh", "-c", rest], cwd=folder, env=environment, check=True)
        else:
            sys.exit(f"the Dockerfile's builder has {word}, which this check does not know")


def serve(instructions: list[tuple[str, str]], work: Path) -> None:
    """Start the image's command, ask it, and stop it."""
    data, temporary = work / "data", work / "temporary"
    for folder in (data, temporary):
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    environment: dict[str, str] = {}
    for word, rest in instructions:
        if word == "ENV":
            environment.update(variables(rest, work))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    path = environment["PATH"].replace("$PATH", os.environ["PATH"])
    environment |= {
        "PATH": path, "DATA_DIR": str(data), "TMPDIR": str(temporary), "PORT": port,
        "API_KEY": "a-key",
    }  # fmt: skip
    [command] = [json.loads(rest) for word, rest in instructions if word == "CMD"]
    alone = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]
    attempt = "import pathlib, sys; pathlib.Path(sys.prefix, 'written').touch()"
    refused = subprocess.run(
        [*alone, "python", "-c", attempt],
        env=environment,
        cwd=data,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Read-only file system" not in refused.stderr:
        sys.exit(f"the environment should be read-only: {refused.stderr}")
    print(f"-- {shlex.join(command)}, as nobody, read-only", flush=True)
    process = subprocess.Popen([*alone, *command], env=environment, cwd=data)
    try:
        ask(f"http://127.0.0.1:{port}", process)
        [check] = [rest for word, rest in instructions if word == "HEALTHCHECK"]
        check_command = json.loads(check.partition("CMD ")[2])
        subprocess.run([*alone, *check_command], env=environment, cwd=data, check=True)
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
        if code not in (0, -signal.SIGTERM):
            sys.exit(f"the service ended with {code}")
    finally:
        process.kill()
    print(f"-- it answered and ended; DATA_DIR has {sorted(p.name for p in data.iterdir())}")


def ask(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers; then store a text, ask about it, and upload a table."""
    deadline = time.monotonic() + OPENS_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{url}/health/live", timeout=5).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the service did not open")
            time.sleep(0.1)
    text = "Acme Corp renews its contract on 2026-10-15."
    post(f"{url}/documents", "application/json", json.dumps({"documents": [{"text": text}]}))
    asked = {"message": "When does Acme Corp renew its contract?", "user_id": "ada"}
    reply = post(f"{url}/chat", "application/json", json.dumps(asked))
    if "2026-10-15" not in str(reply["reply"]):
        sys.exit(f"the reply should name the date: {reply}")
    form = (
        '--b\r\nContent-Disposition: form-data; name="source"\r\n\r\ntable\r\n'
        '--b\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'
        "id,remark\n" + "".join(f"{n},{'x' * 1000}\n" for n in range(2000)) + "\r\n--b--\r\n"
    )
    post(f"{url}/documents/table", "multipart/form-data; boundary=b", form)


def post(url: str, content_type: str, body: str) -> dict[str, object]:
    request = urllib.request.Request(url, body.encode(), method="POST")
    request.add_header("Content-Type", content_type)
    request.add_header("Authorization", "Bearer a-key")
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


def variables(line: str, work: Path) -> dict[str, str]:
    pairs = (part.partition("=") for part in shlex.split(line))
    return {name: value.replace("/opt/service", str(work / "service")) for name, _, value in pairs}


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def python_for_all() -> str:
    """Return an interpreter that nobody may run: a link into a closed home would lead nowhere."""
    for path in (shutil.which("python3"), "/usr/bin/python3", "/usr/local/bin/python3"):
        if path and is_open(Path(path).resolve()) and is_new_enough(path):
            return path
    sys.exit("no python3 from 3.11 on is there that the user nobody may run")


def is_open(file: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (file, *file.parents))


def is_new_enough(python: str) -> bool:
    code = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
