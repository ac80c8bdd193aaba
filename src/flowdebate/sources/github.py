"""Pull requests on GitHub: reading changes as sources, and reading and writing comments, through the REST API."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from flowdebate.errors import BadFile
from flowdebate.sources.diff import (
    HOLDS_SECRETS,
    IS_BINARY,
    IS_LINK,
    IS_SUBMODULE,
    TOO_LARGE,
    as_text,
    comes_last,
    diff_of_texts,
    holds_secrets,
    source_of_patch,
)
from flowdebate.sources.files import MAX_FILE_MEGABYTES, MEGABYTE
from flowdebate.sources.source import Source, matches_glob, number_lines

if TYPE_CHECKING:
    from types import TracebackType

    import httpx2
    from pydantic import JsonValue

API = "https://api.github.com"
GITHUB_ACTIONS = "github-actions[bot]"
"""Author of comments posted with a workflow's token."""
_JSON, _RAW = "application/vnd.github+json", "application/vnd.github.raw+json"
_ATTEMPTS = 4
_MAX_WAIT = 300.0
"""Maximum time in seconds to wait for a rate limit to be lifted."""
_MAX_COMPARED = 300
"""Maximum number of files that GitHub lists when it compares commits."""
_MAX_MESSAGE_LENGTH = 300
_NO_NEWLINE = "\\ No newline at end of file"
_SUBMODULE = re.compile(r"^[-+]Subproject commit [0-9a-f]{40}(-dirty)?$")
_WITHOUT_PATCH = ("renamed", "unchanged")
_NEXT = re.compile(r'<([^<>]+)>;\s*rel="next"')

ModelT = TypeVar("ModelT")


class _Answer(BaseModel):
    """Base class for the objects in GitHub's responses."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)


class User(_Answer):
    """Author of a comment."""

    login: str


class Comment(_Answer):
    """A review of a pull request, or a note on one of its lines."""

    id: int
    user: User | None = None
    body: str | None = None


class _Commit(_Answer):
    sha: str


class _Repository(_Answer):
    full_name: str


class _Head(_Commit):
    repo: _Repository | None = None


class _Pull(_Answer):
    head: _Head
    base: _Commit
    changed_files: int = 0


class _File(_Answer):
    filename: str
    previous_filename: str | None = None
    status: str = "modified"
    additions: int = 0
    deletions: int = 0
    patch: str | None = None


class _Comparison(_Answer):
    status: str
    merge_base_commit: _Commit
    files: list[_File] = []


class _Entry(_Answer):
    path: str
    type: str


class _Rejected(BadFile):
    """Raised if GitHub rejects a well-formed request (422), such as a note on a line outside the diff."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes to review in a pull request."""

    head: str
    """Last commit covered by the changes."""
    merge_base: str
    """Commit at which the branch diverged from its base."""
    since: str | None
    """Commit after which the changes begin; None if all of the pull request's changes are included."""
    sources: list[Source]
    is_fork: bool = False
    """True if the branch is in another repository."""
    lines: dict[str, set[int]] = field(default_factory=dict)
    """Numbers of the lines on which GitHub accepts notes, keyed by file name."""
    renamed: dict[str, str] = field(default_factory=dict)
    """New names of moved files, keyed by their old names."""


