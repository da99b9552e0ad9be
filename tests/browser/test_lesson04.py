"""Lesson 04 in a real JupyterLab: step through the caches, move every slider, see it change."""

from __future__ import annotations

import pytest

from tests.browser.checks import check_slider, check_steps, find_output, play_lesson
from tests.browser.jupyter import Notebook

pytestmark = pytest.mark.browser


def test_every_widget_of_the_lesson_answers(browser, lab):
    with play_lesson(browser, lab, "04_kv_rollback") as notebook:
        # No other widget of the lesson has a slider of these names.
        caches, pair = (find_output(notebook.slider(x)) for x in ("round", "B rejects at index"))
        check_steps(notebook, caches, "rollback", "len(text) − 1 =")
        check_staying(notebook, caches)
        for words in ("K, drafted tokens", "temperature T", "round"):
            check_frames(notebook, caches, words)
        check_steps(notebook, pair, "Next round: verify", "no padding")
        for words in ("K, drafted tokens", "B rejects at index"):
            check_frames(notebook, pair, words)


def check_staying(notebook: Notebook, output) -> None:
    """At the last frame of a round, another round shows its last frame too."""
    frame = output.locator(".sd-frame")
    before = frame.inner_html()
    notebook.press_slider(notebook.slider("round", within=output), "ArrowRight")
    notebook.wait_for_change(frame, before)
    assert "Round 2 of" in frame.inner_text()
    assert "rollback" in frame.inner_text()


def check_frames(notebook: Notebook, output, words: str) -> None:
    """A slider changes the player's frame, and the output keeps its height."""
    height = output.bounding_box()["height"]
    slider = notebook.slider(words, within=output)
    check_slider(notebook, slider, output.locator(".sd-frame"), share=1)
    assert output.bounding_box()["height"] == height
