"""Lesson 06 in a real JupyterLab: step through the tree's growth, move every slider."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_slider, check_steps, find_output, play_lesson, plots_beside
from tests.browser.jupyter import Notebook
from tests.browser.test_lesson04 import check_frames

pytestmark = pytest.mark.browser


def test_every_widget_of_the_lesson_answers(browser, lab):
    # Behind the exercises come the ablations, which hold the second widget's plots again.
    with play_lesson(browser, lab, "06_eagle", until="play-positions") as notebook:
        tree = find_output(notebook.slider("node budget"))
        check_steps(notebook, tree, "Verdict at T = 0", "The target runs the 16 nodes in one")
        for words in ("K, depth of the tree", "width, top_k", "node budget", "temperature T"):
            check_frames(notebook, tree, words)
            assert "Verdict" in tree.locator(".sd-frame").inner_text()
        check_prompts(notebook, tree)
        heads = find_output(notebook.slider("K, drafted tokens"))
        for words in ("temperature T", "K, drafted tokens"):
            slider = notebook.slider(words, within=heads)
            check_slider(notebook, slider, *plots_beside(slider).all(), share=0)


def check_prompts(notebook: Notebook, output) -> None:
    """Another prompt has another tree, in a frame of the same size."""
    frame = output.locator(".sd-frame")
    height, before = output.bounding_box()["height"], frame.inner_html()
    for index in (1, 2):
        output.locator("select").select_option(index=index)
        before = notebook.wait_for_change(frame, before)
    assert "If␣the␣file" in frame.inner_text()
    assert output.bounding_box()["height"] == height
