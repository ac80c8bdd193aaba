"""Ballot files in any format give the same audits, quality figures and rankings as ballot objects."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.errors import BadFile
from flowdebate.evaluation import (
    Game,
    audit,
    content_audit,
    full_audit,
    judge_quality,
    rank_games,
    read_ballots,
)


def rows(number: int = 60) -> list[dict[str, Any]]:
    """Draw ballots by two judges on pairs of three systems, in both orders; the longer side wins more often."""
    random, records = Random(3), []
    for item in range(number):
        pair = random.sample(["ann", "bob", "cy"], 2)
        lengths = {name: random.randint(100, 900) for name in pair}
        truth = min(pair)
        for judge in ("mia", "leo"):
            for order in (pair, pair[::-1]):
                longer = max(order, key=lengths.__getitem__)
                choice: str | None = random.choice([longer, longer, truth, order[0]])
                if not random.randrange(12):
                    choice = None
                records.append({
                    "item": f"q{item}", "judge": judge, "order": order, "choice": choice, "truth": truth,
                    "cluster": f"topic {item // 2}", "lengths": [lengths[name] for name in order], "note": "x",
                })  # fmt: skip
    return records


def write(path: Path, data: list[dict[str, Any]], separator: str = "|") -> Path:
    """Write rows in the format given by the file's suffix."""
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, data)))
    elif path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(data), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(data[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            for row in data:
                cells = {
                    name: (json.dumps(cell) if separator == "json" else separator.join(map(str, cell)))
                    if isinstance(cell, list)
                    else cell
                    for name, cell in row.items()
                }
                writer.writerow(cells)
    return path


@pytest.mark.parametrize(
    ("name", "separator"), [("b.csv", "|"), ("b.csv", "json"), ("b.tsv", "|"), ("b.jsonl", ""), ("b.parquet", "")]
)
def test_all_file_formats_give_the_same_ballots(tmp_path: Path, name: str, separator: str) -> None:
    """An empty cell means a tie, and unknown columns are ignored."""
    ballots = read_ballots(write(tmp_path / name, rows(), separator)).ballots
    assert [ballot.model_dump(exclude_none=True) for ballot in ballots] == [
        {key: cell for key, cell in row.items() if key != "note" and cell is not None} for row in rows()
    ]


def test_functions_accept_a_path_to_a_ballot_file(tmp_path: Path) -> None:
    path = write(tmp_path / "ballots.csv", rows())
    data = read_ballots(path)
    items = [item.ballots for item in data.items]
    truth = [item.truth for item in data.items]
    assert (len(items), len(items[0])) == (60, 4)
    assert audit(path) == audit(items, truth=truth)
    assert full_audit(str(path), resamples=50) == full_audit(items, truth=truth, resamples=50)
    assert judge_quality(path) == judge_quality(data.judged)
    assert {item.cluster for item in data.judged} == {f"topic {number}" for number in range(30)}
    assert rank_games(path) == rank_games(data.games)
    first = rows()[0]
    won = 0.5 if first["choice"] is None else float(first["choice"] == first["order"][0])
    assert data.games[0] == Game(first["order"][0], first["order"][1], won, "topic 0")
    assert len(data.games) == 240
    content = content_audit(path)
    assert content == content_audit(data.choices)
    assert (content.effects["length"].low or 0) > 0
    assert data.judges == ["mia", "leo"]
    assert len(data.of_judge("leo").ballots) == 120


def test_sides_can_be_roles_played_by_systems(tmp_path: Path) -> None:
    """Each game is played between two systems.

    Unusable ballots are skipped, as are games in which a system plays against itself.
    """
    data: list[dict[str, Any]] = [
        {"item": "1", "order": ["PRO", "CON"], "systems": ["x", "y"], "choice": "CON"},
        {"item": "2", "order": ["PRO", "CON"], "systems": ["y", "x"], "choice": None},
        {"item": "3", "order": ["PRO", "CON"], "systems": ["x", "x"], "choice": "PRO"},
        {"item": "4", "order": ["PRO", "CON"], "systems": ["x", "y"], "problem": "no answer"},
    ]
    ballots = read_ballots(write(tmp_path / "roles.jsonl", data))
    assert ballots.games == [Game("x", "y", 0, "1"), Game("y", "x", 0.5, "2")]
    assert audit([item.ballots for item in ballots.items]).unparsed == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"order": ["a", "b"]}, "line 2: `item`"),
        ({"item": "1"}, "line 2: `order`"),
        ({"item": "1", "order": ["a"]}, "`order` must have two or more different sides"),
        (
            {"item": "1", "order": ["a", "b"], "choice": "c"},
            "`choice` must be one of the sides in `order`: a or b (got c)",
        ),
        ({"item": "1", "order": ["a", "b"], "truth": "c"}, "`truth` must be one of"),
        ({"item": "0", "order": ["a", "b"], "truth": "b"}, "`truth` of item 0 is b here, but a on an earlier line"),
        ({"item": "1", "order": ["a", "b"], "lengths": [1]}, "`lengths` must have 2 values"),
        ({"item": "1", "order": ["a", "b"], "lengths": [1, "long"]}, "`lengths.1`"),
    ],
)
def test_invalid_rows_are_reported(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "bad.jsonl", [{"item": "0", "order": ["a", "b"], "choice": "a", "truth": "a"}, row])
    with pytest.raises(BadFile) as error:
        read_ballots(path)
    assert problem in str(error.value)
    with pytest.raises(BadFile, match="has no ballots"):
        read_ballots(write(tmp_path / "none.jsonl", []))


def test_commands_read_ballot_files(tmp_path: Path) -> None:
    path = str(write(tmp_path / "ballots.csv", rows()))
    result = CliRunner().invoke(app, ["eval", "audit", "--data", path], catch_exceptions=False)
    assert result.exit_code == 0
    for words in ("slot 1 of 2", "right in 0.", "length: twice as long favors it", "2 models are worth"):
        assert words in result.output
    document = json.loads(CliRunner().invoke(app, ["eval", "audit", "--data", path, "--json"]).stdout)
    assert document["quality"] == judge_quality(path).model_dump(mode="json", by_alias=True)
    quality = judge_quality(read_ballots(path).of_judge("leo").judged)
    assert document["qualities"]["leo"] == quality.model_dump(mode="json", by_alias=True)
    assert "leo against the truth" in result.output
    assert document["content"] == content_audit(path).model_dump(mode="json", by_alias=True)
    ranked = CliRunner().invoke(app, ["eval", "leaderboard", "--data", path, "--format", "json"])
    assert [system["name"] for system in json.loads(ranked.stdout)["systems"]] == [
        system.name for system in rank_games(path).systems
    ]
    champion = {"item": "x", "order": ["top", "ann"], "choice": "top", "judge": "mia", "truth": "", "cluster": ""}
    more = write(tmp_path / "more.csv", [*rows(), champion | {"lengths": [1, 1], "note": ""}])
    result = CliRunner().invoke(app, ["eval", "leaderboard", "--data", str(more)])
    assert "above all ranked systems: never lost to one: top" in result.output
    ranked = CliRunner().invoke(app, ["eval", "leaderboard", "--data", str(more), "--prior", "2", "--format", "json"])
    assert "top" in [system["name"] for system in json.loads(ranked.stdout)["systems"]]
    limited = CliRunner().invoke(app, ["eval", "leaderboard", "--data", path, "--limit", "3"])
    assert limited.exit_code == 2
