"""Check the Dockerfile and compose.yaml in deploy/ without containers, by executing their steps in a temporary folder.

The first stage of the image is built there, with paths below that folder instead of /. Then a private PostgreSQL, the
server and the workers of compose.yaml are started with their commands and environments, and one debate is held over
HTTP with a model served by this program. Only addresses, ports and paths differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import yaml
from model_server import ANSWER, model_server
from postgres_server import Server, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"

CREATE = """
import sys, psycopg
url, password = sys.argv[1:]
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute(f"CREATE ROLE flowdebate SUPERUSER LOGIN PASSWORD '{password}'")
    connection.execute("CREATE DATABASE flowdebate OWNER flowdebate")
"""
"""SQL executed by the PostgreSQL image on its first start."""


@dataclass
class Stage:
    """A stage of a Dockerfile."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    """Instructions with their arguments, in order."""

    def last(self, instruction: str) -> str:
        """Return the argument of the last instruction of this kind."""
        return [argument for name, argument in self.steps if name == instruction][-1]

    @property
    def command(self) -> list[str]:
        """Command executed by its container."""
        words: list[str] = json.loads(self.last("CMD"))
        return words

    @property
    def health(self) -> list[str]:
        """Health check of its container."""
        words: list[str] = json.loads(self.last("HEALTHCHECK").partition(" CMD ")[2])
        return words

    @property
    def environment(self) -> dict[str, str]:
        """Variables set by ENV."""
        pairs = (
            pair.partition("=") for name, argument in self.steps if name == "ENV" for pair in shlex.split(argument)
        )
        return {name: value for name, _, value in pairs}


def stages(text: str) -> list[Stage]:
    """Parse the stages of a Dockerfile that uses no more syntax than ours."""
    result: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            result.append(Stage())
        result[-1].steps.append((instruction, argument.strip()))
    return result


def services(text: str) -> dict[str, dict[str, Any]]:
    """Parse the services in compose.yaml."""
    all_services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return all_services


def main() -> None:
    """Build, start, debate and stop; end the program with the output of any step that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the Python instead of the image's")
    options = parser.parse_args()
    build, image = stages((DEPLOY / "Dockerfile").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder, model_server() as address:
        start = time.monotonic()
        make(build, Path(folder), options.python)
        print(f"built in {time.monotonic() - start:.0f} s", flush=True)
        try:
            with Server() as postgres:
                start = time.monotonic()
                run_compose(image, Path(folder), postgres, address)
                print(f"started, debated and stopped in {time.monotonic() - start:.0f} s", flush=True)
        except Unavailable as error:
            sys.exit(str(error))


def make(stage: Stage, root: Path, python: str) -> None:
    """Execute a stage's steps in a folder."""
    run([python, "-m", "venv", str(root / "base")], root)
    path = f"{root / 'base/bin'}{os.pathsep}{os.environ['PATH']}"
    work = root
    for instruction, argument in stage.steps:
        if instruction == "WORKDIR":
            work = below(root, argument)
        elif instruction == "COPY":
            *sources, target = argument.split()
            for source in sources:
                copy(ROOT / source, work / target / (Path(source).name if target.endswith("/") else ""))
        elif instruction == "RUN":
            run(["bash", "-euc", argument.replace("/opt/", f"{root}/opt/")], work, {"PATH": path})


def below(root: Path, path: str) -> Path:
    """Map a folder of the image to its path on this machine."""
    folder = root / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, except files excluded by Dockerfile.dockerignore."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command; if it fails, end the check with its output."""
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=os.environ | (environment or {}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def run_compose(image: Stage, root: Path, postgres: Server, model_at: str) -> None:
    """Start the services in compose.yaml, hold a debate, and shut everything down in order."""
    token, password = secrets.token_hex(16), secrets.token_hex(16)
    variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": model_at}
    compose = services((DEPLOY / "compose.yaml").read_text("utf-8"))
    for name, secret in (("token", token), ("postgres_password", password)):
        (below(root, "/run/secrets") / name).write_text(f"{secret}\n", "utf-8")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "FLOWDEBATE", "PYTHON"))
    }
    environment |= image.environment
    environment["PATH"] = f"{root}/opt/flowdebate/bin{os.pathsep}{os.environ['PATH']}"
    run([f"{root}/opt/flowdebate/bin/python", "-c", CREATE, postgres.url, password], root)

    def begin(name: str, *more: str, health: int | None = None) -> subprocess.Popen[str]:
        service = compose[name]
        for volume in service["volumes"]:
            source, target, _ = volume.split(":")
            copy(DEPLOY / source, below(root, str(Path(target).parent)))
        settings: dict[str, Any] = {
            key: variables.get(key) if value is None else value for key, value in service["environment"].items()
        }
        settings["FLOWDEBATE_STORE"] = settings["FLOWDEBATE_STORE"].replace(
            "@database:5432/", f"@127.0.0.1:{postgres.port}/"
        )
        settings["FLOWDEBATE_PASSWORD_FILE"] = f"{root}{settings['FLOWDEBATE_PASSWORD_FILE']}"
        command = [word.replace("/run/secrets", f"{root}/run/secrets") for word in service["command"]]
        if health is not None:  # the container's port, which only needs to be unique inside the container
            command[command.index("--health") + 1] = str(health)
        folder = below(root, image.last("WORKDIR"))
        return subprocess.Popen(  # noqa: S603
            [*command, *more],
            cwd=folder,
            env=environment | {key: value for key, value in settings.items() if value is not None},
            stderr=subprocess.PIPE,
            text=True,
        )

    running = [begin("server", "--port", "0")]
    try:
        ports = [free_port() for _ in range(compose["worker"]["deploy"]["replicas"])]
        running += [begin("worker", health=health_port) for health_port in ports]
        port = port_of(running[0])
        for health_port in ports:
            healthy(
                [word.replace(":8378/", f":{health_port}/") for word in compose["worker"]["healthcheck"]["test"][1:]],
                root,
            )
        run([word.replace(":8377/", f":{port}/") for word in image.health], root, environment)
        debate(f"http://127.0.0.1:{port}/api/v1/runs", token)
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        ends = [ended(process) for process in running]
    for process, (status, output) in zip(running, ends, strict=True):
        if status not in {0, -signal.SIGTERM}:  # after a clean shutdown, uvicorn raises the signal again
            sys.exit(f"{process.args!r} ended with {status}:\n{output}")


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def healthy(check: Sequence[str], root: Path) -> None:
    """Wait until a health check succeeds, with the same timeout as for a container."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if not subprocess.run(check, cwd=root, capture_output=True, check=False).returncode:  # noqa: S603
            return
        time.sleep(0.5)
    run(check, root)


def port_of(server: subprocess.Popen[str]) -> int:
    """Return the port on which the server reports that it is listening."""
    output = ""
    for line in server.stderr or ():
        output += line
        if match := re.search(r"Serving http://[^:]+:(\d+)", line):
            return int(match[1])
    sys.exit(f"the server did not start:\n{output}")


def debate(runs: str, token: str) -> None:
    """Hold a debate, and check that a worker executed it."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(address: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(address, data, headers), timeout=90) as answer:  # noqa: S310
            return json.load(answer)

    ask(runs, {"pattern": "city", "question": "How should we get to work?", "runId": "check"})
    finished = ask(f"{runs}/check?wait=60")
    if finished["status"] != "complete" or ANSWER not in json.dumps(finished):
        sys.exit(f"the debate is not as it should be: {json.dumps(finished, indent=2)[:3000]}")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit status and the last output of a process that was asked to stop."""
    try:
        output = process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[1]
    return process.returncode, output


if __name__ == "__main__":
    main()
