"""Client generated from the OpenAPI document and used for all operations."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.events import event_schema
from flowdebate.service.service import Service
from tests.server.stage import QUESTION, TOKEN, Gate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.server.stage import Stage

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openapi_python_client") is None, reason="openapi-python-client is not installed"
)
PACKAGE = "generated_client"


@pytest.fixture(scope="module")
def generated_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generate the package, check that there are no generator warnings, and import it."""
    folder = tmp_path_factory.mktemp("generated")
    with staged(lambda: Service(store="memory:")) as stage:
        (folder / "openapi.json").write_text(json.dumps(stage.spec))
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]
    options = ["--output-path", PACKAGE, "--config", "config.json", "--fail-on-warning"]
    process = subprocess.run([*command, *options], cwd=folder, capture_output=True, timeout=60, text=True, check=False)  # noqa: S603
    assert process.returncode == 0, process.stdout + process.stderr
    assert "WARNING" not in process.stdout + process.stderr
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


class Client:
    """Generated functions, keyed by name. Each response must have the expected status."""

    def __init__(self, stage: Stage, http: Any) -> None:
        self.models: Any = importlib.import_module(f"{PACKAGE}.models")
        self.unused = {operation["operationId"]: operation["tags"][0] for operation in list_operations(stage.spec)}
        self._modules = dict(self.unused)
        self._http = http

    def __call__(self, operation: str, *path: str, wants: int = 200, **options: Any) -> Any:
        """Call a function and return the server's response."""
        self.unused.pop(operation, None)
        module = importlib.import_module(f"{PACKAGE}.api.{self._modules[operation]}.{operation}")
        answer = module.sync_detailed(*path, client=self._http, **options)
        assert answer.status_code == wants, answer.content
        return answer.parsed

    def begin(self, wants: int = 201, *, question: str = QUESTION, humans: Sequence[str] = (), **fields: Any) -> Any:
        """Start a debate with four calls."""
        options = self.models.BeginBodyOptionsType0.from_dict({"max_rounds": 1, "humans": list(humans)})
        body = self.models.BeginBody(pattern="debate", question=question, options=options, **fields)
        return self("begin", body=body, wants=wants)


