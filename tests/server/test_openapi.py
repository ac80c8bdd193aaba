"""The OpenAPI document: valid, complete, and free of anything that is loaded from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.models import OpenAPI
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.stage import Stage


def references(value: Any) -> Iterator[str]:
    """All references in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_document_is_valid(shared: Stage) -> None:
    """As a document, and in each of its schemas; every reference leads somewhere."""
    document = shared.get("/openapi.json").json()
    OpenAPI.model_validate(document)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema({**schema})
    for reference in references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_every_endpoint_is_described(shared: Stage) -> None:
    """With a sentence, an operation id of its own, and its problems."""
    operations = [each for path in shared.spec["paths"].values() for each in path.values()]
    ids = [each["operationId"] for each in operations]
    assert len(ids) == len(set(ids))
    for each in operations:
        assert each["description"]
        assert "default" in each["responses"]
    described = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, found in shared.spec["paths"].items()
        for method in found
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


def test_patterns_say_what_they_take(shared: Stage) -> None:
    """Each built-in pattern with the schema of its options, without those that HTTP may not give."""
    found = {each["name"]: each for each in shared.get("/patterns").json()}
    assert list(found) == [
        "debate",
        "deliberation",
        "handoff",
        "consensus",
        "round_robin",
        "council",
        "critique",
        "review",
    ]
    options = found["debate"]["options"]["properties"]
    assert {"debaters", "max_rounds", "model", "output_schema"} <= set(options)
    assert not {"question", "base_url", "record", "replay"} & set(options)
    for each in found.values():
        Draft202012Validator.check_schema(each["options"])
        assert each["roster"] in each["options"]["properties"]


def test_models_are_shown_without_keys(shared: Stage, monkeypatch: Any) -> None:
    """Only whether a key is there."""
    monkeypatch.setenv("MISTRAL_API_KEY", "canary")
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    answer = shared.get("/models")
    providers = {each["name"]: each["ready"] for each in answer.json()["providers"]}
    assert (providers["mistral"], providers["xai"], providers["ollama"]) == (True, False, True)
    assert answer.json()["default"] == "function"
    assert "canary" not in answer.text
