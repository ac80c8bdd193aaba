"""Options for the default judge, such as its view schedule, panel, decision rule and labels."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.option_types import Flag, check_option
from flowdebate._util.validation import check_choice, check_count, check_number, is_number
from flowdebate.errors import ConfigurationError, ConflictingOptions
from flowdebate.models.resolve import check_model, resolve_model
from flowdebate.prompts import Profile, check_profile

from .ballots import Answer, DecidedBy, LetterFit, OnFlip
from .views import NAMES, Schedule, ScheduleLike, as_schedule

if TYPE_CHECKING:
    from flowdebate.blocks.functions import Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.human.human import Ask
    from flowdebate.chassis.roles import BlockOptions
    from flowdebate.models.base import Model, ModelSettings

    from .jurors import JudgeTemplate


LETTERS = ("letter", "letter_after_reasons")  # forms in which the judge answers with a letter
_WHERE = "JudgeOptions"
MAX_CRITERIA, MAX_WEIGHT = 20, 1_000
# Options that configure the judge's block rather than the judging itself.
_BLOCK = ("model", "profile", "instructions", "tools", "uses", "context", "settings", "visibility")


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Options for the default judge: `debate(judge=JudgeOptions(schedule="cyclic"))`.

    Invalid or contradictory options raise ConfigurationError.
    """

    answer_form: Answer | None = None
    """Form of the judge's answers: "winner", "scores", "letter" or "letter_after_reasons".

    Only a single judge that reads one or both orders can name just a winner. If the answer is a letter, the ballot
    consists of the log-probabilities.

    By default, the judge answers with a letter if decided_by="log_odds". A judge whose model has a concise profile also
    does so, unless `schedule` sets a single order or one of the options below requires another form. In all other
    cases, the judge gives scores if there are several ballots, labels or criteria, and otherwise names a winner.
    """
    schedule: ScheduleLike | None = None
    """Orders in which the sides are shown to the judge: "single", "swap", "cyclic", "full", "sampled(n)", or a
    `Schedule`.

    The default is "single"; for letters it is "cyclic", because with only one order the slots would influence the judge
    more than the arguments do.
    """
    panel: Sequence[Model | str] = ()
    """Models on a panel, each judging every view; empty for a single judge."""
    decided_by: DecidedBy | None = None
    """Decision rule: "mean" averages the scores, "vote" counts the first choice on each ballot, and "log_odds" takes
    the median of the models' mean log-odds for the letters. The default is "log_odds" for letters and "mean" otherwise.
    """
    min_log_odds: float | None = None
    """Lead required to win if decided_by="log_odds".

    The default is the value fitted for the model (for several models, the highest one), or 0.1 if there is no fit.
    """
    fit: LetterFit | None = None
    """Fit for the judging model, used with answer_form="letter"; `fit_letters()` can provide one.

    By default, a judge that runs the weights of the model "local" with the default prompt uses the fit in
    docs/evidence.md; other models have no fit.
    """
    quotes: bool = True
    """True to quote each side's most concrete statement, as picked by the judge.

    This takes a one-token call per side, and requires answer_form="letter".
    """
    on_flip: OnFlip = "average"
    """Policy for when a model picks different winners in different views.

    - "average": the mean decides.
    - "abstain": nobody wins, but the mean scores are kept.
    - "tie": nobody wins, and all sides ranked first get equal scores.
    - "human": a person decides.
    """
    labels: bool | Sequence[str] = False
    """True to show sides as "A", "B", … instead of their stances, or a list of custom labels.

    The labels rotate relative to the slots from view to view. If the judge answers with letters, the labels are always
    the letters, and follow the slots unless `crossed_labels` is set.
    """
    crossed_labels: bool = False
    """True to have each order judged once for every rotation of the labels.

    This multiplies the number of calls by the number of sides. The labels are "A", "B", … unless `labels` lists others.
    """
    criteria: Mapping[str, float] | None = None
    """Rubric for scoring each side: criteria and their weights.

    A ballot has a score for each criterion, and the weighted mean decides. By default, each side gets a single score.
    """
    curtail: bool = False
    """True to stop collecting ballots once the remaining ones can no longer change the winner."""
    quorum: int | None = None
    """Minimum number of models on a panel that must answer; defaults to the number set in the debate's `FailurePolicy`,
    or two if none is set.
    """
    correlation: float | None = None
    """Correlation between the errors of a panel's models, from 0 to 1, for computing the effective n.

    `flowdebate eval audit` measures it. The default is 0.4375, the value for a published panel of nine judges that was
    equivalent to two independent ones.
    """
    ask: Ask | None = None
    """Function for asking a person to decide if on_flip="human", as in `human(ask=…)`. If it is None, the run is
    suspended instead.
    """
    model: Model | str | None = None
    """Model for a single judge, or None for the debate's model. Panels have their own models."""
    template: JudgeTemplate | None = None
    """Prompt templates for the judge, or None for the default ones."""
    profile: Profile | None = None
    """Profile for the judge's default prompt, or None for the debate's profile."""
    instructions: TextSlot | None = None
    """Text appended to the judge's system message, replacing the debate's instructions. Likewise, each of the following
    options overrides the corresponding option of the debate.
    """
    tools: Sequence[ToolLike] | None = None
    uses: Sequence[Capability] | None = None
    context: MessagesSlot | None = None
    settings: ModelSettings | None = None
    visibility: Visibility | Mapping[str, bool] | None = None
    """Visibility of the judge's output; None to use the debate's `judge_visibility`."""
    plan: Schedule = field(init=False, repr=False, compare=False)
    """The parsed `schedule`."""

    def __post_init__(self) -> None:
        check_profile(_WHERE, self.profile)
        check_option(Flag, "crossed_labels", self.crossed_labels, location=_WHERE, optional=False)
        for option, kind in (("answer_form", Answer), ("decided_by", DecidedBy), ("on_flip", OnFlip)):
            if (value := getattr(self, option)) is not None or option == "on_flip":
                check_choice(_WHERE, get_args(kind), **{option: value})
        by_letter = self.form in LETTERS
        schedule = ("cyclic" if by_letter else "single") if self.schedule is None else self.schedule
        object.__setattr__(self, "plan", as_schedule(schedule, location=_WHERE))
        self._check_models()
        self._check_answer(by_letter=by_letter)
        if self.curtail and self.on_flip != "average":
            sentence = f"{{curtail}} cannot be combined with {{on_flip}} {self.on_flip}: "
            raise ConflictingOptions(
                _WHERE, ("curtail", "on_flip"), sentence + "`on_flip` requires the ballots for both orders"
            )
        person = self.on_flip == "human" and callable(self.ask)
        self._require(
            self.ask is None or person, "ask", "must be a function of (request), and requires `on_flip` human"
        )
        if not isinstance(self.labels, bool):
            several = isinstance(self.labels, Sequence) and not isinstance(self.labels, str)
            is_named = several and all(isinstance(label, str) and label.strip() for label in self.labels)
            self._require(is_named, "labels", "must be true, false, or a list with one label per side")
        check_number(_WHERE, minimum=0, maximum=1, optional=True, correlation=self.correlation)

    def _check_answer(self, *, by_letter: bool) -> None:
        self._require(
            by_letter or self.decided_by != "log_odds",
            "decided_by",
            "cannot be log_odds unless the judge answers by letter",
        )
        self._require(
            not (by_letter and self.curtail),
            "curtail",
            "cannot be combined with answers by letter, whose log-odds have no bound",
        )
        uses_letters = not isinstance(self.labels, (bool, str))
        self._require(
            not (by_letter and uses_letters),
            "labels",
            "cannot be set if the judge answers by letter: the letters are the labels",
        )
        self._require(
            not (self.answer_form == "letter" and self.tools),
            "tools",
            "cannot be combined with an answer by letter, which leaves no room for tool calls",
        )
        several = bool(self.panel) or self.plan.kind not in ("single", "swap") or self.has_labels
        problem = "must be scores when there is a panel, labels, or a schedule other than single and swap"
        self._require(not (self.answer_form == "winner" and several), "answer_form", problem)
        rubric = self.criteria
        weighed = rubric is None or (isinstance(rubric, dict) and 0 < len(rubric) <= MAX_CRITERIA)
        for name, weight in (rubric or {}).items() if weighed else ():
            weighed = weighed and isinstance(name, str) and bool(name.strip()) and is_number(weight, maximum=MAX_WEIGHT)
        problem = f"must contain 1 to {MAX_CRITERIA} names, with weights greater than 0 and at most {MAX_WEIGHT:,}"
        self._require(weighed, "criteria", problem)
        self._require(rubric is None or self.form == "scores", "criteria", "requires the `scores` answer form")
        check_number(_WHERE, minimum=0, optional=True, min_log_odds=self.min_log_odds)
        self._require(self.fit is None or isinstance(self.fit, LetterFit), "fit", "must be a LetterFit")
        self._require(isinstance(self.quotes, bool), "quotes", "must be true or false")
        models = (*self.panel, *(() if self.model is None else (self.model,))) if self.answer_form in LETTERS else ()
        for model in models:
            if not (isinstance(model, str) and model.startswith("intent/")):
                gives = getattr(resolve_model(model), "gives_logprobs", True)
                problem = f"must return log-probabilities, which the `{self.answer_form}` answer form needs"
                self._require(bool(gives), "model" if self.panel == () else "panel", problem)

    def _check_models(self) -> None:
        several = isinstance(self.panel, Sequence) and not isinstance(self.panel, str)
        self._require(several, "panel", "must be a sequence of models")
        for model in self.panel:
            check_model(model, location=_WHERE, field="panel")
        check_model(self.model, location=_WHERE)
        single = self.model is None or not self.panel
        self._require(single, "model", "cannot be combined with `panel`")
        if self.quorum is not None:
            check_count(_WHERE, quorum=self.quorum)
            panel_size = max(len(self.panel), 1)
            self._require(self.quorum <= panel_size, "quorum", f"must be at most {panel_size}, the number of models")

    def _require(self, valid: bool, option: str, problem: str) -> None:  # noqa: FBT001 - what is required
        if not valid:
            raise ConfigurationError(_WHERE, option, getattr(self, option), problem)

    def for_block(self) -> BlockOptions:
        """Return the block options that are set; for all others, the debate's options apply."""
        values: Any = {name: value for name in _BLOCK if (value := getattr(self, name)) is not None}
        options: BlockOptions = values
        return options

    @property
    def form(self) -> Answer:
        """Form of the judge's answers, assuming the full profile if the form depends on the profile."""
        if self.answer_form is not None:
            return self.answer_form
        if self.decided_by == "log_odds":
            return "letter"
        single = self.schedule is None or as_schedule(self.schedule, location=_WHERE).kind == "single"
        only = single and not self.panel and not self.has_labels and self.criteria is None
        return "winner" if only else "scores"

    @property
    def has_labels(self) -> bool:
        """True if views identify sides by label."""
        return self.labels is not False or self.crossed_labels

    @property
    def rule(self) -> DecidedBy:
        """The decision rule."""
        return self.decided_by or ("log_odds" if self.form in LETTERS else "mean")

    @property
    def is_open(self) -> bool:
        """True if the form of the answers depends on the model's profile."""
        values = (self.answer_form, self.decided_by, self.template, self.tools, self.criteria)
        several = bool(self.panel) or self.has_labels or self.on_flip != "average" or self.curtail
        # models with a concise profile favor a slot when shown only one order, but judge best by letter when shown
        # several
        ordered = self.schedule is None or self.plan.kind != "single"
        return values == (None,) * len(values) and ordered and not several