def list_operations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of the document."""
    return [operation for path in spec["paths"].values() for operation in path.values()]


def test_generated_client_supports_all_operations(generated_client: None) -> None:
    gate = Gate()
    client: Any = importlib.import_module(f"{PACKAGE}.client").AuthenticatedClient
    with staged(lambda: Service(store="memory:", model=gate)) as stage:
        with client(stage.url, TOKEN, httpx_args={"trust_env": False}) as http:
            call = Client(stage, http)
            read_lists(call)
            start_and_stop(call, gate)
            gate.let(100)
            read_run(call, "stopped")
            change_runs(call, "stopped")
            answer_requests(call)
        assert call.unused == {}


def read_lists(call: Client) -> None:
    """Read everything that the server lists."""
    assert call("health").status == "ok"
    assert "debate" in {pattern.name for pattern in call("patterns")}
    assert call("models").default == "gate"
    call("logout", wants=204)  # signs out browsers but not programs
    assert QUESTION in call("write_plan", body=call.models.BeginBody(pattern="debate", question=QUESTION)).toml
    sides = call("propose_sides", body=call.models.BeginBody(pattern="debate", question=QUESTION)).sides
    assert len(sides) == 2
    assert call("schema_of_events").to_dict() == event_schema()
    assert call("runs").runs == []
    assert call("budgets") == []
    assert call("queue") == []
    assert call("ready").status == "ok"
    nothing = call.models.FilterBody(pattern="nothing")
    assert call("cancel_all", body=nothing).runs == []
    assert call("resume_all", body=call.models.ResumeAllBody(pattern="nothing")).runs == []
    assert "RunNotFound" in call("run", "nothing", wants=404).type_


def start_and_stop(call: Client, gate: Gate) -> None:
    """Start a run, repeat the request, and cancel and resume it."""
    labels = call.models.BeginBodyLabels.from_dict({"team": "legal"})
    run = call.begin(run_id="stopped", labels=labels, seed=1)
    gate.wait_for_call()
    assert (run.run_id, run.status, run.labels.to_dict()) == ("stopped", "running", {"team": "legal"})
    assert call.begin(200, run_id="stopped", labels=labels, seed=1).created_at == run.created_at
    assert "RunChanged" in call.begin(409, question="Should we wait or ship?", run_id="stopped").type_
    assert call("cancel", "stopped", wants=202).status == "interrupted"
    limits = call.models.LimitsBody(calls=10)
    assert call("resume", "stopped", body=call.models.ResumeBody(limits=limits), wants=202).here


def read_run(call: Client, run_id: str) -> None:
    """Read everything about a run."""
    run = call("run", run_id, wait=30.0)
    assert (run.status, run.usage.calls, run.error) == ("complete", 5, None)
    assert call("document_json", run_id).to_dict() == run.document.to_dict()
    assert QUESTION in call("report_md", run_id)
    assert QUESTION in call("report_page", run_id)
    assert len(call("export_jsonl", run_id).splitlines()) == 1 + run.steps
    steps = call("steps", run_id)
    assert [step.kind for step in steps] == ["call"] * 5
    assert QUESTION in str(call("call", run_id, steps[0].place).to_dict())
    assert call("tasks", run_id)[0].tasks
    assert call("events", run_id).count("event: turn_finished") == 2
    assert "event: end" in call("events_of_several", runs=run_id, text=False)
    assert [entry.run_id for entry in call("runs", status=call.models.RunsStatusType0.COMPLETE, text="ship").runs] == [
        run_id
    ]


def change_runs(call: Client, run_id: str) -> None:
    """Vote on a run, fork it, and delete one."""
    counted = call("vote", run_id, body=call.models.VoteBody(winner=None, why="Neither had figures."), wants=201)
    assert (counted.readers, counted.neither) == (1, 1)
    assert call("votes", run_id) == counted
    edits = call.models.ForkBodyEditsType0.from_dict({})
    fork = call("fork", run_id, body=call.models.ForkBody(fork_id="forked", edits=edits), wants=201)
    assert fork.parent == run_id
    assert call("run", "forked", wait=30.0).fork.asked == 0
    assert call("archive", limit=5) == []
    call("write_note", run_id, body=call.models.NoteBody(note="Without figures."), wants=204)
    assert call("note", run_id).note == "Without figures."
    problem = call("correct", "nothing", body=call.models.CorrectionBody(right="ann"), wants=422)
    assert problem.errors[0].field == "debate"
    call("forget", "nothing", wants=204)
    call("delete", "forked", wants=204)
    assert call("run", "forked", wants=404).status == 404


def answer_requests(call: Client) -> None:
    """Answer a judge's request through a link, and another request as the owner."""
    verdict = {"reasoning": "Only one side had figures.", "winner": None, "verdict": "Wait."}
    for name in ("ours", "theirs"):
        call.begin(run_id=name, humans=["judge"])
        assert call("run", name, wait=30.0).status == "awaiting"
        assert [request.block for request in call("requests", name)] == ["debate-judge"]
        assert call("source", name, "report.txt", wants=404).status == 404
    call("answer", "ours", body=call.models.AnswerBody(answer=verdict))
    link = call("make_link", "theirs", body=call.models.LinkBody(seconds=60.0), wants=201)
    code = link.path.rpartition("/")[2]
    assert call("request_of_link", code).place == link.place
    call("answer_by_link", code, body=call.models.LinkAnswerBody(answer=verdict), wants=204)
    for name in ("ours", "theirs"):
        assert call("run", name, wait=30.0).document["raw"]["verdict"]["verdict"] == "Wait."
    shared = call("make_link", "ours", body=call.models.LinkBody(shows="vote", seconds=60.0), wants=201)
    assert [entry.id for entry in call("public_links", "ours")] == [shared.id]
    open_link = call("make_link", "ours", body=call.models.LinkBody(shows="run", seconds=60.0), wants=201)
    assert "event: " in call("events_of_link", open_link.path.rpartition("/")[2])
    ballot = call.models.VoteBody(winner=None, reader="a-reader-by-a-link")
    assert call("vote_by_link", shared.path.split("/")[-2], body=ballot, wants=201).neither == 1
    call("revoke_link", "ours", shared.id, wants=204)
