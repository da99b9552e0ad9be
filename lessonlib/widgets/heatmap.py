"""A heat map of speedups: the cells, and a ring around the best cell of each row.

Each cell carries its number, so the colours (blue above 1, orange below) only repeat
what can be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lessonlib.widgets import svg
from lessonlib.widgets.marks import Frame
from lessonlib.widgets.style import ROLES, ink

FASTER, SLOWER, BEST = "target", "residual", "accepted"
GAP = 1.5  # px between cells


@dataclass(frozen=True)
class Cells:
    """One rectangle with a number for each value; ``values[row][column]`` is a speedup.

    Row 0 is at the bottom. The paint is deeper the further a speedup is from 1.
    """

    values: Sequence[Sequence[float]]
    label: str = "faster than plain"

    def draw(self, frame: Frame) -> str:
        paper = svg.rectangle(
            frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top, ink("paper")
        )
        cells = [
            self._cell(frame, column, row, value)
            for row, values in enumerate(self.values)
            for column, value in enumerate(values)
        ]
        return f'<g class="sd-cells">{paper}{"".join(cells)}</g>'

    def _cell(self, frame: Frame, column: int, row: int, value: float) -> str:
        x, y, width, height = cell_box(frame, column, row)
        colour = ROLES[SLOWER if value < 1 else FASTER].colour
        paint = f'fill="{colour}" fill-opacity="{cell_depth(value):.2f}"'
        middle = svg.text(
            x + width / 2, y + height / 2 + 4, f"{value:.2f}", size=12, anchor="middle"
        )
        return svg.rectangle(x, y, width, height, paint) + middle

    def swatch(self, x: float, y: float) -> str:
        paint = f'fill="{ROLES[FASTER].colour}" fill-opacity=".4"'
        return svg.rectangle(x + 6, y - 6, 14, 12, paint)


@dataclass(frozen=True)
class SlowerKey:
    """The legend's entry for cells below 1; it draws nothing in the chart."""

    label: str = "slower"

    def draw(self, frame: Frame) -> str:
        return ""

    def swatch(self, x: float, y: float) -> str:
        paint = f'fill="{ROLES[SLOWER].colour}" fill-opacity=".4"'
        return svg.rectangle(x + 6, y - 6, 14, 12, paint)


@dataclass(frozen=True)
class Rings:
    """A frame around one cell of each row; None leaves a row without."""

    columns: Sequence[int | None]
    label: str = "best K shown in its row"

    def draw(self, frame: Frame) -> str:
        boxes = [
            svg.rectangle(*cell_box(frame, column, row), _RING)
            for row, column in enumerate(self.columns)
            if column is not None
        ]
        return f'<g class="sd-best">{"".join(boxes)}</g>'

    def swatch(self, x: float, y: float) -> str:
        return svg.rectangle(x + 6, y - 6, 14, 12, _RING)


_RING = f'fill="none" stroke="{ROLES[BEST].colour}" stroke-width="3"'


def cell_box(frame: Frame, column: int, row: int) -> tuple[float, float, float, float]:
    """Left, top, width and height of a cell in pixels."""
    left, right = frame.px(column - 0.5), frame.px(column + 0.5)
    top, bottom = frame.py(row + 0.5), frame.py(row - 0.5)
    return left + GAP, top + GAP, right - left - 2 * GAP, bottom - top - 2 * GAP


def cell_depth(value: float) -> float:
    """How opaque a cell is: 0 at a speedup of 1, 0.6 from 4 times faster or slower on.

    >>> cell_depth(1), cell_depth(2), cell_depth(1 / 16)
    (0.0, 0.3, 0.6)
    """
    return min(abs(math.log2(value)), 2) * 0.3
