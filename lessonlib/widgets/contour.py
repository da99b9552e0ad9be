"""The line between winning and losing on a heat map: the edges where a speedup passes 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lessonlib.widgets import svg
from lessonlib.widgets.marks import Frame
from lessonlib.widgets.style import ink

_PEN = f'{ink("edge")} stroke-width="4" stroke-linecap="round"'


@dataclass(frozen=True)
class Contour:
    """A thick line along every cell edge with one side at ``level`` or above, the other below.

    ``values[row][column]`` as in ``heatmap.Cells``, row 0 at the bottom.
    """

    values: Sequence[Sequence[float]]
    level: float = 1.0
    label: str = "1× contour"

    def draw(self, frame: Frame) -> str:
        lines = [
            svg.segment(frame.px(x1), frame.py(y1), frame.px(x2), frame.py(y2), _PEN)
            for x1, y1, x2, y2 in find_edges(self.values, self.level)
        ]
        return f'<g class="sd-contour">{"".join(lines)}</g>'

    def swatch(self, x: float, y: float) -> str:
        return svg.segment(x + 2, y, x + 22, y, _PEN)


def find_edges(
    values: Sequence[Sequence[float]], level: float = 1.0
) -> Iterator[tuple[float, float, float, float]]:
    """The edges (x1, y1, x2, y2) between cells on different sides of ``level``.

    Cell (row, column) is centred at (column, row) and one wide.

    >>> list(find_edges([[0.5, 2.0]]))
    [(0.5, -0.5, 0.5, 0.5)]
    """
    wins = [[value >= level for value in row] for row in values]
    for y, row in enumerate(wins):
        for x, won in enumerate(row):
            if x + 1 < len(row) and row[x + 1] != won:
                yield x + 0.5, y - 0.5, x + 0.5, y + 0.5
            if y + 1 < len(wins) and wins[y + 1][x] != won:
                yield x - 0.5, y + 0.5, x + 0.5, y + 0.5
