"""`flowdebate models`: the models in use, where each setting comes from, and what each model can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import ExitCode, open_page, write_json
from flowdebate.ui.options import ModelName, Option

_ROLES = "debaters, moderator, judge, synthesizer"
_OPENAI = "https://api.openai.com/v1"
_NO_WEIGHTS = 'not installed: pip install "flowdebate[local-model]", or set FLOWDEBATE_LOCAL_MODEL to a GGUF file'


@opt.command("base_url")
def models(
    action: Annotated[
        Literal["list", "check"],
        Option(metavar="ACTION", help="list (the default), or check: whether models can play each role."),
    ] = "list",
    specs: Annotated[
        list[ModelName] | None,
        Option(metavar="SPEC", help="check: models to check. Default: the model that runs use without --model."),
    ] = None,
    *,
    quick: Annotated[bool, Option(help="check: ask for one word only, and show how long it took.")] = False,
    record: Annotated[
        Path | None,
        Option(metavar="FILE", help="check: write requests and responses to a new file, without keys and hosts."),
    ] = None,
    as_json: opt.Json = False,
    base_url: str | None = None,
) -> None:
    """Show which models runs would use, or check what models can do.

    Without an action, the command shows which keys are set, but never the keys themselves. Checking a model takes about
    22 short calls. The check reports which parts of requests the server refuses, the format of the model's answers, the
    roles it can play, and recommended settings.
    """
    for name, value in {"SPEC": specs, "--quick": quick or None, "--record": record, "--base-url": base_url}.items():
        opt.check(action == "check" or not value, name, "can only be used with `flowdebate models check`")
    if action == "check":
        from flowdebate.cli.check import check_models

        check_models(specs or (), base_url=base_url, quick=quick, record=record, as_json=as_json)
        return
    from flowdebate.models.local.gguf import local_model_state
    from flowdebate.models.openai.endpoint import address_of
    from flowdebate.models.providers import PROVIDERS
    from flowdebate.models.resolve import environment_choice, running_servers

    running = running_servers()
    choice = environment_choice()
    data: dict[str, Any] = {
        "default": None if choice is None else {"model": choice[0], "from": choice[1]},
        "providers": [
            {
                "name": name,
                "address": address_of(provider.address(name) or _OPENAI),
                "keyVariable": provider.key_env,
                "keySet": None if provider.key_env is None else bool(os.environ.get(provider.key_env)),
                "model": running.get(name) if provider.key_env is None else provider.default,
                "answers": name in running if provider.key_env is None else None,
            }
            for name, provider in PROVIDERS.items()
        ],
        "seats": _seats() if choice else {},
        "local": local_model_state(),
    }
    if as_json:
        write_json(data)
    else:
        _show(data)
    if choice is None:
        raise typer.Exit(ExitCode.NO_RESULT)


def _seats() -> dict[str, dict[str, str]]:
    """Return the model assigned by `--model each` to each speaker and role in every pattern's example."""
    from flowdebate.models.resolve import EACH
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.models import seat_titles
    from flowdebate.ui.plan import make_plan

    subjects = {info: {info.subject: info.load_page().example, "model": EACH} for info in PATTERNS.values()}
    return {info.verb: seat_titles(make_plan(info, values)) for info, values in subjects.items()}


def _show(data: dict[str, Any]) -> None:
    from flowdebate._util.documentation import ONE_MODEL, cite
    from flowdebate.models.resolve import explain_no_models
    from flowdebate.ui.text import models_text

    page = open_page()
    if data["default"] is None:
        page.line("No model is set up.", style="bold")
        message = explain_no_models()
        page.line(f"{message[0].upper()}{message[1:]}.")
    else:
        page.labeled("Model", data["default"]["model"], "bold", indent="")
        page.labeled("For", f"{_ROLES}; --model ROLE=SPEC names another one for one of them", "dim")
        page.labeled("From", data["default"]["from"], "dim")
    local = data["local"]
    page.line()
    page.labeled("Local model", local["title"], "bold", indent="")
    page.labeled("Engine", "installed" if local["engine"] else 'not installed: pip install "flowdebate[local]"', "dim")
    if local["path"] is not None:
        page.labeled("Weights", f"{local['path']} ({local['bytes'] / 1e9:.1f} GB)", "dim")
    else:
        later = "installed, joined into one file at first use (1.1 GB)" if local["packages"] else _NO_WEIGHTS
        page.labeled("Weights", later, "dim")
    rows = []
    for provider in data["providers"]:
        state = "is set" if provider["keySet"] else "is not set"
        key = "none needed" if provider["keyVariable"] is None else f"{provider['keyVariable']} {state}"
        none = "has no model" if provider["answers"] else "does not answer"
        rows.append((provider["name"], key, provider["model"] or none, provider["address"]))
    page.line()
    page.columns(("PROVIDER", "KEY", "MODEL", "ADDRESS"), rows)
    seats = data["seats"].values()
    if len({model for models in seats for model in models.values()}) == 1:
        page.line()
        page.line(
            f"--model each: only one provider is configured, so its model is used everywhere; see {cite(ONE_MODEL)}"
        )
    elif seats:
        dealt = [(name, models_text(models).partition(": ")[2]) for name, models in data["seats"].items()]
        page.line()
        page.columns(("PATTERN", "WITH --model each"), dealt)
