"""Hidden tasks of chat applications, such as generating titles, tags and follow-up questions.

Chat applications send them to the chat's model before or after an answer, without any request from the user. They are
recognized by their wording and answered with a single model call, rather than with a debate on "Generate a title".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

_MAX_SENTENCE_LENGTH = 400
"""Maximum number of characters to examine in each sentence."""
_TURNS = 12
"""Maximum number of positions in a sentence to check for a request. Such positions follow commas, colons, and words
such as "and".
"""
_MAX_LENGTH = 8_000
"""Maximum number of characters to examine in a message to find a task: half at the beginning, and half at the end."""

# The chat that a task is about, included as data in the task's prompt

_BOXES = ("chat_history", "chathistory", "conversation", "messages", "transcript", "text")
"""XML elements used by prompts to enclose the chat or the text of a task."""
_HISTORIES = _BOXES[:2]
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_SPEAKER = re.compile(r"^\W{0,3}(user|human|assistant|ai|model|query)\W{0,3}:", re.IGNORECASE | re.MULTILINE)
_KEYS = frozenset({
    "title", "titles", "tags", "keywords", "follow_ups", "followups", "follow_up_questions", "queries", "query", "name",
    "search_queries", "emoji", "language", "topic", "text", "prompt", "chips", "suggestions", "summary",
    "collection_names",
})  # fmt: skip
"""Field names used in answers to hidden tasks."""
_EXAMPLE = re.compile(r"""\{\s*["'](\w+)["']\s*:""")

# Wording of tasks

_KINDS = (
    r"titles?|headlines?|subject lines?|tags|labels?|keywords|name|topic|follow[- ]?ups?(?: questions?)?|"
    r"next questions|(?:suggested|likely|quick|short|possible)[- ](?:questions|repl(?:y|ies))|"
    r"(?:search|web|standalone) (?:quer(?:y|ies)|terms?|questions?)|queries|autocompletions?|emojis?|"
    r"summar(?:y|ies)|gist"
)
_VERBS = (
    r"(?:re)?generat|creat|writ|provid|suggest|giv|produc|propos|extract|summari[sz]|compos|craft|com(?:e|es) up with|"
    r"(?:reply|respond|answer) with|return|output|name|pick|choos|determin|analy[sz]|rephras|rewrit|reformulat|identif|"
    r"condens|continu|mak|infer|predict|formulat|devis|reflect|assign"
)
_GAP = r"(?:(?!\b(?:for|about|against|whether|why|how|between|should|than|versus|vs|changes|reforms)\b)(?:\d\.|[^.?!]))"
_ORDER = rf"\b(?:{_VERBS})[a-z]*\b{_GAP}{{0,160}}?\b(?:{_KINDS})\b"
_ORDERS = re.compile(
    rf"\W*(?:{_ORDER}|summari[sz]e (?:(?:the|this|our|these|a|following|above|users?|user's|coding|previous) )+"
    r"(?:conversation|chat|discussion|dialogue?|messages?|request|query)\b)",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"\W*(?:(?:please )?help me(?: to)?|please|now|your (?:task|job|role) is to|i want you to|"
    r"you (?:will|should|must|need to|are to|have to)|based on|given|in|using|with|under|as an?|analy[sz]e|read|"
    r"look at|examine|consider)\s",
    re.IGNORECASE,
)
"""Regular expression for words that may precede a request; the request begins after them or after a later match of
`_TURN`.
"""
_TURN = re.compile(r"[,:]\s+|\b(?:and|please)\s", re.IGNORECASE)
_TOOLS = re.compile(r"\W*available tools:", re.IGNORECASE)
_PERSONA = re.compile(
    r"\W*(?:you are|you're|you will be given|here (?:is|are)|below is|act as|as an?)\b", re.IGNORECASE
)
_WORKER = re.compile(
    rf"\W*(?:you are|you're|act as|as) an?\b[^.?!\n]{{0,60}}?(?:\b(?:{_KINDS})\b[^.?!\n]{{0,20}}\b(?:generator|writer|"
    rf"creator|maker|assistant|system|expert|extractor|rewriter|specialist)|\bautocompletion\b|"
    rf"\b(?:that|who|which|tasked with|designed to|responsible for)\s+{_ORDER})",
    re.IGNORECASE,
)
_MATERIAL = re.compile(
    r"\W{0,9}(?:last|the|follow[- ]?up)\b[^\n]{0,40}\b(?:message|input|conversation|chat)\b", re.IGNORECASE
)
_LABEL = re.compile(r"[^\w?]*\w+(?: \w+){0,2}[^\w?]*")
_CHAT = re.compile(
    r"\b(?:the|this|that|our|following|above|given|each|previous|last|first|current|ongoing|coding|your|"
    r"user(?:'s|’s)?)\s+(?:\w+[- ]){0,2}?"
    r"(?:conversations?|chats?|chat[ _]?history|dialog(?:ue)?s?|thread|discussion|exchange|messages?|query|question|"
    r"prompt|request|input|speaker)\b(?!\s+(?:section|app|application|bot|group|forum|paper|room|window|feature|tab|button|view|page|menu))|"
    r"\ba (?:\w+ )?(?:conversation|chat)\b|<(?:chat_?history|conversation|messages|text|type)>",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\b(?:only|just|exclusively|solely|nothing else|json|concise|short|brief|briefly|fitting|broad|standalone|at most|"
    r"max(?:imum)?|no (?:more|quotes?|quotation|punctuation|explanations?|preamble|additional|extra|other|prefix|"
    r"ending)|without (?:any|quotes?|quotation|punctuation|preamble|explanations?|lead-in))\b|"
    r"\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten)(?:[- ](?:to[- ])?\w+)?[- ](?:words?|characters?|tokens)\b|"
    r"\b\d(?:\s?-\s?\d)?\s(?:\w+\s){0,2}(?:questions|tags|queries)\b",
    re.IGNORECASE,
)
_UNMISTAKABLE = re.compile(
    r"\b(?:titles?|tags|emojis?|headlines?|autocompletion|summari[sz]e the user's (?:request|query|message))\b",
    re.IGNORECASE,
)
"""Regular expression that recognizes tasks in chat applications' system messages, but not tasks that users set for a
whole chat.
"""

_CHINESE = re.compile(
    r"(?:总结|概括|生成|提炼|归纳|返回|给出|起|取|写|撰写|建议|提供|总結|產生)[^。？！\n]{0,40}"
    r"(?:标题|標題|主题|主題|标签|標籤|话题|追问|后续问题|名称|关键词|搜索词|查询)"
)
_CHINESE_FORM = re.compile(r"不要|不超过|不超過|以内|以內|仅|只|直接|使用|格式|简洁|简短|最多|个字|個字|字以")
_CHINESE_QUESTION = re.compile(r"[？?]$|吗$|是否|应该|應該")
_CHINESE_CHAT = re.compile(r"对话|會話|会话|對話|聊天|这句话|這句話|用户|用戶|历史|消息")


def is_hidden_task(chat: Sequence[tuple[str, str]], schema: Mapping[str, Any] | None = None) -> bool:
    """Return whether a chat, given as pairs of role and text, ends with a task set by the chat application.

    The task is either in the last message, or in a system message followed by the text to process. `schema` is the
    answer's schema.

    >>> is_hidden_task([("user", "Generate a concise, 3-5 word title for this conversation. Only return the title.")])
    True
    >>> is_hidden_task([("user", "Should chat applications generate titles of conversations? Answer briefly.")])
    False
    """
    if not chat:
        return False
    formed = schema is not None and _is_of_task(schema.get("properties"))
    role, text = chat[-1]
    if role in ("user", "system", "developer") and _is_task(text, formed=formed):
        return True
    role, system = chat[0]
    if role not in ("system", "developer") or len(chat) < 2:  # noqa: PLR2004 - it and what it is about
        return False
    if _TOOLS.match(system) and _SPEAKER.search(text):
        return True
    if not _is_task(system, formed=formed, alone=False):
        return False
    first = "\n".join([*_sentences(system)][:3])
    return bool(_UNMISTAKABLE.search(first) or _CHINESE.search(first)) or (
        len(chat) == 2 and (formed or _without(text, _BOXES) != text or _is_about_chat(text))  # noqa: PLR2004
    )


def _is_task(text: str, *, formed: bool, alone: bool = True) -> bool:
    """Return whether a message is a task about a chat, and includes or mentions that chat.

    If `alone` is True, a mention counts only in the sentence with the request, not elsewhere in the message.
    """
    boxed = _without(text, _HISTORIES) != text
    outside = _without(text, _BOXES)
    # Code and the chat are ignored, because they are not part of the task's own text.
    rest = _excerpt(_FENCE.sub("\n", outside).strip())
    if _is_about_task(rest):
        return False
    if boxed and any(name.lower() in _KEYS for name in _EXAMPLE.findall(rest)):
        return True  # works in any language, because field names are not translated
    sentences = [*_sentences(rest)]
    if _CHINESE_FORM.search(rest) and _CHINESE_CHAT.search(rest):
        orders = [sentence for sentence in sentences if _CHINESE.search(sentence)]
        return any(_CHINESE_QUESTION.search(sentence) is None for sentence in orders)
    if not (formed or _FORM.search(rest)):
        return False
    spoken = outside != text or _SPEAKER.search(text) is not None
    order = _order_of(sentences)
    if order is not None:
        return spoken or _CHAT.search(order if alone else rest) is not None
    return spoken and any(_orders(sentence) for sentence in sentences[-2:])


def _order_of(sentences: Sequence[str]) -> str | None:
    """Return a sentence near the beginning that requests a title or similar text, or None if there is none."""
    for sentence in sentences[:4]:
        if _WORKER.match(sentence) or _orders(sentence):
            return sentence
        if not (_PERSONA.match(sentence) or _LABEL.fullmatch(sentence)):
            return None
    return None


def _orders(sentence: str) -> bool:
    if sentence.rstrip("\"'*`) ").endswith("?"):
        return False
    starts = [0]
    if (lead := _LEAD.match(sentence)) is not None:
        starts += [lead.end(), *(turn.end() for turn in islice(_TURN.finditer(sentence), _TURNS))]
    return any(_ORDERS.match(sentence, start) for start in starts)


def _is_about_task(text: str) -> bool:
    """Return whether the last lines are a user's question about the preceding task."""
    *before, last = [*filter(None, map(str.strip, text.split("\n\n")))] or [""]
    if not before or not last.endswith("?") or _SPEAKER.match(last) or before[-1].endswith(":"):
        return False
    return (
        re.search(r"\b(?:prompt|instructions?|template|wording|titles?|tags?|follow-ups?|this|it)\b", last) is not None
    )


def _is_about_chat(text: str) -> bool:
    return bool(_SPEAKER.search(text) or _MATERIAL.match(text))


def _is_of_task(fields: Collection[str] | None) -> bool:
    return bool(fields) and {name.lower() for name in fields or ()} <= _KEYS


def _without(text: str, names: Sequence[str]) -> str:
    """Remove the elements with the given names, including their content."""
    for name in names:
        opened, closed = f"<{name}>", f"</{name}>"
        end = 0
        pieces: list[str] = []
        lower = text.lower()
        while (start := lower.find(opened, end)) >= 0 and (close := lower.find(closed, start)) >= 0:
            pieces.append(text[end:start])
            end = close + len(closed)
        text = "\n".join([*pieces, text[end:]])
    return text


def _excerpt(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH // 2]}\n{text[-_MAX_LENGTH // 2 :]}"


def _sentences(text: str) -> Iterator[str]:
    """Split text into sentences and lines, keeping a numbered list together with the line above it."""
    listed = re.sub(r"\n(?=\s{0,4}\d\.)", " ", text)
    for sentence in re.split(r"(?<=[^\d][.!?。！？])\s+|(?<=[。！？])|\n+", listed):
        if sentence.strip(" #*-_>\t"):
            yield sentence.strip()[:_MAX_SENTENCE_LENGTH]
