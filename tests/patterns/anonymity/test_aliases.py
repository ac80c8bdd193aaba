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


def unmarked(marked: str) -> str:
    """A turn of the corpus as it was said."""
    return _MARK.sub(lambda mark: mark[1], marked)


def blunt(text: str) -> str:
    """Letters and digits only, in their plainest form, with a blank between words: no code of the library's."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    seen = "".join(char for char in plain if unicodedata.category(char) not in {"Cf", "Mn"})
    return " ".join(re.sub(r"[\W_]+", " ", seen).split())


def how_often(name: str, text: str) -> int:
    """The number of times that `text` has `name` as whole words; in scripts without blanks, anywhere."""
    words = blunt(name)
    bounds = (r"\b", r"\b") if words.isascii() or re.match(r"[\u0370-\u06ff]", words) else ("", "")
    return len(re.findall(bounds[0] + re.escape(words) + bounds[1], blunt(text)))


def found(key: str, text: str) -> list[str]:
    """The names that are found in a turn, as it has them."""
    return [leak.text for leak in ALIASES[key].hide(text).leaks]


def meant_by(shown: str, names: tuple[str, ...]) -> list[str]:
    """Whom a mark without a second part names."""
    return [name for name in names if blunt(name) == blunt(shown)]


def test_the_corpora_have_a_hundred_turns_each() -> None:
    """What "no leak" and "no false alias" are measured with is no handful, and uses each roster."""
    assert len({text for _, text in NAMING}) >= 100
    assert len({text for _, text in SILENT}) >= 100
    assert {key for key, _ in NAMING} == {key for key, _ in SILENT} == set(ROSTERS)
    assert all(_MARK.search(text) for _, text in NAMING)
    assert not any("«" in text for _, text in SILENT)


@pytest.mark.parametrize(("key", "marked"), NAMING)
def test_who_is_named_is_hidden_and_nothing_else(key: str, marked: str) -> None:
    """Exactly the marked words are replaced, each by the alias of whom it names."""
    aliases, roster, parts, done = ALIASES[key], ROSTERS[key], [], 0
    for mark in _MARK.finditer(marked):
        meant = [mark[2]] if mark[2] else meant_by(mark[1], roster.names)
        assert len(meant) == 1
        before = marked[done : mark.start()].removesuffix("@")
        alias = aliases.names.get(meant[0]) or next(  # a family or a maker has one alias with all others
            leak.alias
            for leak in aliases.hide(unmarked(marked)).leaks
            if (leak.meant, leak.text) == (meant[0], mark[1])
        )
        parts += [before, alias]
        done = mark.end()
    assert aliases.hide(unmarked(marked)).text == "".join(parts) + marked[done:]


@pytest.mark.parametrize(("key", "marked"), NAMING)
def test_a_blunt_look_finds_no_name_that_was_meant(key: str, marked: str) -> None:
    """A second checker, which ignores sentences, counts as many names as there are outside the marks."""
    hidden, rest = ALIASES[key].hide(unmarked(marked)).text, _MARK.sub(" … ", marked)
    for name in ROSTERS[key].names:
        assert how_often(name, hidden) == how_often(name, rest)
    assert any(how_often(mark[1], unmarked(marked)) > how_often(mark[1], hidden) for mark in _MARK.finditer(marked))


@pytest.mark.parametrize(("key", "text"), SILENT)
def test_words_that_name_nobody_stay(key: str, text: str) -> None:
    """No false alias: the text is the same, byte for byte."""
    assert ALIASES[key].hide(text) == (text, ())


@pytest.mark.parametrize(("key", "text", "named"), FURTHER)
def test_further_turns_are_told_apart(key: str, text: str, named: tuple[str, ...]) -> None:
    """What names somebody is found, and nothing else."""
    assert found(key, text) == list(named)


@pytest.mark.parametrize(("key", "text", "named", "caught"), NOT_CAUGHT)
def test_words_in_lower_case_at_no_sign_are_not_caught(
    key: str, text: str, named: tuple[str, ...], caught: tuple[str, ...]
) -> None:
    """The documented limit: a reader sees somebody named there, the rules see a word."""
    assert found(key, text) == list(caught)
    assert len(caught) < len(named)


@pytest.mark.parametrize(("key", "text", "replaced"), FALSE_ALARMS)
def test_capitals_can_mislead(key: str, text: str, replaced: tuple[str, ...]) -> None:
    """The other documented limit: Hope is a word there, and becomes an alias."""
    assert found(key, text) == list(replaced)


def test_the_figures_of_the_documentation_are_those_of_the_corpus() -> None:
    """docs/prompts.md publishes how many names are found, and how many turns are changed that name nobody."""
    named = sum(len(_MARK.findall(text)) for _, text in NAMING) + sum(len(names) for _, _, names in FURTHER)
    missed = sum(len(names) - len(caught) for _, _, names, caught in NOT_CAUGHT)
    caught = named + sum(len(caught) for *_, caught in NOT_CAUGHT)
    silent = len(SILENT) + sum(not names for _, _, names in FURTHER)
    page = (Path(__file__).parents[3] / "docs" / "prompts.md").read_text(encoding="utf-8")
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
def _said(draw: st.DrawFn) -> tuple[Aliases, str]:
    """Aliases of some roster, and a text that plays with its names."""
    names = draw(_rosters)
    aliases = make_aliases(
        names,
        models=draw(st.sampled_from([(), ("openai/gpt-5-mini", "ollama/qwen2.5:7b")])),
        random=Random(draw(st.integers(0, 9))),
    )
    pieces = draw(st.lists(_WORDS | st.sampled_from(names or ("x",)) | texts, max_size=12))
    return aliases, "".join(pieces)


@given(_said())
def test_what_is_hidden_holds_no_name_and_stays_as_it_is(said: tuple[Aliases, str]) -> None:
    """Hiding twice is hiding once, and nothing is left to find."""
    aliases, text = said
    hidden = aliases.hide(text).text
    assert aliases.hide(hidden) == (hidden, ())


@given(_said())
def test_only_what_is_found_changes(said: tuple[Aliases, str]) -> None:
    """Leaks are slices of the text in its order; all between them stays, and without any the text is itself."""
    aliases, text = said
    (hidden, leaks), done = aliases.hide(text), 0
    pattern = ""
    for leak in leaks:
        assert done <= leak.start < leak.end
        assert text[leak.start : leak.end] == leak.text
        pattern += re.escape(text[done : leak.start]) + re.escape(leak.alias)
        done = leak.end
    once = pattern + re.escape(text[done:])
    assert re.fullmatch(once, hidden) or aliases.hide(re.sub(r"\\(.)", r"\1", once, flags=re.DOTALL)).leaks
    if not leaks:
        assert hidden is text


@given(st.lists(st.text(anything, max_size=8), max_size=8), st.text(max_size=40), st.integers())
def test_aliases_are_distinct_and_share_no_word_with_the_debate(names: list[str], question: str, seed: int) -> None:
    """No two have one alias, and none holds a word of a name, of the question or of a text that is there already."""
    aliases = make_aliases(names, question=question, used=["Speaker 47 said it."], random=Random(seed))
    drawn = [aliases.of(name) for name in set(names)]
    assert len(set(drawn)) == len(drawn)
    words = {word for text in (*names, question, "Speaker 47") for word in blunt(text).split()}
    assert not {word for alias in drawn for word in alias.lower().split()} & words


@given(st.permutations(["Alice", "Bob", "skeptic", "b"]), st.integers())
def test_aliases_repeat_with_the_seed_and_not_with_the_order(names: list[str], seed: int) -> None:
    """The same names and the same seed have the same aliases, in whatever order the roster has them."""
    again = make_aliases(["Alice", "Bob", "skeptic", "b"], random=Random(seed))
    assert make_aliases(names, random=Random(seed)).names == again.names


def test_each_name_has_each_place_about_equally_often() -> None:
    """An alias does not tell who it is: over 1,200 seeds each of 6 orders of three aliases comes about 200 times."""
    names = ("Ann", "Ben", "Cleo")
    orders = Counter(tuple(sorted(names, key=make_aliases(names, random=Random(seed)).of)) for seed in range(1_200))
    assert len(orders) == 6
    assert all(140 < count < 260 for count in orders.values())


def test_there_are_aliases_for_many_and_where_all_words_are_taken() -> None:
    """More names than numbers of two digits; a roster that is called like aliases are."""
    many = make_aliases([f"n{number}" for number in range(120)], random=Random(1))
    assert len(set(many.names.values())) == 120
    taken = "Speaker Participant Discussant Voice Contributor Panelist"
    strange = make_aliases(["Ann"], question=taken, random=Random(1)).of("Ann")
    assert strange.split()[0] not in taken.split()


def test_an_unknown_name_has_no_alias() -> None:
    """Asking for a stranger's alias is an error that lists who has one."""
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
def test_names_of_every_script_are_hidden(name: str, before: str, after: str) -> None:
    """Vowel signs and emoji at the end of a name are part of it, whatever stands around it."""
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
def test_a_name_is_hidden_as_it_is_written_with_what_surrounds_it(name: str, text: str, hidden: str) -> None:
    """An emoji may be left out, and words of one letter are written together with an Arabic or Hebrew name."""
    aliases = make_aliases([name], models=[], question="Q?", stances=[], random=Random(1))
    assert aliases.hide(text).text == hidden.replace("X", aliases.names[name])


