"""Check the wheel in dist/: each extra in a separate environment, without anything else from this checkout.

`python scripts/wheel_check.py` checks all extras except the local model, which needs 1.1 GB. Arguments select extras,
or "core" for none. `--readme` runs the first lines of Python in the README after its first shell command. uv creates
the environments, so it has to be installed next to the Python that runs this script.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from email.parser import BytesHeaderParser
from pathlib import Path
from zipfile import ZipFile

from model_server import model_server

ROOT = Path(__file__).parent.parent
CORE = "core"
LARGE = {"local-model"}

DEBATE = """
from flowdebate import Debater, debate
from flowdebate.testing import ScriptedModel

verdict = {"reasoning": "Nobody answered con.", "winner": "no", "verdict": "No."}
pattern = debate(name="d", debaters=[Debater("p", "yes"), Debater("c", "no")], max_rounds=1, synthesizer=False)
result = pattern.run_sync("Should we?", model=ScriptedModel("For.", "Against.", verdict))
assert result.raw.verdict.winner == "no", result
"""

SERVED = """
import os, subprocess, sys, urllib.request
from pathlib import Path

options = ["--port", "0", "--store", "runs.sqlite3", "--model", "openai/none"]
command = [Path(sys.executable).with_name("flowdebate"), "serve", *options]
own = {**os.environ, "XDG_DATA_HOME": os.getcwd()}
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own)
try:
    lines = []
    for line in server.stdout:
        lines.append(line)
        if "http://" in line:
            break
    assert lines and "?token=" in lines[-1], lines
    address, token = lines[-1].split("http://")[1].split()[0].rstrip("/").split("/?token=")
    for path, shown in {"/": "<html", "/new": "<form", "/static/style.css": "{", "/static/page.js": "export"}.items():
        request = urllib.request.Request(f"http://{address}{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert shown in answer.read().decode(), path
finally:
    server.terminate()
    server.wait(20)
"""

USES = {
    CORE: "",
    "ag-ui": """
from flowdebate.server import create_app
from flowdebate.service import Service
from flowdebate.testing import ScriptedModel

create_app(Service(store="memory:", model=ScriptedModel()), token="a-token-of-twenty-letters", ag_ui=True)
""",
    "anthropic": """
import anthropic
from flowdebate.models import AnthropicModel

assert AnthropicModel("claude-haiku-5-5", api_key="none").name == "claude-haiku-5-5"
""",
    "audit": "import flowdebate.evaluation, scipy.stats",
    "dbos": "import dbos; from flowdebate.workers import Workers",
    "deepeval": """
from deepeval.metrics import BaseMetric
from flowdebate.adapters.deepeval import comparison_metric

assert isinstance(comparison_metric(), BaseMetric)
""",
    "documents": """
import bm25s, pathspec
from pathlib import Path

from flowdebate.sources.files import read_sources

Path("plan").mkdir()
Path("plan/rent.md").write_text("Rents rise.")
Path("plan/.gitignore").write_text("*.secret")
assert any("Rents rise." in source.text for source in read_sources(["plan"]))
""",
    "inspect-ai": """
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from flowdebate import generator
from flowdebate.adapters.inspect_ai import InspectModel, debate_scorer, debate_solver, debate_tool

said = ModelOutput.from_content("mock", "Yes.")
said.usage = ModelUsage(input_tokens=9, output_tokens=1, total_tokens=10)
ask = generator(name="g")
debate_solver(ask), debate_scorer(ask, correct="yes"), debate_tool(ask)
result = ask.run_sync("Should we?", model=InspectModel(get_model("mockllm/model", custom_outputs=[said])))
assert (result.output, result.usage.total_tokens) == ("Yes.", 10)
""",
    "instructor": """
from flowdebate.models import OutputSchema
from flowdebate.models.openai.responses import instruction

assert "genius" in instruction(OutputSchema.of(list[int]), "json")
""",
    "langgraph": """
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from flowdebate import generator
from flowdebate.adapters.langgraph import RunnableModel

model = RunnableModel(FakeListChatModel(responses=["Yes."]))
assert generator(name="g").run_sync("Should we?", model=model).output == "Yes."
""",
    "litellm": """
from flowdebate import generator
from flowdebate.adapters.litellm import LiteLLM

model = LiteLLM("gpt-5-mini", mock_response="Yes.")
assert generator(name="g").run_sync("Should we?", model=model).output == "Yes."
""",
    "local": "import xllamacpp; from flowdebate.models import LocalModel",
    "local-model": "from flowdebate.models.local import gguf; assert gguf.local_model_installed()",
    "mcp": "import mcp, flowdebate.mcp.server",
    "notebook": """
import asyncio

from flowdebate.notebook import HumanTurn, show

async def main():
    bundle, _ = HumanTurn()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle, bundle

asyncio.run(main())
""",
    "openai-agents": """
from agents import Agent
from flowdebate import generator
from flowdebate.adapters.openai_agents import AgentModel, debate_tool

AgentModel(Agent(name="a", tools=[debate_tool(generator(name="g"))]))
""",
    "otel": """
from importlib.metadata import entry_points

from flowdebate import generator
from flowdebate.telemetry import OpenTelemetry
from flowdebate.testing import ScriptedModel

(instrumentor,) = entry_points(group="opentelemetry_instrumentor", name="flowdebate")
instrumentor.load()().instrument()
generator(name="poet").run_sync("?", model=ScriptedModel("A line."), observe=OpenTelemetry())
""",
    "postgres": "import alembic, psycopg; from flowdebate.store import PostgresStore",
    "prices": """
from flowdebate.models.prices import known_price, prices_source
from flowdebate.models.base import Usage

assert prices_source(), "genai-prices is not found"
assert known_price("openai/gpt-5-mini", Usage(calls=1, prompt_tokens=10, completion_tokens=10)) > 0
""",
    "pydantic-evals": """
from pydantic_evals.evaluators import Evaluator
from flowdebate.adapters.pydantic_evals import comparison_evaluator

assert isinstance(comparison_evaluator(), Evaluator)
""",
    "pydantic-ai": """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from flowdebate import generator
from flowdebate.adapters.pydantic_ai import AgentModel

model = AgentModel(Agent(TestModel(custom_output_text="Yes.")))
assert generator(name="g").run_sync("Should we?", model=model).output == "Yes."
""",
    "server": SERVED,
    "similarity": """
from flowdebate.measures import Embeddings, TfIdf

for measure in (TfIdf(), Embeddings()):
    _, same, other = measure(["cap the rents", "cap rents", "bread and butter"])[0]
    assert same > other, measure
""",
    "testing": "from flowdebate.testing.strategies import debates; debates()",
}
"""Program for each extra that uses it and fails without it."""


def first_steps() -> tuple[str, str]:
    """Return the extras and the program that the README first tells its readers to install and run."""
    readme = (ROOT / "README.md").read_text("utf-8")
    extras = re.search(r'^pip install "flowdebate\[([\w,-]+)\]"$', readme, re.MULTILINE)
    program = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    if extras is None or program is None:
        sys.exit("README.md must begin with a line of pip and a fence of Python")
    return extras[1], program[1]


def main() -> None:
    """Check the extras named by the arguments, or by default all except the large ones."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = BytesHeaderParser().parsebytes(archive.read(name))
    extras = metadata.get_all("Provides-Extra", [])
    if unknown := {CORE, *extras} ^ set(USES):
        sys.exit(
            f"USES in {__file__} must have the extras of the wheel; these are in one of them only: {sorted(unknown)}"
        )
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    parser.add_argument(
        "--readme", action="store_true", help="only the first lines of the README, with the local model"
    )
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("--oldest", action="store_true", help="with the oldest versions that pyproject.toml allows")
    options = parser.parse_args()
    if wrong := set(options.extras) - set(USES):
        parser.error(f"no extra is called {', '.join(sorted(wrong))}; there are {', '.join(USES)}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB")
    if options.readme:
        check_readme(wheel, options.python)
        return
    for extra in options.extras or [extra for extra in USES if extra not in LARGE]:
        start = time.monotonic()
        check(wheel, extra, options.python, oldest=options.oldest)
        if extra in {CORE, "local-model"} and not options.oldest:
            try_one_line(wheel, extra, options.python)
        print(f"{extra}: {time.monotonic() - start:.0f} s", flush=True)


def check_readme(wheel: Path, python: str) -> None:
    """Run the first lines of the README in an empty environment without a key."""
    extras, program = first_steps()
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        interpreter = environment(folder, python, [f"{wheel}[{extras}]"])
        installed = time.monotonic()
        print(f"README: installed [{extras}] in {installed - start:.0f} s", flush=True)
        Path(folder, "first.py").write_text(program, "utf-8")
        clean = {"HOME": folder, "PATH": "/usr/bin:/bin"}  # no API keys, and no previously configured models
        for time_of in ("first", "second"):
            printed = run(folder, [interpreter, "-I", "first.py"], env=clean)
            print(f"README: the {time_of} run took {time.monotonic() - installed:.0f} s", flush=True)
            installed = time.monotonic()
        print(printed)


def environment(folder: str, python: str, requirements: list[str]) -> str:
    """Create an environment with these packages; return its Python."""
    interpreter = str(Path(folder) / "env" / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run(folder, [*uv, "venv", "--python", python, "env"])
    if requirements:
        run(folder, [*uv, "pip", "install", "--python", interpreter, *requirements])
    return interpreter


def check(wheel: Path, extra: str, python: str, *, oldest: bool) -> None:
    """Install the wheel with an extra into a new environment, and use it there, outside of the checkout."""
    requirement = str(wheel) if extra == CORE else f"{wheel}[{extra}]"
    with tempfile.TemporaryDirectory() as folder:
        interpreter = environment(folder, python, [])
        install = [sys.executable, "-m", "uv", "--quiet", "pip", "install", "--python", interpreter]
        if oldest:  # the wheel then accepts the versions that are already installed
            extras = [] if extra == CORE else ["--extra", extra]
            run(folder, [*install, "--resolution", "lowest-direct", "-r", str(ROOT / "pyproject.toml"), *extras])
        run(folder, [*install, requirement])
        run(folder, [str(Path(interpreter).with_name("flowdebate")), "--version"])
        for program in (DEBATE, USES[extra]):
            run(folder, [interpreter, "-I", "-c", program])


def try_one_line(wheel: Path, extra: str, python: str) -> None:
    """Hold a debate with `uvx`, which installs nothing permanently; with the extra "local-model", use that model."""
    local = extra == "local-model"
    source = f"{wheel}[local,local-model]" if local else str(wheel)
    uvx = [sys.executable, "-m", "uv", "--quiet", "tool", "run", "--isolated", "--python", python, "--from", source]
    debate = [*uvx, "flowdebate", "debate", "Trams or roads?", "--debater", "ann=Trams", "--debater", "bob=Roads"]
    options = ["--max-rounds", "1", "--no-synthesizer", "--no-store", "--json"]
    with tempfile.TemporaryDirectory() as folder, model_server() as address:
        arguments = ["--model", "local"] if local else ["--base-url", address, "--model", "check"]
        run(folder, [*uvx, "flowdebate", "--help"])
        run(folder, [*debate, *options, *arguments])


def run(folder: str, command: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; if it fails, end the check with its output."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
