"""Lesson 01 in a real JupyterLab: run it, move everything that moves, see it change."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser.checks import check_slider, make_notebook, play_lesson, plots_beside
from tests.browser.jupyter import Notebook, open_notebook

pytestmark = pytest.mark.browser
BROKEN = """
from lessonlib.widgets.controls import Panel, View, int_slider
calls = []
def view(K):
    calls.append(K)
    return View([], f"K = {K}, calls = {len(calls)}, inverse {1 / (K - 6):.2f}")
Panel({"K": int_slider("K", 4, 1, 8)}, view)
"""


def test_every_widget_of_the_lesson_answers(browser, lab):
    with play_lesson(browser, lab, "01_leviathan_proof") as notebook:
        sliders = notebook.sliders()
        assert any("temperature" in words for words in sliders), sliders
        for words in dict.fromkeys(sliders):
            for nth in range(sliders.count(words)):
                slider = notebook.slider(words, nth)
                check_slider(notebook, slider, plots_beside(slider).first, share=0.7)
        check_dragging(notebook)
        check_keys_on_a_bar(notebook)
        check_player(notebook)


def check_dragging(notebook: Notebook) -> None:
    """Dragging the first bar up by half of the chart moves all three plots of its panel."""
    bar = notebook.page.locator(".sd-drag").first
    notebook.reveal(bar)
    plots = plots_beside(bar)
    before = [plots.nth(i).inner_html() for i in range(plots.count())]
    box = bar.bounding_box()
    middle, mouse = box["x"] + box["width"] / 2, notebook.page.mouse
    mouse.move(middle, box["y"] + 0.6 * box["height"])
    mouse.down()
    mouse.move(middle, box["y"] + 0.2 * box["height"], steps=5)
    mouse.up()
    for i, old in enumerate(before):
        notebook.wait_for_change(plots.nth(i), old)
    notebook.wait_until_still(plots.first)
    assert 0.7 < float(bar.get_attribute("aria-valuenow")) < 0.9


def check_keys_on_a_bar(notebook: Notebook) -> None:
    """Three quick presses are three steps, and the focus survives the redraws."""
    bar = notebook.page.locator(".sd-drag").first
    start = float(bar.get_attribute("aria-valuenow"))
    bar.focus()
    for _ in range(3):
        notebook.page.keyboard.press("ArrowDown")
    wanted = f"{start - 0.06:.2f}"
    notebook.page.wait_for_function(
        "([bar, wanted]) => bar.getAttribute('aria-valuetext') === wanted",
        arg=[bar.element_handle(), wanted],
        timeout=10_000,
    )
    assert notebook.page.evaluate("document.activeElement.classList.contains('sd-drag')")


def check_player(notebook: Notebook) -> None:
    """Each way through the frames works, the size never changes, no key reaches JupyterLab."""
    player = notebook.page.locator(".sd-player").first
    notebook.reveal(player)
    frame, place = player.locator(".sd-frame"), player.locator("output")
    size = player.bounding_box()
    last = int(place.inner_text().split()[-1])
    seen = [frame.inner_html()]
    player.get_by_text("Next").click()
    seen.append(notebook.wait_for_change(frame, seen[-1]))
    active_cell = notebook.page.evaluate("window.coursePanel.content.activeCellIndex")
    for _ in range(last - 2):
        notebook.page.keyboard.press("ArrowRight")
        seen.append(notebook.wait_for_change(frame, seen[-1]))
        assert player.bounding_box()["height"] == size["height"]
    assert len(set(seen)) == last
    assert place.inner_text() == f"{last} of {last}"
    player.get_by_text("Play").click()  # from the last frame it starts again
    assert notebook.wait_for_change(frame, seen[-1]) == seen[0]
    notebook.wait_for_change(frame, seen[0])
    player.get_by_text("Pause").click()
    player.locator("input").press("Home")
    assert place.inner_text() == f"1 of {last}"
    player.locator("input").press("ArrowUp")  # JupyterLab would go to the cell above
    assert place.inner_text() == f"2 of {last}"
    assert notebook.page.evaluate("window.coursePanel.content.activeCellIndex") == active_cell


def test_an_exception_is_seen_and_a_second_run_does_not_count_twice(browser, lab):
    address, root = lab
    nbformat.write(make_notebook([BROKEN]), root / "broken.ipynb")
    with open_notebook(browser, address, "broken.ipynb") as notebook:
        for _ in range(3):
            notebook.run_all()
        slider = notebook.slider("K")
        notebook.press_slider(slider)
        notebook.page.get_by_text("K = 5, calls = 2").wait_for(timeout=10_000)
        assert notebook.kernel_errors() == []
        notebook.press_slider(slider)
        notebook.page.get_by_text("ZeroDivisionError").first.wait_for(timeout=10_000)
        assert any("ZeroDivisionError" in words for words in notebook.kernel_errors())
