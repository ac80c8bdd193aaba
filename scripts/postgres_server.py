"""Private, disposable PostgreSQL server. Uses only the standard library."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from debian_package import Unavailable, install_package

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ("Server", "Unavailable", "install")

_PACKAGE = "postgresql"
_ACCOUNT = "postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "fsync": "on",  # committed data must survive a kill
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


def install() -> Path:
    """Return the folder with the newest PostgreSQL programs, installing Debian's package if necessary."""
    return install_package(_PACKAGE, "PostgreSQL", _programs, megabytes=62)


class Server:
    """Context manager that runs a server on a free local port; `url` is its default database."""

    def __init__(self) -> None:
        self._programs = install()
        self._as: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            if shutil.which("runuser") is None or _ACCOUNT not in {user.pw_name for user in pwd.getpwall()}:
                raise Unavailable(f"PostgreSQL does not run as root, and there is no account {_ACCOUNT!r} to run it as")
            self._as = ["runuser", "-u", _ACCOUNT, "--"]
        self._folder = Path(tempfile.mkdtemp(prefix="flowdebate-postgres-"))
        self._keeper: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        """URL of the database "postgres" for its superuser."""
        return f"postgresql://postgres:throwaway@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        try:
            if self._as:
                shutil.chown(self._folder, _ACCOUNT)
            password = self._folder / "password"
            password.write_text("throwaway")
            if self._as:
                shutil.chown(password, _ACCOUNT)
            self._run(
                "initdb", "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}", "-N", "--locale=C.UTF-8"
            )
            with (self._folder / "data" / "postgresql.conf").open("a") as file:
                settings = _SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self._folder)}
                file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            self._keeper = _keeper(self._stopping(), self._folder)
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        self._run("pg_ctl", "-w", "-t", "60", "-l", str(self._folder / "log"), "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: "immediate" simulates a crash, "fast" shuts down cleanly."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(self._stopping(), capture_output=True, check=False, cwd="/")  # noqa: S603
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait()

    def _stopping(self) -> list[str]:
        data = str(self._folder / "data")
        return [*self._as, str(self._programs / "pg_ctl"), "-D", data, "-w", "-m", "immediate", "stop"]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        with (self._folder / "said").open("wb") as out:  # a file, because the server would keep a pipe open
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False, cwd="/")  # noqa: S603
        if done.returncode:
            log = self._folder / "log"
            text = (self._folder / "said").read_text() + (log.read_text() if log.exists() else "")
            raise Unavailable(f"{program} failed: {text.strip()[-500:]}")


_KEEPER = """
import shutil, signal, subprocess, sys
for name in ("SIGINT", "SIGHUP", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
sys.stdin.read()
subprocess.run(sys.argv[2:], capture_output=True)
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


def _keeper(stopping: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that stops the server when this one ends, for any reason, and thereby closes its input."""
    command = [sys.executable, "-c", _KEEPER, str(folder), *stopping]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")  # noqa: S603


def _programs() -> Path | None:
    """Return the folder with the server programs: Debian's newest version, or the one on the path."""
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if installed:
        return max(installed, key=lambda folder: int(folder.parent.name))
    program = shutil.which("initdb")
    return None if program is None else Path(program).resolve().parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
