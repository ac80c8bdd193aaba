from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def test_secrets_in_the_folder_are_never_sent(capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []

    def reply(request: ModelRequest) -> Any:
        prompts.extend(str(message["content"]) for message in request.messages)
        if request.output_schema is not None:
            return {"answer": "Build it.", "dissent": None}
        return "It says “the trams open in 2031”, and “trams are free for all”."

    with forbid_real_models():
        load_script("your_documents").main(FunctionModel(reply))
    printed = capsys.readouterr().out
    assert "trams/.env: may contain secrets" in printed
    assert "“the trams open in 2031”: verified, in trams/plan.md" in printed
    assert "“trams are free for all”: unverified" in printed
    assert any("[trams/plan.md] The trams open" in prompt for prompt in prompts)
    assert not any("never-sent" in prompt for prompt in prompts)
