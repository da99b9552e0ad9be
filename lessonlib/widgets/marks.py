"""What can stand in a chart: axes, lines, bars, bands, rules and bars to drag.

A mark is a small frozen dataclass that knows how to draw itself in a `Frame` and how
its sample in the legend looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lessonlib.widgets import svg
from lessonlib.widgets.style import ROLES

BAR_SHARE = 0.8  # of the room between two tokens


@dataclass(frozen=True)
class Axis:
    """A labelled range; ``names`` replace the numbers at ``ticks``, ``slanted`` if many."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    slanted: bool = False

    def tick_labels(self) -> list[tuple[float, str]]:
        """The ticks as (value, words), round numbers where none were given."""
        ticks = self.ticks or nice_ticks(self.low, self.high)
        words = self.names or tuple(f"{tick:g}" for tick in ticks)
        return list(zip(ticks, words, strict=True))


def token_axis(label: str, tokens: Sequence[str]) -> Axis:
    """One place for each token, the first at 0; more than eight are written at a slant.

    >>> token_axis("next token", ["the", " a"]).names
    ('the', '␣a')
    """
    names = tuple(svg.show_token(token) for token in tokens)
    places = tuple(range(len(names)))
    return Axis(label, -0.5, len(names) - 0.5, places, names, slanted=len(names) > 8)


def nice_ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Round numbers from ``low`` to ``high``, roughly ``about`` of them.

    >>> nice_ticks(0, 1)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(i * step, 10) for i in range(first, last + 1))


@dataclass(frozen=True)
class Frame:
    """Where the plotting area lies in the picture, and how values map to pixels."""

    x_axis: Axis
    y_axis: Axis
    left: float
    right: float
    top: float
    bottom: float

    def px(self, x: float) -> float:
        """The pixel column of a value on the x axis."""
        share = (x - self.x_axis.low) / (self.x_axis.high - self.x_axis.low)
        return self.left + share * (self.right - self.left)

    def py(self, y: float) -> float:
        """The pixel row of a value on the y axis."""
        share = (y - self.y_axis.low) / (self.y_axis.high - self.y_axis.low)
        return self.bottom - share * (self.bottom - self.top)

    def slot(self, i: int, slot: int, slots: int) -> tuple[float, float]:
        """Left edge and width of bar ``slot`` of ``slots`` over token ``i``."""
        room = self.px(1) - self.px(0)
        width = room * BAR_SHARE / slots
        return self.px(i) - room * BAR_SHARE / 2 + slot * width, width


@dataclass(frozen=True)
class Line:
    """A curve through (x, y); NaN breaks it. ``dots`` puts the role's marker on each point."""

    x: Sequence[float]
    y: Sequence[float]
    role: str
    label: str = ""
    dots: bool = False

    def draw(self, frame: Frame) -> str:
        points = [(frame.px(x), frame.py(y)) for x, y in zip(self.x, self.y, strict=True)]
        drawn = svg.polyline(points, self.role)
        if self.dots:
            drawn += "".join(svg.marker(*p, self.role) for p in points if not math.isnan(p[1]))
        return drawn

    def swatch(self, x: float, y: float) -> str:
        return svg.polyline([(x, y), (x + 24, y)], self.role) + (
            svg.marker(x + 12, y, self.role, 3.2) if self.dots else ""
        )


@dataclass(frozen=True)
class Dots:
    """The role's marker at each (x, y)."""

    x: Sequence[float]
    y: Sequence[float]
    role: str
    label: str = ""

    def draw(self, frame: Frame) -> str:
        pairs = zip(self.x, self.y, strict=True)
        return "".join(svg.marker(frame.px(x), frame.py(y), self.role, 5.5) for x, y in pairs)

    def swatch(self, x: float, y: float) -> str:
        return svg.marker(x + 12, y, self.role)


