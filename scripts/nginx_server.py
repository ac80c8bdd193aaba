"""Private, disposable nginx in front of another server. Uses only the standard library."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from debian_package import Unavailable, install_package

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ("Proxy", "Unavailable", "install")

_SECONDS = 10.0
_CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    {locations}
  }}
}}
"""


def install() -> Path:
    """Return the path of the program, installing Debian's package if necessary; no service is started."""
    return install_package("nginx", "nginx", _program, megabytes=2)


def _program() -> Path | None:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    return None if program is None else Path(program)


class Proxy:
    """Context manager that runs an nginx with these `locations` on a free local port."""

    def __init__(self, locations: str) -> None:
        self._program = install()
        self._folder = Path(tempfile.mkdtemp(prefix="flowdebate-nginx-"))
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        text = _CONFIGURATION.format(folder=self._folder, port=self.port, locations=locations)
        (self._folder / "nginx.conf").write_text(text)

    def __enter__(self) -> Self:
        command = [str(self._program), "-p", str(self._folder), "-c", str(self._folder / "nginx.conf")]
        with (self._folder / "said").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        problem = (self._folder / "said").read_text()[-500:]
        self.__exit__(None, None, None)
        raise Unavailable(f"nginx does not start: {problem}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
