"""Reports: inert single files that show a run and can be rebuilt from its journal."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import BadFile, ProviderFailed
from flowdebate.patterns import PATTERNS as REGISTERED
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import ATTACKS, FunctionModel
from flowdebate.web.report import report_html, report_policy, verify_file, verify_report
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to
from tests.web.test_prose import SUBSET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.service.evidence import Finding

pytestmark = pytest.mark.anyio

SIDES = [{"name": "ann", "stance": "cap rents"}, {"name": "bob", "stance": "build homes"}]
SHORT: dict[str, Any] = {"debaters": SIDES, "max_rounds": 1}
WORDS = ("reasoning", "verdict", "briefing")
JOURNAL = re.compile(r"(?<=base64,)[^\"]+")


def constant_model() -> FunctionModel:
    """Return a model that gives the same answer to every request."""
    return FunctionModel(answer_to)


async def make_report(pattern: str, options: dict[str, Any] | None = None, *, model: Any = None) -> str:
    """Return the report of a built-in pattern's run, however it ended."""
    async with Service(store=MemoryStore(), model=model or constant_model()) as service:
        options = {"debaters": SIDES} if options is None and pattern == "debate" else options
        run = await service.begin(pattern, QUESTION, options=options, run_id="r", seed=1)
        await service.wait(run.run_id)
        return await report_html(*await service.evidence("r"))


def extract_journal(html: str) -> str:
    """Return the journal in a report."""
    match = JOURNAL.search(html)
    assert match is not None
    return gzip.decompress(base64.b64decode(match[0])).decode()


def replace_journal(html: str, journal: str, *, rehashed: bool = True) -> str:
    """Replace the journal of a report, and its hash."""
    packed = base64.b64encode(gzip.compress(journal.encode())).decode()
    before, after = (sha256(text.encode()).hexdigest() for text in (extract_journal(html), journal))
    changed = JOURNAL.sub(lambda _: packed, html)
    return changed.replace(before, after) if rehashed else changed


