"""Simulated debaters with known conformity."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from flowdebate._util.validation import check_choice, check_number
from flowdebate.errors import ConfigurationError, MalformedResponse
from flowdebate.models.base import ModelRequest, ModelResponse, Usage
from flowdebate.prompts import unescaped
from flowdebate.testing.simulated.draws import key_of, uniform

Follows = Literal["majority", "last"]
"""Position that a conformist adopts from those that differ from its own: the majority's, or the last one stated."""

# Statements by simulated debaters, each preceded by its speaker tag; positions contain no period.
_SAID = re.compile(r"^\[([^\[\]]*)\] [^\n]*?I hold: ([^.\n]+)\.", re.MULTILINE)


class StatedPosition(NamedTuple):
    """A position and the tag of the speaker who stated it."""

    tag: str
    position: str


class SimDebater:
    """Model that says "I hold: {position}." and may adopt positions stated by others.

    - `position`: the debater's own position, on one line and without a period.
    - `conformity`: probability of stating the others' position instead of its own, independently for each request.
    - `name_bias`: conformity toward positions whose supporters have one of `names` in their tags; None for no bias.
    - `follows`: whether to adopt the majority's position (the latest of several with equal support) or the last one.

    The model answers in text (for `debate()` and `deliberation()`) or in one of the four answer schemas of
    `consensus()`. It votes for the alphabetically first proposal that states its position. Its answers depend only on
    its seed and the prompt, not on earlier requests.

    >>> from flowdebate import generator
    >>> said = "[a] I hold: tea."
    >>> generator(name="x").run_sync(said, model=conformist("coffee")).output
    'I hold: tea.'
    """

    def __init__(
        self,
        position: str,
        *,
        conformity: float = 0.0,
        name_bias: float | None = None,
        names: Collection[str] = (),
        follows: Follows = "majority",
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        if not position.strip() or re.search(r"[.\n]", position):
            raise ConfigurationError("SimDebater()", "position", position, "must be one line of text without a period")
        check_number("SimDebater()", minimum=0, maximum=1, optional=True, conformity=conformity, name_bias=name_bias)
        check_choice("SimDebater()", ("majority", "last"), follows=follows)
        self.position: str = position.strip()
        self.name: str = name or f"sim-{self.position}"
        self._conformity, self._name_bias, self._names = conformity, name_bias, frozenset(names)
        self._follows = follows
        self._seed = seed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """State the debater's position."""
        prompt = str(request.messages[-1]["content"])
        position = self.holds(prompt)
        usage = Usage(calls=1, prompt_tokens=0, cached_tokens=0, completion_tokens=0)
        text = f"I hold: {position}."
        if request.output_schema is None:
            if request.on_text is not None:
                request.on_text(text)
            return ModelResponse(text=text, usage=usage)
        return ModelResponse(data=self._filled(request, position, prompt), usage=usage)

    def holds(self, prompt: str) -> str:
        """Return the debater's position after it has read `prompt`."""
        other_statements = [statement for statement in read_positions(prompt) if statement.position != self.position]
        if not other_statements:
            return self.position
        if self._follows == "last":
            followed = other_statements[-1].position
        else:
            # Only each speaker's last statement counts; otherwise, a speaker with many statements would count as a
            # majority.
            counted = Counter({statement.tag: statement.position for statement in other_statements}.values())
            followed = [
                statement.position
                for statement in other_statements
                if counted[statement.position] == max(counted.values())
            ][-1]
        has_biased_name = any(
            name in statement.tag
            for statement in other_statements
            if statement.position == followed
            for name in self._names
        )
        probability = self._name_bias if has_biased_name and self._name_bias is not None else self._conformity
        # Depends on the prompt but not on the number of requests, because concurrent debaters are called in no fixed
        # order.
        adopts = uniform(self._seed, key_of(prompt), key_of(self.name), 0) < probability
        return followed if adopts else self.position

    def _filled(self, request: ModelRequest, position: str, prompt: str) -> dict[str, Any]:
        schema: dict[str, Any] = request.output_schema or {}
        text = f"I hold: {position}."
        values: dict[str, Any] = {
            **dict.fromkeys(("proposal", "reasoning"), text),
            "issues": [],
            "suggestions": [],
            **dict.fromkeys(("severity", "confidence"), 0.5),
            "position": position,
            "enough": position == self.position,
            "choice": min(_authors(prompt, position) or _authors(prompt), default=""),
        }
        if not set(schema.get("required", ())) <= values.keys():
            message = f"a simulated debater has no answer for {sorted(set(schema['required']) - values.keys())}"
            raise MalformedResponse(message, model=self.name, block=request.block)
        return {field: values[field] for field in schema.get("properties", {}) if field in values}


def _authors(prompt: str, position: str | None = None) -> list[str]:
    return [statement.tag for statement in read_positions(prompt) if position in (None, statement.position)]


def conformist(
    position: str, *, conformity: float = 1.0, follows: Follows = "majority", seed: int = 0, name: str | None = None
) -> SimDebater:
    """Create a debater that adopts the others' position with probability `conformity`."""
    return SimDebater(position, conformity=conformity, follows=follows, seed=seed, name=name)


def stubborn(position: str, *, name: str | None = None) -> SimDebater:
    """Create a debater that always states the same position."""
    return SimDebater(position, name=name)


def read_positions(prompt: str) -> list[StatedPosition]:
    """Return the positions stated by simulated debaters in a prompt, in order, each with its speaker's tag."""
    return [StatedPosition(unescaped(tag), unescaped(position)) for tag, position in _SAID.findall(prompt)]
