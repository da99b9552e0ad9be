"""At which temperature a proposer breaks even: where its α crosses the rate it must reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lessonlib.theory.speedup import break_even_alpha
from lessonlib.theory.temperature import chosen_rate

HOTTEST = 100.0  # where the search for a temperature ends
HALVINGS = 60


class Crossing(NamedTuple):
    """A curve passes a level at ``temperature``; ``rises`` says in which direction."""

    temperature: float
    rises: bool


def find_crossings(
    curve: Callable[[float], float], level: float, hottest: float = 10.0, steps: int = 80
) -> list[Crossing]:
    """Every place in [0, hottest] where ``curve(T)`` passes ``level``, the coldest first.

    It is looked for between ``steps`` evenly spaced temperatures and then halved down, so
    two crossings within one step escape. A curve that touches the level counts as above it.
    Raises ValueError unless ``hottest`` is positive and finite, and ``steps`` at least 1.

    >>> [(round(T, 6), rises) for T, rises in find_crossings(lambda T: 1 / (1 + T), 0.5)]
    [(1.0, False)]
    """
    if not 0 < hottest < math.inf:
        raise ValueError(f"hottest is {hottest}: use a positive, finite temperature")
    if steps < 1:
        raise ValueError(f"steps is {steps}: use at least 1")

    def is_above(T: float) -> bool:
        return curve(T) >= level

    grid = np.linspace(0, hottest, steps + 1).tolist()
    above = [is_above(T) for T in grid]
    return [
        Crossing(_find_change(is_above, low, high), not starts)
        for low, high, starts, ends in zip(grid, grid[1:], above, above[1:], strict=False)
        if starts != ends
    ]


def _find_change(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The last T of [low, high] at which ``holds`` says what it says at ``low``, by halving."""
    starts = holds(low)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) == starts else (low, middle)
    return low


def break_even_temperature(
    p_logits: np.ndarray, q_logits: np.ndarray, K: int, c: float, v: float = 1
) -> float | None:
    """The T up to which a greedy draft of K tokens pays, with mean α over the rows (n, V).

    ``c`` and ``v`` are as in ``speedup.speedup``. None if it does not pay at T = 0, and
    infinity if it pays at every T up to HOTTEST. Meant for rows whose mean α falls as T
    rises; on others it is one place where the gain ends.

    >>> T = break_even_temperature(np.array([[4.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0]]), 1, 0.6)
    >>> round(T, 2)
    3.64
    """
    level = break_even_alpha(K, c, v)

    def pays(T: float) -> bool:
        return level is not None and float(np.mean(chosen_rate(p_logits, q_logits, T))) >= level

    if not pays(0):
        return None
    if pays(HOTTEST):
        return math.inf
    return _find_change(pays, 0.0, HOTTEST)
