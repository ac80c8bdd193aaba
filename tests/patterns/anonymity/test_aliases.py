from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry
from flowdebate.chassis.anonymity.aliases import Aliases, LeakReport, leak_report, make_aliases
from tests.cases import slow_but_first
from tests.patterns.anonymity.naming_corpus import FALSE_ALARMS, FURTHER, NAMING, NOT_CAUGHT, ROSTERS, SILENT
from tests.prompts.nasty import anything, texts

_MARK = re.compile(r"«([^«»|]*)(?:\|([^«»]*))?»")
ALIASES = {
    key: make_aliases(
        roster.names, models=roster.models, question=roster.question, stances=roster.stances, random=Random(3)
    )
    for key, roster in ROSTERS.items()
}


def strip_marks(marked: str) -> str:
    """Remove the marks from a turn in the corpus."""
    return _MARK.sub(lambda mark: mark[1], marked)


def simplify(text: str) -> str:
    """Reduce text to plain letters and digits separated by spaces, without using the library's code."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    visible = "".join(char for char in plain if unicodedata.category(char) not in {"Cf", "Mn"})
    return " ".join(re.sub(r"[\W_]+", " ", visible).split())


def count_occurrences(name: str, text: str) -> int:
    """Count the occurrences of `name` in `text`: whole words only, or anywhere in scripts without spaces."""
    words = simplify(name)
    bounds = (r"\b", r"\b") if words.isascii() or re.match(r"[\u0370-\u06ff]", words) else ("", "")
    return len(re.findall(bounds[0] + re.escape(words) + bounds[1], simplify(text)))


def find_names(key: str, text: str) -> list[str]:
    """Return the names found in a turn, as spelled there."""
    return [leak.text for leak in ALIASES[key].hide(text).leaks]


def resolve_mark(mark: str, names: tuple[str, ...]) -> list[str]:
    """Return the names that a mark without an explicit name refers to."""
    return [name for name in names if simplify(name) == simplify(mark)]


def test_each_corpus_has_at_least_a_hundred_turns() -> None:
    assert len({text for _, text in NAMING}) >= 100
    assert len({text for _, text in SILENT}) >= 100
    assert {key for key, _ in NAMING} == {key for key, _ in SILENT} == set(ROSTERS)
    assert all(_MARK.search(text) for _, text in NAMING)
    assert not any("«" in text for _, text in SILENT)


@pytest.mark.parametrize(("key", "marked"), NAMING)
def test_only_marked_names_are_hidden(key: str, marked: str) -> None:
    aliases, roster, parts, position = ALIASES[key], ROSTERS[key], [], 0
    for mark in _MARK.finditer(marked):
        candidates = [mark[2]] if mark[2] else resolve_mark(mark[1], roster.names)
        assert len(candidates) == 1
        before = marked[position : mark.start()].removesuffix("@")
        alias = aliases.names.get(candidates[0]) or next(  # all model families and makers share one alias
            leak.alias
            for leak in aliases.hide(strip_marks(marked)).leaks
            if (leak.meant, leak.text) == (candidates[0], mark[1])
        )
        parts += [before, alias]
        position = mark.end()
    assert aliases.hide(strip_marks(marked)).text == "".join(parts) + marked[position:]


@pytest.mark.parametrize(("key", "marked"), NAMING)
def test_simple_search_finds_no_hidden_name(key: str, marked: str) -> None:
    """The search shares no code with the library's rules, so it can find names that the rules miss."""
    hidden, rest = ALIASES[key].hide(strip_marks(marked)).text, _MARK.sub(" … ", marked)
    for name in ROSTERS[key].names:
        assert count_occurrences(name, hidden) == count_occurrences(name, rest)
    assert any(
        count_occurrences(mark[1], strip_marks(marked)) > count_occurrences(mark[1], hidden)
        for mark in _MARK.finditer(marked)
    )


@pytest.mark.parametrize(("key", "text"), SILENT)
def test_turns_that_mention_nobody_are_unchanged(key: str, text: str) -> None:
    assert ALIASES[key].hide(text) == (text, ())


@pytest.mark.parametrize(("key", "text", "names"), FURTHER)
def test_names_in_the_additional_turns_are_found(key: str, text: str, names: tuple[str, ...]) -> None:
    assert find_names(key, text) == list(names)


@pytest.mark.parametrize(("key", "text", "names", "caught"), NOT_CAUGHT)
def test_lower_case_names_without_other_clues_are_missed(
    key: str, text: str, names: tuple[str, ...], caught: tuple[str, ...]
) -> None:
    """This is a documented limitation: a human would recognize the name, but the rules treat it as an ordinary word."""
    assert find_names(key, text) == list(caught)
    assert len(caught) < len(names)


