"""`flowdebate serve`, `mcp` and `queue`: access to runs for programs, browsers and workers, and the server token."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import sys
import tempfile
import webbrowser
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

from flowdebate._text import counted
from flowdebate._util.files import make_private_folder
from flowdebate._util.importing import load_object
from flowdebate._util.option_types import Amount, Count, Text
from flowdebate._util.validation import check_count, check_library
from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import open_page, print_message, write_json
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.store.open import default_store_path
from flowdebate.ui.files import read_text, reason_of
from flowdebate.ui.options import COMMAND, FilePath, Option, misuse, read_by_seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastapi import FastAPI
    from uvicorn import Server

    from flowdebate.runs.queue_state import QueueState
    from flowdebate.service.service import Service
    from flowdebate.service.state import Changed


T = TypeVar("T")
_PORT, _MCP_PORT = 8377, 8378
"""Default ports; they are different, so both servers can run at the same time."""
_HIGHEST_PORT = 65_535
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses that are compared with
_ENTRANCE = 60
"""Seconds until the redirect file written by `--open` is deleted; long enough for a browser to start."""

_App: TypeAlias = Annotated[
    Text | None,
    Option(
        panel="Model",
        metavar="MODULE:OBJECT",
        help="Your flowdebate.service.Service, with patterns, model, store and limits, or a function that makes "
        "one. Modules are also searched for in the current folder; FILE.py:OBJECT names a file.",
    ),
]
_AllowModel: TypeAlias = Annotated[
    list[Text] | None,
    Option(
        panel="Model",
        metavar="NAME",
        help='Model that runs may use, or a pattern such as "openai/*"; repeat for each. Default: all models '
        "that are configured, as listed by `flowdebate models`.",
    ),
]

_BUDGET = "Budget of all runs"
_BudgetCalls: TypeAlias = Annotated[
    Count | None,
    Option(panel=_BUDGET, metavar="N", help="Maximum number of requests across all runs."),
]
_BudgetTokens: TypeAlias = Annotated[
    Count | None, Option(panel=_BUDGET, metavar="N", help="Maximum number of tokens across all runs.")
]
_BudgetCost: TypeAlias = Annotated[
    Amount | None, Option(panel=_BUDGET, metavar="X", help="Maximum cost across all runs, by --price.")
]

AllowSources: TypeAlias = Annotated[
    list[FilePath] | None,
    Option(
        metavar="FOLDER",
        help="Folder from which requests may name files and folders as sources; repeat for each. Default: none; "
        "requests must contain the texts themselves.",
    ),
]


@opt.command("model", "max_calls", "max_tokens", "max_seconds", "price")
def serve(  # noqa: PLR0913 - the options of the command
    *,
    app: _App = None,
    port: Annotated[
        int | None,
        Option(metavar="N", help="Port to listen on; 0 picks a free one. Default: FLOWDEBATE_PORT, else 8377."),
    ] = None,
    host: Annotated[
        Text | None,
        Option(
            metavar="ADDRESS",
            help="Address to listen on. Default: FLOWDEBATE_HOST, else 127.0.0.1. Any other address needs "
            "--token-file.",
        ),
    ] = None,
    allow_host: Annotated[
        list[Text] | None, Option(metavar="NAME", help="Host name that this server answers to; repeat for each.")
    ] = None,
    root_path: Annotated[
        Text | None,
        Option(
            metavar="PATH",
            help="Path under which a proxy serves this server, such as /debates. Default: X-Forwarded-Prefix of "
            "requests to an --allow-host.",
        ),
    ] = None,
    allow_base_url: Annotated[
        list[Text] | None,
        Option(metavar="URL", help="Base URL that run options may contain; repeat for each. Default: none."),
    ] = None,
    allow_model: _AllowModel = None,
    allow_sources: AllowSources = None,
    token_file: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with the token that requests need. Default: one in your data directory."),
    ] = None,
    new_token: Annotated[
        bool, Option(help="Make a new token for your servers; the old token and links made with it stop working.")
    ] = False,
    read_only: Annotated[bool, Option(help="Only show runs; do not start, change or delete any.")] = False,
    openai: Annotated[
        bool,
        Option(help="Also answer as an OpenAI-compatible server at /v1, whose models are the patterns."),
    ] = False,
    ag_ui: Annotated[bool, Option(help="Also answer AG-UI clients at /ag-ui/PATTERN.")] = False,
    max_readers: Annotated[
        Count, Option(metavar="N", help="Maximum number of browsers and clients that follow one run.")
    ] = 64,
    open_: Annotated[bool, Option(flag="--open", help="Open the list of runs in a browser.")] = False,
    budget_calls: _BudgetCalls = None,
    budget_tokens: _BudgetTokens = None,
    budget_cost: _BudgetCost = None,
    store: opt.StoreName = None,
    keep_days: Annotated[
        opt.Days | None,
        Option(
            panel="Storage",
            metavar="DAYS",
            help="Delete runs that have not changed for this many days; checked every hour.",
        ),
    ] = None,
    **values: object,
) -> None:
    """Serve runs over HTTP, so that programs and browsers can start, follow and read them, and answer their questions.

    The address and its token are printed once. Limits apply to every run.
    """
    values |= {"budget_calls": budget_calls, "budget_tokens": budget_tokens, "budget_cost": budget_cost}
    values |= {"keep_days": keep_days}
    check_library("flowdebate serve", "fastapi", library="FastAPI", extra="server")
    check_library("flowdebate serve", "uvicorn", library="uvicorn", extra="server")
    if ag_ui:
        check_library("flowdebate serve --ag-ui", "ag_ui", library="ag-ui-protocol", extra="ag-ui")
    port = _variable("FLOWDEBATE_PORT", int, _PORT) if port is None else port
    _check_port(port)
    if root_path is not None:
        from flowdebate.server.guard import is_prefix

        opt.check(is_prefix(root_path.rstrip("/")), "--root-path", "must be a path such as /debates", root_path)
    address = host or _variable("FLOWDEBATE_HOST", str, _LOOPBACK[0])
    if address not in _LOOPBACK and token_file is None:
        # A printed token ends up in scrollback and logs. That is acceptable on the local machine but not on a network.
        raise misuse(
            "--token-file",
            None,
            f"--host {address} exposes this server to other machines: anyone with its token can read and start runs. "
            "Give it its own token with --token-file FILE.",
        )
    _check_app(app, {**values, "store": store, "allow_model": allow_model})
    _check_token(token_file, new=new_token)
    token = load_token(new=new_token) if token_file is None else read_token(token_file)

    def started(application: FastAPI, base: str, _: Server) -> None:
        url = f"{base}?{urlencode({'token': token})}"
        print_message(f"Serving {url}" if token_file is None else f"Serving {base} with the token from {token_file}")
        if address not in _LOOPBACK:
            names = ", ".join(allow_host or ()) or "only this machine's; to allow another one, add --allow-host NAME"
            what = "read all runs" if read_only else "read all runs and start new ones"
            print_message(f"Open to other machines, unencrypted: anyone with the token can {what}. Host names: {names}")
        if open_:
            entrance = write_entrance(url, Path.home() if os.access(Path.home(), os.W_OK) else None)
            remove = partial(entrance.unlink, missing_ok=True)
            application.state.front.at_end.append(remove)
            asyncio.get_running_loop().call_later(_ENTRANCE, remove)
            webbrowser.open(entrance.as_uri())

    async def run() -> None:
        from flowdebate.server import create_app
        from flowdebate.server.app import serve as serve_app

        # Written as browsers send it in the Host header: IPv6 in brackets, and never the wildcard address.
        own_hosts = () if address in _ANYWHERE else (f"[{address}]" if ":" in address else address,)
        application = create_app(
            _make_service(app, store, values, allow_model, recover=not read_only),
            token=token,
            allow_hosts=(*own_hosts, *(allow_host or ())),
            root_path=root_path or "",
            allow_base_urls=allow_base_url or (),
            allow_sources=allow_sources or (),
            own_machine=address in _LOOPBACK and not (app or allow_host or root_path),
            read_only=read_only,
            openai=openai,
            ag_ui=ag_ui,
            max_readers=max_readers,
        )
        await serve_app(application, host=address, port=port, started=partial(started, application))

    asyncio.run(run())


def _check_port(port: int | None) -> None:
    opt.check(port is None or 0 <= port <= _HIGHEST_PORT, "--port", f"must be between 0 and {_HIGHEST_PORT}", port)


def _variable(name: str, kind: Callable[[str], T], default: T) -> T:
    """Read a setting from the environment; raise ConfigurationError if its value is invalid."""
    text = os.environ.get(name, "").strip()
    try:
        return kind(text) if text else default
    except ValueError:
        raise ConfigurationError(COMMAND, name, text, "must be a number") from None


def write_entrance(url: str, folder: Path | None) -> Path:
    """Write a file that redirects a browser to `url`, readable only by its owner.

    The URL is not passed to the browser directly, because all users can see the arguments of running programs. Browsers
    installed as snaps can read the file only if `folder` is neither hidden nor the temporary folder.
    """
    handle, name = tempfile.mkstemp(prefix="flowdebate-", suffix=".html", dir=folder)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">flowdebate</a>')
    return Path(name)


@opt.command("model", "max_calls", "max_tokens", "max_seconds", "price")
def mcp(  # noqa: PLR0913 - the options of the command
    *,
    app: _App = None,
    http: Annotated[bool, Option(help="Serve http://127.0.0.1:PORT/mcp instead of stdin and stdout.")] = False,
    port: Annotated[int | None, Option(metavar="N", help="Port of --http. Default: 8378.")] = None,
    allow_sources: AllowSources = None,
    token_file: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with the token that --http needs. Default: one in your data directory."),
    ] = None,
    new_token: Annotated[bool, Option(help="Make a new token for your servers; the old one stops working.")] = False,
    budget_calls: _BudgetCalls = None,
    budget_tokens: _BudgetTokens = None,
    budget_cost: _BudgetCost = None,
    allow_model: _AllowModel = None,
    store: opt.StoreName = None,
    **values: object,
) -> None:
    """Offer debates to an MCP host, which can start, follow, read and judge them, or take part.

    The host starts the command and uses its stdin and stdout for the protocol; warnings go to stderr. Limits apply to
    each run.
    """
    values |= {"budget_calls": budget_calls, "budget_tokens": budget_tokens, "budget_cost": budget_cost}
    check_library("flowdebate mcp", "mcp", library="the MCP SDK", extra="mcp")
    http_only = (
        ("--port", "port", port),
        ("--token-file", "token", token_file),
        ("--new-token", "token", new_token or None),
    )
    for option, what, value in http_only:
        if value is not None and not http:
            raise misuse(option, value, f"{option} requires --http, because it sets the HTTP server's {what}.")
    _check_token(token_file, new=new_token)
    _check_port(port)
    _check_app(app, {**values, "allow_model": allow_model})
    token, header = "", ""
    if token_file is not None:
        token, header = read_token(token_file), f"the token from {token_file}"
    elif http:  # stdio needs no token
        token = load_token(new=new_token)
        header = f"the header Authorization: Bearer {token}"

    async def run() -> None:
        from flowdebate.mcp import serve_http, serve_stdio

        with _stdout_protected():  # importing the application's module runs arbitrary code
            service = _make_service(app, store, values, allow_model, recover=False)
        if http:
            url_port = _MCP_PORT if port is None else port
            await serve_http(
                service,
                port=url_port,
                token=token,
                started=lambda url: print_message(f"Serving {url} with {header}"),
                allow_sources=allow_sources or (),
            )
        else:
            await serve_stdio(service, allow_sources=allow_sources or ())

    asyncio.run(run())


def _check_token(token_file: str | None, *, new: bool) -> None:
    """Raise ConfigurationError if the user requests a new token but has specified a token file."""
    if new and token_file is not None:
        raise misuse(
            "--new-token", new, "--new-token cannot be combined with --token-file: it would overwrite your file."
        )


@contextmanager
def _stdout_protected() -> Iterator[None]:
    """Redirect stdout to stderr in the `with` block, including output from C libraries.

    Otherwise, any line printed by the application would break the protocol.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)


