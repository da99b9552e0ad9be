"""The record of lesson 06's trainings, read back; and the plots that are made from it."""

from __future__ import annotations

import json

import pytest

from lessonlib.lab.eagle_trials import Bin
from lessonlib.lab.headrecords import HEADS, load_heads
from lessonlib.widgets.eagle_plots import plot_confidence, plot_training


def make_row(first: float) -> dict:
    rates = {t: [round(first - 0.01 * i, 4) for i in range(5)] for t in ("0", "0.7", "1", "1.5")}
    facts = {"alpha": {t: row[0] for t, row in rates.items()}, "by_position": rates}
    step = {"seconds": 60, "steps": 5, "tokens": 1000, "loss": 2.5, **facts}
    return {**facts, "parameters": 1234, "log": [step]}


@pytest.fixture
def record(tmp_path):
    rows = {"eagle3": make_row(0.7), "eagle1": make_row(0.6), "another": make_row(0.1)}
    (tmp_path / "heads.json").write_text(json.dumps(rows))
    return tmp_path / "heads.json"


def test_temperatures_come_back_as_numbers_and_kinds_in_their_order(record):
    heads = load_heads(record)
    assert list(heads) == ["eagle1", "eagle3"]
    assert heads["eagle3"].kind == "eagle3"
    assert heads["eagle3"].alpha == {0.0: 0.7, 0.7: 0.7, 1.0: 0.7, 1.5: 0.7}
    assert heads["eagle1"].by_position[1.5] == [0.6, 0.59, 0.58, 0.57, 0.56]
    assert heads["eagle1"].log[0]["by_position"][0.0][4] == 0.56
    assert heads["eagle1"].log[0]["tokens"] == 1000
    assert heads["eagle1"].parameters == 1234


def test_no_record_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="train the heads first"):
        load_heads(tmp_path / "heads.json")


def test_the_shipped_record_has_all_heads_and_five_positions():
    heads = load_heads()
    assert list(heads) == list(HEADS)
    for head in heads.values():
        assert set(head.alpha) == set(head.by_position) == {0.0, 0.7, 1.0, 1.5}
        assert all(len(rates) == 5 for rates in head.by_position.values())
        assert all(head.by_position[t][0] == head.alpha[t] for t in head.alpha)
        assert head.parameters > 0
        assert [step["tokens"] for step in head.log] == sorted(s["tokens"] for s in head.log)


def test_the_plot_of_the_trainings_ends_where_the_record_does(record):
    panel = plot_training(load_heads(record), 0.0)
    assert "EAGLE-1/2 0.56" in panel.readout.value
    assert "EAGLE-3 0.66" in panel.readout.value


def test_the_plot_of_confidence_counts_its_nodes():
    rows = [Bin(3, 0.1, 0.2), Bin(4, 0.6, 0.9)], [Bin(5, 0.5, 0.5)], [Bin(1, 0.0, 0.0)]
    panel = plot_confidence(dict(zip(("cold", "colder", "warm"), rows, strict=True)))
    assert "cold: 7, colder: 5, warm: 1" in panel.readout.value
