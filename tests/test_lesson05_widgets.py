"""The widgets of lesson 05 without a browser: what they compute, draw, say and leave behind."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lessonlib.lab import drafts as record
from lessonlib.lab.drafts import Draft, choose_draft, load_drafts
from lessonlib.theory import divergence
from lessonlib.theory.speedup import best_draft_length, speedup
from lessonlib.widgets import hump, lesson05, marks

SVG = "{http://www.w3.org/2000/svg}"
DRAFTS = load_drafts()
THREE = lesson05.GROUPS["three teachers"]


def marks_of(chart, kind, role):
    return [mark for mark in chart.marks if isinstance(mark, kind) and mark.role == role]


# The record


def test_the_record_holds_what_the_lesson_reads():
    for name in (*lesson05.LOOKS, *record.SIZES.values()):
        draft = DRAFTS[name]
        assert {0, 0.3, 0.5, 0.7, 1, 1.3, 1.5, 2} <= set(draft.alpha)
        assert all(0 < alpha < 1 for alpha in draft.alpha.values())
        if name == "untrained":
            continue
        assert draft.parameters > 0
        tokens = [step["tokens"] for step in draft.log]
        assert tokens == sorted(tokens)
        assert len(tokens) >= 2
        assert all({0, 0.5, 1, 1.5} <= set(step["alpha"]) for step in draft.log)
    sizes = [DRAFTS[name].parameters for name in record.SIZES.values()]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)


def test_drafts_that_are_compared_had_the_same_budget():
    trained = [DRAFTS[name] for name in (*lesson05.LOOKS, *record.SIZES.values())][1:]
    assert len({draft.log[-1]["tokens"] for draft in trained}) == 1
    assert len({DRAFTS[name].parameters for name in list(lesson05.LOOKS)[1:]}) == 1


def test_what_the_lesson_claims_of_the_record_is_so():
    at = {name: DRAFTS[name].alpha for name in lesson05.LOOKS}
    for T in (0, 0.5, 1, 1.5):
        assert at["forward-kl"][T] > at["data"][T] > at["untrained"][T]
    for name in THREE:  # the temperature slides up: alpha rises for all three
        assert at[name][0.5] < at[name][1] < at[name][1.5] < at[name][2]
    by_size = [DRAFTS[name].alpha[1] for name in record.SIZES.values()]
    assert by_size == sorted(by_size)


def test_a_missing_record_is_told_in_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="train the drafts first"):
        load_drafts(tmp_path / "none.json")


def test_a_draft_is_chosen_at_its_own_best_length():
    table, v = {"a": (0.6, 0.1), "b": (0.8, 0.3)}, {1: 1.1, 2: 1.2, 4: 1.3}
    gains = {(n, K): speedup(a, K, c, v[K]) for n, (a, c) in table.items() for K in v}
    assert choose_draft(table, v) == max(gains, key=gains.get)
    assert choose_draft({}, v) == (None, 0)
    assert choose_draft({"a": (0.1, 0.9)}, v) == (None, 0)


# What is computed


@pytest.mark.parametrize("group", lesson05.GROUPS.values())
@pytest.mark.parametrize(("T", "K", "c"), [(1, 4, 0.2), (0, 1, 0.02), (2, 12, 1.0)])
def test_the_curves_are_the_record_and_the_formula(group, T, K, c):
    view = lesson05.view_drafts(group, T, K, c, DRAFTS)
    rates, gains = view.charts
    for name in group:
        words, role = lesson05.LOOKS[name]
        (line,) = marks_of(rates, marks.Line, role)
        assert dict(zip(line.x, line.y, strict=True)) == DRAFTS[name].alpha
        (line,) = marks_of(gains, marks.Line, role)
        alpha = DRAFTS[name].alpha[T]
        for n, y in zip(line.x, line.y, strict=True):
            value = speedup(alpha, n, c)
            assert (np.isnan(y) and not 1 / 4 <= value <= 4) or 2**y == pytest.approx(value)
        assert f"{words} {speedup(alpha, K, c):.2f}×" in view.readout
        assert f"{words} K* {best_draft_length(alpha, c)}" in gains.caption
    assert [rule.at for rule in marks_of(rates, marks.Rule, "bonus")] == [T]
    assert [rule.at for rule in marks_of(gains, marks.Rule, "bonus")] == [K]


def test_every_draft_gains_if_and_only_if_its_rate_exceeds_its_cost():
    """What the reader is asked to find with the slider of c."""
    alpha = DRAFTS["forward-kl"].alpha[1]
    for c in lesson05.COSTS:
        assert (best_draft_length(alpha, c) > 0) == (alpha > c)


def test_learning_starts_at_the_untrained_draft_and_ends_at_the_log():
    view = lesson05.view_learning(1, DRAFTS)
    for name in list(lesson05.LOOKS)[1:]:
        words, role = lesson05.LOOKS[name]
        line = next(m for m in marks_of(view.charts[0], marks.Line, role) if m.label == words)
        assert (line.x[0], line.y[0]) == (0, DRAFTS["untrained"].alpha[1])
        assert line.y[1:] == [step["alpha"][1] for step in DRAFTS[name].log]
        assert f"{words} {line.y[-1]:.2f}" in view.readout


def test_a_log_with_other_temperatures_narrows_the_slider():
    step = {"tokens": 10, "seconds": 1, "loss": 1.0, "alpha": {0.0: 0.2, 1.0: 0.3}}
    some = dict.fromkeys(lesson05.LOOKS, Draft("data", {0.0: 0.1, 0.5: 0.1, 1.0: 0.2}, (step,)))
    tables = [some["data"].alpha, step["alpha"]]
    assert [T for _, T in lesson05._temperature_slider(tables).options] == [0.0, 1.0]
    assert "0.30" in lesson05.view_learning(1.0, some).readout


def test_pinskers_picture_holds_every_dot_under_the_curve():
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=(60, 8)) * 2 for _ in range(2)]
    kl = [divergence.kl_loss(a, b) for a, b in zip(*rows, strict=True)]
    chart = lesson05.plot_pinsker(kl, 1 - divergence.acceptance_rates(*rows)).plots[0].chart
    (dots,) = marks_of(chart, lesson05.Cloud, "residual")
    (curve,) = marks_of(chart, marks.Line, "target")
    assert all(np.diff(curve.y) >= 0)
    drawn = ET.fromstring(chart.svg())
    assert len(drawn.findall(f".//{SVG}circle")) == 60 + 1  # the legend's
    assert max(dots.x) <= chart.x_axis.high
    for x, y in zip(dots.x, dots.y, strict=True):
        assert y <= min(1, np.sqrt(x / 2)) + 1e-12


def test_the_live_plot_smooths_what_came_before():
    rates = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    panel = lesson05.plot_live_run(np.arange(9) * 500, rates)
    (line,) = marks_of(panel.plots[0].chart, marks.Line, "target")
    assert line.y[0] == 0.1
    assert line.y[-1] == pytest.approx(np.mean(rates[1:]))
    assert panel.readout.value == "α 0.10 → 0.55"


def test_humps_are_measured_against_the_target():
    q = hump.bell(4, 2.0)
    forward, backward, tv = hump.measure(q)
    logs = np.log([hump.TARGET]), np.log([q])
    assert forward == pytest.approx(divergence.kl_loss(*logs))
    assert backward == pytest.approx(divergence.kl_loss(*logs[::-1]))
    assert 1 - tv == pytest.approx(divergence.acceptance_rates(*logs)[0])


@pytest.mark.parametrize("name", hump.FITS)
def test_each_button_finds_the_least_of_its_divergence(name):
    panel, which = hump.one_hump(), hump.FITS[name]
    button = next(b for b in panel.buttons if b.description == f"fit by {name}")
    button.click()
    place = panel.controls["centre"].value, panel.controls["width"].value
    best = hump.measure(hump.bell(*place))[which]
    for centre in hump.CENTRES:
        for width in hump.WIDTHS:
            assert hump.measure(hump.bell(centre, width))[which] >= best
    assert f"α = {1 - hump.measure(hump.bell(*place))[2]:.3f}" in panel.readout.value


def test_forward_kl_covers_both_humps_and_reverse_kl_takes_one():
    spread, single = hump.best_fit("forward KL"), hump.best_fit("reverse KL")
    assert spread[1] > 2 * single[1]
    assert hump.bell(*single)[8] < 0.01 < hump.bell(*spread)[8]
    rates = {name: 1 - hump.measure(hump.bell(*hump.best_fit(name)))[2] for name in hump.FITS}
    assert rates["TV"] >= rates["reverse KL"] > rates["forward KL"]


# What is drawn


def all_views():
    views = [
        lesson05.view_drafts(group, T, K, c, DRAFTS)
        for group in lesson05.GROUPS.values()
        for T, K, c in ((1, 4, 0.2), (0, 12, 1.0), (2, 1, 0.02))
    ]
    views += [lesson05.view_learning(T, DRAFTS) for T in (0, 1)]
    return [*views, hump.view_hump(5.5, 1.5), hump.view_hump(1, 0.8), hump.view_hump(10, 6)]


@pytest.mark.parametrize("width", hump.WIDTHS)
def test_no_hump_outgrows_its_axis(width):
    for centre in hump.CENTRES:
        chart = hump.view_hump(centre, width).charts[0]
        assert hump.bell(centre, width).max() <= chart.y_axis.high


def test_the_axes_do_not_move_with_the_values():
    pairs = [
        [lesson05.view_drafts(g, T, K, c, DRAFTS) for g, T, K, c in zip(
            lesson05.GROUPS.values(), (0, 2), (1, 12), (0.02, 1.0), strict=True)],
        [lesson05.view_learning(T, DRAFTS) for T in (0, 1.5)],
        [hump.view_hump(1, 0.8), hump.view_hump(10, 6)],
    ]  # fmt: skip
    for first, second in pairs:
        for one, other in zip(first.charts, second.charts, strict=True):
            assert (one.x_axis, one.y_axis) == (other.x_axis, other.y_axis)
            assert (one.width, one.height) == (other.width, other.height)
