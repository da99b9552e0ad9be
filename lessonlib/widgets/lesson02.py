"""Widgets of lesson 02: speedup against K, a heat map of K and α, contexts that differ.

The batch on the roofline is in ``widgets/batches``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lessonlib.theory.speedup import (
    best_draft_length,
    expected_tokens,
    expected_tokens_mixed,
    speedup,
)
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, int_slider, share_slider, steps_slider
from lessonlib.widgets.doubling import doubling_axis, place, place_dot
from lessonlib.widgets.heatmap import Cells, Rings, SlowerKey
from lessonlib.widgets.marks import Axis, Band, Dots, Line, Rule
from lessonlib.widgets.style import HALF, SHORT

LONGEST = 32  # the largest K drawn
CHECKED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # columns of the heat map
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # and its rows
COSTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.66, 1.0)
SLOPES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
C_SAYS = "c: seconds of one draft forward over seconds of one target forward"
S_SAYS = "s: what each further token adds to a verification, so that v(K + 1) = 1 + s K"


# Speedup against K


def view_speedup(alpha: float, K: int, c: float, s: float) -> View:
    """Speedup for every K, with the chosen K and K* marked and the losses shaded."""
    lengths, gain = range(LONGEST + 1), doubling_axis("speedup", -2, 5, "×")
    tokens = [expected_tokens(alpha, n) for n in lengths]
    gains = [speedup(alpha, n, c, 1 + s * n) for n in lengths]
    best, top = _find_best(alpha, c, s)
    marks = [
        Band(gain.low, 0, "residual", "slower than plain decoding", axis="y"),
        Line(lengths, place(tokens, gain), "baseline", "tokens per round E"),
        Line(lengths, place(gains, gain), "target", "speedup E / (c K + v)"),
        *place_dot(K, gains[K], gain, "bonus", "your K"),
    ]
    if best is not None and best <= LONGEST:
        marks += [Rule(best, "accepted", "K*", axis="x"), *place_dot(best, top, gain, "accepted")]
    words = "no K is best" if best is None else f"the best K is {best}"
    chart = Chart(
        "Speedup against draft length",
        f"At α {alpha:.2f}, c {c:g}, s {s:g}: K = {K} gives {gains[K]:.2f}×, and {words}.",
        Axis("K, drafted tokens", 0, LONGEST, tuple(range(0, LONGEST + 1, 4))),
        gain,
        marks,
        height=360,
    )
    readout = (
        f"K = {K}: E = {tokens[K]:.2f} tokens for {c * K + 1 + s * K:.2f} forwards = "
        f"{gains[K]:.2f}×  ·  {_say_best(best, top)}"
    )
    return View([chart], readout)


def _find_best(alpha: float, c: float, s: float) -> tuple[int | None, float]:
    """K* and its speedup; with v = 1 + s K a verified token costs what a drafted one does."""
    best = best_draft_length(alpha, c + s)
    return best, math.nan if best is None else speedup(alpha, best, c + s)


def _say_best(best: int | None, top: float) -> str:
    if best is None:
        return "no K is best: longer is always better"
    if best == 0:
        return "K* = 0: no draft pays"
    return f"K* = {best}: {top:.2f}×"


def speedup_against_K() -> Panel:
    """Slide α, K, c and the price of verification; watch where the speedup turns.

    >>> speedup_against_K().readout.value.split("  ·  ")[1]
    'K* = 8: 3.09×'
    """
    controls = {
        "alpha": share_slider("acceptance rate α", 0.8),
        "K": int_slider("K, drafted tokens", 4, 1, LONGEST),
        "c": steps_slider("draft cost c", COSTS, 0.05, C_SAYS),
        "s": steps_slider("extra per token s", SLOPES, 0.0, S_SAYS),
    }
    return Panel(controls, view_speedup)


# K and alpha


def view_map(c: float, s: float) -> View:
    """The speedup for a grid of K and α at one c, the best K of each row framed."""
    gains = [[speedup(alpha, K, c, 1 + s * K) for K in CHECKED] for alpha in RATES]
    best = [int(np.argmax(row)) if max(row) > 1 else None for row in gains]
    losing = sum(value < 1 for row in gains for value in row)
    chart = Chart(
        "Speedup by draft length and acceptance rate",
        f"At c {c:g}, s {s:g}: {losing} of {len(CHECKED) * len(RATES)} cells are slower than "
        "plain decoding, and the best K never falls as α grows.",
        _cell_axis("K, drafted tokens", CHECKED),
        _cell_axis("acceptance rate α", RATES),
        [Cells(gains), SlowerKey(), Rings(best)],
        height=380,
    )
    return View([chart], f"c = {c:g}, s = {s:g}  ·  {_say_gaining(gains)}")


def _cell_axis(label: str, values: Sequence[float]) -> Axis:
    places = tuple(range(len(values)))
    return Axis(label, -0.5, len(values) - 0.5, places, tuple(f"{v:g}" for v in values))


def _say_gaining(gains: Sequence[Sequence[float]]) -> str:
    """From which row on some K pays."""
    paying = [alpha for alpha, row in zip(RATES, gains, strict=True) if max(row) > 1]
    return f"some K pays from α = {min(paying):g} on" if paying else "no K pays at any α shown"


def map_of_K_and_alpha() -> Panel:
    """Slide c and the price of verification over a heat map of K and α.

    >>> map_of_K_and_alpha().readout.value
    'c = 0.1, s = 0  ·  some K pays from α = 0.2 on'
    """
    controls = {
        "c": steps_slider("draft cost c", COSTS, 0.1, C_SAYS),
        "s": steps_slider("extra per token s", SLOPES, 0.0, S_SAYS),
    }
    return Panel(controls, view_map)


# Contexts that differ


def view_mix(low: float, high: float, K: int) -> View:
    """E over α with the chord between two equally frequent rates, and both E at their mean."""
    mean, true = (low + high) / 2, expected_tokens_mixed([low, high], [0.5, 0.5], K)
    guessed, rates = expected_tokens(mean, K), np.linspace(0, 1, 41)
    chart = Chart(
        "Rounds with two acceptance rates",
        f"Half of the rounds at α {low:.2f}, half at {high:.2f}: the middle of the chord, "
        f"{true:.2f} tokens, is what they emit; the curve at the mean rate says {guessed:.2f}.",
        Axis("acceptance rate α", 0, 1),
        Axis("tokens per round E", 1, K + 1),
        [
            Line(rates, expected_tokens(rates, K), "target", f"E at K = {K}"),
            Line(
                [low, high], [expected_tokens(a, K) for a in (low, high)], "residual",
                "half of each", dots=True,
            ),
            Dots([mean], [true], "accepted", "true mean of E"),
            Dots([mean], [guessed], "bonus", "E of the mean α"),
        ],
    )  # fmt: skip
    return View([chart], f"true E = {true:.2f}  ·  from the mean α = {guessed:.2f}")


def mixed_contexts(K: int = 4) -> Panel:
    """Slide two acceptance rates apart; watch the mean of E leave the E of the mean.

    >>> mixed_contexts().readout.value
    'true E = 3.02  ·  from the mean α = 2.77'
    """
    controls = {
        "low": share_slider("α of one half", 0.5),
        "high": share_slider("α of the other", 0.9),
    }
    return Panel(controls, lambda low, high: view_mix(low, high, K))


# The sweep of exercise 2.3


def plot_sweep(lengths: Sequence[int], tokens: Sequence[float], times: Sequence[float]) -> Panel:
    """Both curves side by side: tokens per round, and time per token in target forwards."""
    last = max(lengths)
    ticks = tuple(range(0, last + 1, max(1, last // 5)))
    charts = [
        Chart(
            title, caption, Axis("N, drafted tokens", 0, last, ticks), Axis(unit, 0, top),
            [Line(lengths, values, role, dots=True)], HALF, SHORT,
        )
        for title, caption, unit, values, role, top in (
            ("Tokens per round", "Each further token adds less than the one before.",
             "E", tokens, "target", math.ceil(max(tokens))),
            ("Time per token", "In target forwards; plain decoding needs 1 for each token.",
             "target forwards", times, "residual", 1),
        )
    ]  # fmt: skip
    return Panel({}, lambda: View(charts, f"from N = {min(lengths)} to N = {last}"))
