"""Introductions in which a speaker reveals its model or vendor, in every language that the documentation lists."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flowdebate import Persona, council
from flowdebate.chassis.anonymity import make_aliases
from flowdebate.chassis.anonymity.introductions import WELL_KNOWN
from flowdebate.testing import FunctionModel, ModelRequest
from tests.cases import slow_but_first

ALIASES = make_aliases(
    ["Ada", "Ben"],
    models=["openai/gpt-5-mini", "anthropic/claude-sonnet-4-5"],
    question="Should cities cap rents?",
    random=Random(3),
)
ENGLISH = """
I am Claude, an AI assistant created by Anthropic, and I think that rents rise.
I'm Claude, an AI assistant made by Anthropic. Rents rise.
I'm **Claude**, made by Anthropic.
I am ChatGPT, a large language model trained by OpenAI.
As Claude, an AI assistant made by Anthropic, I disagree.
As ChatGPT (by OpenAI), I disagree.
Hello! I'm Gemini, a large language model built by Google.
I am Qwen, created by Alibaba Cloud.
I am DeepSeek-V3, an AI assistant independently developed by the Chinese company DeepSeek Inc.
I'm Claude — Anthropic's AI assistant.
I am an AI assistant called Claude, developed by the team at Anthropic.
I am Anthropic's AI assistant.
I was created by DeepSeek to help.
My name is Grok and I was built by xAI.
Claude here. Rents rise.
As an AI language model developed by researchers at OpenAI, I cannot vote.
This is Copilot, Microsoft's AI companion.
I am Claude, and I was built by Anthropic.
"""
OTHERS = {
    "Arabic": ["أنا Claude، مساعد ذكاء اصطناعي طورته Anthropic."],
    "Chinese": [
        "我是Claude\uff0c由Anthropic开发的AI助手。",
        "我是由OpenAI训练的大型语言模型。",
        "我是通义千问\uff0c由阿里云开发的大语言模型。",
        "作为Claude\uff0c我认为租金太高。",
    ],
    "Czech": ["Jsem Claude, asistent vytvořený společností Anthropic."],
    "Danish and Norwegian": ["Jeg er Claude, en AI-assistent lavet af Anthropic."],
    "Dutch": ["Ik ben Claude, een AI-assistent gemaakt door Anthropic."],
    "Finnish": ["Olen Claude, Anthropicin kehittämä tekoälyavustaja."],
    "French": [
        "Je suis Claude, un assistant IA créé par Anthropic.",
        "Je m'appelle ChatGPT, développé par OpenAI.",
        "J'ai été conçu par Mistral AI.",
        "En tant que modèle de langage développé par OpenAI, je ne peux pas voter.",
    ],
    "German": [
        "Ich bin Claude, ein KI-Assistent, der von Anthropic entwickelt wurde.",
        "Ich bin ein von OpenAI trainiertes Sprachmodell.",
        "Mein Name ist Claude und ich wurde von Anthropic entwickelt.",
        "Als Claude, ein KI-Modell von Anthropic, sage ich: Mieten steigen.",
        "Ich wurde von Google trainiert.",
    ],
    "Greek": ["Είμαι ο Claude, ένας βοηθός τεχνητής νοημοσύνης από την Anthropic."],  # noqa: RUF001 - Greek
    "Hebrew": ["אני Claude, עוזר בינה מלאכותית שנוצר על ידי Anthropic."],
    "Hindi": ["मैं Claude हूँ, Anthropic द्वारा बनाया गया AI सहायक।"],
    "Indonesian": ["Saya adalah Claude, asisten AI yang dibuat oleh Anthropic."],
    "Italian": ["Sono Claude, un assistente AI creato da Anthropic."],
    "Japanese": [
        "私はClaude、Anthropicが開発したAIアシスタントです。",
        "私はAnthropicによって開発されたClaudeです。",
        "私はGoogleによってトレーニングされた大規模言語モデルです。",
    ],
    "Korean": ["저는 Anthropic에서 만든 AI 어시스턴트 Claude입니다.", "저는 Claude입니다."],
    "Polish": ["Jestem Claude, asystentem AI stworzonym przez Anthropic."],
    "Portuguese": [
        "Eu sou o Claude, um assistente de IA criado pela Anthropic.",
        "Sou o ChatGPT, desenvolvido pela OpenAI.",
    ],
    "Russian": [
        "Я Claude, ИИ-ассистент, созданный компанией Anthropic.",
        "Меня зовут Claude. Меня создала компания Anthropic.",
        "Я большая языковая модель, обученная Google.",
    ],
    "Spanish": [
        "Soy Claude, un asistente de IA creado por Anthropic.",
        "Me llamo Gemini y fui entrenado por Google.",
        "Como modelo de lenguaje de OpenAI, no tengo opiniones.",
    ],
    "Swedish": ["Jag är Claude, en AI-assistent skapad av Anthropic."],
    "Turkish": ["Ben Claude, Anthropic tarafından geliştirilen bir yapay zeka asistanıyım."],  # noqa: RUF001 - Turkish
    "Vietnamese": ["Tôi là Claude, một trợ lý AI do Anthropic phát triển."],
}
INTRODUCTIONS = [*ENGLISH.strip().splitlines(), *(text for texts in OTHERS.values() for text in texts)]
_NAMES = [name for name in WELL_KNOWN if not name.startswith(" ")]
_NAMED = re.compile("|".join(map(re.escape, ("anthropic", "claude", "openai", *_NAMES))))


@pytest.mark.parametrize("text", INTRODUCTIONS)
def test_whole_introduction_is_hidden(text: str) -> None:
    """Leaving the vendor's name next to an alias would be worse than hiding nothing."""
    hidden = ALIASES.hide(f"{text} Rents rise with demand.").text
    terms = {match[0] for match in _NAMED.finditer(hidden.lower())}
    assert terms <= {"language model", "chatbot", "artificial intelligence"}
    assert hidden.endswith("Rents rise with demand.")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("I am Zeta, an AI assistant created by Foo Labs, and rents rise.", ["Zeta", "Foo Labs"]),
        ("I'm Nova Pro, a large language model trained by Bar.", ["Nova Pro", "Bar"]),
        ("My name is Zeta, an AI model.", ["Zeta"]),
    ],
)
def test_unlisted_model_families_are_hidden_in_introductions(text: str, hidden: list[str]) -> None:
    """A new vendor's models must be recognized before they are added to any list."""
    result = ALIASES.hide(text)
    assert [leak.text for leak in result.leaks] == hidden
    assert ALIASES.hide(result.text).leaks == ()


