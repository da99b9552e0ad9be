"""Plots of lesson 06 that nothing moves in: how the heads learned, and what confidence is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lessonlib.lab.eagle_trials import Bin
from lessonlib.lab.headrecords import HeadRecord
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View
from lessonlib.widgets.lesson06 import LOOKS
from lessonlib.widgets.marks import Axis, Line
from lessonlib.widgets.style import HALF, SHORT


def plot_training(heads: Mapping[str, HeadRecord], temperature: float) -> Panel:
    """α at the first and at the last draft position against the tokens each head had read."""
    charts = [
        _draw_training(heads, temperature, at, words)
        for at, words in ((0, "First position"), (-1, "Last position"))
    ]
    ends = [
        f"{LOOKS[kind][0]} {head.log[-1]['by_position'][temperature][-1]:.2f}"
        for kind, head in heads.items()
    ]
    return Panel({}, lambda: View(charts, f"T = {temperature:g}, last: {'  ·  '.join(ends)}"))


def _draw_training(heads, temperature: float, at: int, words: str) -> Chart:
    lines, told = [], []
    for kind, head in heads.items():
        name, role = LOOKS[kind]
        tokens = [step["tokens"] / 1e6 for step in head.log]
        rates = [step["by_position"][temperature][at] for step in head.log]
        lines.append(Line(tokens, rates, role, name, dots=True))
        told.append(f"{name} {rates[-1]:.2f}")
    last = max(head.log[-1]["tokens"] for head in heads.values()) / 1e6
    return Chart(
        f"{words} of the draft",
        f"α on some held-out text while training, T = {temperature:g}; "
        f"at the end {', '.join(told)}.",
        Axis("tokens read, millions", 0, last),
        Axis("α", 0, 1),
        lines,
        HALF,
        SHORT + 60,
    )


def plot_confidence(bins: Mapping[str, Sequence[Bin]]) -> Panel:
    """Share of nodes accepted against their confidence, a line for each kind of node.

    ``bins`` holds what ``lab.eagle_trials.sort_by_confidence`` gives; the keys are the legend.
    """
    lines = [Line([0, 1], [0, 1], "baseline", "accepted as often as confident")]
    for (name, row), role in zip(bins.items(), ("target", "accepted", "residual"), strict=True):
        points = [(one.confidence, one.accepted) for one in row]
        lines.append(Line(*zip(*points, strict=True), role, name, dots=True))
    counts = ", ".join(f"{name}: {sum(one.count for one in row)}" for name, row in bins.items())
    chart = Chart(
        "Confidence and acceptance",
        f"Share accepted of nodes of similar confidence. Nodes: {counts}.",
        Axis("confidence of a node: the product of q along its path", 0, 1),
        Axis("share accepted", 0, 1),
        lines,
    )
    return Panel({}, lambda: View([chart], f"nodes verified: {counts}"))