class GitHub:
    """Client for a single repository; use it in a `with` statement.

    Every method raises `BadFile` with GitHub's message if GitHub rejects a request. A request that hits a rate limit is
    retried as soon as GitHub allows, provided the wait is at most five minutes.
    """

    def __init__(self, repository: str, *, token: str | None, api: str = API) -> None:
        import httpx2  # imported lazily, because the import is slow

        self._name, self._api = repository, api.rstrip("/")
        headers = {"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "flowdebate"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # httpx2 drops the token after a redirect to another host
        self._client = httpx2.Client(headers=headers, timeout=60, follow_redirects=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    # Reading

    def login(self) -> str:
        """Return the user name associated with the token.

        For an app's token, GitHub reports the name only through GraphQL.
        """
        try:
            return self._get("/user", User).login
        except BadFile:
            address = self._api.removesuffix("/v3") + "/graphql"
            try:
                response = self._send("POST", address, {"query": "{viewer{login}}"})
                login = str(response.json()["data"]["viewer"]["login"])
            except (BadFile, ValueError, KeyError, TypeError):
                return GITHUB_ACTIONS
        return login if login.endswith("[bot]") else f"{login}[bot]"

    def reviews(self, number: int) -> list[Comment]:
        """List the reviews of a pull request, oldest first."""
        return [*self._pages(f"{self._pull(number)}/reviews", Comment)]

    def notes(self, number: int) -> list[Comment]:
        """List the notes on a pull request's lines."""
        return [*self._pages(f"{self._pull(number)}/comments", Comment)]

    def read(
        self,
        number: int,
        *,
        since: str | None = None,
        merge_base: str | None = None,
        again: Collection[str] = (),
        exclude: Sequence[str] = (),
    ) -> Changes:
        """Read the changes in a pull request; with `since`, only the changes made after that commit.

        `merge_base` is the `Changes.merge_base` from the earlier read that ended at `since`, and `again` contains the
        names of files to read in full. All changes are read if `since` is no longer part of the branch, or if the
        comparison is too long.
        """
        pull = self._get(self._pull(number), _Pull)
        files = [*self._pages(f"{self._pull(number)}/files", _File)]
        head = pull.head.sha
        newer, moved = self._newer(since, merge_base, pull)
        if newer is None:
            since = None
        renamed = {file.previous_filename: file.filename for file in newer or files if file.previous_filename}
        full = {*again, *(renamed.get(name, name) for name in again), *moved}
        newer_files = {file.filename: file for file in newer or ()}
        base = self._merge_base(pull)
        lines: dict[str, set[int]] = {}
        sources: list[Source] = []
        # unchanged files, included in full so that earlier findings in them can still be examined
        unchanged: list[Source] = []
        for file in files:
            lines[file.filename] = _lines_of(file)
            is_new = newer is None or file.filename in newer_files or file.filename in moved
            if newer is None or file.filename in full:
                (sources if is_new else unchanged).append(self._source(file, base, head, exclude))
            elif file.filename in newer_files:
                sources.append(self._source(newer_files[file.filename], since or base, head, exclude))
        if pull.changed_files > len(files):
            name = f"{pull.changed_files - len(files):,} more files"
            sources.append(Source(name=name, left_out="are not listed by GitHub"))
        if any(source.left_out is None for source in sources):
            sources = sorted([*sources, *unchanged], key=comes_last)
        commits = f"{(since or base)[:12]}..{head[:12]}"
        return Changes(
            head=head,
            merge_base=base,
            since=since,
            is_fork=pull.head.repo is not None and pull.head.repo.full_name != self._name,
            sources=[source.model_copy(update={"commits": commits}) for source in sources],
            lines=lines,
            renamed=renamed,
        )

    def _newer(self, since: str | None, merge_base: str | None, pull: _Pull) -> tuple[list[_File] | None, set[str]]:
        """Return the files changed after `since`, and the names of files whose base version has changed.

        The first value is None if `since` is None, or if the changes after it cannot be listed completely.
        """
        if since is None:
            return None, set()
        try:
            comparison = self._compare(since, pull.head.sha)
            base = self._merge_base(pull)
            # a merge can change a file's base without changing the file
            moved = self._compare(merge_base, base).files if merge_base and merge_base != base else []
        except BadFile:
            return None, set()
        if comparison.status not in ("ahead", "identical") or max(len(comparison.files), len(moved)) >= _MAX_COMPARED:
            return None, set()
        return comparison.files, {file.filename for file in moved}

    def _merge_base(self, pull: _Pull) -> str:
        try:
            return self._compare(pull.base.sha, pull.head.sha).merge_base_commit.sha
        except BadFile:
            return pull.base.sha

    def _compare(self, base: str, head: str) -> _Comparison:
        return self._get(f"{self._repository}/compare/{quote(base)}...{quote(head)}", _Comparison)

    def _source(self, file: _File, old: str, new: str, exclude: Sequence[str]) -> Source:
        name = file.filename
        if matches_glob(name, exclude):
            return Source.of_excluded(name)
        if (reason := self._omission_reason(file, new)) is not None:
            return Source(name=name, left_out=reason)
        patch = file.patch or ""
        # GitHub omits or shortens a patch that is long, or whose file is declared binary by git attributes
        if _count(patch) < file.additions + file.deletions or (not patch and file.status not in _WITHOUT_PATCH):
            try:
                patch = self._whole_patch(file, old, new)
            except BadFile as error:
                return Source(name=name, left_out=error.problem)
        return source_of_patch(name, f"{_head_of(file)}{patch.removesuffix(chr(10))}\n".encode(errors="replace"))

    def _omission_reason(self, file: _File, commit: str) -> str | None:
        """Return the reason why a file is omitted regardless of its content; return None if there is none."""
        if holds_secrets(file.filename):
            return HOLDS_SECRETS
        patch = file.patch or ""
        changed = [line for line in patch.split("\n") if line[:1] in ("+", "-")]
        if changed and all(_SUBMODULE.fullmatch(line) for line in changed):
            return IS_SUBMODULE
        # a symbolic link's patch looks like this: its target on a single line, without a newline at the end
        if patch.endswith(_NO_NEWLINE) and sum(line[0] == "+" for line in changed) == 1:
            kind = self._kind(file.filename, commit)
            return None if kind == "file" else IS_LINK if kind == "symlink" else "may be a link"
        return None

    def _whole_patch(self, file: _File, old: str, new: str) -> str:
        """Compare both versions of a file; raise BadFile, with the reason, if either cannot be read as text."""
        name = file.filename
        contents = [
            b"" if file.status == "added" else self._content(file.previous_filename or name, old),
            b"" if file.status == "removed" else self._content(name, new),
        ]
        if any(len(content) > MAX_FILE_MEGABYTES * MEGABYTE for content in contents):
            raise BadFile(name, TOO_LARGE)
        before, after = map(as_text, contents)
        if before is None or after is None:
            raise BadFile(name, IS_BINARY)
        with tempfile.TemporaryDirectory(prefix="flowdebate-diff-") as temporary:
            return diff_of_texts(before, after, Path(temporary)).decode(errors="replace")

    def _content(self, path: str, commit: str) -> bytes:
        """Return a file's content at the given commit."""
        try:
            return self._send("GET", self._contents(path, commit), accept=_RAW).content
        except BadFile:
            raise BadFile(path, "cannot be read from GitHub") from None

    def _kind(self, path: str, commit: str) -> str | None:
        """Return a file's type at the given commit, "file" or "symlink"; return None if it is unknown."""
        try:
            entries = self._get(self._contents(path.rpartition("/")[0], commit), list[_Entry])
        except BadFile:
            return None
        return next((entry.type for entry in entries if entry.path == path), None)

    def _contents(self, path: str, commit: str) -> str:
        return f"{self._repository}/contents/{quote(path)}?ref={quote(commit)}"

    # Writing

    def create_review(self, number: int, commit: str | None, body: str, notes: Sequence[JsonValue]) -> bool:
        """Post a review with notes on lines; return False if GitHub rejects it, as it does for lines outside the diff.

        If `commit` is not passed, the review refers to the latest commit.
        """
        review: dict[str, JsonValue] = {"body": body, "event": "COMMENT", "comments": [*notes]}
        review |= {} if commit is None else {"commit_id": commit}
        return self._create(f"{self._pull(number)}/reviews", review)

    def update_review(self, number: int, review: int, body: str) -> None:
        """Replace the text of a review."""
        self._send("PUT", f"{self._pull(number)}/reviews/{review}", {"body": body})

    def create_note(self, number: int, commit: str, note: dict[str, JsonValue]) -> bool:
        """Post a note on a line; return False if GitHub rejects it, as it does for lines outside the diff."""
        return self._create(f"{self._pull(number)}/comments", {"commit_id": commit, **note})

    def _create(self, path: str, body: dict[str, JsonValue]) -> bool:
        try:
            self._send("POST", path, body)
        except _Rejected:
            return False
        return True

    def update_note(self, note: int, body: str) -> None:
        """Replace the text of a note."""
        self._send("PATCH", f"{self._repository}/pulls/comments/{note}", {"body": body})

    # Requests

    @property
    def _repository(self) -> str:
        return f"/repos/{quote(self._name)}"

    def _pull(self, number: int) -> str:
        return f"{self._repository}/pulls/{number}"

    def _get(self, path: str, model: type[ModelT]) -> ModelT:
        return self._parsed(self._send("GET", path), model)

    def _pages(self, path: str, model: type[ModelT]) -> Iterator[ModelT]:
        address: str | None = f"{self._api}{path}?per_page=100"
        while address is not None:
            response = self._send("GET", address)
            yield from self._parsed(response, list[model])  # type: ignore[valid-type]  # a type at run time
            following = _NEXT.search(response.headers.get("link", ""))
            address = None if following is None else following[1]
            if address is not None and not address.startswith(f"{self._api}/"):
                raise BadFile(
                    self._name,
                    f"cannot be read: GitHub's link to the next page leads to a different server, {address[:200]}",
                )

    def _parsed(self, response: httpx2.Response, model: type[ModelT]) -> ModelT:
        try:
            return TypeAdapter(model).validate_json(response.content)
        except ValidationError as error:
            location = ".".join(map(str, error.errors()[0]["loc"]))
            message = f"cannot be read: the response from {response.url} is not GitHub's ({location or 'no JSON'})"
            raise BadFile(self._name, message) from None

    def _send(
        self, method: str, path: str, body: dict[str, JsonValue] | None = None, *, accept: str = _JSON
    ) -> httpx2.Response:
        import httpx2

        address = path if path.startswith(("http://", "https://")) else f"{self._api}{path}"
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            try:
                response = self._client.request(method, address, json=body, headers={"Accept": accept})
            except httpx2.HTTPError as error:
                if last or method != "GET":  # writes must not be retried
                    raise BadFile(self._name, f"GitHub cannot be reached at {self._api}: {error}") from None
                wait = 0.5 * 2**attempt
            else:
                if response.is_success:
                    return response
                limit = _seconds_to_wait(response, attempt)
                if limit is not None and (last or limit > _MAX_WAIT):
                    raise BadFile(
                        self._name, f"cannot be read: GitHub's rate limit will not reset for another {limit:.0f} s"
                    )
                if limit is None and (last or method != "GET" or response.status_code < 500):  # noqa: PLR2004 - as in HTTP
                    raise self._refusal(method, response)
                wait = 0.5 * 2**attempt if limit is None else limit
            time.sleep(wait)
        raise AssertionError  # unreachable: the last attempt returns or raises

    def _refusal(self, method: str, response: httpx2.Response) -> BadFile:
        try:
            answer = response.json()
            message = str(answer["message"])
        except (ValueError, KeyError, TypeError):
            message = response.reason_phrase
        message = " ".join(message.split())[:_MAX_MESSAGE_LENGTH]
        reply = f"GitHub answered {response.status_code} ({message}) to {method} {response.url.path}"
        match response.status_code:
            case 401:
                return BadFile(self._name, f"{reply}: GITHUB_TOKEN is not valid")
            case 403 if method != "GET":
                return BadFile(
                    self._name,
                    f"{reply}: this token has no write access. Give the job `permissions: pull-requests: write`. For "
                    "forks, the token of a `pull_request` event can only read",
                )
            case 404:
                return BadFile(self._name, f"{reply}: it does not exist, or the token in GITHUB_TOKEN cannot access it")
            case 422:
                return _Rejected(self._name, reply)
            case _:
                return BadFile(self._name, reply)


def _seconds_to_wait(response: httpx2.Response, attempt: int) -> float | None:
    """Return the time in seconds to wait for a rate limit, or None if the request was rejected for another reason."""
    if response.status_code not in (403, 429):
        return None
    after, remaining = response.headers.get("retry-after", ""), response.headers.get("x-ratelimit-remaining")
    if after.isdecimal():
        return float(after)
    if remaining == "0":
        reset = response.headers.get("x-ratelimit-reset", "")
        return max(float(reset) - time.time(), 0) + 1 if reset.isdecimal() else 60
    return 60.0 * 2**attempt if response.status_code == 429 or "rate limit" in response.text.lower() else None  # noqa: PLR2004 - as in HTTP


def _head_of(file: _File) -> str:
    """Format the header lines that precede the hunks in a file's diff."""
    old, new = (
        f"{side}/{name}" for side, name in (("a", file.previous_filename or file.filename), ("b", file.filename))
    )
    if not (old + new).isprintable() or '"' in old + new:
        old, new = json.dumps(old), json.dumps(new)
    before, after = ("/dev/null" if file.status == "added" else old), ("/dev/null" if file.status == "removed" else new)
    return f"diff --git {old} {new}\n--- {before}\n+++ {after}\n"


def _count(patch: str) -> int:
    """Count the lines changed by a patch."""
    return sum(line[:1] in ("+", "-") for line in patch.split("\n"))


def _lines_of(file: _File) -> set[int]:
    """Return the numbers of the lines that GitHub shows in the diff, counted in the new version of the file."""
    patch = Source.of(file.filename, f"{_head_of(file)}{file.patch or ''}\n")
    return {line.number for line in number_lines(patch) if line.number is not None} if file.patch else set()
