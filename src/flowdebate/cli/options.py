"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = (
    "PANEL_OF",
    "RUN",
    "Attempts",
    "BaseUrl",
    "CallsOfEach",
    "Concurrency",
    "Fallback",
    "File",
    "FirstOnly",
    "Json",
    "JudgeModel",
    "KeptAs",
    "Markdown",
    "MaxCalls",
    "MaxSeconds",
    "MaxTokens",
    "ModelSpec",
    "NoStore",
    "OnFailure",
    "RunName",
    "Seed",
    "StoreName",
    "TotalCalls",
    "TotalTokens",
)

_MODELS, _LIMITS, _STORAGE, _OUTPUT = "Models", "Limits", "Storage", "Output"
PANEL_OF = {
    **dict.fromkeys(("model", "judge_model", "base_url", "attempts", "fallback", "on_failure"), _MODELS),
    **dict.fromkeys(("max_calls", "max_tokens", "max_seconds"), _LIMITS),
    **dict.fromkeys(("record", "replay"), _STORAGE),
}
"""Panel of the help for each option that all patterns have."""

ModelSpec: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help='"local", or "provider/model" such as "openai/gpt-5-mini". '
        "Default: FLOWDEBATE_MODEL, else OpenAI if a key is set, else the local model if it is installed.",
        rich_help_panel=_MODELS,
    ),
]
JudgeModel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Model of moderator, referee, judge and synthesizer. Default: that of --model.",
        rich_help_panel=_MODELS,
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="OpenAI-compatible server, up to and including /v1. --model is then the model's name on that "
        "server; the key is OPENAI_API_KEY.",
        rich_help_panel=_MODELS,
    ),
]
File: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Plan file with these options, as TOML or JSON; options given here win."),
]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Seed for reproducible random choices.")]
MaxCalls: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Maximum number of requests.", rich_help_panel=_LIMITS)
]
MaxTokens: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Maximum number of tokens.", rich_help_panel=_LIMITS)
]
MaxSeconds: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="S", help="Maximum time. A run that reaches a limit ends with what it has.", rich_help_panel=_LIMITS
    ),
]
Attempts: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Maximum number of attempts for each call. Default: 3.", rich_help_panel=_MODELS),
]
Fallback: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC", help="Model to ask if the first one fails; repeat for more than one.", rich_help_panel=_MODELS
    ),
]
OnFailure: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="fail|skip",
        help="Fail the run if a model fails for good, or go on without its answer. Default: fail.",
        rich_help_panel=_MODELS,
    ),
]
StoreName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Store of the runs: a file, or postgresql://… Default: FLOWDEBATE_STORE, else one in your data directory.",
        rich_help_panel=_STORAGE,
    ),
]
NoStore: TypeAlias = Annotated[bool, typer.Option("--no-store", help="Do not store the run.", rich_help_panel=_STORAGE)]
RUN = "Id of a run, or at least its first 4 characters."
RunName: TypeAlias = Annotated[str | None, typer.Argument(metavar="RUN", help=RUN, show_default=False)]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.", rich_help_panel=_OUTPUT)
]
Markdown: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write a report as Markdown.", rich_help_panel=_OUTPUT)
]

# Of commands that ask many questions

Concurrency: TypeAlias = Annotated[
    int, typer.Option("--max-concurrency", metavar="N", help="Maximum number of runs at once.")
]
KeptAs: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="NAME",
        help="Name of the batch in the store. Default: made of its questions and options.",
        rich_help_panel=_STORAGE,
    ),
]
FirstOnly: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Only the first N questions.")]
CallsOfEach: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Maximum number of requests for each question.", rich_help_panel=_LIMITS)
]
TotalCalls: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Start no further question after this many requests.", rich_help_panel=_LIMITS),
]
TotalTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Start no further question after this many tokens.", rich_help_panel=_LIMITS),
]
