"""The widgets of lesson 07 without a browser: what they compute, draw, say and leave behind."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lessonlib.lab import recordings, recordings07
from lessonlib.theory.controller import PLAIN, PROBE, Played, Settings, measure_gain
from lessonlib.theory.temperature import RATES, four_rates
from lessonlib.widgets import contour, lesson07, marks, timeline
from lessonlib.widgets.heatmap import Cells, Rings

HEATS = (0.0, 0.5, 1.5, 10.0)
SIMULATED = [
    (0.75, 0.15, 12, 0.3, 40), (0.0, 0.0, 1, 0.0, 1), (1.0, 1.0, 40, 1.2, 120),
    (0.3, 0.9, 5, 0.1, 10),
]  # fmt: skip


def all_views():
    views = [lesson07.view_context(n, T) for n in (0, 3) for T in HEATS]
    views += [lesson07.view_speeds(name) for name in recordings07.list_proposers()]
    return [*views, *(timeline.view_simulation(*setting) for setting in SIMULATED)]


def lines_of(chart, role):
    return [mark for mark in chart.marks if isinstance(mark, marks.Line) and mark.role == role]


# What is computed


@pytest.mark.parametrize("T", HEATS)
@pytest.mark.parametrize("number", range(4))
def test_the_four_rates_are_read_out_and_lie_on_their_curves(number, T):
    context = recordings.load_contexts()[number]
    rates = four_rates(context["p_logits"], context["q_logits"], T)
    view = lesson07.view_context(number, T)
    for name, rate in zip(RATES, rates, strict=True):
        assert f"{name} {rate:.3f}" in view.readout
        (line,) = lines_of(view.charts[1], lesson07.LOOKS[name])
        at = list(line.x).index(T)
        assert line.y[at] == pytest.approx(float(rate), abs=1e-12)


def test_the_bars_are_the_whole_law_at_that_temperature():
    for T in HEATS:
        bars = [m for m in lesson07.view_context(1, T).charts[0].marks if isinstance(m, marks.Bars)]
        p, q, overlap = (np.array(bar.heights) for bar in bars)
        assert p.sum() == pytest.approx(1)
        assert q.sum() == pytest.approx(1)
        shared = four_rates(
            *(recordings.load_contexts()[1][n] for n in ("p_logits", "q_logits")), T
        )[0]
        assert overlap.sum() == pytest.approx(float(shared))


def test_the_map_shows_the_recording_its_contour_and_the_best_of_each_row():
    for name in recordings07.list_proposers():
        (chart,) = lesson07.view_speeds(name).charts
        gains, low, high = (recordings07.look_up(name, x) for x in ("speedup", "low", "high"))
        cells, rings = (next(m for m in chart.marks if isinstance(m, t)) for t in (Cells, Rings))
        np.testing.assert_allclose(cells.values, gains)
        for row, column in zip(np.where(low > 1, gains, 0), rings.columns, strict=True):
            assert column == (int(np.argmax(row)) if max(row) > 0 else None)
        assert f"{int((low > 1).sum())} were faster than plain" in chart.caption
        assert f"{int((high < 1).sum())} slower in every one" in chart.caption


def test_the_contour_runs_between_winners_and_losers_only():
    values = np.array([[0.5, 2.0, 2.0], [0.5, 0.9, 1.0]])
    edges = set(contour.find_edges(values))
    assert edges == {
        (0.5, -0.5, 0.5, 0.5),  # in the lower row, after the first cell
        (0.5, 0.5, 1.5, 0.5),  # above the middle cell
        (1.5, 0.5, 1.5, 1.5),  # in the upper row, before the last cell: 1.0 is no loss
    }
    assert list(contour.find_edges(np.full((3, 3), 2.0))) == []


def test_what_the_lesson_claims_of_the_maps_and_contexts_is_recorded():
    alpha = recordings07.load_recording()["alpha"]
    for kind in ("code", "prose", "noise"):
        assert alpha[kind]["shared T"][-1] > 0.9
        for rule in ("greedy draft", "exact match", "top-k tree"):
            assert alpha[kind][rule][-1] < 0.02
    code, noise = (alpha[kind]["shared T"] for kind in ("code", "noise"))
    assert noise[0] < code[0] - 0.1, "cold noise leaves little to agree on"
    assert abs(noise[-1] - code[-1]) < 0.02, "hot noise is no worse than hot code"
    hot = recordings07.TEMPERATURES.index(1.5)
    for name in ("greedy draft", "exact match", "top-k tree"):
        assert (recordings07.look_up(name, "high")[hot, 1:] < 1).all(), f"{name} loses at T = 1.5"
    dips = [
        min(curve) < curve[0] - 0.01
        for curve in (lesson07._list_curves(n)[:, 0].tolist() for n in range(4))
    ]
    assert any(dips), "the reader is asked to find a context in which shared T falls first"


def test_the_simulation_reads_out_what_it_plays():
    for cold, hot, *rest in SIMULATED:
        settings = Settings(rest[0], timeline.COST, rest[1], rest[2])
        view = timeline.view_simulation(cold, hot, *rest)
        gated = timeline.play_workload(settings, cold, hot)
        always = timeline.play_workload(Settings(threshold=0.0), cold, hot)
        assert f"gated {measure_gain(gated):.2f}×" in view.readout
        assert f"always drafting {measure_gain(always):.2f}×" in view.readout
        assert gated[-1].start < timeline.CHANGES[-1] <= gated[-1].start + gated[-1].tokens


def test_the_default_timeline_falls_back_and_comes_back():
    settings = Settings(12, timeline.COST, 0.3, 40)
    gated = timeline.play_workload(settings, 0.75, 0.15)
    _, hot, cold, _ = timeline.CHANGES
    assert any(p.mode == PLAIN for p in gated if hot < p.start < cold)
    assert any(p.mode == PROBE for p in gated)
    assert gated[-1].mode == "draft"
    always = timeline.play_workload(Settings(threshold=0.0), 0.75, 0.15)
    assert measure_gain(gated) > max(1.0, measure_gain(always))


def test_silences_and_means_follow_the_modes():
    rounds = [
        Played(0, "draft", 3, 2.0), Played(3, "draft", 1, 2.0), Played(4, "plain", 1, 1.0),
        Played(5, "plain", 1, 1.0), Played(6, "probe", 2, 2.0), Played(8, "plain", 1, 1.0),
    ]  # fmt: skip
    assert timeline.list_silences(rounds) == [(4, 6), (8, 9)]
    means = timeline.trail_means(rounds, 2)
    assert means[:2] == [3.0, 2.0]
    assert math.isnan(means[2])
    assert means[4] == 2.0, "a probe starts with an empty window"
    tokens, speeds = timeline.run_speed(rounds)
    assert tokens[-1] == 9
    assert speeds[-1] == pytest.approx(9 / 9.0)


# What is drawn


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lesson07.view_context(0, 0.5), lesson07.view_context(2, 10.0)),
        (timeline.view_simulation(*SIMULATED[0]), timeline.view_simulation(*SIMULATED[1])),
    ],
    ids=["context", "timeline"],
)
def test_sizes_do_not_move_with_the_values(first, second):
    for one, other in zip(first.charts, second.charts, strict=True):
        assert (one.width, one.height) == (other.width, other.height)
        assert one.y_axis == other.y_axis


# Widgets


def test_the_plots_of_the_profile_show_what_they_are_given():
    kinds = {"code": {name: [0.5, 0.6] for name in RATES}}
    panel = lesson07.plot_rates(kinds, (0, 10), {"break-even, K = 4": 0.4})
    assert "break-even, K = 4" in panel.plots[0].svg
    panel = lesson07.plot_drift((1, 2), {"shared T": [0.5, 0.6]}, {"shared T": [0.4, 0.5]})
    (own,) = lines_of(panel.plots[0].chart, "draft")
    assert list(own.y) == [0.4, 0.5]
    panel = lesson07.plot_batches((1, 2, 4), {"sampled": [2.0, 1.0, 0.5]})
    (line,) = lines_of(panel.plots[0].chart, "accepted")
    assert line.y == [1.0, 0.0, -1.0]
    rounds = timeline.play_workload(Settings(threshold=2.0), 0.8, 0.1)
    panel = timeline.plot_timeline(rounds, rounds, Settings(threshold=2.0), [0, 300], 4)
    assert "unknown to the gate" not in panel.plots[0].svg, "nothing is expected of a live run"
    assert "unknown to the gate" in timeline.controller_timeline().plots[0].svg
    for plot in panel.plots:
        ET.fromstring(plot.svg)
        assert "nan" not in plot.svg
