"""The live picture: an anywidget that shows a `Chart` and reports dragged bars.

Python draws the whole SVG; the JavaScript beside this file only patches what changed
into the page. That costs a few kilobytes for each redraw and saves a second drawing
code in another language.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from lessonlib.widgets.chart import Chart, stack
from lessonlib.widgets.style import GROWTH, theme_css


class Plot(anywidget.AnyWidget):
    """One chart on the page; ``show`` redraws it in place.

    ``dragged`` is ``{"key": str, "bar": int, "value": float}`` after a bar with
    `Handles` was moved; ``picked`` is ``{"key": str, "bar": int, "count": int}`` after a
    node of a `TreeNodes` was clicked. A saved notebook keeps the picture as SVG.

    >>> from lessonlib.widgets.marks import Axis, Line
    >>> chart = Chart("A line", "It rises.", Axis("x", 0, 1), Axis("y", 0, 1))
    >>> Plot(chart).caption
    'It rises.'
    """

    _esm = Path(__file__).with_name("plot.js")
    _css = theme_css()
    svg = traitlets.Unicode().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    growth = traitlets.Float(GROWTH).tag(sync=True)
    dragged = traitlets.Dict().tag(sync=True)
    picked = traitlets.Dict().tag(sync=True)

    def __init__(self, chart: Chart) -> None:
        super().__init__()
        self.show(chart)

    def show(self, chart: Chart) -> None:
        """Replace what is drawn; the page is told once."""
        self.chart = chart
        with self.hold_sync():
            self.svg, self.caption, self.width = chart.svg(), chart.caption, int(chart.width)

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict] | None:
        return with_fallback(super()._repr_mimebundle_(**kwargs), [self.chart])


def with_fallback(
    bundle: tuple[dict, dict] | dict | None, charts: Sequence[Chart], words: str = ""
) -> tuple[dict, dict]:
    """Add the pictures and their captions to a widget's bundle, for viewers that run nothing."""
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    lines = [f"{chart.title}: {chart.caption}" for chart in charts] + ([words] if words else [])
    pictures = {"image/svg+xml": stack(charts)} if charts else {}
    return data | {"text/plain": "\n".join(lines)} | pictures, metadata
