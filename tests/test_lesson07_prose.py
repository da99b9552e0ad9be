"""Lesson 07 claims nothing it does not show: a number in its prose is an input or was printed."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
SOLVED = ROOT / "solutions" / "07_temperature_failure.ipynb"
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:/\d+)?")

# What the lesson sets, not what it finds: temperatures, K, costs and batches of exercise 7.4,
# limits that are proved, the mean of a definition, tolerances, an arXiv number.
INPUTS = {
    "0", "1", "2", "3", "10", "1.5", "0.5", "100", "0.001",
    "4", "6", "8", "512", "0.1", "0.3", "0.8", "1/2", "2505.15141",
}  # fmt: skip
NAMES = re.compile(r"[Ee]xercises? 7\.\d|[Ll]essons? 0\d|\*\*0\d, |# 0\d |[Ll]ine \d|1×")


def list_prose(notebook):
    return [(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "markdown"]


def find_numbers(text: str) -> set[str]:
    """Numbers of a text, without names such as "exercise 7.1", LaTeX's commands and links."""
    text = re.sub(r"\]\([^)]*\)", "]", NAMES.sub(" ", text))
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", text)
    return set(NUMBER.findall(text))


@pytest.fixture(scope="module")
def solved():
    return nbformat.read(SOLVED, as_version=4)


def printed(notebook) -> set[str]:
    texts = [
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    return set(NUMBER.findall("\n".join(texts)))


def test_no_number_in_the_prose_that_no_cell_prints(solved):
    shown = printed(solved)
    for cell_id, text in list_prose(solved):
        # The cards of the exercises state minutes, points and difficulty.
        unknown = find_numbers(without_card(text)) - INPUTS - shown
        assert not unknown, f"cell {cell_id}: {sorted(unknown)}"


def without_card(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "minutes" not in line)


def test_measured_looking_numbers_never_stand_in_prose(solved):
    """Printed or not: a decimal that is no input belongs into a cell, for it is measured anew."""
    for cell_id, text in list_prose(solved):
        decimals = {n for n in find_numbers(without_card(text)) if "." in n}
        assert decimals <= INPUTS, f"cell {cell_id}: {sorted(decimals - INPUTS)}"


def test_the_test_sees_a_claim():
    assert find_numbers("α falls to 0.144, as in exercise 7.1 of lesson 07") == {"0.144"}
    assert find_numbers(r"$\frac{1}{2}$ and 12 %") == {"1/2", "12"}
    assert "0.144" not in INPUTS
