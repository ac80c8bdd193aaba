"""What `flowdebate audit --rejudge` does: debates that are kept are judged again, in a batch that is kept as well."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.cli.audit_items import Items, argued
from flowdebate.cli.keys import COMMAND, count, flag, model_name, text
from flowdebate.cli.plan import Models
from flowdebate.cli.streams import tell
from flowdebate.errors import ConfigurationError, told
from flowdebate.evaluation.judges.rejudge import ArguedDebate, rejudge
from flowdebate.evaluation.judges.schemas import AuditItem
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.runs.durable.resume import Durability

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.models.base import Model
    from flowdebate.store.base import Store, StoredRun

__all__ = ("KEYS", "Rejudging")

KEYS = {
    "schedule": text("--schedule"),
    "repeat": count("--repeat"),
    "labels": flag("--labels"),
    "base_url": text("--base-url"),
    "concurrency": count("--concurrency"),
}
"""What it can be told, besides its models."""
_TOO_FEW = "has no transcript of a debate of two sides"


@dataclass(frozen=True, kw_only=True)
class Rejudging:
    """How it is judged again; ConfigurationError, with the option, for what cannot be."""

    models: Sequence[Model | str]
    judge: JudgeOptions
    repeat: int
    concurrency: int
    told: str
    """All of this as text."""

    @classmethod
    def of(cls, options: Mapping[str, object], models: Sequence[str]) -> Rejudging:
        """What the options, those of `KEYS`, say; None is one that was not given."""
        for name, value in options.items():
            if value is not None and not KEYS[name].fits(value):
                raise ConfigurationError(COMMAND, str(KEYS[name].option), value, KEYS[name].allowed)
        base_url = options["base_url"]
        if base_url is not None and not models:
            raise ConfigurationError(COMMAND, "--model", None, f"the model's name as the server at {base_url} has it")
        make = Models(None if base_url is None else str(base_url))
        for spec in models:
            if not model_name().fits(spec):
                raise ConfigurationError(COMMAND, "--model", spec, model_name().allowed)
        made = [make(spec, COMMAND, "--model") for spec in models]
        try:
            judge = JudgeOptions(
                schedule=str(options["schedule"] or "cyclic"),
                labels=bool(options["labels"]),
                models=made if len(made) > 1 else (),
            )
        except ConfigurationError as error:
            raise ConfigurationError(COMMAND, f"--{error.field}", error.got, error.allowed) from None
        repeat, concurrency = (
            int(str(options[name] or default)) for name, default in (("repeat", 1), ("concurrency", 8))
        )
        kept = [str(judge.plan), bool(options["labels"]), repeat, list(models)]
        return cls(models=made, judge=judge, repeat=repeat, concurrency=concurrency, told=str(kept))

    def held(self, runs: Iterable[StoredRun], store: Store, *, seed: int) -> tuple[Items, int]:
        """The ballots, and how many debates could not be judged again; what was judged so before is not paid again."""
        debates: dict[str, tuple[str, ArguedDebate]] = {}
        left_out = Counter[str]()
        for run in runs:
            debate = argued(run)
            if debate is None or len(debate.sides) < 2:  # noqa: PLR2004 - there is nothing to choose from one
                left_out[_TOO_FEW] += 1
            else:
                debates.setdefault(debate.model_dump_json(), (run.header.run_id, debate))
        if not debates:
            return Items(found=[], left_out=left_out), 0
        about = "\n".join([self.told, str(seed), *debates])
        result = asyncio.run(
            rejudge(
                [debate for _, debate in debates.values()],
                judge=self.judge,
                repeat=self.repeat,
                model=self.models[0] if len(self.models) == 1 else None,
                seed=seed,
                concurrency=self.concurrency,
                store=Durability(store=store),
                batch_id=f"rejudge-{hashlib.blake2b(about.encode(), digest_size=5).hexdigest()}",
            )
        )
        names = [name for name, _ in debates.values()]
        for item in result.failed:
            tell(f"Run {names[item.index]} could not be judged again: {told(item.error) if item.error else ''}")
        found = [
            AuditItem(id=names[item.index], ballots=item.output.ballots) for item in result if item.output is not None
        ]
        return Items(found=found, left_out=left_out), len(result.failed)
