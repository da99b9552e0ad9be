"""Lesson 05 in a real JupyterLab: its widgets alone, every control, and a picture that changes."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_all_sliders, check_choice, play_cells, plots_beside
from tests.browser.jupyter import Notebook

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
    with play_cells(browser, lab, "lesson05", CELLS) as notebook:
        check_all_sliders(notebook, 6, share=0.2)
        check_choice(notebook, 0, "reverse KL", 0, 1)
        check_fits(notebook)


def check_fits(notebook: Notebook) -> None:
    """Each button moves the hump to another place."""
    for words in ("fit by forward KL", "fit by TV", "fit by reverse KL"):
        button = notebook.page.get_by_role("button", name=words)
        notebook.reveal(button)
        plot = plots_beside(button).last
        before = plot.inner_html()
        button.click()
        notebook.wait_for_change(plot, before)