@pytest.mark.parametrize(("key", "text", "replaced"), FALSE_ALARMS)
def test_capitalized_words_can_be_mistaken_for_names(key: str, text: str, replaced: tuple[str, ...]) -> None:
    """This is a documented limitation: "Hope" is an ordinary word here, yet it is replaced with an alias."""
    assert find_names(key, text) == list(replaced)


def test_documented_figures_match_the_corpus() -> None:
    """`docs/prompts.md` states how many names are found and how many turns without any name are changed."""
    name_count = sum(len(_MARK.findall(text)) for _, text in NAMING) + sum(len(names) for _, _, names in FURTHER)
    missed = sum(len(names) - len(caught) for _, _, names, caught in NOT_CAUGHT)
    caught = name_count + sum(len(caught) for *_, caught in NOT_CAUGHT)
    silent = len(SILENT) + sum(not names for _, _, names in FURTHER)
    page = " ".join((Path(__file__).parents[3] / "docs" / "prompts.md").read_text(encoding="utf-8").split())
    assert f"{caught} of {caught + missed} names" in page
    assert f"{len(FALSE_ALARMS)} of {silent + len(FALSE_ALARMS)} turns" in page


_WORDS = st.sampled_from(
    [
        *(
            " ",
            "\n",
            ", ",
            ". ",
            ": ",
            "'s ",
            "’s point ",
            " and ",
            " the ",
            "@",
            "**",
            "_",
            "- ",
            "— ",
            "(",
            ")",
            "[",
            "]",
        ),
        *(
            "as ",
            "I am ",
            "I, ",
            "my opponent ",
            "according to ",
            "agree with ",
            " argues ",
            " said that ",
            "a ",
            " you ",
        ),
        *(
            "made by ",
            "trained by ",
            " a model ",
            "I ",
            " here. ",
            "\u200b",
            "é",
            "ﬁ",
            "İ",
            "ß",
            "\uff21",
            "\u0301",
            "1",
            "47",
        ),
        *(
            word
            for text in ("growth Analyst", "OpenAI GPT-5 Claude Anthropic", "Will Hope judge")
            for word in text.split()
        ),
    ]
)
_ROSTER = tuple(sorted({name for roster in ROSTERS.values() for name in roster.names} | {"C++", "12 monkeys", "-"}))
_rosters = st.lists(st.sampled_from(_ROSTER) | st.text(max_size=5), max_size=5).map(tuple)


@st.composite
def _aliases_and_text(draw: st.DrawFn) -> tuple[Aliases, str]:
    """Draw aliases for a roster, along with a text that contains variants of the names."""
    names = draw(_rosters)
    aliases = make_aliases(
        names,
        models=draw(st.sampled_from([(), ("openai/gpt-5-mini", "ollama/qwen2.5:7b")])),
        random=Random(draw(st.integers(0, 9))),
    )
    pieces = draw(st.lists(_WORDS | st.sampled_from(names or ("x",)) | texts, max_size=12))
    return aliases, "".join(pieces)


@given(_aliases_and_text())
def test_hiding_names_is_idempotent(case: tuple[Aliases, str]) -> None:
    aliases, text = case
    hidden = aliases.hide(text).text
    assert aliases.hide(hidden) == (hidden, ())


@given(_aliases_and_text())
def test_text_between_names_is_unchanged(case: tuple[Aliases, str]) -> None:
    aliases, text = case
    (hidden, leaks), position = aliases.hide(text), 0
    pattern = ""
    for leak in leaks:
        assert position <= leak.start < leak.end
        assert text[leak.start : leak.end] == leak.text
        pattern += re.escape(text[position : leak.start]) + re.escape(leak.alias)
        position = leak.end
    hidden_once = pattern + re.escape(text[position:])
    assert (
        re.fullmatch(hidden_once, hidden) or aliases.hide(re.sub(r"\\(.)", r"\1", hidden_once, flags=re.DOTALL)).leaks
    )
    if not leaks:
        assert hidden is text


@given(st.lists(st.text(anything, max_size=8), max_size=8), st.text(max_size=40), st.integers())
def test_aliases_are_distinct_and_share_no_words_with_the_debate(names: list[str], question: str, seed: int) -> None:
    """An alias that shares a word with a name, the question or the earlier text could be mistaken for it."""
    aliases = make_aliases(names, question=question, used=["Speaker 47 said it."], random=Random(seed))
    all_aliases = [aliases.of(name) for name in set(names)]
    assert len(set(all_aliases)) == len(all_aliases)
    words = {word for text in (*names, question, "Speaker 47") for word in simplify(text).split()}
    assert not {word for alias in all_aliases for word in alias.lower().split()} & words


