"""Lesson 07 in a real JupyterLab: move every slider and both lists, see the pictures change."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.browser.jupyter import Notebook, open_notebook

pytestmark = pytest.mark.browser
LESSON = Path(__file__).parents[2] / "notebooks" / "07_temperature_failure.ipynb"


def copy_widgets(file: Path) -> None:
    """The lesson up to its proofs: the widgets need no model, the profile would take a minute."""
    notebook = nbformat.read(LESSON, as_version=4)
    last = next(i for i, cell in enumerate(notebook.cells) if cell.id == "prove-gate")
    notebook.cells = notebook.cells[: last + 1]
    nbformat.write(notebook, file)


def test_every_widget_of_the_lesson_answers(browser, lab):
    address, root = lab
    copy_widgets(root / LESSON.name)
    with open_notebook(browser, address, LESSON.name) as notebook:
        notebook.run_all(timeout=300)
        sliders = notebook.sliders()
        assert len(sliders) == 6, sliders
        for words in sliders:
            check_slider(notebook, words)
        for nth, title in enumerate(("After", "Measured speedup: greedy draft")):
            check_list(notebook, nth, title)
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def check_slider(notebook: Notebook, words: str) -> None:
    """A slider changes the first plot of its output by keyboard and by mouse; no size moves."""
    slider = notebook.slider(words)
    plot = plots_beside(slider).first
    before, size = plot.inner_html(), plot.bounding_box()
    notebook.press_slider(slider, "ArrowRight", times=2)
    before = notebook.wait_for_change(plot, before)
    notebook.pull_slider(slider, share=0.4)
    notebook.wait_for_change(plot, before)
    after = plot.bounding_box()
    assert (after["width"], after["height"]) == (size["width"], size["height"])


def check_list(notebook: Notebook, nth: int, title: str) -> None:
    """Choosing the second entry of a drop-down list redraws the first plot under it."""
    chooser = notebook.page.locator(".widget-dropdown select").nth(nth)
    notebook.reveal(chooser)
    plot = plots_beside(chooser).first
    before = plot.inner_html()
    chooser.select_option(index=1)
    assert title in notebook.wait_for_change(plot, before)


def plots_beside(element):
    """The plots in the same output of the same cell."""
    output = element.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]")
    return output.locator(".sd-plot")
