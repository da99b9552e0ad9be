"""A scale that doubles from tick to tick, for speedups, batches and token counts.

Twice as fast lies as far above 1x as half as fast lies below it, and every setting of
the sliders fits without moving the axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from lessonlib.widgets.marks import Axis, Dots


def doubling_axis(label: str, low: int, high: int, unit: str = "") -> Axis:
    """An axis over the exponents of 2 from ``low`` to ``high``, labelled with the powers.

    >>> doubling_axis("speedup", -1, 1, "x").names
    ('0.5x', '1x', '2x')
    """
    step = 1 if high - low <= 8 else 2
    ticks = tuple(range(low, high + 1, step))
    return Axis(label, low, high, ticks, tuple(f"{2.0**tick:g}{unit}" for tick in ticks))


def place(values: Iterable[float], axis: Axis) -> list[float]:
    """The values as exponents of 2, NaN (no ink) where they lie outside the axis.

    >>> place([1, 4, 1000], doubling_axis("batch", 0, 8))
    [0.0, 2.0, nan]
    """
    exponents = [math.log2(value) for value in values]
    return [y if axis.low <= y <= axis.high else math.nan for y in exponents]


def place_dot(x: float, value: float, axis: Axis, role: str, label: str = "") -> list[Dots]:
    """One marked point, or none where it lies outside the axis."""
    (y,) = place([value], axis)
    return [] if math.isnan(y) else [Dots([x], [y], role, label)]