@given(st.permutations(["Alice", "Bob", "skeptic", "b"]), st.integers())
def test_aliases_depend_on_the_seed_but_not_on_the_order(names: list[str], seed: int) -> None:
    repeated = make_aliases(["Alice", "Bob", "skeptic", "b"], random=Random(seed))
    assert make_aliases(names, random=Random(seed)).names == repeated.names


def test_aliases_are_assigned_uniformly() -> None:
    """A biased assignment would reveal names.

    With 1,200 seeds, each of the six orders of three aliases should occur about 200 times.
    """
    names = ("Ann", "Ben", "Cleo")
    orders = Counter(tuple(sorted(names, key=make_aliases(names, random=Random(seed)).of)) for seed in range(1_200))
    assert len(orders) == 6
    assert all(140 < count < 260 for count in orders.values())


def test_large_and_hostile_rosters_get_aliases() -> None:
    """One roster has more names than there are two-digit numbers.

    The other belongs to a debate whose question contains all the words with which aliases normally begin.
    """
    many = make_aliases([f"n{number}" for number in range(120)], random=Random(1))
    assert len(set(many.names.values())) == 120
    words = "Speaker Participant Discussant Voice Contributor Panelist"
    strange = make_aliases(["Ann"], question=words, random=Random(1)).of("Ann")
    assert strange.split()[0] not in words.split()


def test_errors_for_unknown_names_list_the_known_names() -> None:
    with pytest.raises(LookupError, match=r"'Bob'.*'Alice'"):
        make_aliases(["Alice"], random=Random(1)).of("Bob")


_SCRIPTS = {
    "Latin": ("Zoë", "Mark Müller", "Łukasz"),
    "Greek": ("Δήμητρα", "Νίκος"),
    "Cyrillic": ("Иван", "Дарья"),
    "Armenian": ("Արամ", "Նարե"),
    "Georgian": ("ნინო", "გიორგი"),
    "Hebrew": ("דנה", "יוסף"),
    "Arabic": ("ليلى", "عمر"),
    "Devanagari": ("प्रिया", "अमित", "श्री"),
    "Bengali": ("রবি", "প্রিয়া"),
    "Tamil": ("கண்ணன்", "மீனா"),
    "Telugu": ("రాము", "సీత"),
    "Malayalam": ("മീര", "രവി"),
    "Sinhala": ("නිමල්", "කුමාරි"),
    "Thai": ("มาลี", "สมชาย"),
    "Khmer": ("សុខា",),
    "Ethiopic": ("አበበ", "ሳራ"),
    "Han": ("李明", "山田太郎"),
    "Hangul": ("김민수",),
    "emoji": ("Rocket🚀", "🦊", "Ada👩🏽‍🚀", "❤️", "Zed 🧠"),
}


@pytest.mark.parametrize("name", [name for names in _SCRIPTS.values() for name in names])
@given(
    before=st.sampled_from(["", "so ", "(", "«", "“", "@", "— ", "\uff0c", "؛ ", "तो "]),
    after=st.sampled_from(["", " said so", ",", "। ", "؟ ", "。", ")", "”", "'s point", " 🙂", "\n"]),
)
def test_names_in_every_script_are_hidden(name: str, before: str, after: str) -> None:
    """A vowel sign or an emoji at the end of a name is part of the name."""
    aliases = make_aliases([name, "Somebody Else"], models=[], question="Q?", stances=[], random=Random(1))
    hidden = aliases.hide(f"{before}{name}{after}; {name}")
    assert name not in hidden.text
    assert len(hidden.leaks) == 2


@pytest.mark.parametrize(
    ("name", "text", "hidden"),
    [
        ("Rocket🚀", "Rocket argues", "X argues"),
        ("Rocket🚀", "Rocket 🚀 argues", "X argues"),
        ("ليلى", "قالت وليلى", "قالت وX"),
        ("عمر", "لعمر ولعمر", "لX ولX"),
        ("דנה", "\u05d5דנה", "\u05d5X"),
    ],
)
def test_names_with_emoji_or_attached_letters_are_hidden(name: str, text: str, hidden: str) -> None:
    """Speakers omit the emoji in a name, and Arabic and Hebrew attach one-letter words to the beginning of names."""
    aliases = make_aliases([name], models=[], question="Q?", stances=[], random=Random(1))
    assert aliases.hide(text).text == hidden.replace("X", aliases.names[name])


