"""The panels with sliders: every control moves its plots, at every end, in time, and in words."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET

import pytest

from lessonlib.widgets import batches, hump, lesson02, lesson05, lesson07, timeline
from tests import test_lesson02_widgets, test_lesson05_widgets, test_lesson07_widgets

PANELS = {  # name: (factory, a value for each control that it does not start with)
    "speedup": (lesson02.speedup_against_K, {"alpha": 0.5, "K": 9, "c": 0.2, "s": 0.1}),
    "map of K and alpha": (lesson02.map_of_K_and_alpha, {"c": 0.5, "s": 0.1}),
    "mix": (lesson02.mixed_contexts, {"low": 0.1, "high": 0.6}),
    "roofline": (batches.batch_on_the_roofline, {"machine": 1, "batch": 8, "alpha": 0.5, "K": 7}),
    "drafts": (lesson05.drafts_compared, {"group": 1, "temperature": 0.5, "K": 9, "c": 0.05}),
    "learning": (lesson05.learning_curves, {"temperature": 0.5}),
    "hump": (hump.one_hump, {"centre": 2.5, "width": 4.0}),
    "temperature": (lesson07.temperature_on_both, {"number": 2, "temperature": 3.0}),
    "map of K and T": (lesson07.map_of_K_and_temperature, {"proposer": 1}),
    "gate": (
        timeline.controller_timeline,
        {"cold": 0.62, "hot": 0.3, "window": 4, "hysteresis": 0.8, "probe": 10},
    ),
}
VIEWS = [  # (view, the most characters of each of its charts)
    *((view, 40_000) for view in test_lesson02_widgets.all_views()),
    *((view, 40_000) for view in test_lesson05_widgets.all_views()),
    *((view, 60_000) for view in test_lesson07_widgets.all_views()),
]
SECONDS = 0.05  # of the 100 ms from slider to redraw, the page needs the rest


@pytest.mark.parametrize("name", PANELS)
def test_every_control_moves_a_plot_and_the_readout(name):
    make, moves = PANELS[name]
    panel = make()
    assert set(panel.controls) == set(moves)
    for control, value in moves.items():
        before = [plot.svg for plot in panel.plots], panel.readout.value
        panel.controls[control].value = value
        after = [plot.svg for plot in panel.plots], panel.readout.value
        assert before[0] != after[0], control
        assert before[1] != after[1], control
    assert panel.errors.outputs == ()
    assert make().readout.value != panel.readout.value, "a fresh widget has its own state"


@pytest.mark.parametrize("name", PANELS)
def test_every_end_of_every_control_can_be_drawn(name):
    panel = PANELS[name][0]()
    for control in panel.controls.values():
        options = getattr(control, "options", None)
        values = [value for _, value in options] if options else [control.max, control.min]
        for value in values:
            control.value = value
            assert panel.errors.outputs == ()


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_leaves_a_picture_words_and_described_controls(name):
    panel = PANELS[name][0]()
    data, _ = panel._repr_mimebundle_()
    ET.fromstring(data["image/svg+xml"])
    assert panel.readout.value in data["text/plain"]
    assert all(control.description and control.tooltip for control in panel.controls.values())


@pytest.mark.parametrize(("view", "most"), VIEWS, ids=[view.readout[:40] for view, _ in VIEWS])
def test_charts_are_valid_svg_without_gaps_in_numbers(view, most):
    for chart in view.charts:
        drawn = chart.svg(with_caption=True)
        root = ET.fromstring(drawn)
        assert "nan" not in drawn
        assert "inf" not in drawn
        assert root.get("aria-label") == chart.caption
        assert len(chart.title) * 8.5 < chart.width, "the title is clipped"
        assert len(drawn) < most


@pytest.mark.parametrize("name", PANELS)
def test_python_draws_faster_than_the_eye(name):
    """CPU seconds, the least of a few tries: the neighbours of a busy machine do not count."""
    make, moves = PANELS[name]
    panel, seconds = make(), []
    for _ in range(5):
        began = time.process_time()
        panel._redraw(panel.view(**moves))
        seconds.append(time.process_time() - began)
    assert min(seconds) < SECONDS
