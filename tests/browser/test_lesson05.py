"""Lesson 05 in a real JupyterLab: its widgets alone, every control, and a picture that changes."""

from __future__ import annotations

import pytest

from tests.browser.jupyter import Notebook, open_notebook
from tests.browser.test_lesson01 import write_notebook
from tests.browser.test_lesson02 import plots_beside

pytestmark = pytest.mark.browser
# The lesson itself trains for half a minute: its widgets are shown without the rest.
CELLS = [
    "from lessonlib.widgets.lesson05 import drafts_compared, learning_curves\n"
    "from lessonlib.widgets.hump import one_hump\n"
    "drafts_compared()",
    "one_hump()",
    "learning_curves()",
]


def test_every_widget_of_the_lesson_answers(browser, lab):
    address, root = lab
    write_notebook(root / "lesson05.ipynb", CELLS)
    with open_notebook(browser, address, "lesson05.ipynb") as notebook:
        notebook.run_all(timeout=120)
        check_widgets(notebook)
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def check_widgets(notebook: Notebook) -> None:
    sliders = notebook.sliders()
    assert len(sliders) == 6, sliders
    for words in dict.fromkeys(sliders):
        for nth in range(sliders.count(words)):
            check_slider(notebook, words, nth)
    check_group(notebook)
    check_fits(notebook)


def check_slider(notebook: Notebook, words: str, nth: int) -> None:
    """A slider changes the plot in its own output by keyboard and by mouse, and no size moves."""
    slider = notebook.slider(words, nth)
    plot = plots_beside(slider).last
    before, size = plot.inner_html(), plot.bounding_box()
    notebook.press_slider(slider, "ArrowRight", times=2)
    notebook.wait_for_change(plot, before)
    notebook.wait_until_still(plot)
    before = plot.inner_html()
    notebook.pull_slider(slider, share=0.2)  # every slider starts further to the right
    notebook.wait_for_change(plot, before)
    after = plot.bounding_box()
    assert (after["width"], after["height"]) == (size["width"], size["height"])


def check_group(notebook: Notebook) -> None:
    """The other group of drafts redraws both pictures."""
    chooser = notebook.page.locator(".widget-dropdown select").first
    notebook.reveal(chooser)
    plots = plots_beside(chooser)
    before = [plots.nth(i).inner_html() for i in range(2)]
    chooser.select_option(index=1)
    for i, old in enumerate(before):
        notebook.wait_for_change(plots.nth(i), old)
    assert "reverse KL" in plots.first.inner_html()


def check_fits(notebook: Notebook) -> None:
    """Each button moves the hump to another place."""
    for words in ("fit by forward KL", "fit by TV", "fit by reverse KL"):
        button = notebook.page.get_by_role("button", name=words)
        notebook.reveal(button)
        plot = plots_beside(button).last
        before = plot.inner_html()
        button.click()
        notebook.wait_for_change(plot, before)