@dataclass(frozen=True)
class Bars:
    """A bar for each token: beside others (``slot`` of ``slots``) or on top of ``base``."""

    heights: Sequence[float]
    role: str
    label: str = ""
    slot: int = 0
    slots: int = 1
    base: Sequence[float] | None = None
    numbers: bool = False

    def draw(self, frame: Frame) -> str:
        drawn = []
        for i, height in enumerate(self.heights):
            x, width = frame.slot(i, self.slot, self.slots)
            floor = self.base[i] if self.base is not None else 0.0
            low, high = frame.py(floor), frame.py(floor + height)
            if height > 0:
                drawn.append(svg.block(x + 1, high, width - 2, low - high, self.role))
            if self.numbers:
                words = f"{height:.2f}"
                drawn.append(svg.text(x + width / 2, high - 7, words, size=12, anchor="middle"))
        return f'<g class="sd-bars" data-role="{self.role}">{"".join(drawn)}</g>'

    def swatch(self, x: float, y: float) -> str:
        return svg.block(x + 6, y - 6, 14, 12, self.role)


@dataclass(frozen=True)
class Band:
    """A shaded range from ``low`` to ``high`` on the x or the y axis."""

    low: float
    high: float
    role: str
    label: str = ""
    axis: str = "x"

    def draw(self, frame: Frame) -> str:
        paint = f'class="sd-band" fill="{ROLES[self.role].colour}" fill-opacity=".18"'
        if self.axis == "x":
            left, right = frame.px(self.low), frame.px(self.high)
            return svg.rectangle(left, frame.top, right - left, frame.bottom - frame.top, paint)
        low, high = frame.py(self.low), frame.py(self.high)
        return svg.rectangle(frame.left, high, frame.right - frame.left, low - high, paint)

    def swatch(self, x: float, y: float) -> str:
        paint = f'fill="{ROLES[self.role].colour}" fill-opacity=".18"'
        return svg.rectangle(x, y - 6, 24, 12, paint)


@dataclass(frozen=True)
class Rule:
    """A straight line across the chart at one value of the x or the y axis."""

    at: float
    role: str
    label: str = ""
    axis: str = "y"

    def draw(self, frame: Frame) -> str:
        if self.axis == "y":
            y = frame.py(self.at)
            return svg.polyline([(frame.left, y), (frame.right, y)], self.role, 1.8)
        x = frame.px(self.at)
        return svg.polyline([(x, frame.top), (x, frame.bottom)], self.role, 1.8)

    def swatch(self, x: float, y: float) -> str:
        return svg.polyline([(x, y), (x + 24, y)], self.role, 1.8)


@dataclass(frozen=True)
class Handles:
    """Makes the bars of one series draggable, and movable with the arrow keys.

    ``key`` and the bar's number come back in ``Plot.dragged``; ``names`` are read out.
    """

    heights: Sequence[float]
    role: str
    key: str
    names: Sequence[str]
    slot: int = 0
    slots: int = 1
    label = ""
    interactive = True

    def draw(self, frame: Frame) -> str:
        return "".join(self._handle(frame, i, height) for i, height in enumerate(self.heights))

    def _handle(self, frame: Frame, i: int, height: float) -> str:
        x, width = frame.slot(i, self.slot, self.slots)
        top, colour = frame.py(height), ROLES[self.role].colour
        says = escape(f"{self.key} of {svg.show_token(self.names[i])}")
        grip = f'class="sd-grip" rx="3" fill="{colour}"'
        ring = 'class="sd-ring" rx="3" fill="transparent"'
        return (
            f'<g class="sd-drag" tabindex="0" role="slider" aria-orientation="vertical" '
            f'aria-label="{says}" aria-valuemin="0" aria-valuemax="1" aria-valuenow="{height:.3f}" '
            f'aria-valuetext="{height:.2f}" data-key="{self.key}" data-bar="{i}" '
            f'data-zero="{svg.num(frame.py(0))}" data-one="{svg.num(frame.py(1))}">'
            + svg.rectangle(x, frame.top - 4, width, frame.bottom - frame.top + 4, ring)
            + svg.rectangle(x + 2, top - 3, width - 4, 6, grip)
            + "</g>"
        )


Mark = Line | Dots | Bars | Band | Rule | Handles
