"""What the command keeps of a plan, so that a run can be carried on: what was asked for, as a file would say it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from flowdebate.cli.keys import COMMAND
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.plan import Plan
    from flowdebate.store.base import StoredRun

__all__ = ("kept_plan", "plan_of", "verb_of")

_FORMAT = 1
_VERBS = {
    "run": "flowdebate.cli.verbs.debate",
    "deliberate": "flowdebate.cli.verbs.deliberate",
    "handoff": "flowdebate.cli.verbs.handoff",
    "panel": "flowdebate.cli.verbs.panel",
    "consensus": "flowdebate.cli.verbs.consensus",
}
"""Where the plans of each command are made."""


def kept_plan(plan: Plan) -> dict[str, Any]:
    """`plan` as JSON data without secrets: a base URL is kept without its user, its password and its query."""
    options = plan.given.values()
    kept: dict[str, Any] = {"format": _FORMAT, "verb": plan.VERB, "options": options}
    if "base_url" in options:
        address = _without_secrets(options["base_url"])
        if address != options["base_url"]:
            options["base_url"] = address
            kept["withheld"] = ["base_url"]
    for key in ("record", "replay"):
        if key in options:
            options[key] = str(Path(options[key]).absolute())
    return kept


def plan_of(stored: StoredRun, options: Mapping[str, Any], *, to_ask: bool = True) -> Plan:
    """The plan of a run that is kept, with `options` over it (None: as they were).

    ConfigurationError for a run that is none of this command's, and, if models are `to_ask`, where a secret has to be
    given again.
    """
    kept = stored.header.plan
    if kept is None:
        raise _of_another(stored)
    verb = verb_of(stored)
    if verb is None or kept["format"] > _FORMAT:
        raise ConfigurationError(COMMAND, "RUN", stored.header.run_id, "begun by this or an earlier version")
    said = dict(kept["options"])
    if to_ask and "base_url" in kept.get("withheld", ()) and options.get("base_url") is None:
        allowed = f"given again: that of {said['base_url']} held a secret, which is not kept"
        raise ConfigurationError(COMMAND, "--base-url", None, allowed)
    made: Plan = import_module(_VERBS[verb]).make_plan(options, file=said)
    return made


def verb_of(stored: StoredRun) -> str | None:
    """The command that a run was begun with; None where it is of another program, or of a newer version."""
    verb = (stored.header.plan or {}).get("verb")
    return verb if isinstance(verb, str) and verb in _VERBS else None


def _of_another(stored: StoredRun) -> ConfigurationError:
    run_id = stored.header.run_id
    hint = f"It is carried on where its block is built: await block.resume({run_id!r}) in Python."
    return ConfigurationError(COMMAND, "RUN", run_id, "a run that this command has begun", hint=hint)


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
