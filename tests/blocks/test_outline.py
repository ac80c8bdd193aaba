"""Outlines of every kind of step, drawn as text and as a Mermaid flowchart."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate import generator, handler, outline, router, sequencer
from flowdebate._text import is_blank
from tests.blocks.pipelines import Journal, Pipeline, pipelines


def ask(value: object) -> object:
    """Return the value; this block is never run."""
    return value


def empty(name: str = "all") -> Any:
    """Create a sequencer to build on."""
    return sequencer(name=name)


STEPS: dict[str, Any] = {
    "then": lambda: empty().then(ask),
    "then_if": lambda: empty().then_if(bool, ask),
    "tap": lambda: empty().tap(ask),
    "tap_if": lambda: empty().tap_if(bool, ask),
    "map": lambda: empty().map(str).map(lambda value: value),
    "parallel": lambda: empty().parallel({"left": ask, "right": generator(name="model")}),
    "for_each": lambda: empty().for_each(ask),
    "for_each limited": lambda: empty().for_each(ask, max_concurrency=2),
    "tap_each": lambda: empty().tap_each(ask, over=list),
    "branch": lambda: empty().branch((bool, ask), (bool, empty("inner").then(ask)), otherwise=str),
    "loop_back": lambda: empty().map(str).tap(ask).then(ask).loop_back("ask", when=bool, max_iterations=3),
    "do_while": lambda: empty().do_while(ask, bool, max_iterations=3),
    "do_until": lambda: empty().do_until(ask, bool, max_iterations=3),
    "rescue": lambda: empty().then(ask).rescue(ask),
    "rescue some": lambda: empty().then(ask).rescue(ask, on=(KeyError, ValueError)),
    "router": lambda: router(name="pick", choose=str, routes={"a": ask, "b": empty("inner").then(ask)}, otherwise=ask),
    "nested": lambda: empty().tap(empty("inner").then(ask).then(ask)).then(empty("void")),
    "handler": lambda: handler(ask),
}


def test_every_kind_of_step_is_drawn_as_text() -> None:
    assert "\n\n".join(str(outline(make())) for make in STEPS.values()) == snapshot("""\
all
  → ask

all
  → then_if ask

all
  → tap ask

all
  → tap_if ask

all
  → map str
  → map function

all
  → parallel
    → left: ask
    → right: model

all
  → for_each
    → ask

all
  → for_each (max_concurrency 2)
    → ask

all
  → tap_each
    → ask

all
  → branch
    → if: ask
    → if: inner
      → ask
    → otherwise: str

all
  → map str
  → tap ask
  → ask
  → loop_back (at most 3 passes) ↺ ask

all
  → do_while (at most 3)
    → ask

all
  → do_until (at most 3)
    → ask

all
  → ask
  → rescue ask

all
  → ask
  → rescue KeyError | ValueError ask

pick (router)
  → a:
    → pick-a
  → b:
    → inner
      → ask
  → otherwise:
    → pick-otherwise

all
  → tap inner
    → ask
    → ask
  → void

ask\
""")


def test_every_kind_of_step_is_drawn_as_a_flowchart() -> None:
    assert "\n\n".join(outline(make()).mermaid() for make in STEPS.values()) == snapshot("""\
flowchart TD
  subgraph n1 ["all"]
    n2["ask"]
  end

flowchart TD
  subgraph n1 ["all"]
    n2["then_if ask"]
  end

flowchart TD
  subgraph n1 ["all"]
    n2["tap ask"]
  end

flowchart TD
  subgraph n1 ["all"]
    n2["tap_if ask"]
  end

