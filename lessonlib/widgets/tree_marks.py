"""Marks for trees: nodes to click, drawn from left to right, and an attention mask in cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lessonlib.theory.treemask import list_paths
from lessonlib.theory.trees import ROOT
from lessonlib.widgets import svg
from lessonlib.widgets.marks import Frame
from lessonlib.widgets.style import ROLES, ink


def spread_nodes(parents: Sequence[int]) -> np.ndarray:
    """Heights (n,) in [0, 1]: leaves evenly spaced in order, a parent amid its children.

    >>> spread_nodes([-1, -1, 0, 0]).tolist()
    [0.3333333333333333, 0.8333333333333334, 0.16666666666666666, 0.5]
    """
    n = len(parents)
    heights, counts = np.zeros(n), np.zeros(n)
    leaves = [path[-1] for path in sorted(list_paths(parents))]  # so no two edges cross
    for spot, leaf in enumerate(leaves):
        heights[leaf], counts[leaf] = (spot + 0.5) / len(leaves), 1
    for node in range(n - 1, -1, -1):  # children before parents
        heights[node] /= counts[node]
        if parents[node] != ROOT:
            heights[parents[node]] += heights[node]
            counts[parents[node]] += 1
    return heights


@dataclass(frozen=True)
class TreeNodes:
    """A tree at x = depth (the root at -1) and y in [0, 1], its nodes as buttons.

    ``shares`` (n,) in [0, 1] widen the edge to each node; ``lit`` nodes are filled; ``key``
    and the node's number come back in ``Plot.picked``, if ``key`` is not empty.
    """

    parents: Sequence[int]
    depths: Sequence[int]
    names: Sequence[str]
    says: Sequence[str]
    lit: frozenset[int] = frozenset()
    chosen: int | None = None
    shares: Sequence[float] = field(default_factory=tuple)
    key: str = ""
    role: str = "accepted"
    label: str = ""

    @property
    def interactive(self) -> bool:
        return bool(self.key)

    def draw(self, frame: Frame) -> str:
        heights = spread_nodes(self.parents)
        leaves = len(list_paths(self.parents))
        radius = min(15.0, 0.42 * (frame.bottom - frame.top) / max(leaves, 1))
        places = [
            (frame.px(depth), frame.py(height))
            for depth, height in zip(self.depths, heights, strict=True)
        ]
        root = (frame.px(-1), frame.py(0.5))
        edges = [self._edge(i, places, root) for i in range(len(places))]
        nodes = [self._node(i, *place, radius) for i, place in enumerate(places)]
        # In groups of their own: a lit edge has one more line, and a redraw, which patches
        # element by element, would otherwise move the focus to another node.
        return f"<g>{''.join(edges)}</g>{svg.marker(*root, 'target', 6)}<g>{''.join(nodes)}</g>"

    def _edge(self, i: int, places, root) -> str:
        start = root if self.parents[i] == ROOT else places[self.parents[i]]
        share = self.shares[i] if len(self.shares) else float(i in self.lit) * 0.3
        thin = svg.segment(*start, *places[i], f'stroke-width="1.2" {ink("edge")}')
        if share <= 0:
            return thin
        paint = f'stroke="{ROLES[self.role].colour}" stroke-opacity=".75" stroke-linecap="round"'
        return thin + svg.segment(
            *start, *places[i], f'{paint} stroke-width="{1 + 12 * share:.1f}"'
        )

    def _node(self, i: int, x: float, y: float, radius: float) -> str:
        colour = ROLES["bonus" if i == self.chosen else self.role].colour
        edge = f'stroke="{colour}"' if i in self.lit or i == self.chosen else ""
        size = f'cx="{svg.num(x)}" cy="{svg.num(y)}" r="{svg.num(radius)}"'
        width = 4 if i == self.chosen else 3 if i in self.lit else 1.2
        stroke = edge or f'stroke="{ROLES["baseline"].colour}"'
        body = f'<circle {size} {stroke} stroke-width="{width}" {ink("box")}/>'
        if radius >= 7 and self.names[i]:
            body += svg.text(
                x, y + min(4, radius / 2.6), self.names[i], size=12 if radius > 10 else 10,
                anchor="middle",
            )  # fmt: skip
        if not self.key:
            return body
        ring = f'<circle class="sd-ring" {size} fill="transparent"/>'
        return (
            f'<g class="sd-pick" tabindex="0" role="button" aria-label="{self.says[i]}" '
            f'aria-pressed="{str(i == self.chosen).lower()}" data-key="{self.key}" data-bar="{i}">'
            f"{body}{ring}</g>"
        )

    def swatch(self, x: float, y: float) -> str:
        paint = f'stroke="{ROLES[self.role].colour}" stroke-opacity=".75" stroke-width="6"'
        return svg.segment(x, y, x + 24, y, paint)


@dataclass(frozen=True)
class Cells:
    """The True cells of a boolean matrix, row by row, in the look of a role.

    Only columns from ``first`` to ``last`` are this mark's; row ``chosen`` is drawn full
    and the others faintly.
    """

    matrix: np.ndarray
    role: str
    label: str
    first: int
    last: int
    chosen: int

    def draw(self, frame: Frame) -> str:
        drawn = []
        for row, cells in enumerate(self.matrix):
            for start, stop in _find_runs(cells, self.first, self.last):
                drawn.append(self._draw_run(frame, row, start, stop))
        return f'<g class="sd-cells" data-role="{self.role}">{"".join(drawn)}</g>'

    def _draw_run(self, frame: Frame, row: int, start: int, stop: int) -> str:
        x, y = frame.px(start - 0.45), frame.py(row - 0.42)
        width, height = frame.px(stop - 0.55) - x, frame.py(row + 0.42) - y
        if row == self.chosen:
            return svg.block(x, y, width, height, self.role)
        paint = f'fill="{ROLES[self.role].colour}" fill-opacity=".2"'
        return svg.rectangle(x, y, width, height, paint)

    def swatch(self, x: float, y: float) -> str:
        return svg.block(x + 4, y - 6, 18, 12, self.role)


def _find_runs(cells: np.ndarray, first: int, last: int) -> list[tuple[int, int]]:
    """Neighbouring True cells of one row as (start, stop)."""
    runs: list[list[int]] = []
    for column in range(first, last):
        if not cells[column]:
            continue
        if runs and runs[-1][1] == column:
            runs[-1][1] += 1
        else:
            runs.append([column, column + 1])
    return [tuple(run) for run in runs]
