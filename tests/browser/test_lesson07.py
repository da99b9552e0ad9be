"""Lesson 07 in a real JupyterLab: move every slider and both lists, see the pictures change."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_choice, check_slider, play_lesson, plots_beside

pytestmark = pytest.mark.browser
SLIDERS = {  # where to: some values of the gate make others matter no more
    "temperature T": 0.8,
    "α while cold": 0.6,
    "α while hot": 0.3,
    "window": 0.6,
    "hysteresis": 0.8,
    "probe": 0.1,
}


def test_every_widget_of_the_lesson_answers(browser, lab):
    # The widgets need no model; the profile would take a minute.
    with play_lesson(browser, lab, "07_temperature_failure", until="prove-gate") as notebook:
        assert len(notebook.sliders()) == len(SLIDERS)
        for words, share in SLIDERS.items():
            slider = notebook.slider(words)
            check_slider(notebook, slider, plots_beside(slider).first, share=share)
        for nth, title in enumerate(("After", "Measured speedup: greedy draft")):
            check_choice(notebook, nth, title, 0)