@pytest.mark.parametrize(
    ("name", "text"), [("राम", "रामायण"), ("राम", "रामा"), ("Rocket🚀", "Rocketry"), ("علي", "فعلي"), ("امل", "كامل")]
)
def test_longer_words_that_contain_a_name_are_unchanged(name: str, text: str) -> None:
    """A vowel sign after a name turns it into a different word, as do letters in front of it."""
    assert make_aliases([name], models=[], question="Q?", stances=[], random=Random(1)).hide(text).text == text


def test_stances_used_as_names_are_not_hidden() -> None:
    """The turns' tags show the stances anyway, so a stance used as a name reveals nothing new."""
    aliases = make_aliases(["for", "Against"], stances=["For", "against"], random=Random(1))
    text = "As For, I disagree with Against.\nAgainst: no."
    assert aliases.hide(text).text == text


def test_model_names_are_hidden_unless_models_are_the_topic() -> None:
    """A debate about models has to mention them.

    There, a model's name is hidden only where a speaker claims it as its own.
    """
    model, text = "openai/gpt-5-mini", "GPT-5 mini wrote it. As GPT-5, I agree."
    aliases = make_aliases(["a", "b"], models=[model], random=Random(1))
    assert aliases.hide(text).text == f"{aliases.of(model)} wrote it. As {aliases.of(model)}, I agree."
    for question in ("Are language models useful?", "Should AI be taxed?", "Is Claude better?"):
        hidden_names = make_aliases(["a", "b"], models=[model], question=question, random=Random(1))
        assert hidden_names.hide(text).text == f"GPT-5 mini wrote it. As {hidden_names.of(model)}, I agree."


def test_model_settings_are_not_names() -> None:
    """`local` and the intents select a model but do not name one, so the word "local" must remain in the text."""
    aliases = make_aliases(["Ann"], models=["local", "intent/chat"], random=Random(1))
    assert aliases.hide("As local councils chat, I wait.").text == "As local councils chat, I wait."


@pytest.mark.parametrize(
    "unit",
    slow_but_first(["Alice ", "@Hope", "the skeptic's ", "A ", "growth\n", " ", "\n", "\u200b", "é", "[a,", "— ",
     "I am a model by openai ", "as gpt-5 ", "Hope and ", "dr. ", "Mark has just ", "agree with ", "小明", "Will, "]),
)  # fmt: skip
def test_names_are_found_in_hostile_text_in_linear_time(unit: str) -> None:
    names = ("Alice", "Hope", "skeptic", "a", "growth_analyst", "Dr. Okafor", "Mark", "小明", "Will")
    aliases = make_aliases(names, models=["openai/gpt-5-mini"], random=Random(1))
    text = unit * (100_000 // len(unit)) + "Analyst"
    assert aliases.hide(aliases.hide(text).text).leaks == ()


def test_report_lists_leaks() -> None:
    aliases = make_aliases(["Alice", "Bob"], models=["openai/gpt-5-mini"], random=Random(1))
    entries = [
        DebateContributionEntry(round=1, agent_name="Alice", stance="for", text="As Alice, I say: Bob\nis wrong."),
        DebateContributionEntry(round=1, agent_name="Bob", stance="against", text="No names here."),
        DebateContributionEntry(round=2, agent_name="Alice", stance="for", text=f"{'x ' * 40}I am GPT-5."),
    ]
    report = leak_report(entries, aliases)
    assert (report.count, report.own, report.others, report.models) == (3, 1, 1, 1)
    assert [(leak.entry, leak.round, leak.whose, leak.meant) for leak in report.leaks] == [
        (0, 1, "own", "Alice"),
        (0, 1, "other", "Bob"),
        (2, 2, "model", "openai/gpt-5-mini"),
    ]
    assert report.leaks[1].excerpt == "As Alice, I say: Bob is wrong."
    assert report.leaks[2].excerpt.startswith("…")
    assert report.share == pytest.approx(2 / 3)
    assert LeakReport.model_validate_json(report.model_dump_json(by_alias=True)) == report


def test_report_without_leaks_is_empty() -> None:
    report = leak_report([], make_aliases([], random=Random(1)))
    assert (report.entries, report.count, report.share) == (0, 0, 0.0)


def test_combining_accents_are_hidden_with_the_name() -> None:
    """A leftover combining mark would attach to the alias, and normalizing the text would shift the offsets."""
    aliases = make_aliases(["José", "مريم"], random=Random(1))
    text = "— \uff2aose\u0301!\nAs Jos\u00e9, I… ask مَرْيَم."
    assert [leak.text for leak in aliases.hide(text).leaks] == ["\uff2aose\u0301", "Jos\u00e9", "مَرْيَم"]
    assert aliases.hide(text).text == f"— {aliases.of('José')}!\nAs {aliases.of('José')}, I… ask {aliases.of('مريم')}."
