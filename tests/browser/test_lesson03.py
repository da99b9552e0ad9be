"""Lesson 03 in a real JupyterLab: run it, click a node, move every slider, see it change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.jupyter import Notebook, open_notebook
from tests.browser.test_lesson01 import check_slider, plot_beside

pytestmark = pytest.mark.browser
LESSON = Path(__file__).parents[2] / "notebooks" / "03_tree_masks.ipynb"


def test_every_widget_of_the_lesson_answers(browser, lab):
    address, root = lab
    shutil.copy(LESSON, root / LESSON.name)
    with open_notebook(browser, address, LESSON.name) as notebook:
        notebook.run_all(timeout=300)
        check_clicking(notebook)
        check_keys(notebook)
        for words in ("cached tokens", "temperature T", "first guess passes", "later guess passes"):
            check_slider(notebook, words, 0)
        check_shape_sliders(notebook)
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def pick(notebook: Notebook, node: int):
    return notebook.page.locator(f'.sd-pick[data-bar="{node}"]').first


def check_clicking(notebook: Notebook) -> None:
    """A click on a node changes the tree, the mask and the line of words."""
    node = pick(notebook, 2)
    notebook.reveal(node)
    plots = notebook.page.locator(".jp-OutputArea-output").filter(has=node).locator(".sd-plot")
    before = [plots.nth(i).inner_html() for i in range(2)]
    node.click()
    for i, old in enumerate(before):
        notebook.wait_for_change(plots.nth(i), old)
    notebook.page.get_by_text("node 2: depth 1, position 3 + 1 = 4").wait_for(timeout=10_000)
    assert pick(notebook, 2).get_attribute("aria-pressed") == "true"


def check_keys(notebook: Notebook) -> None:
    """Enter and Space pick a node, the focus stays, and no key reaches JupyterLab."""
    active_cell = notebook.page.evaluate("window.coursePanel.content.activeCellIndex")
    for node, key in ((5, "Enter"), (0, " "), (5, "Enter")):
        pick(notebook, node).focus()
        notebook.page.keyboard.press(key)
        notebook.page.get_by_text(f"node {node}: depth").wait_for(timeout=10_000)
        assert notebook.page.evaluate("document.activeElement.dataset.bar") == str(node)
    assert notebook.page.evaluate("window.coursePanel.content.activeCellIndex") == active_cell


def check_shape_sliders(notebook: Notebook) -> None:
    """Branching and depth have few steps: one press of a key each, there and back."""
    for words in ("branching", "depth"):
        slider = notebook.slider(words)
        plot = plot_beside(notebook, slider)
        before = plot.inner_html()
        notebook.press_slider(slider, "ArrowRight")
        before = notebook.wait_for_change(plot, before)
        notebook.press_slider(slider, "ArrowLeft")
        notebook.wait_for_change(plot, before)
