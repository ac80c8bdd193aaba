"""`flowdebate runs share`: links served by a server with the same token and store."""

from __future__ import annotations

from subprocess import PIPE
from typing import TYPE_CHECKING

import httpx2

from tests.cli.stage import COMMAND
from tests.server.stage import BRIEF
from tests.server.test_serve import APPLICATION, make_client, start_server, user_environment
from tests.warm import Warm

if TYPE_CHECKING:
    from pathlib import Path


def run_share(folder: Path, *arguments: str) -> tuple[int | None, str]:
    """Return the output of the command."""
    command = (COMMAND, "runs", "share", "--store", "runs.sqlite3", *arguments)
    with Warm(*command, stdout=PIPE, stderr=PIPE, cwd=folder, env=user_environment(folder)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        output = process.stdout.read().decode() + process.stderr.read().decode()
        return process.wait(60), output


def test_run_can_be_shared_and_unshared_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION.replace("DELAY", "0"))
    with start_server(tmp_path, "--app", "application:service") as (_, url, token), make_client(url, token) as http:
        run_id = http.post("/api/v1/runs", json=BRIEF).json()["runId"]
        assert http.get(f"/api/v1/runs/{run_id}?wait=30").json()["status"] == "complete"
        for kind in ("run", "vote"):
            code, address = run_share(tmp_path, run_id, "--url", url, *(["--vote"] if kind == "vote" else []))
            assert code == 0, address
            page = httpx2.get(address.strip(), trust_env=False, follow_redirects=True)
            assert (page.status_code, "Should we ship?" in page.text) == (200, True)
            code, listed = run_share(tmp_path, run_id, "--url", url, "--list")
            (line,) = (line for line in listed.splitlines() if f" {kind} " in line)
            assert line.endswith(address.strip())
            assert run_share(tmp_path, "--last", "--revoke", line.split()[0])[0] == 0
            assert httpx2.get(address.strip(), trust_env=False).status_code == 410
        assert "no public link" in " ".join(run_share(tmp_path, "--last", "--revoke", "link-0")[1].split())
        assert run_share(tmp_path, "--last", "--days", "0")[0] == 2