@pytest.mark.parametrize(
    "text",
    [
        "Ich bin gegen Modelle von OpenAI, sagt er.",
        "Ich bin überzeugt, dass Google zu viel Miete zahlt.",
        "Je suis contre Google.",
        "Soy fan de Google Maps.",
        "私はGoogleの主張に反対です。",
        "Я против Google.",
        "Als Google kam, stiegen die Mieten.",
        "I am worried that Google buys houses.",
        "I am an AI researcher, and rents rise.",
        "I am Bob, an assistant professor at Stanford.",
        "Google, Meta und Microsoft mieten Büros.",
        "我认为谷歌付的租金太高。",
    ],
)
def test_companies_mentioned_without_an_introduction_are_unchanged(text: str) -> None:
    """A sentence can mention a company, even after "I am", without being a model's introduction."""
    assert ALIASES.hide(text).text == text


def test_introduction_ends_before_the_next_clause() -> None:
    """The next clause is part of the argument, so it must be kept."""
    introduction = "I am Claude, made by Anthropic, and Google should pay more. OpenAI pays less."
    assert [leak.text for leak in ALIASES.hide(introduction).leaks] == ["Claude", "Anthropic"]


@pytest.mark.parametrize(
    "unit",
    slow_but_first(
        [
            "ich bin ",
            "i am claude, ",
            "我是claude",
            "私は",
            "claude ",
            "i am zeta, an ai ",
            "modell ",
            "je suis une ia ",
        ]
    ),
)
def test_hostile_introductions_are_searched_in_linear_time(unit: str) -> None:
    text = unit * (100_000 // len(unit)) + "Anthropic"
    assert ALIASES.hide(ALIASES.hide(text).text).leaks == ()


def test_council_reviewers_see_no_introductions() -> None:
    opinions = {"Ada": INTRODUCTIONS[0], "Ben": OTHERS["German"][0], "Cem": OTHERS["Chinese"][0]}
    reviews: list[str] = []

    def answer(request: ModelRequest) -> Any:
        if request.output is None:
            return next(
                (text for name, text in opinions.items() if name.lower() in request.block.lower()), "Summed up."
            )
        reviews.append("\n".join(str(message["content"]) for message in request.messages))
        letters = sorted(set(re.findall(r"\b[A-C]\b", str(request.output.json_schema))))
        return {"ranking": [{"answer": letter, "reason": "r"} for letter in letters]}

    block = council(name="c", members=[Persona(name) for name in opinions])
    block.run_sync("Should cities cap rents?", model=FunctionModel(answer))
    assert len(reviews) >= len(opinions)
    assert not any(re.search("claude|anthropic", text, re.IGNORECASE) for text in reviews)


def test_docs_list_the_supported_languages() -> None:
    page = (Path(__file__).parents[3] / "docs" / "prompts.md").read_text()
    *languages, last = OTHERS
    assert f"English, {', '.join(languages)} and {last}" in " ".join(page.split())