flowchart TD
  subgraph n1 ["all"]
    n2["map str"]
    n3["map function"]
  end
  n2 --> n3

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["parallel"]
      n3["left: ask"]
      n4["right: model"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["for_each"]
      n3["ask"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["for_each (max_concurrency 2)"]
      n3["ask"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["tap_each"]
      n3["ask"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["branch"]
      n3["if: ask"]
      subgraph n4 ["if: inner"]
        n5["ask"]
      end
      n6["otherwise: str"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    n2["map str"]
    n3["tap ask"]
    n4["ask"]
    n5{{"loop_back (at most 3 passes)"}}
  end
  n2 --> n3
  n3 --> n4
  n4 --> n5
  n5 -. again .-> n3

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["do_while (at most 3)"]
      n3["ask"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["do_until (at most 3)"]
      n3["ask"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    n2["ask"]
    n3["rescue ask"]
  end
  n2 --> n3

flowchart TD
  subgraph n1 ["all"]
    n2["ask"]
    n3["rescue KeyError | ValueError ask"]
  end
  n2 --> n3

flowchart TD
  subgraph n1 ["pick (router)"]
    subgraph n2 ["a:"]
      n3["pick-a"]
    end
    subgraph n4 ["b:"]
      subgraph n5 ["inner"]
        n6["ask"]
      end
    end
    subgraph n7 ["otherwise:"]
      n8["pick-otherwise"]
    end
  end

flowchart TD
  subgraph n1 ["all"]
    subgraph n2 ["tap inner"]
      n3["ask"]
      n4["ask"]
    end
    n3 --> n4
    n5["void"]
  end
  n2 --> n5

flowchart TD
  n1["ask"]\
""")


NODE = re.compile(r'^ *(?P<id>n\d+)(?:\[(?P<box>"[^"\n]*")\]|\{\{(?P<hex>"[^"\n]*")\}\})$')
GROUP = re.compile(r'^ *subgraph (?P<id>n\d+) \["[^"\n]*"\]$')
ARROW = re.compile(r"^ *(?P<one>n\d+) (?:-->|-\. again \.->) (?P<other>n\d+)$")
LABEL = re.compile(r'"((?:[^"#&<>%`\\]|#\d+;)*)"')


def check(drawing: str) -> None:
    """Check that `drawing` has only valid lines, and that every arrow joins existing nodes."""
    first, *lines = drawing.split("\n")
    assert first == "flowchart TD"
    ids: list[str] = []
    arrows: list[str] = []
    depth = 0
    for line in lines:
        if line.strip() == "end":
            depth -= 1
            assert depth >= 0
        elif arrow := ARROW.match(line):
            arrows += arrow.group("one", "other")
        else:
            node = NODE.match(line) or GROUP.match(line)
            assert node, line
            depth += line.lstrip().startswith("subgraph")
            ids.append(node["id"])
            label = re.search(r'".*"', line)
            assert label
            assert LABEL.fullmatch(label[0]), line
    assert depth == 0
    assert len(set(ids)) == len(ids)
    assert set(arrows) <= set(ids)


@given(pipelines(depth=3))
def test_flowcharts_are_well_formed(recipe: Pipeline) -> None:
    check(outline(recipe.build(Journal())).mermaid())


HOSTILE = [
    '"] --> x["',
    "a\nb",
    "a\r\nend",
    "#quot;",
    "<script>",
    "%%{init: {}}%%",
    "`md`",
    "\\",
    "a\u2028b",
    "end",
    "\x1b[2J",
]


@given(st.lists(st.sampled_from(HOSTILE) | st.text().filter(lambda name: not is_blank(name)), min_size=1, max_size=3))
def test_names_cannot_break_a_drawing(names: list[str]) -> None:
    block = empty(names[0])
    for name in names:
        block = block.then(handler(ask, name=name)).parallel({name: ask})
    block = block.loop_back(block.steps[0].key, when=bool, max_iterations=2, label=names[-1])
    drawing = outline(block)
    check(drawing.mermaid())
    lines = str(drawing).split("\n")
    assert len(lines) == 1 + 3 * len(names) + 1
    assert all(line.isprintable() for line in lines)
    assert str(drawing).splitlines() == lines


@pytest.mark.parametrize("tapped", [False, True])
def test_repeat_arrows_point_to_the_right_step(tapped: bool) -> None:  # noqa: FBT001
    """The arrow must not point to a nested block of the same name."""
    inner = empty("inner").then(ask).then(ask)
    verb = "tap" if tapped else "then"
    block = getattr(empty().then(inner), verb)(ask)
    block = getattr(block, verb)(ask).loop_back("ask", when=bool, max_iterations=2)
    edges = [line.split() for line in outline(block).mermaid().split("\n") if "again" in line]
    assert edges == [["n7", "-.", "again", ".->", "n5"]]
