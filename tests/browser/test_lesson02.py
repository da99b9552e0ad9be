"""Lesson 02 in a real JupyterLab: move every slider and the machine, see the pictures change."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_all_sliders, check_choice, play_lesson
from tests.browser.jupyter import Notebook

pytestmark = pytest.mark.browser


def test_every_widget_of_the_lesson_answers(browser, lab):
    with play_lesson(browser, lab, "02_speedup_formula") as notebook:
        check_all_sliders(notebook, 11, share=0.6)
        check_choice(notebook, 0, "laptop", 0, 1)
        check_question(notebook)


def check_question(notebook: Notebook) -> None:
    """Choosing an option of the first question shows whether and why."""
    option = notebook.page.locator(".widget-radio-box input").nth(1)
    notebook.reveal(option)
    option.check()
    notebook.page.get_by_text("Yes.").first.wait_for(timeout=10_000)
