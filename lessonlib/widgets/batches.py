"""Widget of lesson 02: a batch slides along the roofline, and the gain of drafting ends."""

from __future__ import annotations

import math

from lessonlib.theory.roofline import (
    PRESETS,
    Preset,
    forward_seconds,
    largest_gaining_batch,
    verify_cost,
)
from lessonlib.theory.speedup import speedup
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, chooser, int_slider, share_slider, steps_slider
from lessonlib.widgets.doubling import doubling_axis, place, place_dot
from lessonlib.widgets.marks import Band, Line, Rule
from lessonlib.widgets.style import SHORT

LONGEST = 12  # the largest K
BATCHES = tuple(sorted({1, *(2**i for i in range(1, 10)), *(3 * 2**i for i in range(8))}))


def view_roofline(preset: Preset, batch: int, alpha: float, K: int) -> View:
    """Where plain and verifying forwards lie on the roof, and the speedup for every batch."""
    v = verify_cost(preset, K + 1, batch)
    now, end = speedup(alpha, K, preset.c, v), largest_gaining_batch(preset, alpha, K)
    readout = (
        f"batch {batch}: v({K + 1}) = {v:.2f}, c = {preset.c:.2f}, speedup {now:.2f}×  ·  "
        + (f"the gain ends at batch {end:.0f}" if end >= 1 else "no gain at any batch")
    )
    charts = [_chart_roof(preset, batch, K), _chart_batches(preset, batch, alpha, K, now, end)]
    return View(charts, readout)


def _chart_roof(preset: Preset, batch: int, K: int) -> Chart:
    """One forward's time against its tokens, in units of a forward over one token."""
    time, one = doubling_axis("time (one token = 1)", 0, 9), forward_seconds(preset, 1)
    sizes = (1, preset.ridge, BATCHES[-1] * (LONGEST + 1))  # straight between these

    def at(n: float) -> float:
        return forward_seconds(preset, n) / one

    plain, verify = batch, batch * (K + 1)
    return Chart(
        f"The roof: {preset.name}",
        f"Up to {preset.ridge:.0f} tokens a forward costs what one token costs, reading the "
        f"weights ({one * 1e3:.1f} ms); then time grows with the tokens.",
        doubling_axis("tokens in one forward, the whole batch together", 0, 13),
        time,
        [
            Line([math.log2(n) for n in sizes], place(map(at, sizes), time), "target", "the roof"),
            *place_dot(math.log2(plain), at(plain), time, "draft", "plain: batch tokens"),
            *place_dot(math.log2(verify), at(verify), time, "residual", "verify: batch (K + 1)"),
        ],
        height=SHORT + 20,
    )


def _chart_batches(
    preset: Preset, batch: int, alpha: float, K: int, now: float, end: float
) -> Chart:
    """The speedup against the batch, for the chosen K and for the best K of each batch."""
    gain = doubling_axis("speedup", -3, 3, "×")
    places = [math.log2(b) for b in BATCHES]
    chosen = [speedup(alpha, K, preset.c, verify_cost(preset, K + 1, b)) for b in BATCHES]
    best = [_best_speedup(preset, alpha, b) for b in BATCHES]
    ends = [Rule(math.log2(end), "baseline", "the gain ends", axis="x")] if end >= 1 else []
    return Chart(
        "Speedup against batch",
        f"At α {alpha:.2f}: K = {K} gives {now:.2f}× at batch {batch}; the best K never falls "
        "below 1×, since K = 0 is plain decoding.",
        doubling_axis("batch, sequences decoded together", 0, 9),
        gain,
        [
            Band(gain.low, 0, "residual", "slower than plain decoding", axis="y"),
            Line(places, place(chosen, gain), "target", "your K"),
            Line(places, place(best, gain), "accepted", f"best K up to {LONGEST}"),
            *ends,
            *place_dot(math.log2(batch), now, gain, "bonus", "now"),
        ],
        height=SHORT + 60,
    )


def _best_speedup(preset: Preset, alpha: float, batch: int) -> float:
    costs = [verify_cost(preset, K + 1, batch) for K in range(LONGEST + 1)]
    return max(speedup(alpha, K, preset.c, v) for K, v in enumerate(costs))


def batch_on_the_roofline() -> Panel:
    """Slide the batch on an H100 or a laptop; watch verification stop being free.

    >>> batch_on_the_roofline().readout.value.split("  ·  ")[1]
    'the gain ends at batch 162'
    """
    names = list(PRESETS)
    controls = {
        "machine": chooser("machine", [(PRESETS[name].name, i) for i, name in enumerate(names)]),
        "batch": steps_slider("batch", BATCHES, 1, "sequences decoded together"),
        "alpha": share_slider("acceptance rate α", 0.8),
        "K": int_slider("K, drafted tokens", 4, 1, LONGEST),
    }

    def view(machine: int, batch: int, alpha: float, K: int) -> View:
        return view_roofline(PRESETS[names[machine]], batch, alpha, K)

    return Panel(controls, view)
