"""Write dist/flowdebate-VERSION.cdx.json, a CycloneDX list of the components of the wheel and the image.

The wheel itself contains no third-party code. The list contains the packages of deploy/requirements/image.txt with
their versions, licenses and dependencies, as found in an environment with exactly these packages.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write the list for the wheel in dist/."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    target = write(wheel)
    print(f"{target.name}: {len(json.loads(target.read_text('utf-8'))['components'])} packages")


def write(wheel: Path) -> Path:
    """Install the wheel with its dependencies, list them, and validate the list against CycloneDX's schema."""
    with tempfile.TemporaryDirectory() as folder:
        environment, listed = f"{folder}/env", Path(folder) / "listed.json"
        uv = [sys.executable, "-m", "uv", "--quiet"]
        locked = ["--require-hashes", "--requirement", str(ROOT / "deploy" / "requirements" / "image.txt")]
        run([*uv, "venv", "--python", sys.executable, environment])
        run([*uv, "pip", "install", "--python", environment, *locked])
        run([*uv, "pip", "install", "--python", environment, "--no-deps", str(wheel)])
        run([*uv, "pip", "check", "--python", environment])
        cyclonedx = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--output-reproducible",
            "--spec-version",
            "1.6",
        ]
        project = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library"]
        run([*cyclonedx, *project, "--output-file", str(listed), f"{environment}/bin/python"])
        sbom = json.loads(listed.read_text("utf-8"))
    version = str(parse_wheel_filename(wheel.name)[1])
    sbom["metadata"]["component"] |= {
        "version": version,
        "purl": f"pkg:pypi/flowdebate@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    text = json.dumps(sbom, indent=1, ensure_ascii=False)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the list is no CycloneDX 1.6: {problem}")
    target = wheel.parent / f"flowdebate-{version}.cdx.json"
    target.write_text(f"{text}\n", "utf-8")
    return target


def run(command: list[str]) -> None:
    """Run a command; if it fails, end the program with its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