@pytest.mark.parametrize(
    ("name", "text"), [("राम", "रामायण"), ("राम", "रामा"), ("Rocket🚀", "Rocketry"), ("علي", "فعلي"), ("امل", "كامل")]
)
def test_a_longer_word_that_begins_or_ends_like_a_name_stays(name: str, text: str) -> None:
    """A vowel sign after a name makes another word of it, and so do letters before it that begin many words."""
    assert make_aliases([name], models=[], question="Q?", stances=[], random=Random(1)).hide(text).text == text


def test_a_name_that_is_a_stance_stays() -> None:
    """Tags show stances: a name that is one tells nothing more."""
    aliases = make_aliases(["for", "Against"], stances=["For", "against"], random=Random(1))
    text = "As For, I disagree with Against.\nAgainst: no."
    assert aliases.hide(text).text == text


def test_models_are_hidden_anywhere_unless_models_are_debated() -> None:
    """A model of the roster is a name; where the question is about models, only its author's own is."""
    model, text = "openai/gpt-5-mini", "GPT-5 mini wrote it. As GPT-5, I agree."
    aliases = make_aliases(["a", "b"], models=[model], random=Random(1))
    assert aliases.hide(text).text == f"{aliases.of(model)} wrote it. As {aliases.of(model)}, I agree."
    for question in ("Are language models useful?", "Should AI be taxed?", "Is Claude better?"):
        asked = make_aliases(["a", "b"], models=[model], question=question, random=Random(1))
        assert asked.hide(text).text == f"GPT-5 mini wrote it. As {asked.of(model)}, I agree."


