"""Detection of arguments that reveal their author's model family or maker: "I am Claude, made by Anthropic".

The text is first folded (see `fold`) to lowercase without accents. Once an author has introduced itself, all model
families and makers in the rest of the introduction are taken to be the author's, because a maker's name next to an
alias would reveal the hidden model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from flowdebate._text import fold

FAMILIES: dict[str, str] = {
    "gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "gemini": "google", "gemma": "google",
    "bard": "google", "llama": "meta", "mistral": "mistral", "mixtral": "mistral", "ministral": "mistral",
    "magistral": "mistral", "codestral": "mistral", "devstral": "mistral", "pixtral": "mistral", "qwen": "alibaba",
    "qwq": "alibaba", "通义千问": "alibaba", "通義千問": "alibaba", "deepseek": "deepseek", "grok": "xai",
    "copilot": "microsoft", "kimi": "moonshot", "glm": "zhipu", "chatglm": "zhipu", "智谱清言": "zhipu",
    "smollm": "huggingface", "nemotron": "nvidia", "doubao": "bytedance", "豆包": "bytedance", "hunyuan": "tencent",
    "混元": "tencent", "文心一言": "baidu", "minimax": "minimax", "jamba": "ai21", "olmo": "allenai",
}  # fmt: skip
"""Well-known model families, mapped to their makers."""
VENDORS: dict[str, tuple[str, ...]] = {
    "openai": ("OpenAI", "Open AI"),
    "anthropic": ("Anthropic",),
    "google": ("Google DeepMind", "DeepMind", "Google", "谷歌"),
    "meta": ("Meta AI", "Meta"),
    "mistral": ("Mistral AI", "Mistral"),
    "alibaba": ("Alibaba Cloud", "Alibaba", "阿里云", "阿里巴巴", "阿里雲"),
    "deepseek": ("DeepSeek AI", "DeepSeek", "深度求索"),
    "xai": ("xAI",),
    "microsoft": ("Microsoft", "微软"),
    "moonshot": ("Moonshot AI", "Moonshot", "月之暗面"),
    "zhipu": ("Zhipu AI", "Zhipu", "智谱AI", "智谱"),
    "huggingface": ("Hugging Face",),
    "amazon": ("Amazon Web Services", "Amazon", "AWS"),
    "nvidia": ("NVIDIA",),
    "cohere": ("Cohere",),
    "bytedance": ("ByteDance", "字节跳动"),
    "tencent": ("Tencent", "腾讯"),
    "baidu": ("Baidu", "百度"),
    "ibm": ("IBM",),
    "allenai": ("Allen Institute for AI", "Ai2"),
}
"""Spellings of makers' names, keyed by maker."""

MAKERS = frozenset(fold(written) for group in VENDORS.values() for written in group)
WELL_KNOWN = (
    *(w for w in FAMILIES.keys() | MAKERS if not any(part in w for part in (FAMILIES.keys() | MAKERS) - {w})),
    *(" an ai ", "language model", "chatbot", "artificial intelligence"),
)
"""Model families, makers, and terms such as "language model"; names that contain a shorter listed name are left out.

Any text in which a model introduces itself contains at least one of these. Most arguments contain none, and a plain
substring search for all of them is five times as fast as matching the patterns.
"""

