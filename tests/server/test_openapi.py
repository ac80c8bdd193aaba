"""The OpenAPI document: valid, complete and self-contained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.models import OpenAPI
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.stage import Stage


def list_references(value: Any) -> Iterator[str]:
    """Return all references in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from list_references(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_references(item)


def test_openapi_document_is_valid(shared: Stage) -> None:
    document = shared.get("/openapi.json").json()
    OpenAPI.model_validate(document)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema({**schema})
    for reference in list_references(document):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_openapi_document_describes_every_endpoint(shared: Stage) -> None:
    operations = [operation for path in shared.spec["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for operation in operations:
        assert operation["description"]
        assert "default" in operation["responses"]
    described = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in shared.spec["paths"].items()
        for method in methods
    }
    assert described == {
        ("POST", "/runs"),
        ("POST", "/sides"),
        ("GET", "/runs"),
        ("GET", "/runs/{run_id}"),
        ("DELETE", "/runs/{run_id}"),
        ("POST", "/runs/{run_id}/answers"),
        ("POST", "/runs/cancel"),
        ("POST", "/runs/resume"),
        ("POST", "/runs/{run_id}/cancel"),
        ("POST", "/runs/{run_id}/resume"),
        ("POST", "/runs/{run_id}/fork"),
        ("POST", "/runs/{run_id}/votes"),
        ("GET", "/runs/{run_id}/links"),
        ("DELETE", "/runs/{run_id}/links/{link_id}"),
        ("GET", "/links/{code}/events"),
        ("POST", "/links/{code}/votes"),
        ("GET", "/runs/{run_id}/votes"),
        ("POST", "/runs/{run_id}/links"),
        ("GET", "/runs/{run_id}/events"),
        ("GET", "/runs/{run_id}/steps"),
        ("GET", "/runs/{run_id}/calls/{place}"),
        ("GET", "/runs/{run_id}/tasks"),
        ("GET", "/runs/{run_id}/requests"),
        ("GET", "/runs/{run_id}/sources/{name}"),
        ("GET", "/runs/{run_id}/document.json"),
        ("GET", "/runs/{run_id}/report.md"),
        ("GET", "/runs/{run_id}/report.html"),
        ("GET", "/runs/{run_id}/export.jsonl"),
        ("GET", "/budgets"),
        ("GET", "/archive"),
        ("PATCH", "/archive/{debate}"),
        ("DELETE", "/archive/{debate}"),
        ("GET", "/events"),
        ("GET", "/events.schema.json"),
        ("GET", "/links/{code}"),
        ("POST", "/links/{code}"),
        ("GET", "/patterns"),
        ("GET", "/runs/{run_id}/note"),
        ("PUT", "/runs/{run_id}/note"),
        ("POST", "/logout"),
        ("POST", "/plans"),
        ("GET", "/models"),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/queue"),
    }


def test_patterns_describe_their_options(shared: Stage) -> None:
    patterns = {pattern["name"]: pattern for pattern in shared.get("/patterns").json()}
    assert list(patterns) == [
        "debate",
        "deliberation",
        "handoff",
        "consensus",
        "round_robin",
        "council",
        "critique",
        "review",
    ]
    options = patterns["debate"]["options"]["properties"]
    assert {"debaters", "max_rounds", "model", "output_schema"} <= set(options)
    assert not {"question", "base_url", "record", "replay"} & set(options)
    for pattern in patterns.values():
        Draft202012Validator.check_schema(pattern["options"])
        assert pattern["roster"] in pattern["options"]["properties"]


def test_models_are_shown_without_keys(shared: Stage, monkeypatch: Any) -> None:
    """The response only says whether a key is set."""
    monkeypatch.setenv("MISTRAL_API_KEY", "canary")
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    answer = shared.get("/models")
    providers = {provider["name"]: provider["ready"] for provider in answer.json()["providers"]}
    assert (providers["mistral"], providers["xai"], providers["ollama"]) == (True, False, True)
    assert answer.json()["default"] == "function"
    assert "canary" not in answer.text