def test_models_that_say_nothing_are_no_names() -> None:
    """`local` and intents are settings; the word "local" stays."""
    aliases = make_aliases(["Ann"], models=["local", "intent/chat"], random=Random(1))
    assert aliases.hide("As local councils chat, I wait.").text == "As local councils chat, I wait."


@pytest.mark.parametrize(
    "unit",
    slow_but_first(["Alice ", "@Hope", "the skeptic's ", "A ", "growth\n", " ", "\n", "\u200b", "é", "[a,", "— ",
     "I am a model by openai ", "as gpt-5 ", "Hope and ", "dr. ", "Mark has just ", "agree with ", "小明", "Will, "]),
)  # fmt: skip
def test_hostile_text_takes_time_in_proportion(unit: str) -> None:
    """A hundred thousand characters of what patterns begin with; one that backtracked would never end."""
    names = ("Alice", "Hope", "skeptic", "a", "growth_analyst", "Dr. Okafor", "Mark", "小明", "Will")
    aliases = make_aliases(names, models=["openai/gpt-5-mini"], random=Random(1))
    text = unit * (100_000 // len(unit)) + "Analyst"
    assert aliases.hide(aliases.hide(text).text).leaks == ()


def test_a_report_says_who_named_whom_and_where() -> None:
    """Each leak has its entry, round, author, whose name it is, and a few words around it."""
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


def test_a_report_of_nothing_is_empty() -> None:
    """No entries, no leaks."""
    report = leak_report([], make_aliases([], random=Random(1)))
    assert (report.entries, report.count, report.share) == (0, 0, 0.0)


def test_accents_that_follow_a_name_go_with_it() -> None:
    """No combining mark is left on the alias, and offsets refer to the original text."""
    aliases = make_aliases(["José", "مريم"], random=Random(1))
    text = "— \uff2aose\u0301!\nAs Jos\u00e9, I… ask مَرْيَم."
    assert [leak.text for leak in aliases.hide(text).leaks] == ["\uff2aose\u0301", "Jos\u00e9", "مَرْيَم"]
    assert aliases.hide(text).text == f"— {aliases.of('José')}!\nAs {aliases.of('José')}, I… ask {aliases.of('مريم')}."
