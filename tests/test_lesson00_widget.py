"""Lesson 00's widget: recorded runs by K and temperature, drawn and written."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lessonlib.decoding.trace import Round, Trace
from lessonlib.lab.recordings import load_runs
from lessonlib.theory.verify import Test
from lessonlib.widgets.lesson00 import SIGNS, recorded_runs, view_run, write_run
from lessonlib.widgets.marks import Bars, Rule
from lessonlib.widgets.style import ROLES

PIECES = {0: "<pre>", 1: " a<b", 2: ' & "c"', 3: "d'", 4: "\n    "}


def make_run(K: int, alpha: float, rounds: int) -> Trace:
    """Each round accepts its first draft and recovers; the last accepts all and adds a bonus."""
    ok, no = (Test(0, 1, 0.5, 0.5, 0.5, 0.2, passed, alpha) for passed in (True, False))
    parts = []
    for i in range(rounds):
        last = i == rounds - 1
        tests = [ok] * K if last else [ok, no][:K]
        kept = sum(test.accepted for test in tests)
        end = "bonus" if kept == K else "recovered"
        kinds = ["drafted"] * kept + [end]
        emitted = [1] * kept + [3 if last else 2]
        parts.append(Round(1, [1] * K, tests, emitted, kinds, 1))
    return Trace([0, 4], parts, pieces=PIECES)


@pytest.fixture
def runs():
    return {
        (K, T): make_run(K, 0.5 + T / 10 + K / 100, 9 - K) for K in (2, 4, 6) for T in (0.0, 1.0)
    }


def bars_of(panel) -> list[list[float]]:
    marks = panel.plots[0].chart.marks
    return [list(mark.heights) for mark in marks if isinstance(mark, Bars)]


def test_it_starts_at_k_4_and_the_lowest_temperature(runs):
    panel = recorded_runs(runs)
    assert {name: c.value for name, c in panel.controls.items()} == {"K": 4, "temperature": 0.0}
    assert [value for _, value in panel.controls["K"].options] == [2, 4, 6]
    assert [value for _, value in panel.controls["temperature"].options] == [0.0, 1.0]


def test_without_a_k_of_4_it_starts_at_the_smallest(runs):
    panel = recorded_runs({key: run for key, run in runs.items() if key[0] != 4})
    assert panel.controls["K"].value == 2


def test_both_sliders_change_the_words_the_text_and_the_plot(runs):
    panel = recorded_runs(runs)
    seen = set()
    for K, T in runs:
        panel.controls["K"].value, panel.controls["temperature"].value = K, T
        trace = runs[K, T]
        assert panel.errors.outputs == ()
        assert f"τ = {trace.tau:.2f} tokens per forward" in panel.readout.value
        assert f"α = {trace.alpha:.2f}" in panel.readout.value
        assert f"drafted {trace.drafted}, accepted {trace.accepted}, rounds {9 - K}" in (
            panel.readout.value
        )
        assert panel.page.value == write_run(trace)
        accepted, closing = bars_of(panel)
        assert accepted == [*(round.accepted for round in trace.rounds), *[0] * (K - 2)]
        assert closing == [1] * (9 - K) + [0] * (K - 2)  # as many places as the longest run has
        assert f"{9 - K} rounds emitted {len(trace.new_tokens)} tokens" in panel.plots[0].caption
        seen.add((panel.readout.value, panel.plots[0].svg))
    assert len(seen) == len(runs)


def test_tau_is_a_line_in_the_plot(runs):
    chart = view_run(runs[2, 0.0], 7).charts[0]
    assert [m.at for m in chart.marks if isinstance(m, Rule)] == [runs[2, 0.0].tau]


def test_the_closing_token_stands_on_the_accepted_ones(runs):
    accepted, closing = (
        mark for mark in view_run(runs[2, 0.0], 7).charts[0].marks if isinstance(mark, Bars)
    )
    assert list(closing.base) == list(accepted.heights)
    assert not np.any(accepted.base)


def test_tokens_are_escaped_and_underlined_by_where_they_came_from(runs):
    html = write_run(runs[4, 0.0])
    root = ET.fromstring(html)  # well-formed, so no token broke out
    assert root.tag == "pre"
    assert len(root.findall(".//pre")) == 0
    spans = root.findall("span")
    trace = runs[4, 0.0]
    kinds = [kind for round in trace.rounds for kind in round.kinds]
    legend, tokens = spans[:3], spans[3:]
    assert [span.text for span in legend] == list(SIGNS)
    assert [span.get("title") for span in tokens] == kinds
    assert [span.text for span in tokens] == [PIECES[token] for token in trace.new_tokens]
    for span, kind in zip([*legend, *tokens], [*SIGNS, *kinds], strict=True):
        role, dash = SIGNS[kind]
        assert span.get("style") == f"border-bottom: 3px {dash} {ROLES[role].colour}"
    text = "".join(root.itertext())
    assert "<pre>\n    " + "".join(PIECES[token] for token in trace.new_tokens) in text


def test_the_three_signs_differ_in_colour_and_in_dash():
    assert len({ROLES[role].colour for role, _ in SIGNS.values()}) == 3
    assert len({dash for _, dash in SIGNS.values()}) == 3


def test_a_viewer_without_widgets_sees_a_picture_and_its_words(runs):
    panel = recorded_runs(runs)
    data, _ = panel._repr_mimebundle_()
    assert ET.fromstring(data["image/svg+xml"]).tag.endswith("svg")
    words = data["text/plain"]
    assert panel.readout.value in words
    assert panel.plots[0].caption in words


def test_each_call_gives_a_fresh_panel(runs):
    one, two = recorded_runs(runs), recorded_runs(runs)
    one.controls["K"].value = 6
    assert two.controls["K"].value == 4
    assert f"rounds {9 - 4}" in two.readout.value


def test_the_recorded_runs_fit_the_axes():
    panel = recorded_runs(load_runs())
    for K, T in load_runs():
        panel.controls["K"].value, panel.controls["temperature"].value = K, T
        assert panel.errors.outputs == ()
        chart = panel.plots[0].chart
        accepted, closing = bars_of(panel)
        assert max(a + b for a, b in zip(accepted, closing, strict=True)) <= chart.y_axis.high
        assert len(accepted) <= chart.x_axis.high
        ET.fromstring(panel.plots[0].svg)
        assert re.search(r"τ = \d\.\d\d", panel.readout.value)
