"""`flowdebate audit --rejudge`: stored debates judged again, as a durable batch."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import tell
from flowdebate.errors import ConfigurationError, error_text
from flowdebate.evaluation.judges.rejudge import ArguedDebate, rejudge
from flowdebate.evaluation.judges.report import AuditItem
from flowdebate.models.openai.endpoint import address_of
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.mirror import spoken_in
from flowdebate.runs.durable.resume import StoreOptions
from flowdebate.service.audit import Items, argued
from flowdebate.service.plans.options import COMMAND
from flowdebate.service.plans.plan import Models

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.base import Model
    from flowdebate.patterns.debate.judging.ballots import Answer
    from flowdebate.store.base import Store, StoredRun


_TOO_FEW = "has no transcript of a debate of two sides"


@dataclass(frozen=True, kw_only=True)
class Rejudging:
    """Options of judging again."""

    models: Sequence[Model | str]
    judge: JudgeOptions
    repeat: int
    concurrency: int
    fingerprint: str
    """All of this as text; the same options continue the same batch."""

    @classmethod
    def of(
        cls,
        *,
        schedule: str | None,
        repeat: int | None,
        judge_answer: Answer | None,
        labels: bool | None,
        base_url: str | None,
        max_concurrency: int | None,
        model: Sequence[str] | None,
    ) -> Rejudging:
        """Read the options of the command line; None was not given. ConfigurationError with the option."""
        specs = list(model or ())
        at = address_of(base_url or "")
        check(base_url is None or specs, "--model", None, f"the model's name as the server at {at} has it")
        make = Models(base_url)
        made = [make(spec, COMMAND, "--model") for spec in specs]
        try:
            judge = JudgeOptions(
                answer=judge_answer,
                schedule=schedule or "cyclic",
                labels=bool(labels),
                models=made if len(made) > 1 else (),
            )
        except ConfigurationError as error:
            flag = {"answer": "judge-answer", "models": "model"}.get(error.field, error.field)
            raise ConfigurationError(COMMAND, f"--{flag}", error.got, error.allowed) from None
        times = repeat or 1
        answers = [] if judge_answer is None else [judge_answer]
        fingerprint = str([str(judge.plan), bool(labels), times, specs, *answers])
        return cls(models=made, judge=judge, repeat=times, concurrency=max_concurrency or 8, fingerprint=fingerprint)

    def judged(self, runs: Iterable[StoredRun], store: Store, *, seed: int) -> tuple[Items, int]:
        """Judge the debates of `runs` again: the items, and how many debates failed. Recorded answers cost nothing."""
        debates: dict[str, tuple[str, ArguedDebate]] = {}
        left_out = Counter[str]()
        for run in runs:
            debate = argued(run)
            if debate is None or len(debate.sides) < 2:  # noqa: PLR2004 - there is nothing to choose from one
                left_out[_TOO_FEW] += 1
            else:
                debates.setdefault(debate.model_dump_json(), (run.header.run_id, debate))
        if not debates:
            return Items(items=[], left_out=left_out), 0
        about = "\n".join([self.fingerprint, str(seed), *debates])
        result = asyncio.run(
            rejudge(
                [debate for _, debate in debates.values()],
                judge=self.judge,
                repeat=self.repeat,
                model=self.models[0] if len(self.models) == 1 else None,
                seed=seed,
                max_concurrency=self.concurrency,
                store=StoreOptions(store=store),
                batch_id=f"rejudge-{hashlib.blake2b(about.encode(), digest_size=5).hexdigest()}",
            )
        )
        names = [name for name, _ in debates.values()]
        for item in result.failed:
            tell(f"Run {names[item.index]} could not be judged again: {error_text(item.error) if item.error else ''}")
        turns = [spoken_in(debate.transcript) for _, debate in debates.values()]
        items = [
            AuditItem(id=names[item.index], ballots=item.output.ballots, spoken=turns[item.index])
            for item in result
            if item.output is not None
        ]
        return Items(items=items, left_out=left_out), len(result.failed)
