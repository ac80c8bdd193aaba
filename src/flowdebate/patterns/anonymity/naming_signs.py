"""What stands around a name where a sentence names somebody, as patterns over folded text in lower case.

Each is anchored at the word that is looked at, and reaches no further than a few words: the time that a text takes
grows with its length, whatever stands in it.
"""

from __future__ import annotations

import re

__all__ = (
    "AND",
    "AND_BEFORE",
    "AROUND",
    "AS_ONE",
    "BEFORE",
    "BETWEEN_WORDS",
    "BOTH",
    "CLOSING",
    "COMMA_I",
    "DETERMINERS",
    "DOES",
    "HERE",
    "LABEL",
    "LAST_WORDS",
    "LEADS",
    "LINE_END",
    "LINE_START",
    "NEXT_CAPITAL",
    "POSSESSIVE",
    "SAID",
    "SAID_THAT",
    "SAYS",
    "SENTENCE_END",
    "SPACES",
    "TAG",
    "THE",
    "VOCATIVE",
    "YOU",
)

AROUND = 64
"""Characters before a word that are looked at."""
SPACES = " \t*_~`\"'("
DETERMINERS = frozenset(
    """
    a an another any each either every few her his its many most my neither no one our several some such their
    these this those whatever which whichever your
    """.split()  # noqa: SIM905 - a list this long is read as words
)
BEFORE = frozenset(
    """
    about against although and as because both but by can did do does for from has have how if in is like nor of
    believe on or say see since so than that then think though to unlike was what when where whereas
    while why will with yet
    """.split()  # noqa: SIM905 - a list this long is read as words
)
_SPEECH = (
    "says argues insists asserts thinks believes concedes ignores forgets contends maintains responds overlooks agrees "
    "disagrees admits denies misses assumes exaggerates writes fails refuses relies neglects "
    "understates overstates pretends dodges"
)
_SPOKEN = (
    "said argued insisted asserted thought believed conceded ignored contended maintained responded overlooked agreed "
    "disagreed admitted denied missed assumed wrote claims claimed states stated notes noted suggests suggested shows "
    "showed replies replied answers answered objects objected counters countered points pointed asks asked proposes "
    "proposed concludes concluded cites cited quotes quoted defends defended made makes gave gives"
)
_NOUNS = (
    "arguments? points? claims? case position views? reasoning rebuttal response reply objections? premises? "
    "conclusions? logic proposal opening statement speech turn assertions? concerns? critique analogy examples? "
    "evidence sources? words question side"
)


def _any(words: str) -> str:
    return "(?:" + "|".join(words.split()) + ")"


