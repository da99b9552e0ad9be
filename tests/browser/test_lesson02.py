"""Lesson 02 in a real JupyterLab: move every slider and the machine, see the pictures change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.jupyter import Notebook, open_notebook

pytestmark = pytest.mark.browser
LESSON = Path(__file__).parents[2] / "notebooks" / "02_speedup_formula.ipynb"


def test_every_widget_of_the_lesson_answers(browser, lab):
    address, root = lab
    shutil.copy(LESSON, root / LESSON.name)
    with open_notebook(browser, address, LESSON.name) as notebook:
        notebook.run_all(timeout=300)
        sliders = notebook.sliders()
        assert len(sliders) == 11, sliders
        for words in dict.fromkeys(sliders):
            for nth in range(sliders.count(words)):
                check_slider(notebook, words, nth)
        check_machine(notebook)
        check_question(notebook)
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def check_slider(notebook: Notebook, words: str, nth: int) -> None:
    """A slider changes the plot in its own output by keyboard and by mouse, and no size moves."""
    slider = notebook.slider(words, nth)
    plot = plots_beside(slider).last
    before, size = plot.inner_html(), plot.bounding_box()
    notebook.press_slider(slider, "ArrowRight", times=2)
    before = notebook.wait_for_change(plot, before)
    notebook.pull_slider(slider, share=0.6)
    notebook.wait_for_change(plot, before)
    after = plot.bounding_box()
    assert (after["width"], after["height"]) == (size["width"], size["height"])


def plots_beside(element):
    """The plots in the same output of the same cell."""
    # Not filter(has=...): two cells have a slider of the same name, and nth counts in each.
    output = element.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]")
    return output.locator(".sd-plot")


def check_machine(notebook: Notebook) -> None:
    """Another machine redraws both pictures."""
    chooser = notebook.page.locator(".widget-dropdown select").first
    notebook.reveal(chooser)
    plots = plots_beside(chooser)
    before = [plots.nth(i).inner_html() for i in range(2)]
    chooser.select_option(index=1)
    for i, old in enumerate(before):
        notebook.wait_for_change(plots.nth(i), old)
    assert "laptop" in plots.first.inner_html()


def check_question(notebook: Notebook) -> None:
    """Choosing an option of the first question shows whether and why."""
    option = notebook.page.locator(".widget-radio-box input").nth(1)
    notebook.reveal(option)
    option.check()
    notebook.page.get_by_text("Yes.").first.wait_for(timeout=10_000)
