"""Tokens of servers: in a file that the user names, or in one that is kept in the user's data folder."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from flowdebate._util.files import make_private_folder
from flowdebate.cli.terminal.process import tell
from flowdebate.errors import BadFile
from flowdebate.service.plans.files import read_text, reason_of
from flowdebate.store.open import default_store_path

_SHORTEST = 16
"""As in `create_app`, but checked here, where the message can name the file."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_token(path: str) -> str:
    """The token in a file; BadFile for what is none."""
    token = read_text(path, megabytes=1).strip()
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise BadFile(path, f"must hold one token of at least {_SHORTEST} ASCII letters, digits or signs")
    return token


def kept_token(*, new: bool = False, needed: bool = False) -> str:
    """The token of this user's servers, made by the first of them; `new` replaces it.

    BadFile where others may have read or written it. Where it cannot be kept, a message says so, and the token is good
    for this start alone; BadFile if it is `needed` by another command than the server.
    """
    path = default_store_path().with_name("token")
    try:
        make_private_folder(path.parent)
        if new or not os.path.lexists(path):
            _write(path, replace=new)
        found = path.lstat()
        with path.open("rb"):  # where it is there, and cannot be read
            pass
    except OSError as error:
        if needed:
            raise BadFile(str(path), f"cannot be kept: {reason_of(error)}") from None
        tell(f"The token cannot be kept in {path} ({reason_of(error)}): it is a new one at each start")
        return secrets.token_urlsafe(32)
    again = "Once you know why, --new-token makes another one."
    if not stat.S_ISREG(found.st_mode):
        raise BadFile(str(path), f"is no plain file, so the token in it is not trusted. {again}")
    if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & _OTHERS):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise BadFile(
            str(path), f"has the mode {mode}, not 0600, so others may know the token or have written it. {again}"
        )
    return read_token(str(path))


def _write(path: Path, *, replace: bool) -> None:
    """Write a token, whole or not at all; of two servers that start at once, the first one's stands."""
    handle, name = tempfile.mkstemp(prefix=".token-", dir=path.parent)  # with the mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        if replace:
            Path(name).replace(path)
        else:
            with suppress(FileExistsError):
                os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
