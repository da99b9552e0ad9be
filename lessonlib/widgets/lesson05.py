"""Widgets of lesson 05: the recorded drafts against temperature and K, and how they learned.

The toy draft of one hump is in ``widgets/hump``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.lab.drafts import Draft, load_drafts
from lessonlib.theory.divergence import alpha_floor
from lessonlib.theory.speedup import best_draft_length, speedup
from lessonlib.widgets import svg
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, chooser, int_slider, steps_slider
from lessonlib.widgets.doubling import doubling_axis, place, place_dot
from lessonlib.widgets.marks import Axis, Band, Frame, Line, Rule
from lessonlib.widgets.style import HALF, ROLES, SHORT

LONGEST = 12  # the largest K drawn
COSTS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.66, 1.0)
C_SAYS = "c: seconds of one draft forward over seconds of one target forward"
LOOKS = {  # name in the record: (words, role)
    "untrained": ("no training", "baseline"),
    "data": ("next tokens", "draft"),
    "forward-kl": ("forward KL", "target"),
    "reverse-kl": ("reverse KL", "residual"),
    "tv": ("TV", "accepted"),
}
GROUPS = {
    "three teachers": ("untrained", "data", "forward-kl"),
    "three divergences": ("forward-kl", "reverse-kl", "tv"),
}


# Temperature and K


def view_drafts(
    group: Sequence[str], temperature: float, K: int, c: float, drafts: Mapping[str, Draft]
) -> View:
    """α by temperature beside the predicted speedup by K, for each draft of the group."""
    alphas = {name: drafts[name].alpha[temperature] for name in group}
    told = [f"{LOOKS[name][0]} α {alphas[name]:.2f}" for name in group]
    charts = [
        _draw_rates(group, temperature, drafts, ", ".join(told)),
        _draw_speedups(alphas, temperature, K, c),
    ]
    gains = [f"{LOOKS[name][0]} {speedup(alphas[name], K, c):.2f}×" for name in group]
    return View(charts, "  ·  ".join(gains))


def _draw_rates(group, temperature: float, drafts, told: str) -> Chart:
    lines = []
    for name in group:
        (words, role), alpha = LOOKS[name], drafts[name].alpha
        grid = sorted(alpha)
        lines.append(Line(grid, [alpha[t] for t in grid], role, words, dots=True))
    return Chart(
        "Acceptance rate",
        f"Held-out text, both models at T = {temperature:g}: {told}.",
        Axis("temperature T", 0, 2),
        Axis("α", 0, 1),
        [Rule(temperature, "bonus", axis="x"), *lines],
        HALF,
        SHORT + 40,
    )


def _draw_speedups(alphas: Mapping[str, float], temperature: float, K: int, c: float) -> Chart:
    gain, lengths, marks, told = doubling_axis("speedup", -2, 2, "×"), range(LONGEST + 1), [], []
    for name, alpha in alphas.items():
        words, role = LOOKS[name]
        gains = [speedup(alpha, n, c) for n in lengths]
        marks += [
            Line(lengths, place(gains, gain), role, words),
            *place_dot(K, gains[K], gain, role),
        ]
        told.append(f"{words} K* {best_draft_length(alpha, c)}")
    return Chart(
        "Predicted speedup",
        f"E / (c K + 1) at T = {temperature:g}, c = {c:g}; the best lengths: {', '.join(told)}.",
        Axis("K, drafted tokens", 0, LONGEST, tuple(range(0, LONGEST + 1, 2))),
        gain,
        [Band(gain.low, 0, "residual", axis="y"), Rule(K, "bonus", axis="x"), *marks],
        HALF,
        SHORT + 40,
    )


def drafts_compared() -> Panel:
    """Choose which drafts to compare; slide temperature, K and the cost of the draft.

    >>> drafts_compared().readout.value.count("×")
    3
    """
    drafts = load_drafts()
    controls = {
        "group": chooser("compare", [(words, i) for i, words in enumerate(GROUPS)]),
        "temperature": _temperature_slider([draft.alpha for draft in _plain(drafts)]),
        "K": int_slider("K, drafted tokens", 4, 1, LONGEST),
        "c": steps_slider("draft cost c", COSTS, 0.2, C_SAYS),
    }
    groups = list(GROUPS.values())
    return Panel(controls, lambda group, **rest: view_drafts(groups[group], **rest, drafts=drafts))


def _plain(drafts: Mapping[str, Draft]) -> list[Draft]:
    return [drafts[name] for name in LOOKS]


def _temperature_slider(tables: Sequence[Mapping[float, float]]):
    """A slider over the temperatures that every table holds; it starts at 1."""
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    return steps_slider("temperature T", shared, 1.0, "T: both models are sampled at it")


# How they learned


def view_learning(temperature: float, drafts: Mapping[str, Draft]) -> View:
    """α on held-out text against the tokens that each training had read."""
    trained = [draft for draft in _plain(drafts) if draft.log]
    start = drafts["untrained"].alpha[temperature]
    last = max(draft.log[-1]["tokens"] for draft in trained) / 1e6
    lines = []
    for draft in trained:
        words, role = LOOKS[draft.name]
        tokens = [0.0, *(step["tokens"] / 1e6 for step in draft.log)]
        rates = [start, *(step["alpha"][temperature] for step in draft.log)]
        lines.append(Line(tokens, rates, role, words, dots=len(tokens) <= 20))
    ends = [f"{LOOKS[d.name][0]} {d.log[-1]['alpha'][temperature]:.2f}" for d in trained]
    chart = Chart(
        "What each loss made of the same start",
        f"α at T = {temperature:g} while training, from {start:.2f}: {', '.join(ends)}.",
        Axis("tokens read, millions", 0, last),
        Axis("α", 0, 1),
        [Rule(start, "baseline", "no training"), *lines],
    )
    return View([chart], "  ·  ".join(ends))


def learning_curves() -> Panel:
    """Slide the temperature over the recorded trainings.

    >>> learning_curves().readout.value.split("  ·  ")[-1].startswith("TV 0.")
    True
    """
    drafts = load_drafts()
    logs = [step["alpha"] for draft in _plain(drafts) for step in draft.log]
    slider = _temperature_slider([drafts["untrained"].alpha, *logs])
    return Panel({"temperature": slider}, lambda temperature: view_learning(temperature, drafts))


def plot_long_run(tokens: Sequence[int], alphas: Sequence[Mapping[str, float]]) -> Panel:
    """α on held-out text, by temperature, while one draft was trained."""
    roles = ("target", "draft", "accepted", "residual")
    lines = [
        Line([n / 1e6 for n in tokens], [by_T[T] for by_T in alphas], role, f"T = {T}")
        for T, role in zip(alphas[-1], roles, strict=False)
    ]
    ends = ", ".join(f"{alpha:.2f} at T = {T}" for T, alpha in alphas[-1].items())
    chart = Chart(
        "The draft that came with the course",
        f"α on held-out text while it was trained; at the end {ends}.",
        Axis("tokens read, millions", 0, tokens[-1] / 1e6),
        Axis("α", 0, 1),
        lines,
    )
    return Panel({}, lambda: View([chart], f"α {ends}"))


def plot_live_run(tokens: Sequence[int], rates: Sequence[float]) -> Panel:
    """α of each batch, before the draft learned from it, and its running mean over eight.

    Raises ValueError for a run that was stopped before its first batch.
    """
    if not rates:
        raise ValueError("the run was stopped before its first batch: run the cell again")
    smooth = [float(np.mean(rates[max(0, i - 7) : i + 1])) for i in range(len(rates))]
    top = max(tokens) / 1000
    chart = Chart(
        "The live run",
        "Each dot is a batch of text that the draft had not read yet; the line is the mean of "
        "the last eight.",
        Axis("tokens read, thousands", 0, top),
        Axis("α at T = 1", 0, 1),
        [
            Cloud([n / 1000 for n in tokens], rates, "draft", "one batch"),
            Line([n / 1000 for n in tokens], smooth, "target", "mean of eight"),
        ],
    )
    return Panel({}, lambda: View([chart], f"α {smooth[0]:.2f} → {smooth[-1]:.2f}"))


# Pinsker on real rows


@dataclass(frozen=True)
class Cloud:
    """Many small points, see-through, so that a crowd looks like one."""

    x: Sequence[float]
    y: Sequence[float]
    role: str
    label: str = ""

    def draw(self, frame: Frame) -> str:
        places = zip(self.x, self.y, strict=True)
        points = "".join(self._point(frame.px(x), frame.py(y)) for x, y in places)
        return f'<g class="sd-cloud" fill="{ROLES[self.role].colour}">{points}</g>'

    def swatch(self, x: float, y: float) -> str:
        return f'<g fill="{ROLES[self.role].colour}">{self._point(x + 12, y)}</g>'

    def _point(self, x: float, y: float) -> str:
        return f'<circle cx="{svg.num(x)}" cy="{svg.num(y)}" r="2.5" fill-opacity=".6"/>'


def plot_pinsker(kl: Sequence[float], tv: Sequence[float]) -> Panel:
    """One dot for each position of a text: its KL and its TV, under Pinsker's curve."""
    top = math.ceil(max(kl))
    curve = top * np.linspace(0, 1, 121) ** 2  # dense near 0, where the root is steep
    chart = Chart(
        "TV against forward KL, position by position",
        "No dot lies above the curve, TV = √(KL / 2), nor above 1.",
        Axis("KL(p ‖ q), nats", 0, top),
        Axis("TV = 1 − α", 0, 1),
        [
            Cloud(kl, tv, "residual", "one position"),
            Line(curve, [1 - alpha_floor(x) for x in curve], "target", "Pinsker's bound"),
        ],
    )
    return Panel({}, lambda: View([chart], f"{len(kl)} positions"))