def _check_app(app: str | None, values: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if --app is combined with options that the application's own service defines."""
    unusable = [f"--{name.replace('_', '-')}" for name, value in values.items() if value not in (None, [])]
    if app is not None and unusable:
        problem = f"{', '.join(unusable)} cannot be combined with --app: the Service defines them."
        raise misuse(unusable[0], values, problem)


def _make_service(
    app: str | None, store: str | None, values: Mapping[str, Any], allow_models: list[str] | None, *, recover: bool
) -> Service:
    """Return the Service named by `app`, or a new one; raise ConfigurationError for an invalid name."""
    from flowdebate.runs.limits import Limits
    from flowdebate.service.service import Service
    from flowdebate.ui.models import prices_of

    if app is not None:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        return load_object(app, Service, location=COMMAND, field="--app")
    prices = prices_of(values["price"] or ())
    if values["budget_cost"] is not None and prices is None:
        raise misuse("--budget-cost", values["budget_cost"], "--budget-cost needs model prices: add --price IN/OUT.")
    limits = Limits(
        calls=values["max_calls"] or _variable("FLOWDEBATE_MAX_CALLS", int, None),
        tokens=values["max_tokens"] or _variable("FLOWDEBATE_MAX_TOKENS", int, None),
        seconds=values["max_seconds"] or _variable("FLOWDEBATE_MAX_SECONDS", float, None),
        prices=prices,
    )
    bounds = {kind: values[f"budget_{kind}"] for kind in ("calls", "tokens", "cost")}
    budget = None if set(bounds.values()) == {None} else Limits(**bounds, prices=prices)
    model = read_by_seat(values["model"], "--model", "MODEL") if values["model"] else None
    if isinstance(model, dict):
        problem = "must be one MODEL, or each: the options of a run assign models to its roles"
        raise ConfigurationError(COMMAND, "--model", values["model"], problem)
    return Service(
        store=store,
        model=model,
        limits=limits or None,
        budget=budget,
        recover=recover,
        allow_models=allow_models or None,
        keep_days=values.get("keep_days"),
    )


_MIN_TOKEN_LENGTH = 16
"""Minimum length of a token, as in `create_app`; it is checked here as well, so that the error can name the file."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_token(path: str) -> str:
    """Read the token from a file; raise BadFile for an invalid token."""
    token = read_text(path, megabytes=1).strip()
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise BadFile(path, f"must contain one token of at least {_MIN_TOKEN_LENGTH} printable ASCII characters")
    return token


def load_token(*, new: bool = False, needed: bool = False) -> str:
    """Return the stored token for this user's servers, creating it on first use; `new` requests a new token.

    Raises BadFile if others may have read or written the file. If the token cannot be stored, a message says that it is
    valid only until the server stops. If `needed` is set (as in commands that need the server's token), BadFile is
    raised instead.
    """
    path = default_store_path().with_name("token")
    try:
        make_private_folder(path.parent)
        if new or not os.path.lexists(path):
            _write(path, replace=new)
        status = path.lstat()
        with path.open("rb"):  # fails here if the file exists but is not readable
            pass
    except OSError as error:
        if needed:
            raise BadFile(str(path), f"cannot be saved: {reason_of(error)}") from None
        print_message(f"The token cannot be saved in {path} ({reason_of(error)}), so each start creates a new one")
        return secrets.token_urlsafe(32)
    again = "Find out why, then replace it with --new-token."
    if not stat.S_ISREG(status.st_mode):
        raise BadFile(str(path), f"is not a regular file, so its token is not trusted. {again}")
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & _OTHERS):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise BadFile(
            str(path), f"has mode {mode} instead of 0600, so other users may have read or replaced the token. {again}"
        )
    return read_token(str(path))


def _write(path: Path, *, replace: bool) -> None:
    """Write a token atomically; if two servers start at the same time, the token written first is kept."""
    handle, name = tempfile.mkstemp(prefix=".token-", dir=path.parent)  # created with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        if replace:
            Path(name).replace(path)
        else:
            with suppress(FileExistsError):
                os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@opt.command()
def queue(  # noqa: PLR0913 - the options of the command
    workers: Annotated[
        Text,
        Option(metavar="MODULE:OBJECT", help="The Workers of your application, or a function that makes them."),
    ],
    action: Annotated[
        Literal["show", "submit", "resume", "cancel"],
        Option(metavar="ACTION", help="show (the default), submit a run, or resume or cancel all runs that match."),
    ] = "show",
    question: Annotated[Text | None, Option(metavar="QUESTION", help="submit: what the run is about.")] = None,
    *,
    run_id: Annotated[
        Text | None, Option(metavar="ID", help="submit: id of the run, so that the command can be repeated safely.")
    ] = None,
    priority: Annotated[int, Option(metavar="N", help="submit: priority from 0 to 100; lower numbers go first.")] = 0,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    label: opt.Labels = None,
    retry_dead_letter: Annotated[bool, Option(help="resume: include runs given up after repeated crashes.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Show the queue of your workers, submit a run, or resume or cancel matching runs.

    Resume and cancel handle up to 200 runs at a time. Without --status, resume selects runs that stopped early, and
    cancel selects runs in progress. With submit, --pattern and --label apply to the new run.
    """
    filters: dict[str, Any] = {"status": status, "pattern": pattern, "text": text, "labels": opt.read_labels(label)}
    if action == "show" and (any(filters.values()) or retry_dead_letter):
        raise misuse("ACTION", action, "Filters select runs to resume or cancel: add resume or cancel as the ACTION.")
    if (action == "submit") != (question is not None) or (action != "submit" and (run_id is not None or priority)):
        raise misuse("QUESTION", question, "submit requires a QUESTION; --run-id and --priority are only for submit.")
    check_count(COMMAND, {"--priority": priority}, minimum=0, maximum=100)  # 100 is `LOWEST`, the lowest priority
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    from flowdebate.workers.deployment import Workers

    workers_object = load_object(workers, Workers, location=COMMAND, field="MODULE:OBJECT")

    async def ask() -> QueueState | Changed | str:
        from flowdebate.service.service import Service

        try:
            if action == "show":
                return await workers_object.overview()
            if action == "submit":
                name, labels = pattern or next(iter(workers_object.patterns)), filters["labels"]
                return await workers_object.submit(name, question, run_id=run_id, labels=labels, priority=priority)
            async with Service(workers=workers_object) as service:
                if action == "cancel":
                    return await service.cancel_all(**filters)
                return await service.resume_all(**filters, retry_dead_letter=retry_dead_letter)
        finally:
            await workers_object.close()

    state = asyncio.run(ask())
    if as_json:
        write_json({"runId": state} if isinstance(state, str) else state.model_dump(mode="json", by_alias=True))
    else:
        _show(state, "resumed" if action == "resume" else "cancelled")


def _show(state: QueueState | Changed | str, changed: str) -> None:
    from flowdebate.service.state import Changed

    page = open_page()
    if isinstance(state, str):
        page.line(f"Run {state} is queued.")
    elif isinstance(state, Changed):
        page.line(f"{counted(len(state.runs), 'run')} {changed}.")
        for run_id, why in state.refused.items():
            page.labeled(run_id, why, "yellow")
        if state.more:
            page.line("More runs match: repeat the command to continue.")
    else:
        oldest = "" if state.oldest is None else f", the oldest for {state.oldest:.0f} s"
        page.labeled("Queue", state.queue, "bold", indent="")
        page.line(f"{state.waiting} waiting{oldest}; {state.put_off} put off, {state.running} running")
        page.line(f"{state.rejected} rejected, {counted(state.dead_letters, 'dead letter')}")
        rows = [
            (version.version, str(version.waiting), str(version.put_off), str(version.running), str(version.workers))
            for version in state.versions
        ]
        page.columns(("VERSION", "WAITING", "PUT OFF", "RUNNING", "WORKERS"), rows)
        workers = [(worker.worker, worker.version, str(worker.running)) for worker in state.workers]
        page.columns(("WORKER", "VERSION", "RUNNING"), workers)
