"""What the browser tests of all lessons do: play a lesson, and move a slider in every way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat

from tests.browser.jupyter import Notebook, open_notebook

LESSONS = Path(__file__).parents[2] / "notebooks"


@contextmanager
def play_lesson(browser, lab, name: str, until: str | None = None):
    """Run a lesson, as far as the cell with the id ``until``; it must have stayed clean."""
    lesson = nbformat.read(LESSONS / f"{name}.ipynb", as_version=4)
    if until:
        last = next(i for i, cell in enumerate(lesson.cells) if cell.id == until)
        lesson.cells = lesson.cells[: last + 1]
    with _play(browser, lab, lesson, name) as notebook:
        yield notebook


@contextmanager
def play_cells(browser, lab, name: str, sources: Sequence[str]):
    """Run a notebook of these code cells; it must have stayed clean."""
    with _play(browser, lab, make_notebook(sources), name) as notebook:
        yield notebook


def make_notebook(sources: Sequence[str]) -> nbformat.NotebookNode:
    """A notebook of code cells, without outputs."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@contextmanager
def _play(browser, lab, lesson, name: str):
    address, root = lab
    nbformat.write(lesson, root / f"{name}.ipynb")
    with open_notebook(browser, address, f"{name}.ipynb") as notebook:
        notebook.run_all()
        yield notebook
        assert notebook.page_errors == []
        assert notebook.kernel_errors() == []
        assert notebook.foreign_requests == []


def find_output(element):
    """The output that an element stands in."""
    # Not filter(has=...): two cells may have a slider of the same name, and nth counts in each.
    return element.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]")


def plots_beside(element):
    """The plots in the same output."""
    return find_output(element).locator(".sd-plot")


def check_slider(notebook: Notebook, slider, *pictures, share: float) -> None:
    """A slider redraws every picture by mouse, to ``share`` of its way, and by both arrow keys.

    No size moves meanwhile.
    """
    notebook.reveal(slider)
    boxes = [picture.bounding_box() for picture in pictures]
    for move in (
        lambda: notebook.pull_slider(slider, share),
        lambda: notebook.press_slider(slider, "ArrowLeft" if share > 0.5 else "ArrowRight"),
        lambda: notebook.press_slider(slider, "ArrowRight" if share > 0.5 else "ArrowLeft"),
    ):
        before = [picture.inner_html() for picture in pictures]
        move()
        for picture, old in zip(pictures, before, strict=True):
            notebook.wait_for_change(picture, old)
            notebook.wait_until_still(picture)  # all of it is drawn: what follows is the next move
    for picture, box in zip(pictures, boxes, strict=True):
        after = picture.bounding_box()
        assert (after["width"], after["height"]) == (box["width"], box["height"])


def check_all_sliders(notebook: Notebook, count: int, share: float) -> None:
    """Each slider of the page redraws the last plot of its output."""
    sliders = notebook.sliders()
    assert len(sliders) == count, sliders
    for words in dict.fromkeys(sliders):
        for nth in range(sliders.count(words)):
            slider = notebook.slider(words, nth)
            check_slider(notebook, slider, plots_beside(slider).last, share=share)


def check_choice(notebook: Notebook, nth: int, words: str, *plots: int) -> None:
    """The second entry of the nth list redraws these plots of its output; the first has words."""
    chooser = notebook.page.locator(".widget-dropdown select").nth(nth)
    notebook.reveal(chooser)
    pictures = [plots_beside(chooser).nth(i) for i in plots]
    before = [picture.inner_html() for picture in pictures]
    chooser.select_option(index=1)
    for picture, old in zip(pictures, before, strict=True):
        notebook.wait_for_change(picture, old)
    assert words in pictures[0].inner_html()


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
