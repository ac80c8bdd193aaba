"""Sides of a question that names none: claims made of its own words, where its grammar is certain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.patterns.roster import Debater

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_LONGEST = 200
"""Characters of a question whose words make the claims."""


def default_sides(question: str) -> list[Debater] | None:  # noqa: PLR0911 - one for each kind of question
    """Two debaters for a plain English question, each with a claim; None where its words do not say what they are.

    A question of yes or no gives a claim and its negation, one of "A or B" the two alternatives. None is the answer
    for questions that ask what, which, why or how, for other languages, and wherever the end of the subject is not
    certain: `create_side_proposer` lets a model propose the sides of those.

    >>> [side.stance for side in default_sides("Should our team adopt a four-day week?")]
    ['Our team should adopt a four-day week', 'Our team should not adopt a four-day week']
    >>> [side.stance for side in default_sides("Should we use Postgres or MySQL?")]
    ['We should use Postgres', 'We should use MySQL']
    >>> default_sides("Which database should we use?") is None
    True
    """
    asked = " ".join(question.split())
    clause = asked.removesuffix("?").rstrip()
    if clause == asked or not clause or len(clause) > _LONGEST or not clause.isprintable():
        return None
    if preferred := _PREFERRED.fullmatch(clause):
        return _better(preferred[1], preferred[2])
    if _SIGNS.search(clause):
        return None
    words = re.sub(r" or not$", "", clause, flags=re.IGNORECASE).split(" ")
    lowered = [word.lower() for word in words]
    if "or" in lowered:
        return _alternatives(words, lowered)
    if _POLAR.intersection(lowered) or len(words) < _SHORTEST or lowered[1] == "you":
        return None
    verb = lowered[0]
    form = _FORMS.get(verb)
    split = None if form is None else form[0](words[1:])
    if form is None or split is None:
        return None
    claims = form[1](verb, " ".join(words[1 : split + 1]), " ".join(words[split + 1 :]))
    return [Debater(name, _begun(claim)) for name, claim in zip(("pro", "con"), claims, strict=True)]


def yes_no_sides(question: str) -> list[Debater]:
    """Two debaters for a question that is known to ask for yes or no, in any language.

    >>> [side.stance for side in yes_no_sides("Ist die Erde rund?")]
    ['The answer to "Ist die Erde rund?" is yes', 'The answer to "Ist die Erde rund?" is no']
    """
    sides = default_sides(question)
    if sides is not None and sides[0].name == "pro":
        return sides
    asked = " ".join(question.split())
    about = f'The answer to "{asked}"' if len(asked) <= _QUOTED else "The answer to the question"
    return [Debater("pro", f"{about} is yes"), Debater("con", f"{about} is no")]


_QUOTED = 300
"""Characters up to which answers repeat the question."""
_SHORTEST = 3
"""Words of the shortest question: "Can machines think"."""


# Words


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SIGNS = re.compile(r"[,;:!?\"()\[\]{}<>“”„«»…/]|\.(?!\w)|\s['’]|['’]\s|n['’]t\b", re.IGNORECASE)
"""Signs of more than one plain clause, and contracted negations."""
_POLAR = _set("not never any anyone anybody anything ever yet either neither anymore nor hardly without")
"""Words that change their form or sense between a question, its claim and the negation."""
_PRONOUNS = _set("i we they it he she everyone everybody someone somebody nobody")
_DETERMINERS = _set(
    "the a an our my your their his her its this that these those every each all some no most many both several "
    "more fewer less one two three"
)
_PREPOSITIONS = _set(
    "of in on at for with by from into over under between about against during after before per via through near "
    "within among across like to"
)
_CLAUSE = _set(
    "who whom whose which that what why how when where whether if because while although though since until unless "
    "as than to but then so and/or"
)
"""Words that begin another clause inside a subject."""
_VERBS = _set(
    "abandon abolish accept achieve acquire adapt adopt allow apply ask avoid be become begin believe bring build "
    "buy choose colonize come compensate compete consider continue cooperate create criminalize decide "
    "decriminalize deploy depend deserve destroy develop die disappear do eat elect eliminate embrace encourage "
    "enforce ensure enter evolve exclude exist expand expel extend fail follow forbid forgive generate get give go "
    "govern grow happen have hire ignore implement impose improve include introduce invest join keep kill know "
    "learn legalise legalize live lose maintain make merge migrate nationalise nationalize obey outperform "
    "outsource overtake own pay prefer preserve prevent prioritise prioritize privatise privatize produce prohibit "
    "promote protect prove provide publish pursue read reach rebuild receive recognise recognize recruit reduce "
    "refactor regulate reject remain remove rename replace require respect restore restrict retain retire rewrite "
    "save sell send serve solve speak spend stay subsidise subsidize succeed survive take teach tell think tolerate "
    "understand want wear write"
)
"""Base forms that are hardly ever nouns."""
_AMBIGUOUS = _set(
    "answer ban buy cap cause censor change charge close control cost cover cut decrease delay drink drop end face "
    "fire focus force fund grant harm help hold host hurt increase influence invade judge launch lead leave let "
    "limit love lower matter measure mine move need offer open open-source pass plan play push question raise rank "
    "reform refund release rent report rest return rule run scrap set share shift shut ship show shrink slow start "
    "stop strike support switch tax test trade train treat trust try turn unite use visit vote walk watch welcome "
    "win work"
)
"""Base forms that may as well be nouns or adjectives: verbs where an object follows."""
_CAUSATIVE = _set("help let make have see watch hear")
_OBJECT = _DETERMINERS | _set("it them us me him its to on up down out off in into from for with by more than")
_PARTICIPLES = _set(
    "been become begun broken brought built caught chosen come cost cut done drawn driven fallen felt forgotten "
    "found given gone got gotten grown had held hurt kept known led left let lost made meant met outgrown outlived "
    "overtaken paid proven put read risen run said seen sent set shown shrunk sold spent stolen stood taken taught "
    "thought told understood won worn written"
)
_ADVERBS = _set(
    "really truly still always already just only actually too so very more less better worse as worth likely "
    "unlikely going mostly largely morally ethically fundamentally inherently necessarily merely simply "
    "increasingly overall"
)
_ADJECTIVES = _set(
    "acceptable addictive affordable alive alone amoral antisocial appropriate art available bad beautiful "
    "beneficial biased boring broken cheap clean conscious corrupt creative cruel dangerous dead deadly democratic "
    "desirable different difficult doomed dying easy effective efficient enough equal essential ethical evil "
    "expensive fair fake false feasible fine finished flat free futile good great happy hard harmful healthy honest "
    "human illegal immoral immortal important impossible inevitable innocent insane intelligent just justifiable "
    "legal legitimate literature lonely misleading moral natural necessary needed normal obsolete ok okay outdated "
    "over overpaid overrated overpriced perfect poisonous political possible practical profitable racist rational "
    "ready real realistic reasonable redundant reliable replaceable responsible rich right risky round sacred safe "
    "scientific secure selfish sexist smart stupid subjective sufficient superior sustainable toxic true "
    "unavoidable underpaid underrated unethical unfair unhealthy universal unnatural unnecessary unsafe "
    "unsustainable useful useless valid valuable viable violent wasteful wrong"
)
_COMPARATIVE = re.compile(r"\w+er", re.IGNORECASE)
_THAN = "than"


# Where the subject ends: the index of the first word behind it; None where that is not certain


def _fits(subject: Sequence[str]) -> bool:
    """Whether these words can be a subject and nothing else."""
    lowered = [word.lower() for word in subject]
    if (len(lowered) > 1 and _PRONOUNS.union(_CLAUSE, {"you"}).intersection(lowered[1:])) or lowered[0] in _CLAUSE - {
        "that"
    }:
        return False
    if lowered[-1] in _DETERMINERS | _PREPOSITIONS | {"and"}:
        return False
    return "and" not in lowered or all(
        len(part) == 1 or part[0].lower() in _DETERMINERS or all(word[0].isupper() for word in part)
        for part in _parted(subject)
    )


def _parted(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word.lower() == "and":
            parts.append([])
        else:
            parts[-1].append(word)
    return [part or ["and"] for part in parts]


def _short(words: Sequence[str]) -> int | None:
    """The end of a subject that needs no knowledge of the words behind it."""
    lowered = [word.lower() for word in words]
    if lowered[0] in _PRONOUNS or lowered[0] == "there":
        return 1
    if len(words) == 2:  # noqa: PLR2004 - "machines think"
        return 1 if lowered[0] not in _DETERMINERS - _set("this that these those all some many most") else None
    if len(words) == 3 and lowered[0] in _DETERMINERS and lowered[2] not in _PREPOSITIONS:  # noqa: PLR2004 - "the sun explode"
        return 2
    return None


def _before_verb(words: Sequence[str]) -> int | None:
    """The index of the verb, in its base form."""
    if (short := _short(words)) is not None:
        return short if words[0].lower() != "there" or words[1].lower() == "be" else None
    lowered = [word.lower() for word in words]
    doubtful = False
    for index in range(1, len(words)):
        word, before = lowered[index], lowered[index - 1]
        following = lowered[index + 1] if index + 1 < len(words) else ""
        if before in _DETERMINERS | _PREPOSITIONS | {"and"} or before.endswith(("'s", "’s")):
            continue
        if word in _VERBS or (word in _AMBIGUOUS and (following in _OBJECT or following[:1].isdigit())):
            return index if not doubtful and _fits(words[:index]) else None
        doubtful = doubtful or word in _CAUSATIVE
    return None


def _before_complement(words: Sequence[str]) -> int | None:
    """The index of what is said of the subject behind a form of "to be"."""
    if (short := _short(words)) is not None:
        return short
    lowered = [word.lower() for word in words]
    for index in range(2 if lowered[0] in _DETERMINERS else 1, len(words)):
        word, before = lowered[index], lowered[index - 1]
        following = lowered[index + 1] if index + 1 < len(words) else ""
        if before in _DETERMINERS | _PREPOSITIONS | {"and"}:
            continue
        ends = not following or following in _PREPOSITIONS | {"enough", "and", _THAN}
        if word in _DETERMINERS:
            return index if lowered[-1] not in _ADJECTIVES and _fits(words[:index]) else None
        if (
            (word in _ADVERBS and following)
            or (ends and (word in _ADJECTIVES or (word.endswith("ed") and len(word) > len("need"))))
            or (following == _THAN and _COMPARATIVE.fullmatch(word))
        ):
            return index if _fits(words[:index]) else None
    return None


def _before_participle(words: Sequence[str]) -> int | None:
    """The index of the participle behind a form of "to have", or of the adverb before it."""
    if (short := _short(words)) is not None:
        return short if words[0].lower() != "there" else None
    lowered = [word.lower() for word in words]
    for index in range(1, len(words)):
        word, before = lowered[index], lowered[index - 1]
        following = words[index + 1] if index + 1 < len(words) else ""
        if before in _DETERMINERS | _PREPOSITIONS | {"and"}:
            continue
        ended = not following or following.lower() in _OBJECT | _PREPOSITIONS or following[0].isupper()
        if word in _PARTICIPLES or word in ("really", "already", "truly") or (word.endswith("ed") and ended):
            return index if _fits(words[:index]) else None
    return None


# Claims


def _begun(claim: str) -> str:
    return claim[0].upper() + claim[1:]


_NEGATED = {"can": "cannot", "must": "need not"}
""""Must not" would forbid what "must" demands."""


def _of_modal(verb: str, subject: str, rest: str) -> tuple[str, str]:
    if subject.lower() == "there":
        return f"There {verb} {rest}", f"There {_NEGATED.get(verb, f'{verb} not')} {rest}"
    return f"{subject} {verb} {rest}", f"{subject} {_NEGATED.get(verb, f'{verb} not')} {rest}"


def _of_be(verb: str, subject: str, rest: str) -> tuple[str, str]:
    if subject.lower() == "there":
        return f"There {verb} {rest}", f"There {verb} no {re.sub('^(an?|the|some) ', '', rest, flags=re.IGNORECASE)}"
    return f"{subject} {verb} {rest}", f"{subject} {verb} not {rest}"


def _of_do(verb: str, subject: str, rest: str) -> tuple[str, str]:
    first, _, others = rest.partition(" ")
    said = {"do": first, "does": _inflected(first), "did": f"did {first}"}[verb]
    return f"{subject} {said} {others}".rstrip(), f"{subject} {verb} not {rest}"


def _inflected(verb: str) -> str:
    """The third person of a verb.

    >>> [_inflected(verb) for verb in ("help", "have", "go", "pass", "carry", "pay")]
    ['helps', 'has', 'goes', 'passes', 'carries', 'pays']
    """
    if verb in ("have", "be"):
        return {"have": "has", "be": "is"}[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"


def _before_plain_verb(words: Sequence[str]) -> int | None:
    """As `_before_verb`, for a verb that is to be inflected: no adverb in its place."""
    index = _before_verb(words)
    if index is None or words[0].lower() == "there":
        return None
    verb = words[index].lower()
    return None if verb in _ADVERBS | _DETERMINERS | _PREPOSITIONS or verb.endswith("ly") else index


_FORMS: dict[str, tuple[Callable[[Sequence[str]], int | None], Callable[[str, str, str], tuple[str, str]]]] = {
    **dict.fromkeys(
        ["should", "must", "can", "could", "will", "would", "may", "might", "shall"], (_before_verb, _of_modal)
    ),
    **dict.fromkeys(["is", "are", "was", "were"], (_before_complement, _of_be)),
    **dict.fromkeys(["do", "does", "did"], (_before_plain_verb, _of_do)),
    **dict.fromkeys(["has", "have", "had"], (_before_participle, _of_modal)),
}
"""How a question with this first word is read, and how its claims are made."""


# Alternatives

_PREFERRED = re.compile(r"(?:which|what) is (?:better|best)[,:]? ([^,;:!?\"]+) or ([^,;:!?\"]+)", re.IGNORECASE)
_BETTER_TO = re.compile(r"is it (\w+er|better|best|more \w+|wiser|worse) to (.+) or (?:to )?(.+)", re.IGNORECASE)
_ARTICLES = ("a", "an", "the")
_WORDS = 3
"""Words of an alternative that is a thing."""


def _alternatives(words: Sequence[str], lowered: Sequence[str]) -> list[Debater] | None:  # noqa: PLR0911 - as above
    """The sides of a question of "A or B"; None where it is not certain what the words join."""
    if lowered.count("or") != 1 or _set("not never whether either").intersection(lowered):
        return None
    clause = " ".join(words)
    if to := _BETTER_TO.fullmatch(clause):
        first, second = to[2], to[3]
        return _either(first, second, f"It is {to[1].lower()} to {first}", f"It is {to[1].lower()} to {second}")
    at = lowered.index("or")
    before, second = words[:at], " ".join(words[at + 1 :])
    if not before or not second:
        return None
    if lowered[0] in ("should", "will"):
        return _actions(lowered[0], before[1:], second)
    if lowered[0] in ("is", "are") and len(before) > 2:  # noqa: PLR2004 - verb, subject, first alternative
        return _complements(lowered[0], before[1:], second)
    if lowered[0] in _FORMS or lowered[0] in _ASKING:
        return None
    return _better(" ".join(before), second)


_ASKING = _set("who whom whose which what why how when where to in on at for by with if") | _CLAUSE


def _actions(verb: str, before: Sequence[str], second: str) -> list[Debater] | None:
    """The sides of "should we use A or B", and of "should we do this or do that"."""
    split = _before_verb(before) if len(before) > 1 else None
    if split is None:
        return None
    subject, first = " ".join(before[:split]), list(before[split:])
    others = second.split(" ")
    claim = f"{subject} {verb} {' '.join(first)}"
    if others[0].lower() in (_VERBS | _AMBIGUOUS if len(first) == 1 else _VERBS | _BEGINNING):
        return _either(" ".join(first), second, claim, f"{subject} {verb} {second}")
    if len(first) == 1 or not _is_thing(first[1:]) or not _is_thing(others):
        return None
    return _either(" ".join(first[1:]), second, claim, f"{subject} {verb} {first[0]} {second}")


_BEGINNING = _set("cut leave lower raise rent stop")
"""Ambiguous words that are verbs at the beginning of an alternative."""


def _complements(verb: str, before: Sequence[str], second: str) -> list[Debater] | None:
    """The sides of "is light a wave or a particle", and of "are humans good or evil"."""
    split = _before_complement(before)
    if split is None:
        return None
    subject, first = " ".join(before[:split]), list(before[split:])
    others = second.split(" ")
    alike = (first[0].lower() in _ARTICLES) == (others[0].lower() in _ARTICLES)
    if not alike or not _is_thing(first) or not _is_thing(others):
        return None
    return _either(" ".join(first), second, f"{subject} {verb} {' '.join(first)}", f"{subject} {verb} {second}")


def _is_thing(words: Sequence[str]) -> bool:
    """Whether these are few words for one thing, which a second thing can take the place of."""
    return len(words) <= _WORDS and not _PREPOSITIONS.union(_CLAUSE, {"and"}).intersection(map(str.lower, words))


def _better(first: str, second: str) -> list[Debater] | None:
    if not _is_thing(first.split()) or not _is_thing(second.split()):
        return None
    if second[0].islower() and first[1:].islower():
        first = first[0].lower() + first[1:]
    return _either(first, second, f"The better choice is {first}", f"The better choice is {second}")


_LABEL = 24
"""Characters of an alternative that can be a debater's name."""


def _either(first: str, second: str, *claims: str) -> list[Debater] | None:
    if first.lower() == second.lower():
        return None
    short = all(len(each) <= _LABEL for each in (first, second))
    names = (first, second) if short else ("A", "B")
    return [Debater(name, _begun(claim)) for name, claim in zip(names, claims, strict=True)]
