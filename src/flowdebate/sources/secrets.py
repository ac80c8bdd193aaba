"""Secrets in files: key files, recognized by name or content, are never read, and tokens in text are masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePath

from flowdebate._text import counted

SECRET = "may contain secrets"  # noqa: S105 - a reason
FOLDERS = frozenset({
    ".git", ".hg", ".svn", ".ssh", ".gnupg", ".aws", ".kube", ".azure", ".docker", ".oci", ".password-store",
    ".terraform.d", ".bitcoin", ".ethereum", ".electrum", "keyrings",
})  # fmt: skip
"""Folders that often contain secrets and rarely anything worth quoting."""
_NAMES = (
    # environment variables and settings
    *(".env", ".env[._-]*", "*.env", ".envrc", "*.env.local", "env.local", "env.prod", "env.production", "env.staging"),
    *(".flaskenv", ".secrets*", "secrets.*", "secret.*", "*-secret.y*ml", "*-secrets.y*ml", "*.secret", "*.secrets"),
    *("local.settings.json", "wp-config*.php", ".htpasswd", "shadow", ".vault[_-]pass*", "vault[_-]pass*"),
    # keys, and certificates with keys
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.jceks", "*.bks", "*.keystore", "*.keytab", "*.kdbx"),
    *("*.kdb", "*.ovpn", "*.mobileprovision", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*[_-]key.json"),
    *("*firebase-adminsdk*.json", "service[_-]account*.json", "krb5cc_*"),
    # program credentials
    *(".netrc", "_netrc", ".authinfo*", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".boto"),
    *(".git-credentials", ".gitconfig", "credentials", "credentials.*", "*credentials.json", "auth.json", ".dockercfg"),
    *(".dockerconfigjson", ".s3cfg", ".vault-token", "*kubeconfig*", "kube.y*ml", "rclone.conf", "ngrok.yml"),
    *(".databrickscfg", ".wgetrc", ".curlrc", "cookies.txt", "cookies.sqlite", "*.cookies"),
    # infrastructure
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc", "terraform.rc"),
    # command history
    *("*_history", "*_history-*", ".histfile", ".zhistory", ".zsh_sessions"),
)
_PATHS = (".config/gh/*", ".config/gcloud/*", ".config/op/*", ".config/rclone/*", ".config/hub", ".m2/settings*.xml",
          ".gem/credentials", ".cargo/credentials*", ".subversion/auth/*", ".config/github-copilot/*")  # fmt: skip
"""Path patterns for files that contain secrets despite their ordinary names."""
_KEYS = re.compile(
    rb"PRIVATE KEY(?: BLOCK)? ?-{4}|PuTTY-User-Key-File-\d|OpenVPN Static key"
    rb"|(?<![A-Z0-9])AGE-SECRET-KEY-1[A-Z0-9]{50}"
)
"""Markers identifying private key files."""


def is_secret(path: PurePath) -> bool:
    """Return whether a file at this path is likely to contain secrets, judging by its name and folders."""
    name, full_path = path.name.lower(), path.as_posix().lower()
    if not FOLDERS.isdisjoint(path.parts) or any(fnmatchcase(name, pattern) for pattern in _NAMES):
        return True
    return any(fnmatchcase(full_path, pattern) or fnmatchcase(full_path, f"*/{pattern}") for pattern in _PATHS)


def holds_key(data: bytes) -> bool:
    """Return whether a file contains a private key for OpenSSL, OpenSSH, OpenPGP, PuTTY, OpenVPN or age.

    >>> holds_key(b"-----BEGIN PGP PRIVATE KEY BLOCK-----"), holds_key(b"-----BEGIN PUBLIC KEY-----")
    (True, False)
    """
    return any(marker in data for marker in (b"KEY", b"Key-File", b"Static key")) and _KEYS.search(data) is not None


_HEX, _WORD, _ALL = "[0-9a-f]", "[A-Za-z0-9]", "[A-Za-z0-9_-]"
# Token prefixes published by their issuers, and patterns for the rest of the token; the prefix is not masked.
_TOKENS = "|".join(
    f"(?:{begin})(?={rest})"
    for begin, rest in (
        (r"gh[pousr]_", f"{_WORD}{{36}}"),
        (r"github_pat_", f"{_WORD}{{20}}"),
        (r"gl(?:pat|dt|rt|oas|ptt|cbt|ft|soat|agent|imt)-", f"{_ALL}{{20}}"),
        (r"sk-(?:proj-|svcacct-|admin-|ant-\w+-|or-v1-|lf-)?", f"{_ALL}{{20}}"),
        (r"[srp]k_(?:live|test)_|whsec_", f"{_WORD}{{16}}"),
        (r"(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
        (r"AIza", f"{_ALL}{{35}}"),
        (r"ya29\.|GOCSPX-", f"{_ALL}{{20}}"),
        (r"xox[abeoprs]-|xapp-", f"{_WORD}[A-Za-z0-9-]{{9}}"),
        (r"npm_|ntn_|sbp_", f"{_WORD}{{36}}"),
        (r"pypi-AgEI", f"{_ALL}{{40}}"),
        (r"hf_", f"{_WORD}{{30}}"),
        (r"gsk_|xai-|nvapi-|pplx-|csk-|tgp_v1_|fw_|r8_|lin_api_|PMAK-", f"{_ALL}{{30}}"),
        (r"eyJ", rf"{_ALL}{{10,}}\.eyJ{_ALL}{{10,}}\.{_ALL}{{10,}}"),
        (r"SG\.", rf"{_ALL}{{22}}\.{_ALL}{{43}}"),
        (r"do[opr]_v1_", f"{_HEX}{{64}}"),
        (r"dp\.(?:pt|st|ct|scim|audit)\.", f"{_WORD}{{40}}"),
        (r"hv[bs]\.", f"{_ALL}{{24}}"),
        (r"dapi", f"{_HEX}{{32}}"),
        (r"shp(?:at|ca|pa|ss)_", "[0-9A-Fa-f]{32}"),
        (r"gl(?:c|sa)_", f"{_ALL}{{32}}"),
        (r"ATATT3", f"{_ALL}{{60}}"),
        (r"rubygems_", f"{_HEX}{{48}}"),
        (r"dckr_pat_", f"{_ALL}{{27}}"),
        (r"cio", f"{_WORD}{{32}}(?!{_WORD})"),
        (r"tskey-(?:auth|api|client)-", f"{_ALL}{{20}}"),
        (r"[0-9]{8,10}:AA", f"{_ALL}{{33}}"),
        (r"[MNO](?=[A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.)", rf"{_ALL}{{23,27}}\.{_ALL}{{6}}\.{_ALL}{{27}}"),
        (r"AGE-SECRET-KEY-1", "[A-Z0-9]{50}"),
        (r"SK(?=[0-9a-f]{32})", f"{_HEX}{{32}}(?!{_WORD})"),
    )
)
# Names of secret values in configuration files.
_FIELDS = (
    r"aws_secret_access_key|aws_session_token|secretaccesskey|accountkey|sharedaccesskey|_authtoken|_auth|oauth_token"
    r"|client_secret|client-key-data|refresh_token|access_token|auth_token|private_key_id|npmauthtoken|privatekey|presharedkey"
)
_SECRETS = re.compile(
    rf"(?<![A-Za-z0-9_-])(?P<token>{_TOKENS})(?P<rest>[A-Za-z0-9_.+/=~-]*[A-Za-z0-9_=-])"
    rf"|(?P<field>(?i:\b(?:{_FIELDS})|(?<=:)_authToken|(?<![A-Za-z0-9])_auth)[\"']?[ \t]*[:=][ \t]*[\"']?)"
    r"(?P<value>(?=[^\s\"',;]{0,200}[0-9])[A-Za-z0-9_.+/=~-]{16,})"
    r"|(?P<url>[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:)(?P<password>[^\s/@\"'<>{}$…*]{3,200})(?=@)"
    r"|(?P<hook>hooks\.slack\.com/services/)(?P<path>T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,})"
)
_KEY_LINES = re.compile(r"(PRIVATE KEY(?: BLOCK)?-----)((?:[ \t\r]*\n[-+ ]?[ \t#/*]*[\w+/=-]{12,}(?=\s))+)")
_PLACEHOLDERS = frozenset({"password", "passwd", "pass", "pw", "pwd", "secret", "token", "xxx", "changeme", "example"})
_MAX_LINES = 5


def mask_secrets(text: str) -> tuple[str, str | None]:
    r"""Mask keys and tokens in known formats, replacing each character so that offsets in `text` stay valid.

    Returns the masked text and a note about the masked secrets (None if there are none).

    >>> mask_secrets("on: push\ntoken: ghp_" + "a1B2c3" * 6)
    ('on: push\ntoken: ghp_************************************', '1 secret masked: line 2')
    """
    spans = sorted(_spans(text))
    if not spans:
        return text, None
    parts, end = [], 0
    for begin, stop in spans:
        if begin >= end:
            parts += [text[end:begin], re.sub(r"[^\n]", "*", text[begin:stop])]
            end = stop
    lines = list(dict.fromkeys(text.count("\n", 0, begin) + 1 for begin, _ in spans[:200]))
    more = ", …" if len(lines) > _MAX_LINES else ""
    location = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_MAX_LINES]))}{more}"
    return "".join([*parts, text[end:]]), f"{counted(len(spans), 'secret')} masked: {location}"


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets in `text`."""
    for match in _KEY_LINES.finditer(text) if "PRIVATE KEY" in text else ():
        for part in re.finditer(r"[\w+/=-]{12,}", match[2]):
            yield match.start(2) + part.start(), match.start(2) + part.end()
    for match in _SECRETS.finditer(text):
        name = next(name for name in ("rest", "value", "password", "path") if match[name] is not None)
        plain = re.sub(r"[^a-z0-9]", "", match[name].lower())
        if len(set(plain)) > 2 and plain not in _PLACEHOLDERS:  # noqa: PLR2004 - "xxxx", "0000": an example
            yield match.span(name)
