"""GitHub's documented REST API for one repository, served on the loopback interface."""

from __future__ import annotations

import base64
import difflib
import json
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = "ann/shop"
TOKEN = "ghs-loopback"  # noqa: S105 - of this server
PAGE = 100
MAX_COMMENT_LENGTH = 65_536


def sha(name: str) -> str:
    """Return the full id of the commit with the given short name."""
    return name.encode().hex().ljust(40, "0")[:40]


@dataclass
class Hub:
    """A repository with a pull request; every commit has a complete tree."""

    commits: dict[str, tuple[list[str], Mapping[str, bytes]]] = field(default_factory=dict)
    """Parents and tree of each commit."""
    owner: str = REPOSITORY
    """Owner of the branch's repository."""
    base: str = ""
    head: str = ""
    links: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    """Files whose patches GitHub omits, because of `.gitattributes` or their length."""
    login: str = "github-actions[bot]"
    is_app: bool = True
    can_write: bool = True
    limits: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Rate-limit responses to the next requests, each with a status and headers."""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    page: int = PAGE
    address: str = ""

    def commit(self, name: str, parent: str | None, **files: str | bytes | None) -> str:
        """Add a commit with the changed files, keyed by name.

        "__" in a name stands for a dot, and None removes a file.
        """
        tree = dict(self.commits[sha(parent)][1]) if parent else {}
        for key, content in files.items():
            path = key.replace("__", ".")
            if content is None:
                del tree[path]
            else:
                tree[path] = content.encode() if isinstance(content, str) else content
        self.commits[sha(name)] = ([sha(parent)] if parent else [], tree)
        return sha(name)

    def merge(self, name: str, base: str, head: str) -> str:
        """Add a merge commit with the tree of one parent."""
        self.commits[sha(name)] = ([sha(base), sha(head)], self.commits[sha(base)][1])
        return sha(name)

    def history(self, commit: str) -> list[str]:
        """List a commit with all its ancestors."""
        commits = [commit]
        for entry in commits:
            commits += [parent for parent in self.commits[entry][0] if parent not in commits]
        return commits

    def fork_point(self, one: str, other: str) -> str:
        """Return the merge base of two commits."""
        return next(commit for commit in self.history(other) if commit in self.history(one))

    def files(self, old: str, new: str) -> list[dict[str, Any]]:
        """List the files changed between two commits in GitHub's format."""
        before, after = self.commits[old][1], self.commits[new][1]
        changes = []
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                status = "added" if name not in before else "removed" if name not in after else "modified"
                changes.append({"filename": name, "status": status, **self.patch(name, before, after)})
        return changes

    def patch(self, name: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the patch of a file with its line counts."""
        try:
            old, new = (tree.get(name, b"").decode() for tree in (before, after))
        except UnicodeDecodeError:
            return {"additions": 0, "deletions": 0, "changes": 0}
        if "\0" in old + new:
            return {"additions": 0, "deletions": 0, "changes": 0}
        lines = []
        for line in [*difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), n=3)][2:]:
            lines += [line.rstrip("\n")] if line.endswith("\n") else [line, "\\ No newline at end of file"]
        counts = [sum(line.startswith(sign) for line in lines) for sign in "+-"]
        counted = {"additions": counts[0], "deletions": counts[1], "changes": sum(counts)}
        return counted if name in self.hidden else {**counted, "patch": "\n".join(lines)}

    def has_line(self, note: Mapping[str, Any]) -> bool:
        """Return whether a review comment is on a line of the diff."""
        for file in self.files(self.fork_point(self.base, self.head), self.head):
            number = 0
            for line in file.get("patch", "").split("\n") if file["filename"] == note["path"] else ():
                if start := re.match(r"@@ -\S+ \+(\d+)", line):
                    number = int(start[1])
                elif line[:1] in ("+", " "):
                    if number == note["line"]:
                        return True
                    number += 1
        return False

    def comment(self, body: str, **fields: Any) -> dict[str, Any]:
        """Create a comment by the owner of the token."""
        number = 1 + len(self.reviews) + len(self.notes)
        return {"id": number, "user": {"login": self.login}, "body": body, **fields}


class RequestError(Exception):
    """Error response from the server."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.message, self.headers = status, message, headers
        super().__init__(message)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do(self) -> None:
        hub, address = self.hub, urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"null")
        path, query = unquote(address.path), parse_qs(address.query)
        hub.requests.append((self.command, path))
        headers: dict[str, str] = {}
        try:
            self.check()
            answer = self.answer(path.removeprefix(f"/repos/{REPOSITORY}"), query, body)
            if isinstance(answer, list) and "per_page" in query:
                size, page = min(int(query["per_page"][0]), hub.page), int(query.get("page", ["1"])[0])
                if len(answer) > size * page:
                    following = f"{hub.address}{address.path}?per_page={size}&page={page + 1}"
                    headers["link"] = f'<{following}>; rel="next", <{following}>; rel="last"'
                answer = answer[size * (page - 1) : size * page]
            status = 201 if self.command == "POST" and "graphql" not in path else 200
        except RequestError as refusal:
            status, headers, answer = refusal.status, refusal.headers, {"message": refusal.message}
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do  # noqa: N815 - as http.server calls them

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def check(self) -> None:
        """Reject a request that exceeds a limit or sends the wrong token."""
        if self.hub.limits:
            status, headers = self.hub.limits.pop(0)
            raise RequestError(status, "You have exceeded a rate limit.", **headers)
        if self.headers.get("authorization") not in (None, f"Bearer {TOKEN}"):
            raise RequestError(401, "Bad credentials")

    def answer(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        """Answer a request."""
        hub = self.hub
        if path == "/graphql":
            return {"data": {"viewer": {"login": hub.login}}}
        if path == "/user":
            if hub.is_app:
                raise RequestError(403, "Resource not accessible by integration")
            return {"login": hub.login}
        if self.command != "GET":
            if not hub.can_write:
                raise RequestError(403, "Resource not accessible by integration")
            if len(body.get("body", "")) > MAX_COMMENT_LENGTH:
                raise RequestError(422, "Validation Failed")
            return self.save_comment(path, body)
        return self.answer_read(path, query)

    def answer_read(self, path: str, query: dict[str, list[str]]) -> Any:
        """Answer a read-only request."""
        hub = self.hub
        changed = hub.files(hub.fork_point(hub.base, hub.head), hub.head)
        head = {"sha": hub.head, "repo": {"full_name": hub.owner}}
        answers: dict[str, Any] = {
            "/pulls/7": {"head": head, "base": {"sha": hub.base}, "changed_files": len(changed)},
            "/pulls/7/files": changed,
            "/pulls/7/reviews": hub.reviews,
            "/pulls/7/comments": hub.notes,
        }
        if path in answers:
            return answers[path]
        if match := re.fullmatch(r"/compare/(\w+)\.\.\.(\w+)", path):
            return self.compared(*match.groups())
        if path.startswith("/contents"):
            return self.content(path.removeprefix("/contents").lstrip("/"), query["ref"][0])
        raise RequestError(404, "Not Found")

    def compared(self, base: str, head: str) -> Any:
        """Compare two commits."""
        hub = self.hub
        if not {base, head} <= hub.commits.keys():
            raise RequestError(404, "Not Found")
        fork = hub.fork_point(base, head)
        status = "identical" if base == head else "ahead" if fork == base else "behind" if fork == head else "diverged"
        return {"status": status, "merge_base_commit": {"sha": fork}, "files": hub.files(fork, head)[:300]}

    def content(self, path: str, commit: str) -> Any:
        """Return a file, or list a folder."""
        tree = self.hub.commits[commit][1]
        if path in tree:
            if "raw" in (self.headers.get("accept") or ""):
                return tree[path]
            return {"type": "file", "content": base64.b64encode(tree[path]).decode()}
        inside = [name for name in tree if name.rpartition("/")[0] == path]
        if not inside:
            raise RequestError(404, "Not Found")
        return [{"path": name, "type": "symlink" if name in self.hub.links else "file"} for name in inside]

    def save_comment(self, path: str, body: Any) -> Any:
        """Create or update a comment."""
        hub = self.hub
        if path == "/pulls/7/reviews":
            if not all(map(hub.has_line, body["comments"])):
                raise RequestError(422, "Unprocessable Entity: Line could not be resolved")
            hub.reviews.append(hub.comment(body["body"], commit_id=body.get("commit_id"), event=body["event"]))
            hub.notes += [hub.comment(note["body"], path=note["path"], line=note["line"]) for note in body["comments"]]
            return hub.reviews[-1]
        if path == "/pulls/7/comments":
            if not hub.has_line(body):
                raise RequestError(422, "Validation Failed: line must be part of the diff")
            hub.notes.append(hub.comment(body["body"], path=body["path"], line=body["line"]))
            return hub.notes[-1]
        comments = hub.reviews if "/reviews/" in path else hub.notes
        match = next((comment for comment in comments if comment["id"] == int(path.rpartition("/")[2])), None)
        if match is None:
            raise RequestError(404, "Not Found")
        if match["user"]["login"] != hub.login:
            raise RequestError(403, "You cannot edit this comment")
        match["body"] = body["body"]
        return match


@contextmanager
def serve_hub(hub: Hub) -> Iterator[str]:
    """Serve a repository and yield the address of its API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def format_reset(seconds: float) -> str:
    """Return a time in the format of GitHub's headers."""
    return str(int(time.time() + seconds))
