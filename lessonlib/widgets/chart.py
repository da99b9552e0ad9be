"""A chart is its axes and its marks, drawn as one SVG string.

The frame of a chart depends on its axes and labels only, never on the values, so
that nothing jumps when a slider moves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from lessonlib.widgets import svg
from lessonlib.widgets.marks import Axis, Frame, Mark
from lessonlib.widgets.style import TALL, WIDE, ink


@dataclass(frozen=True)
class Chart:
    """A picture with a title, a legend, two axes and a caption that says what it shows."""

    title: str
    caption: str
    x_axis: Axis
    y_axis: Axis
    marks: Sequence[Mark] = ()
    width: float = WIDE
    height: float = TALL

    def svg(self, with_caption: bool = False) -> str:
        """The whole picture; ``with_caption`` writes the caption under it, for static viewers."""
        lines = textwrap.wrap(self.caption, int(self.width / 7)) if with_caption else []
        rows = "".join(
            svg.text(10, self.height + 14 + 16 * i, line, name="muted")
            for i, line in enumerate(lines)
        )
        height = self.height + (8 + 16 * len(lines) if lines else 0)
        interactive = any(getattr(mark, "interactive", False) for mark in self.marks)
        return svg.picture(self.width, height, self.body() + rows, self.caption, interactive)

    def body(self) -> str:
        """The picture without its paper, to be placed inside another one."""
        legend, top = _draw_legend(self.marks, self.width)
        foot = 82 if self.x_axis.slanted else 46
        frame = Frame(self.x_axis, self.y_axis, 58, self.width - 14, top, self.height - foot)
        marks = "".join(mark.draw(frame) for mark in self.marks)
        title = svg.text(10, 20, self.title, size=15, extra='font-weight="600"')
        return title + legend + _draw_y(frame) + _draw_x(frame) + marks + _draw_floor(frame)


def _draw_legend(marks: Sequence[Mark], width: float) -> tuple[str, float]:
    """The legend under the title, wrapped to the width, and where the plotting area may start."""
    x, y, drawn = 10.0, 38.0, []
    for mark in marks:
        if not mark.label:
            continue
        room = 30 + 7 * len(mark.label) + 16
        if x > 10 and x + room > width:
            x, y = 10.0, y + 18
        drawn += [mark.swatch(x, y), svg.text(x + 30, y + 4, mark.label)]
        x += room
    return "".join(drawn), y + (22 if drawn else 0)


def _draw_y(frame: Frame) -> str:
    """Grid, tick labels and the label of the y axis."""
    drawn = []
    for value, words in frame.y_axis.tick_labels():
        y = frame.py(value)
        drawn.append(svg.segment(frame.left, y, frame.right, y, ink("grid")))
        drawn.append(svg.text(frame.left - 7, y + 4, words, size=12, anchor="end", name="muted"))
    centre = (frame.top + frame.bottom) / 2
    turn = f'transform="rotate(-90 16 {svg.num(centre)})"'
    label = svg.text(16, centre, frame.y_axis.label, anchor="middle", name="muted", extra=turn)
    return "".join(drawn) + label


def _draw_x(frame: Frame) -> str:
    """Tick labels, cut to their room or slanted, and the label of the x axis."""
    axis, drawn, y = frame.x_axis, [], frame.bottom + 17
    ticks = axis.tick_labels()
    longest = 11 if axis.slanted else int((frame.right - frame.left) / max(len(ticks), 1) / 8)
    for value, words in ticks:
        x = frame.px(value)
        turn = f'transform="rotate(-35 {svg.num(x)} {svg.num(y)})"' if axis.slanted else ""
        place = {"anchor": "end" if axis.slanted else "middle", "mono": bool(axis.names)}
        drawn.append(svg.text(x, y, svg.cut(words, longest), extra=turn, **place))
    middle, foot = (frame.left + frame.right) / 2, frame.bottom + (74 if axis.slanted else 37)
    return "".join(drawn) + svg.text(middle, foot, axis.label, anchor="middle", name="muted")


def _draw_floor(frame: Frame) -> str:
    """The two axis lines, over the marks so that bars stand on them."""
    paint = ink("edge")
    return svg.segment(frame.left, frame.bottom, frame.right, frame.bottom, paint) + svg.segment(
        frame.left, frame.top, frame.left, frame.bottom, paint
    )


def stack(charts: Sequence[Chart]) -> str:
    """Charts under one another in one SVG with their captions, for static viewers."""
    body, y = [], 0.0
    for chart in charts:
        whole = chart.svg(with_caption=True)
        body.append(whole.replace("<svg ", f'<svg y="{svg.num(y)}" ', 1))
        y += float(whole.split('height="', 1)[1].split('"', 1)[0]) + 8
    width = max(chart.width for chart in charts)
    return svg.picture(width, y, "".join(body), " ".join(chart.caption for chart in charts))
