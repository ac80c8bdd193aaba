"""Write deploy/requirements/ with uv: exact versions and hashes of the image's packages, without file URLs.

A lock file with URLs would be tied to one index; these files work with any index that has the same packages. To keep
them short, they only include hashes of wheels for Linux (x86_64, aarch64; glibc) and Python 3.11 to 3.13.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

if TYPE_CHECKING:
    from packaging.tags import Tag

ROOT = Path(__file__).parent.parent
EXTRAS = ("dbos", "mcp", "server")
"""Extras included in the image."""
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")

_INTERPRETERS = {"py3", *(f"cp{version.replace('.', '')}" for version in PYTHONS)}
_INDEX_VARIABLES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")


def main() -> None:
    """Regenerate both files with the newest allowed versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requirements = list(project["project"]["dependencies"])
    for extra in EXTRAS:
        requirements += project["project"]["optional-dependencies"][extra]
    write("image.txt", f"what the image has: flowdebate[{','.join(EXTRAS)}] without flowdebate itself", requirements)
    write("build.txt", "what builds the wheel", project["build-system"]["requires"])


def write(name: str, purpose: str, requirements: list[str]) -> None:
    """Resolve the requirements, and write the resulting packages."""
    lines = [f"# {purpose[0].upper()}{purpose[1:]}. Made by `make lock`.\n"]
    for package in resolved(requirements):
        marker = package.get("marker")
        if marker is not None and not any(Marker(marker).evaluate(environment) for environment in environments()):
            continue
        hashes = sorted(
            wheel["hashes"]["sha256"]
            for wheel in package.get("wheels", ())
            if any(map(fits, parse_wheel_filename(unquote(wheel["url"].rpartition("/")[2]))[3]))
        )
        if not hashes:
            sys.exit(f"{package['name']} {package['version']} has no wheel for {', '.join(MACHINES)}")
        requirement = f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")
        lines.append(" \\\n".join([requirement, *(f"    --hash=sha256:{digest}" for digest in hashes)]) + "\n")
    (ROOT / "deploy" / "requirements" / name).write_text("".join(lines), "utf-8")
    print(f"deploy/requirements/{name}: {len(lines) - 1} packages")


def resolved(requirements: list[str]) -> list[dict[str, Any]]:
    """Return the packages that uv chooses from its default index."""
    with tempfile.TemporaryDirectory() as folder:
        requirements_file, lock_file = Path(folder) / "requirements.in", Path(folder) / "pylock.toml"
        requirements_file.write_text("\n".join(requirements), "utf-8")
        command = [sys.executable, "-m", "uv", "--no-config", "pip", "compile", "--quiet", "--universal"]
        command += ["--python-version", PYTHONS[0], str(requirements_file), "--output-file", str(lock_file)]
        environment = {key: value for key, value in os.environ.items() if key not in _INDEX_VARIABLES}
        subprocess.run(command, env=environment, check=True)  # noqa: S603
        packages: list[dict[str, Any]] = tomllib.loads(lock_file.read_text("utf-8"))["packages"]
        return packages


def environments() -> list[dict[str, str]]:
    """Return the environment markers of the supported platforms."""
    common = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "sys_platform": "linux",
    }
    return [
        {**common, "platform_machine": machine, "python_full_version": f"{version}.0", "python_version": version}
        for version in PYTHONS
        for machine in MACHINES
    ]


def fits(tag: Tag) -> bool:
    """Return whether a wheel with this tag can be installed in one of these environments."""
    linux = tag.platform.startswith(("manylinux", "linux")) and tag.platform.endswith(MACHINES)
    stable = tag.abi == "abi3" and tag.interpreter.startswith("cp3")
    return (linux or tag.platform == "any") and (
        stable or (tag.interpreter in _INTERPRETERS and tag.abi in {"none", tag.interpreter})
    )


if __name__ == "__main__":
    main()