class Parts(HTMLParser):
    """HTML parser that collects a page's elements with their attributes, its active content, and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.page = page.split("\n")
        self.found: set[tuple[str, ...]] = set()
        self.addresses: list[str] = []
        self.texts: list[tuple[int, int, str]] = []
        self.skipped = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, *sorted(name for name, _ in attrs)))
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "action", "style")]
        self.skipped = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.skipped = False

    def handle_data(self, data: str) -> None:
        if data.strip() and not self.skipped:
            self.texts.append((*self.getpos(), data))


@pytest.mark.parametrize("name", REGISTERED)
async def test_reports_of_all_patterns_are_verified(name: str) -> None:
    html = await make_report(name)
    assert QUESTION in html
    assert "<script" not in html
    assert all(address.startswith(("data:application/gzip", "#")) for address in Parts(html).addresses)
    texts = sum(len(text) for *_, text in Parts(html).texts)
    assert len(html) - len(JOURNAL.findall(html)[0]) - texts < 60_000
    finding = await verify_report(html)
    assert (finding.outcome, finding.problems, finding.run_id) == ("verified", (), "r")
    assert finding.answers > 1


@pytest.mark.parametrize("name", PATTERNS)
async def test_report_of_an_application_pattern_is_verified_with_that_pattern(name: str) -> None:
    """If the pattern is not available to the verifier, the outcome is "unknown"."""
    pattern = PATTERNS[name]()
    async with Service({"it": pattern}, store=MemoryStore(), model=constant_model()) as service:
        await service.begin("it", QUESTION, run_id="r", seed=4)
        await service.wait("r")
        html = await report_html(*await service.evidence("r"))
    finding = await verify_report(html, block=pattern, model=constant_model())
    assert (finding.outcome, finding.problems) == ("verified", ())
    unknown = await verify_report(html)
    assert unknown.outcome != "verified"
    assert any("the run was started by a program" in problem for problem in unknown.problems)


async def test_report_of_a_fork_is_verified() -> None:
    """The fork contains one edited and one reused answer, and its report is verified without the parent."""
    async with Service(store=MemoryStore(), model=constant_model()) as service:
        await service.begin("debate", QUESTION, options=SHORT, run_id="r")
        await service.wait("r")
        place = next(step.key for step in await service.store.steps("r") if "ann" in step.key)
        await service.fork("r", edits={place: "Something else."}, fork_id="f")
        await service.wait("f")
        html = await report_html(*await service.evidence("f"))
    assert "Something else." in html
    assert "1 edited" in html
    assert (await verify_report(html)).outcome == "verified"


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mirrored": ("debate", {**SHORT, "mirror": True}),
    "at once": ("debate", {**SHORT, "turn_order": "simultaneous", "schedule": "full"}),
    "with baselines": ("debate", {**SHORT, "baselines": True}),
    "stopped": ("debate", {"debaters": SIDES, "max_rounds": 4, "terminate_when": "rounds(2) | tokens(100000)"}),
    "concise": ("debate", {**SHORT, "profile": "concise", "moderator": True}),
    "refereed": ("round_robin", {"referee": True, "turn_order": "shuffled"}),
    "as text": ("handoff", {"transition": "text", "max_turns": 4}),
    "drawn": ("consensus", {"max_rounds": 2, "topology": "random-graph", "confidence": 0.5, "judge": True}),
}


@pytest.mark.parametrize("name", VARIANTS)
async def test_reports_with_any_options_are_verified(name: str) -> None:
    """The options include random draws, measures and additional calls."""
    finding = await verify_report(await make_report(*VARIANTS[name]))
    assert (finding.outcome, finding.problems) == ("verified", ())


@pytest.mark.parametrize("role", ["debater-bob", "judge", "synthesizer", "moderator"])
async def test_report_of_a_run_continued_without_a_role_is_verified(role: str) -> None:
    """The page mentions the missing role."""

    def answer(request: ModelRequest) -> Any:
        if role in request.block:
            raise ProviderFailed("down", status=503)
        return answer_to(request)

    html = await make_report("debate", {**SHORT, "moderator": True, "on_failure": "skip"}, model=FunctionModel(answer))
    finding = await verify_report(html)
    assert (finding.outcome, finding.problems) == ("verified", ())


async def test_report_of_a_run_with_a_small_model_is_verified() -> None:
    """Verification succeeds even though the journal does not record that the model uses concise prompts."""

    class Small(FunctionModel):
        profile = "concise"

    finding = await verify_report(await make_report("debate", SHORT, model=Small(answer_to)))
    assert (finding.outcome, finding.problems) == ("verified", ())


async def test_reader_votes_appear_in_the_report() -> None:
    """The author of a report could invent votes, so the page calls them unverified and states their number."""
    async with Service(store=MemoryStore(), model=constant_model()) as service:
        await service.begin("debate", QUESTION, options=SHORT, run_id="r")
        await service.wait("r")
        await service.vote("r", "a reader", "cap rents")
        html = await report_html(*await service.evidence("r"))
    assert "1 of 1 for ann" in html
    assert "Not checked, because the journal does not contain them: votes of readers, dates and durations," in html
    finding = await verify_report(html)
    assert (finding.outcome, finding.unchecked[0]) == ("verified", "votes of readers")


def failing_model(block: str) -> FunctionModel:
    """Create a model that fails in one role."""

    def answer(request: ModelRequest) -> Any:
        if block in request.block:
            raise ConnectionError("gone")
        return answer_to(request)

    return FunctionModel(answer)


@pytest.mark.parametrize("block", ["debater-ann", "debater-bob", "judge", "synthesizer"])
async def test_report_of_a_failed_run_is_verified_up_to_the_failure(block: str) -> None:
    html = await make_report("debate", SHORT, model=failing_model(block))
    assert "gone" in html
    finding = await verify_report(html)
    assert (finding.outcome, finding.problems) == ("verified", ())


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_report_of_a_run_ended_by_a_limit_is_verified(calls: int) -> None:
    from flowdebate import Limits

    async with Service(store=MemoryStore(), model=constant_model(), limits=Limits(calls=calls)) as service:
        await service.begin("debate", QUESTION, options=SHORT, run_id="r")
        assert (await service.wait("r")).status == "limit"
        html = await report_html(*await service.evidence("r"))
    finding = await verify_report(html)
    assert (finding.outcome, finding.problems) == ("verified", ())


async def test_report_of_an_unfinished_run_is_verified() -> None:
    """Whether the run is in progress or waiting for a person, its transcript must match the answers so far."""
    waits = {**SHORT, "humans": ["judge"], "suspend": True}
    assert (await verify_report(await make_report("debate", waits))).outcome == "verified"
    reached = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if "bob" in request.block:
            reached.set()
            await asyncio.Event().wait()
        return answer_to(request)

    async with Service(store=MemoryStore(), model=FunctionModel(answer)) as service:
        await service.begin("debate", QUESTION, options=SHORT, run_id="r")
        await reached.wait()
        live = await report_html(*await service.evidence("r"))
        await service.cancel("r")
        interrupted = await report_html(*await service.evidence("r"))
    for html in (live, interrupted):
        finding = await verify_report(html)
        assert (finding.outcome, finding.problems) == ("verified", ())


# Manipulated reports


REPORT = asyncio.run(make_report("debate", {**SHORT, "moderator": True, "schedule": "swap"}))
TEXTS = Parts(REPORT).texts


@given(at=st.integers(0, sum(len(text) for *_, text in TEXTS) - 1), char=st.characters(exclude_categories=["Cs", "Cc"]))
async def test_any_changed_character_on_the_page_is_detected(at: int, char: str) -> None:
    row, column = [(line - 1, column + at) for line, column, text in TEXTS for at in range(len(text))][at]
    lines = REPORT.split("\n")
    if lines[row][column] == char:
        return
    lines[row] = f"{lines[row][:column]}{char}{lines[row][column + 1 :]}"
    changed = "\n".join(lines)
    try:
        finding = await verify_report(changed)
    except BadFile:  # the character was part of the file signature
        return
    assert finding.outcome == "differs"
    assert finding.problems


@given(
    at=st.integers(0, len(extract_journal(REPORT)) - 1), char=st.characters(min_codepoint=32, exclude_categories=["Cs"])
)
async def test_any_changed_character_in_the_journal_is_detected(at: int, char: str) -> None:
    journal = extract_journal(REPORT)
    if journal[at] == char:
        return
    try:
        finding = await verify_report(
            replace_journal(REPORT, f"{journal[:at]}{char}{journal[at + 1 :]}", rehashed=False)
        )
    except BadFile:
        return
    assert finding.outcome == "differs"
    assert "SHA-256" in finding.problems[0]


async def rebuild_report(journal: str) -> Finding:
    """Rebuild the report from a changed journal, as a forger would."""
    from flowdebate.service.evidence import evidence_of
    from flowdebate.store.export import read_runs

    lines = journal.splitlines()
    [run] = read_runs(lines, "forged")
    return await verify_report(await report_html(lines, await evidence_of(*run)))


@pytest.mark.parametrize("role", ["debater-ann", "debater-bob", "moderator", "judge", "synthesizer"])
async def test_changed_answer_with_matching_hash_and_page_is_detected(role: str) -> None:
    """The changed answer leads to a different result and to later prompts whose hashes no longer match."""
    lines = extract_journal(REPORT).splitlines()
    index = next(at for at, line in enumerate(lines) if '"kind": "step"' in line and role in line)
    step = json.loads(lines[index])
    body = json.loads(step["row"]["body"])
    if body.get("data"):
        body["data"] = {key: f"Never {value}" if key in WORDS else value for key, value in body["data"].items()}
    else:
        body["text"] = f"Never {body['text']}"
    step["row"]["body"] = json.dumps(body)
    finding = await rebuild_report("\n".join([*lines[:index], json.dumps(step), *lines[index + 1 :]]))
    assert finding.outcome == "differs"
    assert "the journal gives" in finding.problems[0]


async def test_consistently_changed_answer_is_detected_by_later_prompts() -> None:
    """A change to the last answer cannot be detected in this way, since no later prompt contains that answer.

    No check could help against an author who invents a whole journal.
    """
    journal = extract_journal(REPORT)
    quoted_text = next(text for text in re.findall(r'"text": "([^"]+)"', journal))
    finding = await rebuild_report(journal.replace(quoted_text, f"{quoted_text} Never!"))
    assert finding.outcome == "differs"
    assert "different prompts" in finding.problems[0]


async def test_report_from_another_version_has_unknown_outcome() -> None:
    """Another version may lay out its page differently, so a mismatch does not show that the report is false."""
    html = REPORT.replace('generator" content="flowdebate ', 'generator" content="flowdebate 0.0.1-')
    finding = await verify_report(html)
    assert finding.outcome == "unknown"
    assert "Verify it with that version" in finding.problems[-1]


# Hostile files


def make_bomb() -> str:
    """Build a small compressed journal that expands to 200 MB."""
    return base64.b64encode(gzip.compress(b"0" * 200_000_000, 9)).decode()


DAMAGED: dict[str, tuple[Callable[[str], str], str]] = {
    "no report": (lambda _: "<html></html>", "is not a flowdebate report"),
    "two journals": (lambda html: html.replace("</main>", JOURNAL_LINK + "</main>"), "its journal 2 times"),
    "no base64": (lambda html: JOURNAL.sub("====", html), "its journal is not valid base64"),
    "other base64": (lambda html: JOURNAL.sub("AAAA", html), "its journal cannot be decompressed"),
    "cut off": (
        lambda html: replace_bytes(html, base64.b64decode(JOURNAL.findall(html)[0])[:-40]),
        "its journal is truncated",
    ),
    "followed": (
        lambda html: replace_bytes(html, base64.b64decode(JOURNAL.findall(html)[0]) + b"more"),
        "its journal is followed by other data",
    ),
    "a bomb": (lambda html: JOURNAL.sub(make_bomb(), html), "its journal is larger than 64 MB"),
    "no journal": (lambda html: replace_journal(html, ""), "its journal contains 0 runs instead of one"),
    "two runs": (
        lambda html: replace_journal(html, extract_journal(html) * 2),
        "its journal contains 2 runs instead of one",
    ),
    "deep": (lambda html: replace_journal(html, "[" * 100_000), "its journal: line 1: "),
    "no line": (lambda html: replace_journal(html, extract_journal(html).split("\n", 1)[0]), "its journal: line 1: "),
}
JOURNAL_LINK = '<a id="journal" download="x" href="data:application/gzip;base64,">'


def replace_bytes(html: str, data: bytes) -> str:
    """Replace the journal of a report with the given bytes."""
    return JOURNAL.sub(lambda _: base64.b64encode(data).decode(), html)


@pytest.mark.parametrize("name", DAMAGED)
async def test_damaged_file_is_rejected_with_its_location(name: str) -> None:
    damage, problem = DAMAGED[name]
    with pytest.raises(BadFile, match=re.escape(problem)) as caught:
        await verify_report(damage(REPORT), source="report.html")
    assert str(caught.value).startswith("report.html: ")


async def test_plan_from_another_version_has_unknown_outcome() -> None:
    """The message states that this version cannot read the plan."""
    plan = re.compile(r'"plan": \{"format": 1')
    finding = await verify_report(replace_journal(REPORT, plan.sub('"plan": {"format": 99', extract_journal(REPORT))))
    assert finding.outcome == "unknown"
    assert "another version" in finding.problems[0]


async def test_export_is_verified_run_by_run(tmp_path: Path) -> None:
    """An export contains no page, so its results are compared with those obtained by replaying the answers.

    The file may have any line endings.
    """
    journal = extract_journal(REPORT)
    file = tmp_path / "runs.jsonl"
    file.write_bytes(journal.replace("\n", "\r\n").encode())
    assert [report.outcome for report in await verify_file(str(file))] == ["verified"]
    file.write_text(journal.replace("Never", "Ever").replace('"verdict": "', '"verdict": "Not: ', 1))
    [finding] = await verify_file(str(file))
    assert finding.outcome == "differs"
    assert "verdict" in finding.problems[0]


async def test_report_survives_other_line_endings(tmp_path: Path) -> None:
    """Mail programs may change the line endings of an attached report."""
    file = tmp_path / "report.html"
    file.write_bytes(REPORT.replace("\n", "\r\n").encode())
    assert [report.outcome for report in await verify_file(str(file))] == ["verified"]


# Hostile text


async def test_hostile_text_is_escaped() -> None:
    """Questions and model text cannot add an element, an attribute or a URL to the report."""
    hostile = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "]]>--><svg/onload=alert(1)></style></title></a></details>",
        '<a id="journal" download="x" href="data:application/gzip;base64,AAAA">',
        '<td class="mono" id="sha256">0</td><meta name="generator" content="flowdebate 9">',
        "{{ 7 * 7 }} {% raw %} \ud83d \u202e\r\n\x0b",
        *(attack.written() for attack in ATTACKS),
    ]
    plain: Parts | None = None
    for text in ["A\n\nplain text.", " ".join(hostile), *hostile[:6]]:

        def answer(request: ModelRequest, text: str = text) -> Any:
            return {"reasoning": text, "winner": None, "verdict": text} if request.output_schema else text

        stance = text.encode(errors="replace").decode()[:500]
        sides = [{"name": "A", "stance": stance}, {"name": "B", "stance": "y"}]
        html = await make_report("debate", {"debaters": sides, "max_rounds": 1}, model=FunctionModel(answer))
        parts = Parts(html)
        plain = plain or parts
        assert parts.found <= plain.found | {("h1", "class"), ("p", "class")} | SUBSET, text
        elsewhere = [address[:29] for address in parts.addresses if address not in ("#turn-1", "#turn-2")]
        assert elsewhere == ["data:application/gzip;base64,"]
        assert (await verify_report(html)).outcome == "verified"


async def test_only_the_librarys_stylesheet_is_trusted() -> None:
    """The report's policy contains the hash of its only style and allows nothing else."""
    [style] = re.findall(r"<style>(.*?)</style>", REPORT, re.DOTALL)
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in report_policy()
    assert f'content="{report_policy()}"' in unescape(REPORT)
    assert " style=" not in REPORT
