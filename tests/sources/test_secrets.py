"""Secrets in files: recognized by name and by content, omitted or masked, and reported."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, debate
from flowdebate.errors import BadFile
from flowdebate.sources.files import read_content, read_sources
from flowdebate.sources.secrets import mask_secrets
from flowdebate.testing import FunctionModel
from flowdebate.ui.options import SourceEntry
from tests.cli.siblings import serve_stage
from tests.sources.test_fronts import call

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.models.base import ModelRequest

CANARY = "c4nary7Q" * 8
LETTERS = string.ascii_letters + string.digits
NAMES = [
    *("terraform.tfstate.backup", "prod.auto.tfvars.json", ".config/gh/hosts.yml", ".cargo/credentials.toml"),
    *("credentials.csv", "credentials.yml", "kubeconfig.yaml", "kube.yaml", ".env-prod", "env.production"),
    *(".yarnrc.yml", ".m2/settings.xml", ".bash_history", ".zsh_history", ".psql_history", "secret.yaml"),
    *(".secrets.toml", ".codex/auth.json", "wp-config.php", "gcp-key.json", "rclone.conf", "cookies.txt"),
    *(".vault_pass", ".gitconfig", ".terraformrc", ".config/gcloud/access_tokens.db", "service-account-prod.json"),
]
ORDINARY = ["settings.yml", "hosts.yml", "env.py", "history.md", "credential_helper.rs", "public.asc", "token.go"]
TOKENS = [
    f"ghp_{CANARY[:36]}",
    f"github_pat_{CANARY}",
    f"glpat-{CANARY[:20]}",
    f"sk-{CANARY}",
    f"sk-proj-{CANARY}",
    f"sk-ant-api03-{CANARY}",
    f"sk_live_{CANARY}",
    f"AKIA{CANARY.upper()[:16]}",
    f"aws_secret_access_key = {CANARY[:40]}",
    f"AIza{CANARY[:35]}",
    f"xoxb-{CANARY}",
    f"npm_{CANARY[:36]}",
    f"//registry.npmjs.org/:_authToken={CANARY[:36]}",
    f"pypi-AgEI{CANARY}",
    f"hf_{CANARY[:34]}",
    f"gsk_{CANARY}",
    f"eyJ{CANARY[:20]}.eyJ{CANARY[:20]}.{CANARY}",
    f"SG.{CANARY[:22]}.{CANARY[:43]}",
    f"hvs.{CANARY[:24]}",
    f"postgresql://ann:{CANARY[:12]}@db/app",
    f"https://hooks.slack.com/services/T012AB/B012AB/{CANARY[:24]}",
    f"client-key-data: {CANARY}",
    f"dckr_pat_{CANARY[:27]}",
]
KEYS = [
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}",
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{CANARY}",
    f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{CANARY}",
    f"PuTTY-User-Key-File-3: ssh-ed25519\n{CANARY}",
    f"# created: 2026\nAGE-SECRET-KEY-1{CANARY.upper()[:58]}",
    f'{{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n{CANARY}"}}',
]


def test_secret_files_are_recognized_by_name_and_omitted(tmp_path: Path) -> None:
    """Files with secrets may be anywhere in a folder, and files with ordinary names are read."""
    for name in (*NAMES, *ORDINARY):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("canary\n" if name in NAMES else "Ordinary.\n")
    sources = {source.name.partition("/")[2]: source for source in read_sources([str(tmp_path)])}
    assert {name for name, source in sources.items() if source.left_out is None} == set(ORDINARY)
    assert "canary" not in str(sources)
    for name in NAMES:
        with pytest.raises(BadFile, match="may contain secrets"):
            read_sources([str(tmp_path / name)])


@pytest.mark.parametrize("content", KEYS)
def test_private_keys_are_never_read(content: str) -> None:
    with pytest.raises(BadFile, match="may contain secrets"):
        read_content("notes.txt", "notes.txt", content.encode())


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_masked_in_place(token: str) -> None:
    """Masking does not move the surrounding text, and the line that contained the token is reported."""
    text = f"first\n  use {token}, then\nlast\n"
    source = read_content("notes.txt", "notes.txt", text.encode())
    assert CANARY[:12].lower() not in source.text.lower()
    assert len(source.text) == len(text)
    assert source.text.startswith("first\n  use ")
    assert source.text.endswith(", then\nlast\n")
    assert source.masked == "1 secret masked: line 2"
    assert SourceEntry.of(source).source("notes.txt") == source  # type: ignore[union-attr]  # no bare text


@pytest.mark.parametrize(
    "text",
    [
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "postgresql://user:password@host:5432/database",
        "postgresql://$USER:$PASSWORD@host/db and https://{user}:{password}@host",
        "token = os.environ['GITHUB_TOKEN']",
        "client_secret = settings.client_secret",
        "risk-assessment-of-the-harbour-in-winter",
        "task-0123456789 in sha256:" + "0123456789abcdef" * 4,
        "See https://example.com/a:b and mail ann@example.com",
    ],
)
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert mask_secrets(text) == (text, None)


def test_masks_are_reported_and_no_token_reaches_a_model(tmp_path: Path) -> None:
    (tmp_path / "deploy.yml").write_text(f"on: push\ntoken: {TOKENS[0]}\n")
    messages: list[str] = []

    def answer(request: ModelRequest) -> str | dict[str, object]:
        messages.append(str(request.messages))
        return "Yes." if request.output_schema is None else {"reasoning": "r", "winner": None, "verdict": "v"}

    sides = [Debater("ann", "cap"), Debater("bob", "free")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, sources=[tmp_path / "deploy.yml"])
    raw = rent.run_sync("Rents?", model=FunctionModel(answer)).raw
    assert CANARY[:12] not in "".join(messages)
    assert any("token: ghp_****" in text for text in messages)
    assert [source.masked for source in raw.sources or ()] == ["1 secret masked: line 2"]
    options = ("--max-rounds", "1", "--no-synthesizer", "--no-store")
    with serve_stage() as on:
        done = call(on, "debate", "Rents?", "--source", str(tmp_path / "deploy.yml"), *options)
    assert "1 secret masked: line 2" in " ".join(done.stderr.split())


@given(st.text("ab \n:/@=.-_'\"" + LETTERS[:4]), st.sampled_from(TOKENS), st.text("ab \n,;)"))
def test_masking_preserves_all_positions(before: str, token: str, after: str) -> None:
    """Only the secrets themselves are replaced with asterisks, and masking the result again changes nothing."""
    text = f"{before} {token} {after}"
    masked, _ = mask_secrets(text)
    assert len(masked) == len(text)
    assert all(new in (old, "*") and (old != "\n" or new == "\n") for old, new in zip(text, masked, strict=True))
    assert re.sub(r"\*+", "", mask_secrets(masked)[0]) == re.sub(r"\*+", "", masked)
    assert CANARY[:12] not in masked