Own: TypeAlias = tuple[tuple[int, int], Literal["family", "maker"], str]
"""A model family or maker that an author claims as its own, as a tuple of span, kind and name."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+")


def family_among(text: str) -> str | None:
    """Return the first well-known model family in lowercase `text`, or None if there is none.

    >>> family_among("gpt-5-mini"), family_among("smollm2"), family_among("my-own")
    ('gpt', 'smollm', None)
    """
    words: list[str] = _TOKEN.findall(text)
    for word in words:
        for family in (word, word.rstrip("lm")):
            if family in FAMILIES:
                return family
    return None


_VARIANT = r"(?:mini|nano|turbo|sonnet|opus|haiku|flash|pro|\d[\d.]*b?)\b"
_VERSION = rf"(?:[\s-]?v?\d{{1,3}}(?:\.\d{{1,3}})?[a-z]{{0,2}})?(?:[\s-]{_VARIANT}){{0,3}}"
_KIND = r"(?:model|assistant|ai|system|llm|chatbot)"
_MADE = r"(?:made|built|trained|developed|created|designed|released|provided|powered|operated)"
# End of an English introduction: the end of the sentence, or the start of a new clause.
_ENDS = re.compile(
    r"[!?;:\n]|\.(?=[\s*_\"')]|\Z)"
    r"|,? (?:and|but|so|yet|while|because|since|though|although) "
    r"(?=(?:i|my|we|our|it|this|that|the|you|your|they|he|she)\b"
    r"|[\w-]{1,30} (?:should|is|are|was|were|will|would|can)\b)"
)
_MAX_LENGTH = 300  # maximum length of an introduction in characters
_MAX_INTRODUCTIONS = 5  # maximum number of introductions in a sentence


class _Patterns(NamedTuple):
    """Regular expressions for self-introductions in English, and for model families and makers anywhere in the text."""

    family: re.Pattern[str]
    maker: re.Pattern[str]
    names: re.Pattern[str]
    """Regular expression for the name of a model family or maker; its second group matches only makers."""
    unknown: re.Pattern[str]
    """Regular expression for a self-introduction that names an unlisted model family and its maker."""


def _any_of(words: Iterator[str] | frozenset[str] | dict[str, str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


@lru_cache(maxsize=1)
def _patterns() -> _Patterns:
    """Compile patterns for phrases revealing a model family ("I am Claude") or its maker ("made by Anthropic")."""
    maker = rf"(?:{_any_of(MAKERS)})\b"
    family = rf"(?:{_any_of(FAMILIES)}){_VERSION}\b"
    mark = r"[*_\"'(]{0,3}"
    i_am = r"\b(?:i am|i'm|my name is|call me|i,|speaking as|this is|i go by|known as) "
    words = r"(?:(?!that\b|which\b|who\b)[\w'-]+ ){0,7}?"
    # words between "I am" and "made by", with or without a name: "I am Claude, an assistant that was made by …"
    parts = r"(?:(?!that\b|which\b|who\b)[\w'-]+,? ){0,9}?"
    of = r"(?:by|at|from|of) (?:the )?(?:(?:team|people|researchers|engineers|company|lab|folks|makers) (?:at |of )?)?"
    of_family = (
        rf"{i_am}{mark}({family})(?=[*_\"']*\s*(?:[,.;:!?)(—-]|\Z)|\s(?:and|from|by|here|an?|the|made|built)\b)",
        rf"{i_am}(?:an? |the |your |(?:{maker})'s ){words}{_KIND} (?:called |named |known as )?{mark}({family})",
        rf"\bas {mark}({family})(?=[*_\"']*(?: ?\([^()\n]{{0,80}}\))?,? (?:i|i'm|my|we)\b)",
        rf"\bas {mark}({family})(?=[*_\"']*, an? [^.!?\n]{{0,80}}, (?:i|i'm|my|we)\b)",
        rf"(?:\A|[.!?\n]\s{{0,3}}){mark}({family})(?= (?:here|speaking)\b)",
    )
    of_maker = (
        rf"\b(?:i am|i'm|i was|i have been) {parts}{_MADE} {of}({maker})",
        rf"\bas an? {words}(?:[\w'-]+, )?{_MADE} {of}({maker})",
        rf"\b(?:i am|i'm|as) an? {words}{_KIND} {of}({maker})",
        rf"\b(?:as|i am|i'm) an? ({maker})(?= (?:[\w-]+ ){{0,2}}{_KIND}\b)",
        rf"\b(?:as|i am|i'm) ({maker})'s\b",
        rf"\bmy (?:creator|developer|maker|training|trainer|provider)s?(?: at| is| are| by)? ({maker})",
        rf"(?<![^\W_])({maker})(?= (?:has |have )?{_MADE} me\b)",
    )
    # some languages add case endings to names: "Anthropicin", "Mistrala"
    ends = r"(?:(?<=[a-z]{6})[a-z]{1,3})?(?![a-z0-9_])"
    names = (
        rf"(?<![a-z0-9_])(?:((?:{_any_of(FAMILIES)}){_VERSION}(?! (?:ai|cloud)\b){ends})|((?:{_any_of(MAKERS)}){ends}))"
    )
    unknown = (
        r"\b(?:i am|i'm|my name is) (?!\w+ \d+\b)([\w.-]{2,30}(?: [\w.-]{1,20}){0,2}), "
        r"(?:an? |the )(?:[\w'-]+ ){0,3}?(?:ai|artificial intelligence|llm|language model|chatbot)\b"
        rf"(?:[^.!?\n]{{0,80}}? {_MADE} {of}(?!\w+ \d+\b)([\w.&' -]{{2,40}}?)"
        r"(?=[.,;:!?)\n]|\Z| (?:and|to|that|who|which|in|with|for)\b))?"
    )
    return _Patterns(*map(re.compile, ("|".join(of_family), "|".join(of_maker), names, unknown)))


# Introductions in other languages, in folded text: "I am", "my name is", "I was (made by)", "as".
_OTHER_I_AM = {
    "de": "ich bin|ich heisse|mein name ist|mein name lautet|ich wurde|ich werde|mich hat|hat mich|man nennt mich",
    "fr": "je suis|je m'appelle|je me nomme|mon nom est|moi, c'est|c'est moi,|j'ai ete|m'a",
    "es": "soy|me llamo|mi nombre es|fui|he sido|me ha|me han|estoy",
    "pt": "sou|me chamo|chamo-me|meu nome e|fui|sou o|sou a|me criou",
    "it": "sono|mi chiamo|il mio nome e|mi ha|mi hanno",
    "nl": "ik ben|ik heet|mijn naam is|ik werd",
    "sv": "jag ar|jag heter|mitt namn ar|jag har",
    "da, no": "jeg er|jeg hedder|jeg heter|mitt? navn er|jeg ble|jeg blev",
    "fi": "olen|mina olen|nimeni on|minut on",
    "pl": "jestem|nazywam sie|mam na imie|moje imie to|zosta[lł]em|zosta[lł]am",
    "cs, sk": "jsem|jmenuji se|som|volam sa|byl jsem",
    "ro": "sunt|ma numesc|numele meu este|am fost",
    "hu": "en vagyok|a nevem|vagyok",
    "tr": "ben|benim adim|ad[i\u0131]m",
    "id, ms": "saya adalah|saya|nama saya|aku adalah",
    "vi": "toi la|toi ten la|ten toi la|toi duoc",
    "el": "ειμαι|με λενε|ονομαζομαι|το ονομα μου ειναι",
    "ru, uk": "я|меня зовут|мое имя|мене звати|мене звуть|меня|мене",
    "ar, fa": "انا|أنا|اسمي|من|نام من",
    "he": "אני|שמי",
    "hi": "मैं|मेरा नाम|मुझे",
}
_OTHER_AS = "als|en tant que|como|come|in quanto|jako|как|як|som|olarak|sebagai|voi|ως|بصفتي"
# Introductions in scripts without spaces; after "as for me" in Japanese and Korean, a verb must follow the name.
_UNSPACED_I_AM = "我是|我叫|我的名字是|我的名字叫|本人是|我由|我被|作为|作為|身为|身為|ผมคือ|ฉันคือ|ดิฉันคือ|ผมชื่อ|ฉันชื่อ"
_AS_FOR_ME = "私は|わたしは|僕は|ぼくは|私の名前は|저는|나는|제 이름은|내 이름은|저의 이름은"
_INTRODUCES = re.compile(
    rf"(?<![^\W_'])(?P<spaced>{'|'.join(_OTHER_I_AM.values())})(?![^\W_])"
    rf"|(?:\A|(?<=[.!?\n,:] )|(?<=[\n。,]))(?P<role>{_OTHER_AS})(?![^\W_])"
    rf"|(?P<unspaced>{_UNSPACED_I_AM})|(?P<topic>{_AS_FOR_ME})"
)
# Words allowed between an introduction and a name: articles, words for a model, "called".
_BETWEEN = re.compile(
    r"[\s:,*_\"'«„“(—-]*(?:(?:d(?:er|ie|as|em|en|et|e|i|a|u)?|eine?|l[ea']|un[aeo]?|el|o|a|u[mn]a?|il|lo|het|een|e[tn]|ett"
    r"|the|an?|\u03bf|η|ενας|μια|namens|genannt\w*|appele\w*|nomme\w*|llamad\w*|chamad\w*|chiamat\w*|genaamd"
    r"|по имени|adalah|bir"
    r"|\w*(?:assist|asyst|ассист|помощ|помич|model|модел|bot|sprach|langu|lingu|lengu|язык|мовн|intelig|intellig|virtu"
    r"|digit|artif|kunst|yapay|zeka|asist|مساعد|نموذج|βοηθ|μοντελ)\w*|k[i\u0131]|ia|ai|ии|ші|d'ia)[\s*_\"'«„“:,-]*){0,8}"
)
_MAX_GAP_LENGTH = 80  # maximum combined length of these words, in characters
_BETWEEN_UNSPACED = re.compile(r"[^,、。!?\n]{0,25}")
_BEHIND_TOPIC = re.compile(
    r"[\s*_\"'」』]*(?:です|と申|とい|という|である|だ|입니다|이라|라고|예요|이에요|이며|[,、。.]|\Z)"
)
_MADE_OTHERWISE = re.compile(
    r"entwickel|geschaffen|trainier|erstellt|gebaut|programmier|developpe|cree|concu|entrain|cread|desarroll|entrenad"
    r"|disenad|criad|desenvolv|treinad|creat|sviluppat|addestrat|ontwikkel|gemaakt|getraind|gebouwd|utveckla|skapa|trana"
    r"|udvikl|skabt|utviklet|trent|kehit|luonut|luoma|stworz|opracowan|wytrenowan|vyvinu|vytvor|dezvolt|antrenat"
    r"|fejlesztet|gelistir|egitil|taraf[i\u0131]ndan|dikembang|dibuat|dilatih|phat trien|tao ra|созда|разработ|обуч"
    r"|створ|розроб|αναπτυ|δημιουργ|εκπαιδ|طور|تدريب|انشا|פותח|נוצר|विकसित|निर्मित|प्रशिक्षित|बनाया|开发|開發|训练|訓練|创建|創建|创造|打造|研发"
    r"|研發|推出|制作|製作|构建|開発|作ら|作成|学習|만든|만들|개발|훈련|학습|พัฒนา|สร้าง"
    r"|assist|asyst|ассист|помощ|помич|model|модел|modell|助手|助理|模型|人工智能|人工知能|アシスタント|モデル|어시스턴트|모델|인공지능|챗봇|chatbot"
    r"|مساعد|نموذج|सहायक|מודל"
)
_THAT = re.compile(
    r"(?<![^\W_])(?:gegen|contre|contra|contro|tegen|imod|przeciw|против|проти|vastaan|dass|que|che|что|що|att|at|ze|ca|dat|hogy|ki|bahwa|rang|οτι|ان|कि)(?![^\W_])|认为|觉得|反对|反對|支持|と思"
)
_SENTENCE = re.compile(r"(?:[^.!?。\n]|[.!?](?![\s*_\"')]|\Z))+")


def find_claimed_names(low: str) -> Iterator[Own]:
    """Find, in folded text, the model families and makers that authors claim as their own."""
    patterns = _patterns()
    for match in patterns.family.finditer(low):
        group = match.lastindex or 0
        yield match.span(group), "family", family_among(match[group]) or ""
        end = match.end(group)
        stop = _ENDS.search(low, end, end + _MAX_LENGTH)
        yield from _names_in(low, end, min(len(low), end + _MAX_LENGTH) if stop is None else stop.start())
    for match in patterns.maker.finditer(low):
        yield match.span(match.lastindex or 0), "maker", _letters_of(match[match.lastindex or 0])
        yield from _names_in(low, match.start(), match.start(match.lastindex or 0))
    for match in patterns.unknown.finditer(low):  # skips aliases, which consist of a noun and a number
        yield match.span(1), "family", match[1]
        if match[2] is not None:
            yield match.span(2), "maker", _letters_of(match[2])
    if _INTRODUCES.search(low) is None:
        return
    for sentence in _SENTENCE.finditer(low):
        yield from _find_abroad(low, *sentence.span())


def _find_abroad(low: str, start: int, end: int) -> Iterator[Own]:
    """Find the model families and makers that authors claim as their own in sentences not written in English."""
    name = _patterns().names.search(low, start, end)
    if name is None:
        return
    for introduction in islice(_INTRODUCES.finditer(low, start, end), _MAX_INTRODUCTIONS):
        name = _patterns().names.search(low, introduction.end(), end)
        if name is None:
            name = _patterns().names.search(low, start, introduction.start())
            if name is None or _MADE_OTHERWISE.search(low, introduction.end(), end) is None:
                return
            yield from _names_in(low, start, end)
            return
        between, kind = (introduction.end(), name.start()), introduction.lastgroup
        form = _BETWEEN if kind in ("spaced", "role") else _BETWEEN_UNSPACED
        direct = between[1] - between[0] <= _MAX_GAP_LENGTH and form.fullmatch(low, *between) is not None
        if kind == "topic":
            direct = direct and _BEHIND_TOPIC.match(low, name.end(), end) is not None
        elif kind == "role":
            direct = direct and low[name.end() : name.end() + 2].lstrip()[:1] in (",", "(")
        # after "as", words such as "made by" or "assistant" count only if they come before the name
        states_maker = (
            _MADE_OTHERWISE.search(low, introduction.end(), name.start() if kind == "role" else end) is not None
        )
        if direct or (states_maker and _THAT.search(low, *between) is None):
            yield from _names_in(low, introduction.end(), end)
            return


def _names_in(low: str, start: int, end: int) -> Iterator[Own]:
    for name in _patterns().names.finditer(low, start, end):
        if name[2] is not None:
            yield name.span(), "maker", _letters_of(name[2])
        else:
            yield name.span(), "family", family_among(name[1]) or ""


def _letters_of(maker: str) -> str:
    return "".join(re.findall(r"[^\W_]+", maker))
