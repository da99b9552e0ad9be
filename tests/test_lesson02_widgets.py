"""The widgets of lesson 02 without a browser: what they compute, draw, say and leave behind."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lessonlib.theory.roofline import PRESETS, largest_gaining_batch, verify_cost
from lessonlib.theory.speedup import (
    best_draft_length,
    expected_tokens,
    expected_tokens_mixed,
    speedup,
    sweep_lengths,
)
from lessonlib.widgets import batches, doubling, heatmap, lesson02, marks

SVG = "{http://www.w3.org/2000/svg}"
SETTINGS = [
    (0.8, 4, 0.05, 0.0),
    (0.0, 1, 0.0, 0.0),
    (1.0, 32, 0.0, 0.0),
    (1.0, 4, 0.5, 0.2),
    (0.99, 32, 0.01, 0.0),
    (0.3, 32, 1.0, 1.0),
]
SITUATIONS = [
    (name, *rest)
    for name in PRESETS
    for rest in ((1, 0.8, 4), (512, 0.0, 12), (48, 1.0, 12), (1, 0.1, 8))
]


def marks_of(chart, kind, role):
    return [mark for mark in chart.marks if isinstance(mark, kind) and mark.role == role]


def all_views():
    views = [lesson02.view_speedup(*setting) for setting in SETTINGS]
    views += [lesson02.view_map(c, s) for c, s in ((0.1, 0.0), (0.0, 0.0), (1.0, 1.0))]
    views += [batches.view_roofline(PRESETS[name], *rest) for name, *rest in SITUATIONS]
    return [*views, lesson02.view_mix(0.5, 0.9, 4), lesson02.view_mix(0.0, 1.0, 4)]


# What is computed


@pytest.mark.parametrize(("alpha", "K", "c", "s"), SETTINGS)
def test_the_curve_is_the_formula(alpha, K, c, s):
    (chart,) = lesson02.view_speedup(alpha, K, c, s).charts
    (line,) = marks_of(chart, marks.Line, "target")
    for n, y in zip(line.x, line.y, strict=True):
        value = speedup(alpha, n, c, 1 + s * n)
        if np.isnan(y):
            assert not 0.25 <= value <= 32
        else:
            assert 2**y == pytest.approx(value)


def test_K_star_is_marked_and_read_out():
    view = lesson02.view_speedup(0.8, 4, 0.05, 0.0)
    (rule,) = marks_of(view.charts[0], marks.Rule, "accepted")
    assert (rule.at, rule.axis) == (best_draft_length(0.8, 0.05), "x")
    assert "K* = 8: 3.09×" in view.readout
    assert "E = 3.36 tokens for 1.20 forwards = 2.80×" in view.readout


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ((0.8, 4, 0.0, 0.0), "no K is best: longer is always better"),
        ((1.0, 4, 0.5, 0.0), "no K is best: longer is always better"),
        ((0.3, 4, 0.5, 0.0), "K* = 0: no draft pays"),
        ((0.99, 4, 0.01, 0.0), "K* = 113"),  # beyond the chart, but told
    ],
)
def test_odd_best_lengths_are_told_in_words(setting, words):
    view = lesson02.view_speedup(*setting)
    assert words in view.readout
    rules = marks_of(view.charts[0], marks.Rule, "accepted")
    assert len(rules) == (words == "K* = 0: no draft pays")


def test_the_region_below_1_is_shaded():
    charts = [
        *lesson02.view_speedup(0.8, 4, 0.05, 0.0).charts,
        batches.view_roofline(PRESETS["H100"], 1, 0.8, 4).charts[1],
    ]
    for chart in charts:
        (band,) = marks_of(chart, marks.Band, "residual")
        assert (band.axis, band.low, band.high) == ("y", chart.y_axis.low, 0)


def test_a_price_of_verification_acts_as_a_dearer_draft():
    one, other = (lesson02.view_speedup(0.8, 4, c, s) for c, s in ((0.1, 0.0), (0.0, 0.1)))
    lines = [marks_of(view.charts[0], marks.Line, "target")[0].y for view in (one, other)]
    np.testing.assert_allclose(*lines)
    assert one.readout == other.readout


@pytest.mark.parametrize(("c", "s"), [(0.1, 0.0), (0.02, 0.05), (1.0, 0.0), (0.0, 0.0)])
def test_the_map_shows_the_formula_and_frames_the_best(c, s):
    (chart,) = lesson02.view_map(c, s).charts
    cells, rings = chart.marks[0], chart.marks[2]
    for row, alpha in enumerate(lesson02.RATES):
        wanted = [speedup(alpha, K, c, 1 + s * K) for K in lesson02.CHECKED]
        np.testing.assert_allclose(cells.values[row], wanted)
        best = int(np.argmax(wanted))
        assert rings.columns[row] == (best if wanted[best] > 1 else None)
    # What the caption says of every c: the best K never falls as alpha grows.
    framed = [column for column in rings.columns if column is not None]
    assert framed == sorted(framed)


def test_some_K_pays_exactly_in_the_rows_above_c():
    assert "from α = 0.4 on" in lesson02.view_map(0.35, 0.0).readout
    assert "no K pays" in lesson02.view_map(1.0, 0.0).readout


@pytest.mark.parametrize(("name", "batch", "alpha", "K"), SITUATIONS)
def test_the_roofline_view_is_the_theory(name, batch, alpha, K):
    preset = PRESETS[name]
    view = batches.view_roofline(preset, batch, alpha, K)
    v, end = verify_cost(preset, K + 1, batch), largest_gaining_batch(preset, alpha, K)
    assert f"v({K + 1}) = {v:.2f}" in view.readout
    assert f"speedup {speedup(alpha, K, preset.c, v):.2f}×" in view.readout
    assert ("no gain" in view.readout) == (end < 1)
    assert len(marks_of(view.charts[1], marks.Rule, "baseline")) == (end >= 1)
    roof = marks_of(view.charts[0], marks.Line, "target")[0]
    assert np.isfinite(roof.y).all()
    assert (np.diff(roof.y) >= -1e-12).all()


def test_both_forwards_lie_on_the_roof():
    roof = batches.view_roofline(PRESETS["H100"], 128, 0.8, 4).charts[0]
    (plain,), (verify,) = (marks_of(roof, marks.Dots, role) for role in ("draft", "residual"))
    assert 2 ** plain.x[0] == pytest.approx(128)
    assert 2 ** verify.x[0] == pytest.approx(128 * 5)
    v = verify_cost(PRESETS["H100"], 5, 128)
    assert 2 ** (verify.y[0] - plain.y[0]) == pytest.approx(v)


def test_with_the_best_K_no_batch_loses():
    for name in PRESETS:
        chart = batches.view_roofline(PRESETS[name], 1, 0.8, 4).charts[1]
        chosen, best = (marks_of(chart, marks.Line, role)[0].y for role in ("target", "accepted"))
        assert min(best) >= 0
        assert best[-1] == 0, "a large batch ends the gain"
        assert all(b >= a - 1e-12 for a, b in zip(chosen, best, strict=True) if not np.isnan(a))


def test_the_mix_shows_mean_and_guess():
    view = lesson02.view_mix(0.5, 0.9, 4)
    (true,) = marks_of(view.charts[0], marks.Dots, "accepted")
    (guess,) = marks_of(view.charts[0], marks.Dots, "bonus")
    assert true.y == [expected_tokens_mixed([0.5, 0.9], [0.5, 0.5], 4)]
    assert guess.y == [expected_tokens(0.7, 4)]
    assert true.x == guess.x == [pytest.approx(0.7)]


def test_what_the_questions_claim_is_so():
    at = {K: speedup(0.8, K, 0.05) for K in (4, 8, 16)}
    assert at[4] < at[8] > at[16]
    assert speedup(0.8, 4, PRESETS["H100"].c, verify_cost(PRESETS["H100"], 5, 256)) < 1
    _, times = sweep_lengths(0.9, 0.04, [9, 10, 11, 40])
    assert times[0] > times[1] > times[2] < times[3]


# What is drawn


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lesson02.view_speedup(0.8, 4, 0.05, 0.0), lesson02.view_speedup(0.2, 9, 0.5, 0.1)),
        (lesson02.view_map(0.1, 0.0), lesson02.view_map(0.5, 0.2)),
        (
            batches.view_roofline(PRESETS["H100"], 1, 0.8, 4),
            batches.view_roofline(PRESETS["H100"], 256, 0.3, 9),
        ),
    ],
    ids=["speedup", "map", "roofline"],
)
def test_the_axes_do_not_move_with_the_values(first, second):
    for one, other in zip(first.charts, second.charts, strict=True):
        assert (one.x_axis, one.y_axis) == (other.x_axis, other.y_axis)
        assert (one.width, one.height) == (other.width, other.height)


def test_cells_fill_the_frame_and_carry_their_numbers():
    axis = lesson02._cell_axis("x", (1, 2))
    frame = marks.Frame(axis, axis, 0, 100, 0, 60)
    drawn = ET.fromstring(heatmap.Cells([[0.5, 1.0], [2.0, 4.0]]).draw(frame))
    boxes, words = drawn.findall("rect")[1:], [text.text for text in drawn.findall("text")]
    assert words == ["0.50", "1.00", "2.00", "4.00"]
    assert [float(box.get("fill-opacity")) for box in boxes] == [0.3, 0.0, 0.3, 0.6]
    assert boxes[0].get("fill") != boxes[2].get("fill")
    assert float(boxes[0].get("y")) > float(boxes[2].get("y")), "row 0 is at the bottom"
    assert float(boxes[0].get("width")) == pytest.approx(50 - 2 * heatmap.GAP)


def test_places_are_exponents_and_nothing_lies_outside():
    axis = doubling.doubling_axis("speedup", -2, 3)
    assert doubling.place([0.25, 1, 8], axis) == [-2, 0, 3]
    assert np.isnan(doubling.place([0.2, 8.1], axis)).all()
    assert doubling.place_dot(1, 100, axis, "bonus") == []
    assert doubling.place_dot(1, 2, axis, "bonus", "now") == [
        marks.Dots([1], [1.0], "bonus", "now")
    ]


# Widgets


def test_the_sweep_plots_both_curves():
    tokens, times = sweep_lengths(0.9, 0.04, range(1, 11))
    panel = lesson02.plot_sweep(range(1, 11), tokens, times)
    for plot, values in zip(panel.plots, (tokens, times), strict=True):
        (line,) = plot.chart.marks
        np.testing.assert_array_equal(line.y, values)
        assert plot.chart.y_axis.low == 0
        assert max(values) <= plot.chart.y_axis.high
    ET.fromstring(panel._repr_mimebundle_()[0]["image/svg+xml"])