def as_judge_options(value: object, *, location: str) -> JudgeOptions | None:
    """Return `JudgeOptions` unchanged, and convert a schedule; return None for other values of `debate(judge=…)`."""
    if isinstance(value, JudgeOptions):
        return value
    if not isinstance(value, (str, Schedule)):
        return None
    problem = f"must be JudgeOptions, a schedule ({NAMES}), a block or a function of (input, ctx)"
    return JudgeOptions(schedule=as_schedule(value, location=location, field="judge", problem=problem))


def labels_for(sides: Sequence[str], labels: bool | Sequence[str], *, location: str) -> tuple[str, ...] | None:  # noqa: FBT001 - an option of that kind
    """Choose labels for `sides`; return None if no labels are requested. Ambiguous labels raise ConfigurationError."""
    if labels is False:
        return None
    drawn = labels is True
    names = tuple(string.ascii_uppercase) if drawn else tuple(labels)  # type: ignore[arg-type] # a sequence
    if len(names) < len(sides) or (not drawn and len(names) > len(sides)):
        raise ConfigurationError(location, "labels", labels, f"must have a label for each of the {len(sides)} sides")
    names = names[: len(sides)]
    called = {side.strip().casefold() for side in sides}
    if len({name.casefold() for name in names}) < len(names) or any(
        name.strip().casefold() in called for name in names
    ):
        raise ConfigurationError(location, "labels", list(names), "must differ from each other and from the stances")
    return names
