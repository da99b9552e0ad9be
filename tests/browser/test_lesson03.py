"""Lesson 03 in a real JupyterLab: run it, click a node, move every slider, see it change."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_slider, play_lesson, plots_beside
from tests.browser.jupyter import Notebook

pytestmark = pytest.mark.browser


def test_every_widget_of_the_lesson_answers(browser, lab):
    with play_lesson(browser, lab, "03_tree_masks") as notebook:
        check_clicking(notebook)
        check_keys(notebook)
        for words in ("cached tokens", "temperature T", "first guess passes", "later guess passes"):
            slider = notebook.slider(words)
            check_slider(notebook, slider, plots_beside(slider).first, share=0.7)
        check_shape_sliders(notebook)


def pick(notebook: Notebook, node: int):
    return notebook.page.locator(f'.sd-pick[data-bar="{node}"]').first


def check_clicking(notebook: Notebook) -> None:
    """A click on a node changes the tree, the mask and the line of words."""
    node = pick(notebook, 2)
    notebook.reveal(node)
    plots = plots_beside(node)
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
        plot = plots_beside(slider).first
        before = plot.inner_html()
        notebook.press_slider(slider, "ArrowRight")
        before = notebook.wait_for_change(plot, before)
        notebook.press_slider(slider, "ArrowLeft")
        notebook.wait_for_change(plot, before)
