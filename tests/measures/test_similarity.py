from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.measures import Embeddings, Jaccard, Similarity, TfIdf, best_similarity
from flowdebate.measures.similarity import text_words
from tests.measures.drawn import texts

MEASURES: dict[str, Similarity] = {measure.name: measure for measure in (Embeddings(), TfIdf(), Jaccard())}
some_texts = st.lists(texts, max_size=6)


@pytest.fixture(scope="module", autouse=True)
def _load_libraries() -> None:
    """Import libraries and load weights before Hypothesis times a test."""
    for measure in MEASURES.values():
        measure(["rents", "caps"])


@pytest.mark.parametrize("backend", list(MEASURES))
@given(some_texts)
def test_similarities_form_a_symmetric_matrix_of_values_from_0_to_1(backend: str, texts: list[str]) -> None:
    matrix = MEASURES[backend](texts)
    assert [len(row) for row in matrix] == [len(texts)] * len(texts)
    for row, one in zip(matrix, texts, strict=True):
        for score, other in zip(row, texts, strict=True):
            assert type(score) is float
            assert 0 <= score <= 1
            assert one != other or score == 1.0
    assert matrix == [list(column) for column in zip(*matrix, strict=True)]


@pytest.mark.parametrize("backend", list(MEASURES))
@given(some_texts, st.data())
def test_order_of_texts_affects_only_the_order_of_results(backend: str, texts: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    matrix = MEASURES[backend](texts)
    assert MEASURES[backend]([texts[place] for place in order]) == [[matrix[i][j] for j in order] for i in order]


@pytest.mark.parametrize("backend", list(MEASURES))
def test_order_of_long_texts_does_not_change_the_results(backend: str) -> None:
    """Floating-point sums depend on the order of their terms, so the texts are always added in the same order."""
    random = Random(1)
    words = [
        "cap",
        "rents",
        "not",
        "should",
        "now",
        "we",
        "cities",
        "wages",
        "lag",
        "homes",
        "tenants",
        "build",
        "more",
    ]
    long = [" ".join(random.choices(words, k=random.randint(3, 60))) for _ in range(7)]
    matrix = MEASURES[backend](long)
    assert MEASURES[backend](long[::-1]) == [row[::-1] for row in matrix[::-1]]


@pytest.mark.parametrize("backend", list(MEASURES))
@given(some_texts)
def test_repeated_texts_do_not_affect_the_others(backend: str, texts: list[str]) -> None:
    """Repeating a text says nothing new about the other texts."""
    matrix = MEASURES[backend](texts)
    extended = MEASURES[backend]([*texts, *texts[:1]])
    assert [row[: len(texts)] for row in extended[: len(texts)]] == matrix


@pytest.mark.parametrize("backend", list(MEASURES))
def test_texts_on_the_same_subject_are_more_similar_than_others(backend: str) -> None:
    one, other, far = MEASURES[backend](
        ["We should cap rents in cities.", "Rents in cities need a cap.", "Bananas grow in bunches on tall plants."]
    )[0]
    assert one == 1.0
    assert other > 0.3 > far


@pytest.mark.parametrize("backend", list(MEASURES))
def test_texts_in_scripts_without_spaces_are_compared(backend: str) -> None:
    """A sentence in Japanese or Thai must not be treated as one long word."""
    for sentence, alike, far in (
        ("家賃に上限を設けるべきだ", "家賃に上限を設けるべきではない", "バナナは黄色い"),
        ("ควรจำกัดค่าเช่าบ้าน", "ควรจำกัดค่าเช่าห้อง", "กล้วยเป็นสีเหลือง"),
    ):
        row_ = MEASURES[backend]([sentence, alike, far])[0]
        assert row_[1] > row_[2]


@pytest.mark.parametrize("backend", list(MEASURES))
def test_opposite_stances_can_be_similar(backend: str) -> None:
    """Similarity is not agreement: a negation is often closer to a text than a paraphrase is."""
    negated, reworded = MEASURES[backend](
        ["Rents should be capped now.", "Rents should not be capped now.", "A limit on what landlords ask is right."]
    )[0][1:]
    assert negated > reworded


@pytest.mark.parametrize("backend", list(MEASURES))
def test_blank_texts_are_similar_only_to_themselves(backend: str) -> None:
    """A blank text has no content to compare."""
    assert MEASURES[backend](["", " ", "\n"]) == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert MEASURES[backend]([]) == []


@given(texts)
def test_only_blank_texts_have_no_words(text: str) -> None:
    """If a text consists only of symbols, the symbols count as its words."""
    assert bool(text_words(text)) is bool("".join(text.split()))
    assert text_words(text) == text_words(text.swapcase()) or not text.isascii()


def test_best_measure_uses_embeddings() -> None:
    """The embeddings library is installed in the test environment, so its measure is the default."""
    assert isinstance(best_similarity(), Embeddings)
    assert isinstance(best_similarity(), Similarity)
    assert [repr(measure) for measure in MEASURES.values()] == ["Embeddings()", "TfIdf()", "Jaccard()"]


HIDE = """
import sys
from importlib.machinery import PathFinder
hidden = {hidden!r}
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in hidden else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from flowdebate.measures import Embeddings, TfIdf, best_similarity
"""


def run_python(code: str) -> str:
    """Run code in a new interpreter and return its output."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("modules_", "best"),
    [(["wordllama"], "TfIdf()"), (["wordllama", "sklearn"], "Jaccard()")],
    ids=["no wordllama", "none"],
)
def test_next_best_measure_is_used_if_a_library_is_missing(modules_: list[str], best: str) -> None:
    """The test hides the library from the process.

    Requesting the measure by name raises an error that says what to install.
    """
    tried = "TfIdf" if "sklearn" in modules_ else "Embeddings"
    code = HIDE.format(hidden=modules_) + f"print(best_similarity())\ntry: {tried}()\nexcept ValueError as e: print(e)"
    first, second = run_python(code).splitlines()
    assert first == best
    assert 'pip install "flowdebate[similarity]"' in second


def test_libraries_are_imported_on_the_first_call() -> None:
    code = (
        "import sys; from flowdebate.measures import Embeddings, TfIdf, best_similarity;"
        "Embeddings(), TfIdf(), best_similarity(); print({'numpy', 'sklearn', 'wordllama'} & set(sys.modules))"
    )
    assert run_python(code) == "set()"
