"""Choices offered to a model follow the order of its own debate, whatever ran earlier in the same process."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from flowdebate import Debater, Persona, debate, handoff
from flowdebate._util.wire import one_of
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest, Reply

CLAIMS = ("ship", "wait", "ask")


def find_enums(schema: Any) -> list[list[str]]:
    """Return all string enums in a schema."""
    if isinstance(schema, dict):
        return [enum for key, part in schema.items() for enum in ([part] if key == "enum" else find_enums(part))]
    return [enum for part in schema for enum in find_enums(part)] if isinstance(schema, list) else []


class Asked:
    """A model that answers its requests and records the enums in them."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> Reply:
        self.shown += find_enums(request.output_schema)
        if request.output is None:
            return "Yes."
        if "winner" in (request.output_schema or {}).get("properties", {}):
            return {"reasoning": "It was argued.", "winner": None, "verdict": "Neither."}
        return {"response": "Yes.", "next_agent_name": self.shown[-1][0]}


def test_judges_see_the_sides_in_the_order_of_the_current_debate() -> None:
    """An earlier debate between the same sides in a different order must not affect this one."""
    for order in permutations(CLAIMS):
        recorder = Asked()
        sides = [Debater(f"for {claim}", claim) for claim in order]
        debate(name="x", debaters=sides, max_rounds=1, synthesizer=False).run_sync("What now?", model=recorder.model)
        assert recorder.shown == [list(order)]


def test_speakers_see_the_others_in_declared_order() -> None:
    """An earlier handoff between the same people in a different order must not affect this one."""
    for order in permutations(CLAIMS):
        recorder = Asked()
        people = [Persona(name) for name in order]
        handoff(name="x", debaters=people, max_turns=1).run_sync("What now?", model=recorder.model)
        assert recorder.shown == [list(order[1:])]


def test_choice_types_keep_their_order_within_other_types() -> None:
    """The cache in `typing` ignores the order of the choices.

    It could therefore return a type such as a union with `None` with the choices in a different order.
    """
    for order in permutations(CLAIMS):
        choice: Any = one_of(order)
        model = create_model("Choice", it=(choice | None, None), also=(choice, order[0]))
        assert find_enums(model.model_json_schema()) == [list(order), list(order)]