_CLOSE = r"[*_`~\"')\]]{0,4}"
_ADVERBS = (
    r"\s+(?:(?:has|have|had|just|already|also|rightly|wrongly|never|clearly|still|simply|only|even|now|again|often|then"
    r"|first)\s+){0,2}"
)
_END = re.compile(
    rf"{_CLOSE}\s{{0,3}}(?:[,.;:!?—]|\Z)|{_CLOSE}\s{{1,3}}(?:that|on|about|and|or|is|was|here|when|but|because|in|who|has"
    r"|have|above|below|though|then|as|for|to|where|too|not|once|again|now|only)\b"
)
_STOP = re.compile(rf"{_CLOSE}\s{{0,3}}(?:[,.;:!?—]|\Z)|\s{{1,3}}(?:and|here|in this debate|of this debate)\b")
_COMMA = re.compile(rf"{_CLOSE},")
COMMA_I = re.compile(rf"{_CLOSE},?\s{{1,3}}(?:i|i'm|i've|i'd|i'll|my|we)\b")
_AFTER_AS = re.compile(
    rf"{_CLOSE}\s{{0,3}}(?:[,.;:!?—]|\Z)|{_CLOSE}\s{{1,3}}(?:i|i'm|i've|i'd|we|let|my|said|says|put|puts|argued|argues|noted"
    r"|notes|claimed|claims|wrote|pointed|rightly|wrongly|correctly|has|here|(?:of|in) this debate)\b"
)
_ANYTHING = re.compile("")
_TOLD = re.compile(rf"{_CLOSE}(?:[,.;:!?]|\s{{1,3}}(?:to|for|that|what|why|how|whether|about|again|where|which)\b)")
LEADS = tuple(
    (re.compile(rf"(?:\A|\W)(?:{lead})\Z"), right)
    for lead, right in (
        (r"(?<!such )(?<!well )as", _AFTER_AS),
        (r"(?:speaking|writing|arguing|in my (?:role|capacity|function|position|office)) as", _ANYTHING),
        (r"i am|i'm|we are", _STOP),
        (r"my name is|call me", _END),
        (r"i,|you,", _COMMA),
        (
            r"(?:colleague|opponent|counterpart|rival|debater|speaker|participant|panelist|adversary|friend),?",
            _ANYTHING,
        ),
        (r"(?:agree|agrees|agreed|disagree|disagrees|disagreed|side|sides|sided) with|according to", _END),
        (r"(?:reply|response|respond|responding|replying|answer|contrary|listen|thanks) to|quoting", _END),
        (r"(?:dear|hi|hello|hey|sorry|thanks|thank you|respectfully|with respect|no|yes|well|look),?", _STOP),
        (r"(?:said|says|wrote|asked|asks|argued|argues|replied|claimed|insisted|added|answered)", _END),
        (
            r"(?:argument|point|claim|case|reply|rebuttal|statement|speech|turn|made|written|cited|raised|quoted) by",
            _END,
        ),
        (r"(?:ask|asks|asked|invite|remind|thank|tell|urge|challenge|press)", _TOLD),
        (r"this is", re.compile(rf"{_CLOSE}[.!]|\s{{1,3}}(?:speaking|again)\b")),
        (r"called|named|known as|name of", _END),
        (r"unlike|like", re.compile(r",\s{1,3}i\b")),
    )
)
LAST_WORDS = frozenset(
    """
    added adversary am answered are argued argues as ask asked asks by called challenge claimed colleague
    counterpart dear debater friend hello hey hi i i'm insisted invite is like look me named no of opponent
    panelist participant press quoting remind replied respect respectfully rival said says sorry speaker tell
    thank thanks to unlike urge well with wrote yes you
    """.split()  # noqa: SIM905 - a list this long is read as words
)
VOCATIVE = re.compile(
    rf"{_CLOSE},\s{{1,3}}(?:you(?!\s+(?:see|know|might|may)\b)|your|please|why|how|what|tell|explain|answer|let me"
    r"|if you|with respect|i (?:disagree|agree|ask|think|beg)|(?:may|can|could) i"
    r"|(?:can|could|will|would|do|did|are|have) you)\b"
)
HERE = re.compile(r"\s{1,3}(?:here(?:[,.:;!—]| with\b| again\b)|speaking\b)")
POSSESSIVE = re.compile(rf"{_CLOSE}'s?\s{{1,3}}(?:\w+\s{{1,3}})?{_any(_NOUNS)}\b")
_HAS = (
    r"(?:no (?:answer|source|reply)|it (?:right|wrong|backwards)|(?:yet|failed|refused) to|conceded|argued|claimed"
    r"|answered|misread|ignored|overlooked)"
)
_TOGETHER = r"(?:both|agree|disagree|ignore|overlook|miss|claim|argue|assume|say|think|are (?:right|wrong|mistaken))"
AND = re.compile(rf"{_CLOSE}\s{{1,3}}(?:and|&)\s{{1,3}}(?:(?:i|you)\b|(?:the\s)?[\w'*]+\s{{1,3}}{_TOGETHER}\b)")
AND_BEFORE = re.compile(
    r"(?:[\n.!?:;,—]\s*|\b(?:that|but|while|as|because|both)\s)(?:the\s)?[\w'*]+\s(?:and|&)\s(?:the\s)?[*_]{0,3}\Z"
)
BOTH = re.compile(rf"{_CLOSE}\s{{1,3}}{_TOGETHER}\b")
YOU = re.compile(r"\byou(?:r|'re|'ve)?\b[^.!?\n]*,\s\Z")
SENTENCE_END = re.compile(rf"{_CLOSE}[.!?]")
SAYS = re.compile(rf"{_CLOSE}{_ADVERBS}(?:{_any(_SPEECH)}|is (?:right|wrong|mistaken|correct)|{_HAS})\b(?!-)")
SAID = re.compile(rf"{_CLOSE}{_ADVERBS}{_any(_SPOKEN)}\b")
SAID_THAT = re.compile(rf"{_CLOSE}{_ADVERBS}{_any(_SPOKEN)}\s{{1,3}}that\b")
DOES = re.compile(rf"{_CLOSE}\s{{1,3}}(?:is|was|has|had|does|did|cannot|can't|never|still|seems)\b")
AS_ONE = re.compile(r"\bas (?:an?\s(?:\w+\s)?|the\s\w+\s)\Z")
LINE_END = re.compile(r"[.*_]{0,4}[ \t]{0,3}(?:[\n\r]|\Z)")
CLOSING = re.compile(r"(?:—|--|~|(?:signed|regards|sincerely|yours|truly),?\s)[\s*_]{0,4}(?:the\s)?\Z")
LINE_START = re.compile(r"[\s>*_#\[(<\-\"'`~|—]*(?:(?:the|debater|speaker|agent|participant)\s)?")
LABEL = re.compile(
    r"[*_`\"']{0,4}(?:\s?\([^()\n]{0,40}\))?[\])>*_`\"']{0,4}\s?:(?![/\d])|[*_]{1,3}\s?[—-]|(?:,[^\[\]\n]{0,60})?\]\s?:"
)
TAG = {"(": re.compile(r"\)"), "[": re.compile(r"[*_]{0,3}(?:,[^\[\]\n]{0,60})?\]"), "<": re.compile(">")}
THE = re.compile(r"\bthe\s{1,3}\Z")
NEXT_CAPITAL = re.compile(r"\s{1,3}\w")
BETWEEN_WORDS = re.compile(r"[\s\-*~`>|]+")
