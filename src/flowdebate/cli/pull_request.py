"""Reviews of pull requests, based on state from earlier runs and posted as one comment that every run updates."""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field, ValidationError

from flowdebate._text import counted
from flowdebate._util.files import make_private_folder, open_private
from flowdebate._util.wire import WireModel, new_list
from flowdebate.cli.terminal.process import ExitCode, print_message, sentence_of
from flowdebate.errors import BadFile, FlowDebateError
from flowdebate.patterns.review.findings import hold_gate, parse_gate
from flowdebate.patterns.review.formats import findings_markdown, plain, sentence
from flowdebate.patterns.review.schemas import EARLIER, Finding, FindingDraft, Place, Raised, unread_files
from flowdebate.sources.files import check_size
from flowdebate.sources.github import API, Changes, GitHub
from flowdebate.sources.source import number_lines
from flowdebate.ui.options import misuse

if TYPE_CHECKING:
    from pydantic import JsonValue

    from flowdebate.patterns.review.schemas import ReviewRawOutput
    from flowdebate.sources.github import Comment
    from flowdebate.ui.document import Document

KEY_VARIABLE = "FLOWDEBATE_REVIEW_KEY"
_FORK = (
    "This pull request comes from a fork. Workflows keep their secrets from forks, so no model may be set up for it."
)
_MAX_COMMENT_LENGTH = 65_000
_MAX_STATE_LENGTH = 30_000
"""Maximum length, in characters, of the state in a comment. A longer state is omitted, and the next run then reads the
whole change.
"""
_MAX_JSON_LENGTH = 2_000_000
"""Maximum size, in bytes, of a state after decompression."""
_MAX_NOTES = 50
_STATE = re.compile(r"<!-- flowdebate-review(?: (?P<state>[\w+/=]+) (?P<signature>[0-9a-f]{64}))? -->\s*\Z")
_NOTE = re.compile(r"<!-- flowdebate-note ([0-9a-f]{16}) -->\s*\Z")


class State(WireModel):
    """State of a pull request: the files and commits read by earlier runs, and the findings they confirmed."""

    repository: str
    number: int
    head: str | None
    """Last commit read in full; None if parts of the change have not been read yet."""
    merge_base: str
    exclude: list[str] = Field(default_factory=new_list)
    """Glob patterns for files to exclude."""
    findings: list[FindingDraft] = Field(default_factory=new_list)

    def sign(self, key: bytes) -> str:
        """Return the signed state, encoded as a hidden comment."""
        packed = base64.b64encode(zlib.compress(self.model_dump_json(by_alias=True).encode(), 9)).decode()
        if len(packed) > _MAX_STATE_LENGTH:
            return "<!-- flowdebate-review -->"
        return f"<!-- flowdebate-review {packed} {_signature(packed, key)} -->"

    @classmethod
    def read(cls, body: str, key: bytes) -> Self | None:
        """Read the state at the end of a comment; return None unless the state was signed with this key."""
        match = _STATE.search(body)
        if match is None or match["state"] is None:
            return None
        if not hmac.compare_digest(_signature(match["state"], key), match["signature"]):
            return None
        with suppress(ValueError, zlib.error):
            content = zlib.decompressobj().decompress(base64.b64decode(match["state"], validate=True), _MAX_JSON_LENGTH)
            with suppress(ValidationError):
                return cls.model_validate_json(content)
        return None


def _signature(packed: str, key: bytes) -> str:
    return hmac.new(key, packed.encode(), sha256).hexdigest()


def _read_key() -> bytes:
    """Read the key used to sign states, from the environment or from a file in the user's data directory.

    If the file cannot be written, a temporary key is used, and the next run therefore reads the whole change.
    """
    if value := os.environ.get(KEY_VARIABLE):
        return value.encode()
    from platformdirs import user_data_path

    path = user_data_path("flowdebate", appauthor=False) / "review.key"
    with suppress(OSError):
        make_private_folder(path.parent)
        with suppress(FileExistsError), os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(secrets.token_hex(32).encode())
        if content := path.read_bytes():
            return content
    return secrets.token_bytes(32)


