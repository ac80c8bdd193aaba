"""Environment variables that connections cannot use: reported in one line, by name, and without a password."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.models import ModelRequest, OpenAIModel
from flowdebate.models.call import ask
from tests.cli.stage import COMMAND
from tests.warm import run_warm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SECRET = "s3kret"  # noqa: S105 - of no account
PROXIES = {"HTTPS_PROXY": f"htp://ann:{SECRET}@proxy:3128", "all_proxy": f"ftp://{SECRET}@proxy"}


@pytest.mark.parametrize("name", [*PROXIES, "SSL_CERT_FILE", "SSL_CERT_DIR", "junk"])
async def test_the_error_names_an_invalid_variable(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(setting, raising=False)
    (tmp_path / "junk.pem").write_text("no certificate")
    value = PROXIES.get(name, str(tmp_path / ("junk.pem" if name == "junk" else "gone")))
    variable = "SSL_CERT_FILE" if name == "junk" else name
    monkeypatch.setenv(variable, value)
    model = OpenAIModel("x", base_url="https://models.invalid/v1", api_key="key")
    request = ModelRequest(messages=[{"role": "user", "content": "Why?"}], block="ann")
    with pytest.raises(ConfigurationError, match=f"`{variable}`") as refused:
        await ask(model, request)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "SSL_CERT_FILE"])
def test_the_command_reports_an_invalid_variable_in_one_line(name: str, tmp_path: Path) -> None:
    value = PROXIES.get(name, str(tmp_path / "gone.pem"))
    environment = {key: text for key, text in os.environ.items() if not key.lower().endswith("_proxy")}
    options = ("--model", "x", "--base-url", "https://models.invalid/v1", "--no-store", "--max-rounds", "1")
    env = {**environment, name: value, "OPENAI_API_KEY": "key"}
    done = run_warm(COMMAND, "debate", "Trams?", *options, env=env, cwd=tmp_path, check=False)
    assert done.returncode not in (0, None)
    assert name in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr + done.stdout
