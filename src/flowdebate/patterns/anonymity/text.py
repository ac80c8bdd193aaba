"""How far a name can be told from the words of a language: what is one anywhere, and what only where it names."""

from __future__ import annotations

import re
from typing import Literal
from unicodedata import category, normalize

__all__ = (
    "TITLES",
    "Rule",
    "fold",
    "is_given",
    "origins",
    "rule_of",
)

_SIGNS = {
    **dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\u2032", "'"),
    **dict.fromkeys("“”„‟«»", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
    **dict.fromkeys("\u2013\u2014\u2015", "—"),
    **dict.fromkeys("\x85\u2028\u2029", "\n"),
}
_VOWEL_SIGNS = re.compile("[\u034f\u0591-\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f]")
"""Of Hebrew and Arabic, where they are seldom written; and what only changes how a character looks."""
_FIRST_MARK, _LAST_MARK = "\u0300", "\u036f"


class _Folds(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _SIGNS.get(char)
        if folded is None:
            folded = _folded(char)
        self[code] = folded
        return folded


def _folded(char: str) -> str:
    kind = category(char)
    if kind == "Cf" or _VOWEL_SIGNS.match(char):
        return ""
    if kind == "Zs":
        return " "
    if "\uac00" <= char <= "\ud7a3":
        return char  # a syllable: its letters are none that other words are made of
    apart = normalize("NFD", normalize("NFKC", char))
    plain = "".join(part for part in apart if not _FIRST_MARK <= part <= _LAST_MARK)
    return normalize("NFC", plain)


_FOLDS = _Folds()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _translated(match: re.Match[str]) -> str:
    return match[0].translate(_FOLDS)


def fold(text: str) -> str:
    r"""`text` with letters in their plain form, case kept, without accents and without what is not seen.

    >>> fold("\uff2ao\u200bsé’s")
    "Jose's"
    """
    return text if text.isascii() else _NOT_ASCII.sub(_translated, text)


def origins(text: str) -> list[tuple[int, int]]:
    """For each character of `fold(text)` the start and end in `text` of what it came from, its accents included."""
    found: list[tuple[int, int]] = []
    for place, char in enumerate(text):
        folded = _FOLDS[ord(char)]
        if folded:
            found.extend([(place, place + 1)] * len(folded))
        elif found and category(char) == "Mn" and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
    return found


Rule = Literal["anywhere", "role", "word", "careful", "short", "self"]
"""Where a name counts as one.

    anywhere  at word boundaries: no ordinary word
    role      for persons, with an article ("a skeptic"): where it names, or capitalised inside a sentence
    word      an unknown word: the same, but not as the bare subject of any verb
    careful   a word that is also a given name, a month, a colour: capitalised, and where it names
    short     function words, one or two letters, digits: the same, and not where a letter numbers things
    self      a model's family or maker: only where somebody says that of themselves
"""

TITLES = frozenset({"dr", "mr", "mrs", "ms", "miss", "prof", "professor", "sir", "lady", "lord", "captain", "madam"})
"""What stands before a name, and is none."""

_GIVEN = frozenset(
    """
    aaron abigail ada adam adrian agnes ahmed aisha alan albert alex alexander alexandra alice alison amanda
    amelia amy ana andrea andrew anita anna anne anthony arthur astrid barbara beatrice ben benjamin bernard beth
    bob boris brenda brian bruno caroline catherine cecilia charles charlotte chen chloe christina christopher
    claire clara claudia clement daniel darius dave david deborah denise dennis diana dmitri dominic donald
    dorothy edgar edith edward elena eli elijah elizabeth ella emil emily emma eric erik esther ethan eva evelyn
    fatima felix fiona florence francis frederick gabriel george gerald gloria hannah harriet hassan heather
    hector helen helena henry hiroshi hugo ibrahim ida igor ingrid irene isaac isabel isabella ivan jacob james
    jane janet jennifer jeremy jessica jim joan joanna joe john jonathan jorge jose joseph joshua juan judith judy
    julia julian juliet karen karl kate katherine kenneth kevin klaus laura lauren lena leo leonard liam linda
    lisa louis louise lucas lucia lucy luis lydia mallory marcus margaret maria marie martha martin mary matthew
    mei melissa michael michelle mohammed monica muhammad nadia nancy naomi natalie nathan nicholas nicole nina
    noah nora olga oliver olivia omar otto pablo patricia paul paula pedro peter philip rachel raj ralph ravi
    rebecca richard robert roger ronald rosa ruth ryan samantha samuel sandra sarah sebastian sergei sharon simon
    sofia sophia sophie spencer stella stephen susan sven sylvia tanya teresa thomas timothy tobias ulrich ursula
    valentina vera veronica victor victoria vincent vivian vladimir walter wendy wilhelm william xavier yuki yusuf
    zoe
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_CAREFUL = frozenset(
    """
    agent alpha amber angel april art august autumn basil beta bill black blue brook carol chance charity chase
    chat christian chuck clay cliff cost daisy dale dawn dean december delta destiny drew earl east eight equity
    eve faith february felicity fern first five forest four frank freedom friday gamma gene glen global gold grace
    grant gray green growth hazel heath heather holly honor hope hunter iris ivy jack jade january jasmine jewel
    joy july june justice labor labour lance lark left liberty lily local march mark may melody mercy merit miles
    miss model monday nature nick nine no norm north november october olive omega one opal page pat patience peace
    pearl penny pepper pierce poppy prudence ray reason red reed rich right risk river rob robin rock rose rusty
    sage sandy saturday scarlet science second september seven sierra sigma six skip sky south spring sterling
    stone sue summer sunday sunny team temperance ten terry third three thursday trinity true truth tuesday two
    value verity victor violet wade ward wednesday west white will winter yes
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_SHORT = frozenset(
    """
    about against all and any are but can con cons contra did does for from had has have her him his how its let
    may more most not now off our out over per pro pros she some than that the them then they this thus too was
    were what when who why will with would you your
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_ROLES = frozenset(
    """
    advocate ally analyst believer buyer chair champion chief cleric coach cop critic cynic devil diplomat doctor
    dove elder engineer expert father foe friend guard guest guide hawk hero historian host judge jurist juror
    king lawyer liberal libertarian mediator mother neutral nurse official opponent optimist parent patient
    pessimist philosopher pilot planner poet pragmatist priest progressive proponent prosecutor queen radical
    rebel referee sage sceptic scholar scientist seller skeptic socialist spy student teacher tenant witness
    worker
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_ROLE_ENDING = re.compile(r".{2,}(?:er|or|ist|yst|ian|ic|ant|ent|ate|ive|al|eer|ee|man|woman|person)")


def is_given(word: str) -> bool:
    """Whether a lower-case `word` is a given name, and nothing else."""
    return word in _GIVEN


def rule_of(word: str, *, capital: bool) -> Rule:  # noqa: PLR0911 - one for each row of the table
    """The rule for a name of one word: `word` in lower case, and whether the roster writes it with a capital.

    >>> [rule_of(word, capital=False) for word in ("alice", "skeptic", "zorblax", "hope", "pro", "model7")]
    ['anywhere', 'role', 'word', 'careful', 'short', 'anywhere']
    """
    if (len(word) < 3 and word.isascii()) or word in _SHORT or word.isdecimal() or len(word) < 2:  # noqa: PLR2004
        return "careful" if word in {"may", "will"} else "short"
    if word in _CAREFUL:
        return "careful"
    if word in _ROLES:
        return "role"
    if word in _GIVEN or not word.isalpha():
        return "anywhere"
    if not word.isascii() and (capital or word.upper() == word):
        return "anywhere"
    if word.isascii() and _ROLE_ENDING.fullmatch(word):
        return "role"
    return "anywhere" if capital else "word"