class PullRequestReview:
    """Review of a single pull request."""

    def __init__(self, number: int, *, posts: bool, since: str | None, exclude: Sequence[str]) -> None:
        repository = os.environ.get("GITHUB_REPOSITORY", "")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise misuse("--pr", number, "--pr needs the repository: set GITHUB_REPOSITORY=OWNER/NAME.")
        token = os.environ.get("GITHUB_TOKEN")
        if posts and not token:
            raise misuse("--post", posts, "--post needs a token with write permission: set GITHUB_TOKEN.")
        self._repository, self._number, self._posts = repository, number, posts
        self._since, self._exclude = since, [*exclude]
        self._github = GitHub(repository, token=token, api=os.environ.get("GITHUB_API_URL") or API)
        self._login: str | None = None
        self._key = _read_key()
        self._comment: Comment | None = None
        self._earlier: State | None = None
        self._changes: Changes | None = None
        self._is_over = False

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Post a comment about any error raised in the `with` block, then reraise the error."""
        try:
            yield
        except FlowDebateError as error:
            if not self._is_over:
                self._post(f"### The review failed\n\n{plain(sentence_of(error))}\n")
            raise

    # Reading

    @property
    def changes(self) -> Changes:
        """The changes to be read in this run."""
        if self._changes is None:
            self._changes = self._read()
        return self._changes

    def _read(self) -> Changes:
        name = f"pull request {self._number}"
        if self._posts:
            self._find_comment()
        state = self._earlier
        since = self._since or (None if state is None else state.head)
        changes = self._github.read(
            self._number,
            since=since,
            merge_base=None if state is None or self._since else state.merge_base,
            again={draft.file for draft in self._drafts if draft.file},
            exclude=self._exclude,
        )
        check_size(changes.sources, name)
        if since is not None:
            short = since[:12]
            print_message(
                f"The whole change is read: {short} is not an earlier commit of it"
                if changes.since is None
                else f"What is new since {short} is read"
            )
        elif self._posts:
            print_message("The whole change is read")
        return changes

    def _find_comment(self) -> None:
        """Find the comment posted by an earlier run; trust its state only if the author and the signature match."""
        self._login = self._github.login()
        for comment in reversed(self._github.reviews(self._number)):
            is_ours = comment.user is not None and comment.user.login == self._login
            if not is_ours or _STATE.search(comment.body or "") is None:
                continue
            self._comment = comment
            state = State.read(comment.body or "", self._key)
            if state is None or (state.repository, state.number) != (self._repository, self._number):
                print_message("The earlier review cannot be read: its comment was not signed with this key")
                return
            # if the globs have changed, files that used to be excluded may still be unread
            self._earlier = state if state.exclude == self._exclude else state.model_copy(update={"head": None})
            return

    @property
    def _drafts(self) -> list[FindingDraft]:
        return [] if self._earlier is None else self._earlier.findings

    @property
    def earlier(self) -> list[FindingDraft]:
        """Unresolved findings from earlier runs, with the current names of any renamed files."""
        moved = self.changes.renamed
        files = self.changes.lines
        drafts = []
        for draft in self._drafts:
            name = moved.get(draft.file or "", draft.file)
            # The file may no longer be part of the change, but another file may contain the quoted text.
            drafts.append(draft.model_copy(update={"file": name if name in files else None}))
        return drafts

    # Finishing without a review

    def finish_unread(self, gate: str | None) -> int:
        """Post and print the outcome of a run that had nothing to read, and return the exit code."""
        voices: dict[str, str] = {}
        findings = [_standing(draft, number) for number, draft in enumerate(self.earlier, start=1)]
        unread = [f"{source.name} ({source.left_out})" for source in self.changes.sources if not source.excluded]
        excluded = [source.name for source in self.changes.sources if source.excluded]
        new = f" since {self.changes.since[:12]}" if self.changes.since else ""
        lines = [f"### Nothing to read{new}", ""]
        lines += [f"Excluded: {plain(', '.join(excluded))}", ""] if excluded else []
        lines += [f"Not read: {plain(', '.join(unread))}", ""] if unread else []
        code = ExitCode.NO_RESULT if unread else 0
        if gate is not None:
            rules = parse_gate(gate, location="command line", reviewers=2)
            missing = f"not read: {', '.join(unread)}" if unread else None
            result = hold_gate(gate, rules, findings, voices=voices, missing=missing)
            lines += [f"**Gate** “{plain(gate)}” **{result.word}**: {plain(result.why)}", ""]
            code = ExitCode.GATE if result.holds is False else code
        print_message(" ".join(" ".join(lines).split()))
        lines += _standing_lines(self._drafts)
        state = self._state(self._drafts, is_read=not unread)
        return int(code if self._post("\n".join(lines), state) else code or ExitCode.FAILED)

    # Writing

    def finish(self, document: Document, error: str) -> bool:
        """Post a run's result; return False on failure."""
        raw: ReviewRawOutput = document.raw
        if raw.stop_reason is None:
            reason = error or document.error or f"The run ended early ({document.status})."
            return self._post(f"### The review failed\n\n{plain(reason)}\n\n{findings_markdown(document, room=20_000)}")
        drafts = {finding.id: self._with_quote(finding) for finding in raw.in_state("confirmed")}
        lost = any(loss.instead == "skipped" for loss in raw.losses)
        is_read = document.status == "complete" and not lost and not unread_files(raw.coverage)
        state = self._state([*drafts.values()], is_read=is_read)
        tail = state.sign(self._key)
        since = f"Read what is new since {self.changes.since[:12]}.\n\n" if self.changes.since else ""
        room = _MAX_COMMENT_LENGTH - len(tail) - len(since) - 2
        body = f"{findings_markdown(document, room=room)}\n{since}"
        return self._post(body, state, raw, drafts)

    def _with_quote(self, finding: Finding) -> FindingDraft:
        """Return a finding with its lines quoted for the next run, because line numbers may change."""
        draft, place = finding.draft, finding.place
        if draft.quote or not place.found or place.line is None:
            return draft
        last = place.end_line or place.line
        texts = [
            line.text
            for source in self.changes.sources
            for line in number_lines(source)
            if line.file == place.file and line.number is not None and place.line <= line.number <= last
        ]
        return draft.model_copy(update={"quote": "\n".join(texts)[:4_000] or None})

    def _state(self, drafts: Sequence[FindingDraft], *, is_read: bool) -> State:
        earlier = None if self._earlier is None else self._earlier.head
        return State(
            repository=self._repository,
            number=self._number,
            head=self.changes.head if is_read else earlier if self.changes.since else None,
            merge_base=self.changes.merge_base if is_read or self._earlier is None else self._earlier.merge_base,
            exclude=self._exclude,
            findings=[*drafts],
        )

    def _post(
        self,
        text: str,
        state: State | None = None,
        raw: ReviewRawOutput | None = None,
        drafts: dict[str, FindingDraft] | None = None,
    ) -> bool:
        """Create or update the comment; on failure, write the text to the job summary instead and return False.

        If `state` is None, the comment keeps its current state.
        """
        self._is_over = True
        if not self._posts:
            return True
        if state is None:
            tail = "<!-- flowdebate-review -->"
            if self._changes is not None and self._changes.is_fork:
                text += f"\n{_FORK}\n"
            if self._earlier is not None:
                tail = self._earlier.sign(self._key)
                text = "\n".join([text, *_standing_lines(self._drafts)])
        else:
            tail = state.sign(self._key)
        body = f"{text[: _MAX_COMMENT_LENGTH - len(tail) - 2]}\n\n{tail}"
        try:
            if self._login is None:
                self._find_comment()
            notes = self._notes(raw, drafts or {})
            if self._comment is None:
                notes = self._create(body, notes)
            else:
                self._github.update_review(self._number, self._comment.id, body)
            for note in notes:
                # If GitHub rejects a note, its text is added to the comment instead.
                self._github.create_note(self._number, self.changes.head, note)
        except BadFile as error:
            print_message(f"Error: the review was not posted: {error}")
            if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
                with suppress(OSError), Path(summary).open("a", encoding="utf-8") as file:
                    file.write(f"{text}\n\nThis is not posted on the pull request: {plain(str(error))}\n")
            return False
        return True

    def _create(self, body: str, notes: list[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
        """Create the comment with `notes`; if GitHub rejects them, create it without notes and return `notes`."""
        commit = self._changes.head if self._changes is not None else None
        if self._github.create_review(self._number, commit, body, notes):
            return []
        if not notes or not self._github.create_review(self._number, commit, body, []):
            raise BadFile(f"pull request {self._number}", "GitHub rejected the comment")
        return notes

    def _notes(self, raw: ReviewRawOutput | None, drafts: dict[str, FindingDraft]) -> list[dict[str, JsonValue]]:
        """Mark the notes on resolved findings as resolved, and return the notes to add for confirmed findings."""
        if raw is None:
            return []
        written = {} if self._comment is None else self._written_notes()
        for finding in raw.in_state("resolved"):
            for key in _keys(finding):
                if (note := written.get(key)) is not None and not (note.body or "").startswith("**Resolved**"):
                    self._github.update_note(note.id, f"**Resolved** in {self.changes.head[:12]}.\n\n{note.body}")
        notes = []
        for finding in raw.in_state("confirmed"):
            key = _key_of(drafts[finding.id])
            if written.keys() & {key, *_keys(finding)}:
                continue
            if (place := self._lines(finding.place)) is not None:
                text = f"**{finding.severity}** {plain(sentence(finding))}"
                notes.append({**place, "body": f"{text}\n\n<!-- flowdebate-note {key} -->"})
        return notes[:_MAX_NOTES]

    def _written_notes(self) -> dict[str, Comment]:
        """Return the notes posted by earlier runs, keyed by finding."""
        notes: dict[str, Comment] = {}
        for comment in self._github.notes(self._number):
            match = _NOTE.search(comment.body or "")
            if match is not None and comment.user is not None and comment.user.login == self._login:
                notes[match[1]] = comment
        return notes

    def _lines(self, place: Place) -> dict[str, JsonValue] | None:
        """Return the lines where a finding's note can be attached, or None if they are not part of the diff."""
        lines = self.changes.lines.get(place.file or "", set())
        if not place.found or place.line not in lines:
            return None
        last = place.end_line or place.line
        note: dict[str, JsonValue] = {"path": place.file, "line": place.line, "side": "RIGHT"}
        if last > place.line and lines.issuperset(range(place.line, last + 1)):
            note |= {"start_line": place.line, "start_side": "RIGHT", "line": last}
        return note


def _standing(draft: FindingDraft, number: int) -> Finding:
    """Build a confirmed finding from an earlier run's draft without checking the finding again."""
    place = Place(**draft.model_dump(include={"file", "line", "end_line", "quote"}))
    fields = draft.model_dump(include={"title", "claim", "severity", "suggestion"})
    raised = [Raised(agent_name=EARLIER, place=place, **fields)]
    return Finding(id=f"F{number}", place=place, raised=raised, state="confirmed", **fields)


def _standing_lines(drafts: Sequence[FindingDraft]) -> Iterator[str]:
    if drafts:
        yield f"\nConfirmed by an earlier review and not resolved: {counted(len(drafts), 'finding')}\n"
    for draft in drafts:
        place = f" {plain(draft.file)}" if draft.file else ""
        yield f"- **{draft.severity}**{place}: **{plain(draft.title)}**. {plain(draft.claim)}"


def _key_of(finding: FindingDraft | Raised) -> str:
    """Return the key that identifies a finding's note."""
    quote = finding.quote if isinstance(finding, FindingDraft) else finding.place.quote
    return sha256(f"{finding.title}\0{quote or ''}".encode(errors="replace")).hexdigest()[:16]


def _keys(finding: Finding) -> set[str]:
    return {_key_of(raised) for raised in finding.raised}
