"""Lesson 04 in a real JupyterLab: step through the caches, move every slider, see it change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.jupyter import Notebook, open_notebook

pytestmark = pytest.mark.browser
LESSON = Path(__file__).parents[2] / "notebooks" / "04_kv_rollback.ipynb"


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
    """The players of both widgets, and all of their sliders."""
    caches, pair = (find_output(notebook, words) for words in ("round", "B rejects at index"))
    check_steps(notebook, caches, "rollback", "len(text) − 1 =")
    check_staying(notebook, caches)
    for words in ("K, drafted tokens", "temperature T", "round"):
        check_slider(notebook, caches, words)
    check_steps(notebook, pair, "Next round: verify", "no padding")
    for words in ("K, drafted tokens", "B rejects at index"):
        check_slider(notebook, pair, words)


def find_output(notebook: Notebook, words: str):
    """The output of the widget that has this slider; no other widget of the lesson has one."""
    slider = notebook.slider(words)
    return slider.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]")


def check_steps(notebook: Notebook, output, title: str, caption: str) -> None:
    """Every frame differs from the one before it, and the player keeps its height."""
    player = output.locator(".sd-player")
    notebook.reveal(player)
    frame, place = player.locator(".sd-frame"), player.locator("output")
    height, before = player.bounding_box()["height"], frame.inner_html()
    last = int(place.inner_text().split()[-1])
    player.get_by_role("button", name="Next").click()
    before = notebook.wait_for_change(frame, before)
    for _ in range(last - 2):
        notebook.page.keyboard.press("ArrowRight")
        before = notebook.wait_for_change(frame, before)
        assert player.bounding_box()["height"] == height
    assert place.inner_text() == f"{last} of {last}"
    assert title in frame.inner_text()
    assert caption in player.locator("figcaption").inner_text()


def check_staying(notebook: Notebook, output) -> None:
    """At the last frame of a round, another round shows its last frame too."""
    frame = output.locator(".sd-frame")
    before = frame.inner_html()
    notebook.press_slider(slider_in(output, "round"), "ArrowRight")
    notebook.wait_for_change(frame, before)
    assert "Round 2 of" in frame.inner_text()
    assert "rollback" in frame.inner_text()


def check_slider(notebook: Notebook, output, words: str) -> None:
    """A slider changes the frame by mouse and by keyboard, and no size moves."""
    slider, frame = slider_in(output, words), output.locator(".sd-frame")
    height = output.bounding_box()["height"]
    for move in (
        lambda: notebook.pull_slider(slider, share=1),
        lambda: notebook.press_slider(slider, "ArrowLeft"),
        lambda: notebook.press_slider(slider, "ArrowRight"),
    ):
        before = frame.inner_html()
        move()
        notebook.wait_for_change(frame, before)
        notebook.wait_until_still(frame)
    assert output.bounding_box()["height"] == height


def slider_in(output, words: str):
    label = output.page.locator(".widget-label", has_text=words)
    return output.locator(".widget-slider").filter(has=label)
