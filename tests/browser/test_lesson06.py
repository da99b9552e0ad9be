"""Lesson 06 in a real JupyterLab: step through the tree's growth, move every slider."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.jupyter import Notebook, open_notebook
from tests.browser.test_lesson04 import check_slider, check_steps, find_output, slider_in

pytestmark = pytest.mark.browser
LESSON = Path(__file__).parents[2] / "notebooks" / "06_eagle.ipynb"


def test_every_widget_of_the_lesson_answers(browser, lab):
    address, root = lab
    shutil.copy(LESSON, root / LESSON.name)
    with open_notebook(browser, address, LESSON.name) as notebook:
        notebook.run_all(timeout=300)
        check_widgets(notebook)
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def check_widgets(notebook: Notebook) -> None:
    """The player of the tree and the chart of the heads, with all of their controls."""
    tree = find_output(notebook, "node budget")
    check_steps(notebook, tree, "Verdict at T = 0", "The target runs the 16 nodes in one forward")
    for words in ("K, depth of the tree", "width, top_k", "node budget", "temperature T"):
        check_slider(notebook, tree, words)
        assert "Verdict" in tree.locator(".sd-frame").inner_text()
    check_prompts(notebook, tree)
    heads = notebook.page.locator(".jp-OutputArea-output").filter(
        has_text="Acceptance by draft position"
    )
    for words in ("temperature T", "K, drafted tokens"):
        check_chart(notebook, heads.first, words)


def check_prompts(notebook: Notebook, output) -> None:
    """Another prompt has another tree, in a frame of the same size."""
    frame = output.locator(".sd-frame")
    height, before = output.bounding_box()["height"], frame.inner_html()
    for index in (1, 2):
        output.locator("select").select_option(index=index)
        before = notebook.wait_for_change(frame, before)
    assert "If␣the␣file" in frame.inner_text()
    assert output.bounding_box()["height"] == height


def check_chart(notebook: Notebook, output, words: str) -> None:
    """A slider redraws both charts by mouse and by keyboard, and no size moves."""
    slider = slider_in(output, words)
    notebook.reveal(slider)
    charts = [output.locator(".sd-plot").nth(i) for i in (0, 1)]
    heights = [chart.locator("svg").bounding_box()["height"] for chart in charts]
    for move in (
        lambda: notebook.pull_slider(slider, share=0),
        lambda: notebook.press_slider(slider, "ArrowRight"),
        lambda: notebook.press_slider(slider, "ArrowLeft"),
    ):
        before = [chart.inner_html() for chart in charts]
        move()
        for chart, old in zip(charts, before, strict=True):
            notebook.wait_for_change(chart, old)
        notebook.wait_until_still(charts[0])
    assert [chart.locator("svg").bounding_box()["height"] for chart in charts] == heights
