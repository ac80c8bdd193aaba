"""Service: operations on runs for all front ends, regardless of which process executes the runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from flowdebate._text import error_text
from flowdebate._util.validation import check_count, check_seconds
from flowdebate.blocks.generator import generator
from flowdebate.blocks.human.answers import check_not_repeated, list_requests, open_requests, submit_answer
from flowdebate.errors import (
    BudgetReached,
    ConfigurationError,
    FlowDebateError,
    RunConflict,
    RunExists,
    RunNotFound,
    StoreError,
    TooManyRuns,
)
from flowdebate.evaluation.readers import Readership, readers_of
from flowdebate.evaluation.stored_audit import Items, audited_runs
from flowdebate.models.base import Message, ModelRequest
from flowdebate.models.resolve import ModelResolver
from flowdebate.runs.durable.replay import Follower, OnRequest, Replay, replay
from flowdebate.runs.durable.resume import load_fork, load_run, prepare_fork
from flowdebate.runs.execute import make_run, start_block
from flowdebate.runs.header import StoreOptions, changes_of, check_unchanged
from flowdebate.runs.journal import OnUncertain, has_unanswered
from flowdebate.runs.limits import OWNER, Accounts, Limits
from flowdebate.runs.queue_state import LOWEST, priority_of
from flowdebate.service.active import ActiveRuns
from flowdebate.service.evidence import Evidence, evidence_in
from flowdebate.service.lifetime import Recovery
from flowdebate.service.recipes import CheckOptions, Recipe, Recipes, make_recipe
from flowdebate.service.runs import (
    UnfinishedRun,
    archive_of,
    delete_run,
    each_run,
    list_runs,
    outcome_of,
    read_document,
    state_of,
)
from flowdebate.service.state import (
    BudgetState,
    Changed,
    RunDetails,
    RunPage,
    RunRecord,
    RunState,
    change_all,
    pending_in,
)
from flowdebate.store.base import COMPLETE, GIVEN_UP, RunHeader, StepRow, Store, StoredRun, StoredStatus
from flowdebate.store.draining import Draining
from flowdebate.store.open import StoreChoice, close_store, default_store_path, open_store
from flowdebate.ui.models import AllowedModels
from flowdebate.ui.plan import plan_of
from flowdebate.ui.statuses import RESUMABLE
from flowdebate.ui.steps import CallDetails, Fork, check_edits

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.observer import Observer
    from flowdebate.runs.result import RunHandle, RunResult
    from flowdebate.runs.run import Run
    from flowdebate.service.channel import Update
    from flowdebate.store.archive import StoredArchive
    from flowdebate.ui.document import Document
    from flowdebate.ui.plan import Plan
    from flowdebate.workers.deployment import Workers


_Make: TypeAlias = "Callable[[], Awaitable[tuple[Run, Any]]]"
_UNFINISHED: tuple[StoredStatus, ...] = ("running", "queued")


class Service(Readership):
    """Starts, follows, answers, cancels, resumes, forks and deletes durable runs, for any front end.

    `patterns` are the application's own, keyed by name; unless `plans` is False, the built-in patterns can also be
    started, from plans. Runs are kept in `store` (by default, FLOWDEBATE_STORE or the user's data directory). `model`
    is the default model for runs, and `limits` are upper bounds for every run. `budget` (by default, the workers'
    budget) limits the calls, tokens and cost of all runs together, as counted in the store; `owner_budget` limits each
    owner's runs (by the label `owner`) per day (UTC). At most `max_concurrency` runs are executed here at once, and at
    most `owner_concurrency` per owner; `max_queued` more may wait for their turn. If `workers` are passed, worker
    processes execute all runs of patterns known to the workers. Runs in other processes are followed through their
    journals, which are read every `poll` seconds if they have changed. If `recover` is True, runs left unfinished by
    one process are resumed by `recover()` in the next one; if `keep_days` is set, `recover()` also deletes runs that
    have not changed for that many days, immediately and then every hour. `observe` traces the runs executed by this
    process; workers have their own observers. `allow_models` lists the models, or patterns such as "openai/*", allowed
    in options and stored plans; an empty list allows only the configured models. None allows all models, except in an
    HTTP or MCP server, where it allows only the configured ones. A `Plan` created by this program may name any model.

    All methods raise RunNotFound for an unknown run, and StoreError if the store fails. Use the service as an async
    context manager, or call `close`.

    >>> import asyncio
    >>> from flowdebate.testing import ScriptedModel
    >>> async def main():
    ...     verdict = {"reasoning": "It was not measured.", "winner": None, "verdict": "Wait."}
    ...     model = ScriptedModel("It is safe.", "It is slow.", verdict, verdict, "Wait.")
    ...     async with Service(store="memory:", model=model) as service:
    ...         run = await service.begin("debate", "Should we ship?", options={"max_rounds": 1})
    ...         async for update in service.follow(run.run_id):
    ...             if update.kind == "event" and update.event.kind == "turn_finished":
    ...                 print(update.event.agent_name)
    ...         return (await service.run(run.run_id)).status
    >>> asyncio.run(main())
    pro
    con
    'complete'
    """

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        patterns: Mapping[str, Block[Any, Any]] | None = None,
        *,
        store: StoreChoice = None,
        model: ModelChoice = None,
        limits: Limits | None = None,
        budget: Limits | None = None,
        owner_budget: Limits | None = None,
        workers: Workers | None = None,
        max_concurrency: int = 8,
        owner_concurrency: int | None = None,
        max_queued: int = 100,
        plans: bool = True,
        recover: bool = False,
        poll: float = 1.0,
        observe: Observer | None = None,
        allow_models: Iterable[str] | None = None,
        keep_days: float | None = None,
    ) -> None:
        per_owner = 1 if owner_concurrency is None else owner_concurrency
        check_count("Service", max_concurrency=max_concurrency, owner_concurrency=per_owner)
        check_count("Service", minimum=0, max_queued=max_queued)
        check_seconds("Service", poll=poll)
        check_seconds("Service", optional=True, keep_days=keep_days)
        self.keep_days = keep_days
        opened = workers.store if store is None and workers is not None else open_store(store, location="Service")
        if opened is None and store is None:  # None means "no store" in other options
            opened = open_store(default_store_path())
        if opened is None:
            raise ConfigurationError("Service", "store", store, "is required because a service must store its runs")
        self._opened = None if opened is store else opened
        """The store, if it was opened here and must therefore be closed here; otherwise None."""
        # `close` lets calls in flight finish: they are already paid for, and recorded answers need not be requested
        # again.
        self._draining = Draining(opened, requeue=recover)
        self._recovers = recover
        self.store: Store = self._draining
        self.workers = workers
        self.max_concurrency = max_concurrency
        self._recipes = Recipes(
            {**({} if workers is None else workers.patterns), **(patterns or {})},
            model=model if workers is None or model is not None else workers.model,
            limits=limits,
            plans=plans,
            store=self.store,
            queued=() if workers is None else tuple(workers.patterns),
            recover=recover,
        )
        if allow_models is not None:
            self._recipes.allowed = AllowedModels(tuple(allow_models), self.model_name)
        self._poll = poll
        self._observe = observe
        budget = budget if budget is not None or workers is None else workers.budget
        if owner_budget is None and workers is not None:
            owner_budget = workers.owner_budget
        self._accounts = Accounts(self.store, budget, owner_budget)
        self._active = ActiveRuns(
            self.store,
            max_concurrency=max_concurrency,
            owner_concurrency=owner_concurrency,
            max_queued=max_queued,
            poll=poll,
            follower=self._follower,
            continuation=self._is_executing,
        )
        self._recovery = Recovery(self.store, self._recipes, self._active, poll=poll)

    @property
    def patterns(self) -> Mapping[str, Block[Any, Any]]:
        """The application's patterns, keyed by name."""
        return self._recipes.patterns

    def register(self, name: str, pattern: Block[Any, Any]) -> None:
        """Add a pattern, for example from a front end; raise ConfigurationError if the name is taken."""
        self._recipes.register(name, pattern)

    @property
    def model_name(self) -> str | None:
        """Name of the default model for debaters; None if the environment determines it."""
        return self._recipes.model_name

    def restrict_models(self, *, providers: bool = False) -> AllowedModels:
        """Allow only configured models unless `allow_models` lists others; used by front ends that serve other users.

        If `providers` is True, requests not forwarded by a proxy may name any model from a configured provider.
        """
        if self._recipes.allowed is None:
            self._recipes.allowed = AllowedModels(service_model=self.model_name, providers=providers)
        return self._recipes.allowed

    @property
    def plans(self) -> bool:
        """Return whether the service can start the built-in patterns."""
        return self._recipes.plans

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Starting

    async def begin(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        pattern: str | Plan,
        question: object = None,
        *,
        options: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        priority: int = 0,
        check: CheckOptions | None = None,
    ) -> RunState:
        """Start a run, and return once it is stored; if the run `run_id` already exists, return it.

        `pattern` is a registered pattern, a built-in one with `options` as in a plan file, or a Plan. If runs have to
        wait, those with the lowest priority value (0 to 100) start first, and owners take turns within the same
        priority. Raises ConfigurationError for invalid options, RunExists or RunChanged if the run `run_id` was started
        by a different request, TooManyRuns if no more runs may wait, and BudgetReached if a budget is used up. `check`
        receives the options before any file or URL in them is accessed, and may raise ConfigurationError for options
        not available to this caller.
        """
        check_count("Service.begin()", minimum=0, maximum=LOWEST, priority=priority)
        options = options or {}
        new = partial(
            self._recipes.new, pattern, question, options, seed=seed, labels=labels, limits=limits, check=check
        )
        recipe = await make_recipe(new, options)
        await self._check_budget(labels, run_id)
        if recipe.proposes:
            sides = await self._stored_sides(run_id) or await self._propose(recipe, labels)
            recipe = self._recipes.with_sides(recipe, sides, limits, labels)
        if recipe.queued and self.workers is not None:
            arguments: dict[str, Any] = {"seed": recipe.seed, "labels": labels, "limits": recipe.limits}
            arguments |= {"run_id": run_id, "priority": priority}
            return await self._state(await self.workers.submit(recipe.name, recipe.value, **arguments))
        plan = {**(recipe.stored or {}), "priority": priority} if priority else recipe.stored
        run = make_run(
            recipe.block,
            recipe.value,
            model=recipe.model,
            seed=recipe.seed,
            limits=recipe.limits,
            store=StoreOptions(store=self.store, labels=labels or {}, plan=plan),
            run_id=run_id,
            observe=self._observe,
        )
        if run_id is not None and (same_run := await self._find_existing(run, recipe)) is not None:
            return same_run

        async def prepared() -> tuple[Run, Any]:
            return run, recipe.value

        try:
            try:
                return await self._start(recipe.block, prepared, labels)
            except TooManyRuns:
                self._active.check_queue()
                assert run.journal is not None  # noqa: S101 - it has a store
                return await self._queue_new(run.journal.header, recipe)
        except RunExists:  # another request started the run at the same time
            same_run = None if run_id is None else await self._find_existing(run, recipe)
            if same_run is None:
                raise
            return same_run

    async def propose_sides(
        self,
        pattern: str,
        question: object,
        *,
        options: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        check: CheckOptions | None = None,
    ) -> Sequence[Any]:
        """Return the speakers for a new run: those in its options or question, or else those proposed by a model.

        A proposal takes one call to the debaters' model, and counts toward budgets. `begin` itself requests a proposal
        when needed; this method is for front ends that show the sides before the debate starts. It raises the same
        errors as `begin`.
        """
        new = partial(
            self._recipes.new, pattern, question, options or {}, seed=None, labels=labels, limits=limits, check=check
        )
        recipe = await make_recipe(new, options or {})
        if recipe.plan is None or recipe.plan.speakers:
            return () if recipe.plan is None else recipe.plan.speakers
        await self._check_budget(labels)
        return await self._propose(recipe, labels)

    async def _propose(self, recipe: Recipe, labels: Mapping[str, str] | None) -> Sequence[Any]:
        """Have a model propose the speakers for a plan."""
        sides: Sequence[Any] = (await self._run_unstored(recipe, recipe.block, recipe.value, labels)).output
        return sides

    async def ask_model(
        self,
        pattern: str,
        messages: Sequence[Message],
        *,
        output_schema: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> RunResult[Any]:
        """Send `messages` to the model in a pattern's first seat, and return its answer; the call is not stored.

        The call counts toward budgets, and raises the same errors as `begin`.
        """
        options = options or {}
        question = "What does the client want?"  # options are checked with a placeholder question
        new = partial(self._recipes.new, pattern, question, options, seed=None, labels=labels, limits=None, check=None)
        recipe = await make_recipe(new, options)
        await self._check_budget(labels)
        seat = next(iter(recipe.block.seats()), None)
        model = None if seat is None else ModelResolver(recipe.model).resolve(seat.model, seat.around)
        *context, last = messages
        block = generator(name="task", context=context, user=last["content"], model=model, output_schema=output_schema)
        return await self._run_unstored(recipe, block, None, labels)

    async def _run_unstored(
        self, recipe: Recipe, block: Block[Any, Any], value: object, labels: Mapping[str, str] | None
    ) -> RunResult[Any]:
        """Run a block without storing the run, using a recipe's model and limits."""
        self._active.check_queue()  # if the server is full, the request is rejected before any call is paid for
        run = make_run(
            block,
            value,
            model=recipe.model,
            seed=recipe.seed,
            limits=recipe.limits,
            store=False,
            observe=self._observe,
        )
        run.accounts = self._accounts.of(labels or {})
        return await start_block(block, value, run)

    async def _stored_sides(self, run_id: str | None) -> Sequence[Any]:
        """Return the sides of the existing run `run_id`, so that a repeated request does not pay for new ones."""
        if run_id is None:
            return ()
        with suppress(RunNotFound):
            plan = plan_of(await self.store.run(run_id), {}, to_ask=False)
            return plan.speakers
        return ()

    async def _queue_new(self, header: RunHeader, recipe: Recipe) -> RunState:
        """Store a new run and add it to the queue."""
        await self.store.add(StoredRun(header=header, status="queued", updated_at=time.time(), steps=0), ())
        return await self._queue(header, partial(self._resume, header.run_id, recipe=recipe))

    async def _queue(self, header: RunHeader, resume: Callable[..., Awaitable[RunState]]) -> RunState:
        async def in_turn() -> None:
            if (await self.store.run(header.run_id)).status != "queued":
                return  # the run was cancelled, or another process has taken it
            try:
                await resume(in_turn=True)
            except TooManyRuns:
                raise
            except FlowDebateError:
                await self.cancel(header.run_id)  # otherwise, the run would stay queued forever
                raise

        self._active.queue(header.run_id, in_turn, owner=header.labels.get(OWNER, ""), priority=priority_of(header))
        return await self._state(header.run_id)

    async def _start(
        self, block: Block[Any, Any], make: _Make, labels: Mapping[str, str] | None, *, in_turn: bool = False
    ) -> RunState:
        """Start the run returned by `make`, with the input returned alongside it.

        Raises TooManyRuns, or any error from `make`.
        """

        async def starting() -> RunHandle[Any]:
            run, value = await make()
            assert run.journal is not None  # noqa: S101 - it has a store
            run.accounts = self._accounts.of(run.journal.header.labels)
            return start_block(block, value, run)

        owner = (labels or {}).get(OWNER, "")
        return self._state_of(await self._active.start(starting(), owner=owner, in_turn=in_turn))

    async def _check_budget(self, labels: Mapping[str, str] | None, run_id: str | None = None) -> None:
        """Raise BudgetReached if the budget is used up, unless the run `run_id` is already stored."""
        accounts = self._accounts.of(labels)
        if accounts and run_id is not None:
            with suppress(RunNotFound):
                await self.store.run(run_id)
                return
        for account in accounts:
            await account.check()

    async def _find_existing(self, run: Run, recipe: Recipe) -> RunState | None:
        """Return the stored run with the same id as `run`; return None if there is none.

        Raises RunChanged if the stored run was started by a different request.
        """
        try:
            stored = await self.store.run(run.run_id)
        except RunNotFound:
            return None
        assert run.journal is not None  # noqa: S101 - it has a store
        pairs = changes_of(stored.header, run.journal.header)
        if recipe.seed is None:  # otherwise, each request would draw a different seed
            del pairs["seed"]
        check_unchanged(self.store, run.run_id, pairs)
        return self._state_of(stored)

    # Reading

    async def run(self, run_id: str) -> RunDetails:
        """Return a run, including its document so far and its pending requests for human input."""
        stored = await self.store.run(run_id)
        handle = self._active.in_progress(run_id)
        # A run in progress in this process reports its own state, because replaying its journal could take as long as
        # the run itself.
        steps = () if handle is not None and stored.header.parent is None else await self.store.steps(run_id)
        return await self._details(stored, steps)

    async def record(self, run_id: str, *, stored: StoredRun | None = None) -> RunRecord:
        """Read everything shown on a run's page; if the run's row has already been read, pass it as `stored`."""
        stored = await self.store.run(run_id) if stored is None else stored
        steps, events = await self.store.steps(run_id), self._active.events(run_id)
        replayed: Replay | FlowDebateError | None = None
        if events is None:
            try:
                replayed = await self._replayed(stored, steps)
            except FlowDebateError as error:  # for example, if the pattern is unknown
                replayed = error
        return RunRecord(
            details=await self._details(stored, steps, replayed=replayed),
            stored=stored,
            steps=steps,
            events=events or (replayed.events if isinstance(replayed, Replay) else ()),
            people=self._people(stored, steps),
            readers=await readers_of(self.store, stored),
        )

    async def _details(
        self, stored: StoredRun, steps: Sequence[StepRow], *, replayed: Replay | FlowDebateError | None = None
    ) -> RunDetails:
        """Return a run's details; the run is replayed unless `replayed` is passed."""
        run_id = stored.header.run_id
        handle = self._active.in_progress(run_id)
        document: Document | None = None
        problem: str | None = None
        try:
            if handle is not None and outcome_of(stored) is None:
                # Read the document in this event loop, because the run continues here.
                document = read_document(stored, steps, so_far=UnfinishedRun(handle))
            else:
                so_far = None
                if outcome_of(stored) is None:
                    if isinstance(replayed, FlowDebateError):
                        raise replayed
                    so_far = UnfinishedRun.of(replayed or await self._replayed(stored, steps))
                document = await asyncio.to_thread(read_document, stored, steps, so_far=so_far)
        except FlowDebateError as error:
            problem = error_text(error)
        if stored.status == "queued" and (workers := self._workers_of(stored)) is not None:
            problem = (await workers.status(run_id)).problem or problem
        if stored.status in GIVEN_UP:
            problem = (stored.outcome or {}).get("error") or problem
        return RunDetails.of(
            stored,
            pattern=self._recipes.name_of(stored),
            is_here=handle is not None,
            document=document,
            problem=problem,
            pending=pending_in(stored, steps, store=self.store.name) if stored.status == "awaiting" else (),
            fork=Fork.of(stored, steps),
        )

    async def _replayed(
        self, stored: StoredRun, steps: Sequence[StepRow], *, on_request: OnRequest | None = None
    ) -> Replay:
        """Replay the run; raise ConfigurationError if this service does not have the run's pattern."""
        recipe, limits = self._to_replay(stored)
        return await replay(recipe.block, stored, steps, model=recipe.model, limits=limits, on_request=on_request)

    def _follower(self, stored: StoredRun) -> Follower:
        """Return a follower for a run in another process; raise ConfigurationError if its pattern is unknown."""
        recipe, limits = self._to_replay(stored)
        return Follower(recipe.block, model=recipe.model, limits=limits)

    def _to_replay(self, stored: StoredRun) -> tuple[Recipe, Limits | None]:
        recipe = self._recipes.of_run(stored, to_ask=False)
        workers = self._workers_of(stored)
        return recipe, recipe.limits if workers is None else workers.limits_of(stored.header)

    async def runs(
        self,
        *,
        status: str | None = None,
        pattern: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> RunPage:
        """Return a page of the runs that match all filters, newest first; `before` is the previous page's `next`."""
        check_count("Service.runs()", limit=limit)
        runs = await list_runs(
            self.store,
            state=status,
            block=None if pattern is None else self._recipes.block_name(pattern),
            search=text,
            labels=labels,
            limit=limit + 1,  # one more than the page shows, to find out whether there is a next page
            before=None if before is None else RunPage.cursor(before),
            brief=True,
        )
        return RunPage.of(map(self._state_of, runs[:limit]), more=len(runs) > limit)

    async def audited(
        self,
        *,
        status: str | None = None,
        pattern: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 1_000,
    ) -> Items:
        """Return the ballots and readers' votes of the newest runs that match all filters, for use in judge audits."""
        check_count("Service.audited()", limit=limit)
        block = None if pattern is None else self._recipes.block_name(pattern)
        runs = each_run(self.store, state=status, block=block, search=text, labels=labels, limit=limit)
        return await audited_runs(self.store, runs)

    async def budgets(self, owner: str | None = None) -> list[BudgetState]:
        """Return how much of each budget limit all runs together have used, and how much `owner` has used today.

        The result is empty if there are no limits.
        """
        return [
            BudgetState(budget=account.name, kind=kind, used=used, limit=limit, until=account.until)
            for account in self._accounts.of({} if owner is None else {OWNER: owner})
            for kind, used in (await account.used())._asdict().items()
            if (limit := getattr(account.limits, kind)) is not None
        ]

    def archive(self) -> StoredArchive:
        """Return the shared archive of all debates without an owner."""
        return archive_of(self.store, {})

    async def _state(self, run_id: str) -> RunState:
        return self._state_of(await self.store.run(run_id))

    def _state_of(self, stored: StoredRun) -> RunState:
        is_here = self._active.in_progress(stored.header.run_id) is not None
        return RunState.of(stored, pattern=self._recipes.name_of(stored), is_here=is_here)

    def handle(self, run_id: str) -> RunHandle[Any] | None:
        """Return the run's handle if this service is executing the run or finished it in the last minute, else None."""
        return self._active.handle(run_id)

    # Following

    async def follow(self, run_id: str, *, after: str | None = None) -> AsyncGenerator[Update]:
        """Follow a run to its end, starting at its first event or after the mark `after`.

        The run may have finished already, or may be in progress in this process or another one. If another process is
        executing the run, its journal is read instead, so the text of an answer arrives only once the answer is
        complete.
        """
        async with aclosing(self._active.follow(run_id, after)) as updates:
            async for update in updates:
                yield update

    async def events(self, run_id: str) -> Sequence[object]:
        """Return the events recorded so far in a run; raise ConfigurationError if its pattern is unknown."""
        if (events := self._active.events(run_id)) is not None:
            return events
        return (await self._replayed(await self.store.run(run_id), await self.store.steps(run_id))).events

    async def people(self, run_id: str) -> list[str]:
        """Return the names of a run's human blocks, based on its pattern and its past requests."""
        return self._people(await self.store.run(run_id), await self.store.steps(run_id))

    def _people(self, stored: StoredRun, steps: Sequence[StepRow]) -> list[str]:
        people = list[str]()
        with suppress(ConfigurationError):  # if the pattern is unknown, only blocks with requests are listed
            people += self._recipes.of_run(stored, to_ask=False).block.outline().texts_of("human")
        people += [request.block for request, _ in list_requests(steps, stored.header.run_id, store=self.store.name)]
        return list(dict.fromkeys(people))

    async def call(self, run_id: str, place: str, *, record: RunRecord | None = None) -> CallDetails | None:
        """Replay the run to return a model call as it was sent; return None if there is no call at this path.

        The run is read from the store unless it is passed as `record`. Raises ConfigurationError if the run's pattern
        is unknown here.
        """
        stored = await self.store.run(run_id) if record is None else record.stored
        steps = await self.store.steps(run_id) if record is None else record.steps
        details: list[CallDetails] = []

        def note(path: str, request: ModelRequest) -> None:
            if path == place:
                details.append(CallDetails.of(place, request, steps))

        await self._replayed(stored, steps, on_request=note)
        return details[-1] if details else None

    async def evidence(self, run_id: str) -> tuple[list[str], Evidence]:
        """Return the lines of a run's current export, and the result of replaying it, for the run's report."""
        recipe = self._recipes.registered(await self.store.run(run_id))
        if recipe is None:
            return await evidence_in(self.store, run_id)
        return await evidence_in(self.store, run_id, block=recipe.block, model=recipe.model)

    async def wait(self, run_id: str, seconds: float | None = None) -> RunDetails:
        """Wait until the run is over, suspended or abandoned, or until `seconds` have elapsed."""
        ends = None if seconds is None else time.monotonic() + seconds
        while self._is_executing(await self.store.run(run_id)):
            remaining = None if ends is None else ends - time.monotonic()
            if remaining is not None and remaining <= 0:
                break
            if (handle := self._active.in_progress(run_id)) is not None:
                await handle.wait(remaining)
            else:  # either another process is executing the run, or the run is waiting for its turn in this process
                await self._active.wait_for_change(self._poll if remaining is None else min(self._poll, remaining))
        return await self.run(run_id)

    def _is_executing(self, stored: StoredRun) -> bool:
        """Return whether a run is in progress or waiting, or will be resumed by a worker or by recovery."""
        if state_of(stored) != "left_behind":
            return stored.status in _UNFINISHED
        return self._workers_of(stored) is not None or self._recovery.awaits(stored)

    # Changing

    async def answer(
        self, run_id: str, answer: object, *, place: str | None = None, resume: bool = True, by: str | None = None
    ) -> RunState:
        """Record a human's answer, and resume the run unless other answers are still missing.

        Pass the author as `by` if the answer does not come from the user of this service but, for example, from a
        program or through a link. If the budget is used up, the run waits until it is resumed. Raises NotAwaited,
        OutputError for an invalid answer, RunConflict, and the errors raised by `resume`.
        """
        if place is None:
            check_not_repeated(await self.store.steps(run_id), run_id, answer, store=self.store.name)
        await submit_answer(self.store, run_id, answer, place=place, by=by)
        if resume and not await open_requests(self.store, run_id):
            with suppress(BudgetReached):  # the answer is recorded, so its author need not see this error
                return await self.resume(run_id)
        return await self._state(run_id)

    async def cancel(self, run_id: str) -> RunState:
        """Cancel a run, which then ends as "interrupted" and can be resumed.

        A finished run is left unchanged. Raises RunConflict if another process is executing the run, unless that
        process is a worker; a worker stops the run within seconds.
        """
        self._active.leave_queue(run_id)
        if (handle := self._active.in_progress(run_id)) is not None:
            handle.cancel()
            await handle.wait()
            return await self._state(run_id)
        stored = await self.store.run(run_id)
        workers = self._workers_of(stored)
        if workers is not None and stored.status in (*_UNFINISHED, "rejected"):
            await workers.cancel(run_id)
        elif stored.owned:
            raise RunConflict(self.store.name, run_id)
        elif stored.status in (*_UNFINISHED, "awaiting"):
            # Raises RunConflict if a process has started to execute the run in the meantime.
            taken_run = await self.store.take(run_id)
            await self.store.finish(run_id, "interrupted", taken_run.outcome)
        return await self._state(run_id)

    async def resume(
        self,
        run_id: str,
        *,
        on_uncertain: OnUncertain = "retry",
        allow_changes: bool = False,
        retry_dead_letter: bool = False,
        limits: Limits | None = None,
        plan: Plan | None = None,
    ) -> RunState:
        """Resume a run, regardless of how it ended.

        Raises BudgetReached and the errors raised by `Block.resume`. A complete run is left unchanged unless its judge,
        chair or synthesizer failed; in that case, the failed role is called again. `plan` replaces the stored one, for
        example to add a URL missing from the store. If the maximum number of runs is in progress, the run waits for its
        turn.
        """
        resume = partial(
            self._resume,
            run_id,
            on_uncertain=on_uncertain,
            allow_changes=allow_changes,
            retry_dead_letter=retry_dead_letter,
            limits=limits,
            plan=plan,
        )
        try:
            return await resume()
        except TooManyRuns:
            if run_id in self._active.queued:
                return await self._state(run_id)
            self._active.check_queue()
            before = await self.store.take(run_id)
            await self.store.finish(run_id, "queued", before.outcome)
            return await self._queue(before.header, resume)

    async def _resume(
        self,
        run_id: str,
        *,
        on_uncertain: OnUncertain = "retry",
        allow_changes: bool = False,
        retry_dead_letter: bool = False,
        limits: Limits | None = None,
        plan: Plan | None = None,
        recipe: Recipe | None = None,
        in_turn: bool = False,
    ) -> RunState:
        """Resume a run immediately, using `recipe` if passed; raise TooManyRuns if it would have to wait."""
        stored = await self.store.run(run_id)
        if stored.status in COMPLETE and not has_unanswered(await self.store.steps(run_id)):
            return self._state_of(stored)
        await self._check_budget(stored.header.labels)
        workers = self._workers_of(stored)
        if workers is not None:
            uncertain = None if on_uncertain == "retry" else on_uncertain
            arguments = {
                "limits": limits,
                "plan": plan,
                "on_uncertain": uncertain,
                "allow_changes": allow_changes or None,
            }
            for name, value in arguments.items():
                if value is not None:
                    problem = "cannot be set: the configuration of the workers applies to this run"
                    raise ConfigurationError("Service.resume()", name, None, problem)
            await workers.resume(run_id, retry_dead_letter=retry_dead_letter)
            return await self._state(run_id)
        recipe = recipe or self._recipes.of_run(stored, limits=limits, plan=plan)
        load = partial(
            load_run,
            run_id,
            block=recipe.block.name,
            outline=recipe.block.outline(),
            store=self.store,
            model=recipe.model,
            limits=recipe.limits,
            on_uncertain=on_uncertain,
            allow_changes=allow_changes,
            retry_dead_letter=retry_dead_letter,
            observe=self._observe,
        )
        return await self._start(recipe.block, load, stored.header.labels, in_turn=in_turn)

    async def notes(self, runs: RunPage) -> dict[str, str]:
        """Return the notes on the runs listed on a page, keyed by run id; a run without a note has the value ""."""
        return await self.notes_on([run.run_id for run in runs.runs])

    async def resume_all(
        self,
        *,
        status: str | None = None,
        retry_dead_letter: bool = False,
        **filters: Any,  # noqa: ANN401 - see `change_all`
    ) -> Changed:
        """Resume all runs that match the filters of `runs`; by default, the `limit` is 200 runs per status.

        If `status` is omitted, all matching runs that stopped early are resumed, except for dead letters. Those are
        resumed only if `status` is "dead_letter" and `retry_dead_letter` is set. If this service executes the runs
        itself, it resumes only as many as its limits allow.
        """
        states = RESUMABLE if status is None else (status,)
        change = partial(self.resume, retry_dead_letter=retry_dead_letter)
        return await change_all(self.runs, states, change, **filters)

    async def cancel_all(self, *, status: str | None = None, **filters: Any) -> Changed:  # noqa: ANN401 - see `change_all`
        """Cancel the runs that match all filters; the filters work as in `resume_all`.

        If `status` is omitted, only queued, running and waiting runs are cancelled.
        """
        states = (*_UNFINISHED, "awaiting") if status is None else (status,)
        return await change_all(self.runs, states, self.cancel, **filters)

    def _workers_of(self, stored: StoredRun) -> Workers | None:
        """Return the workers responsible for a run; return None if the run is not on their queue."""
        return self.workers if self.workers is not None and self.workers.owns_run(stored.header) else None

    async def fork(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        run_id: str,
        *,
        at: str | None = None,
        edits: Mapping[str, Any] | None = None,
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        pattern: str | Plan | None = None,
        options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        fork_id: str | None = None,
        check: CheckOptions | None = None,
    ) -> RunState:
        """Start a new run from the steps of an earlier one; models are called only for steps that differ.

        `edits` replaces answers, keyed by path; the call at the path `at` and all later calls are repeated. `options`
        changes options of the run's plan; `pattern`, a registered pattern or a Plan, replaces the run's pattern.
        Workers execute the fork if they have its pattern. Raises ConfigurationError, TooManyRuns and BudgetReached, and
        RunExists if `fork_id` is taken. An edit that is not a valid answer raises OutputError, or ConfigurationError if
        the pattern is changed as well.
        """
        stored = await self.store.run(run_id)
        options = options or {}
        fork = partial(
            self._recipes.of_fork,
            stored,
            pattern=pattern,
            options=options,
            seed=seed,
            labels=labels,
            limits=limits,
            check=check,
        )
        recipe = await make_recipe(fork, options)
        # A different pattern may expect answers in a different form from the recorded ones.
        if isinstance(edits, Mapping) and edits and pattern is None and not options:
            steps = await self.store.steps(run_id)
            requests, places = dict[str, ModelRequest](), frozenset(edits)

            def keep(path: str, request: ModelRequest) -> None:
                if path in places:
                    requests[path] = request

            await self._replayed(stored, steps, on_request=keep)
            edits = check_edits(edits, steps, requests)
        await self._check_budget(labels)
        seed = recipe.seed if seed is None else seed
        arguments: dict[str, Any] = {
            "fork_id": fork_id,
            "at": at,
            "edits": edits,
            "seed": seed,
            "limits": recipe.limits,
        }
        if recipe.queued and self.workers is not None:
            return await self._state(await self.workers.fork(run_id, pattern=recipe.name, labels=labels, **arguments))
        arguments |= {"block": recipe.block, "model": recipe.model}
        stored_as = StoreOptions(store=self.store, labels=labels or {}, plan=recipe.stored)
        load = partial(load_fork, run_id, store=stored_as, observe=self._observe, **arguments)
        try:
            return await self._start(recipe.block, load, labels)
        except TooManyRuns:
            self._active.check_queue()
            header = await prepare_fork(self.store, run_id, labels=labels, plan=recipe.stored, **arguments)
            return await self._queue_new(header, recipe)

    async def delete(self, run_id: str) -> None:
        """Delete a run; raise RunConflict if the run is in progress."""
        await delete_run(self.store, run_id)
        self._active.forget(run_id)

    async def recover(self) -> None:
        """Resume, in the background, runs left unfinished by an earlier process.

        If `keep_days` is set, also delete old runs.
        """
        self._recovery.begin(self._resume, keep_days=self.keep_days)

    async def close(self, patience: float = 30.0) -> None:
        """Stop starting runs, give in-flight calls `patience` seconds to finish, and interrupt the remaining runs.

        Readers' streams end. If `recover` is True, interrupted and waiting runs are stored as "queued", to be resumed
        by the next process.
        """
        for run_id in self._active.close_queue():
            if not self._recovers:
                with suppress(FlowDebateError):  # the run may have been deleted
                    await self.cancel(run_id)
        self._draining.stop()
        await self._active.close(self._draining.quiet, patience)
        # Workers close their store themselves because they may serve other services as well.
        if self._opened is not None and (self.workers is None or self._opened is not self.workers.store):
            with suppress(StoreError):
                await close_store(self._opened)
