"""The options that several commands have, each with its one name and its one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = (
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
    "Record",
    "Replay",
    "RunName",
    "Schema",
    "Seed",
    "StoreName",
    "Subject",
    "Synthesize",
    "TotalCalls",
    "TotalTokens",
)

Subject: TypeAlias = Annotated[
    str | None, typer.Argument(help="What it is about; may stand in --file instead.", show_default=False)
]
ModelSpec: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help='"local", or "provider/model" such as "openai/gpt-5-mini". '
        "Default: FLOWDEBATE_MODEL, OpenAI where a key is set, the local model where it is installed.",
    ),
]
JudgeModel: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="SPEC", help="For moderator, referee, judge and synthesizer. Default: that of --model."),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="An OpenAI-compatible server, up to and with /v1. --model is then the model's name as the server "
        "has it; the key is OPENAI_API_KEY.",
    ),
]
Schema: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A JSON Schema: the synthesizer makes the output that it describes."),
]
Synthesize: TypeAlias = Annotated[
    bool | None, typer.Option("--synthesize/--no-synthesize", help="Whether a synthesizer writes an answer.")
]
File: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="All of this as TOML (or .json); options given here win over it."),
]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Makes repeat what is drawn by chance.")]
MaxCalls: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Requests at most.")]
MaxTokens: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Tokens at most.")]
MaxSeconds: TypeAlias = Annotated[
    float | None, typer.Option(metavar="S", help="Time at most. What reaches a limit ends with what it has.")
]
Attempts: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="How often a call is made at most before it has failed. Default: 3."),
]
Fallback: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="SPEC", help="A model that is asked where the first one has failed; once for each."),
]
OnFailure: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="fail|skip", help="Whether it goes on without what a provider lost. Default: fail."),
]
Record: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write all answers to a new file, to hold it again from that.")
]
Replay: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Take all answers from what --record wrote; with the same options and seed."),
]
StoreName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Where runs are kept: a file, or postgresql://… Default: FLOWDEBATE_STORE, a file in your data directory.",
    ),
]
NoStore: TypeAlias = Annotated[bool, typer.Option("--no-store", help="Do not keep the run.")]
RUN = "A run's id, or at least 4 characters that it begins with."
RunName: TypeAlias = Annotated[str | None, typer.Argument(help=RUN, show_default=False)]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")]
Markdown: TypeAlias = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report as well.")]

# Of commands that ask many questions

Concurrency: TypeAlias = Annotated[int, typer.Option(metavar="N", help="How many are held at once.")]
KeptAs: TypeAlias = Annotated[
    str | None,
    typer.Option("--batch", metavar="NAME", help="What it is kept as. Default: made of the questions and options."),
]
FirstOnly: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Only the first N questions.")]
CallsOfEach: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Requests at most, for each question.")]
TotalCalls: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Begin no further question after so many requests.")
]
TotalTokens: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Begin no further question after so many tokens.")
]
