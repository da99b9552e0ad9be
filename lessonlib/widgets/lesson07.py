"""Widgets of lesson 07: p and q at a temperature with four rates, and where drafting wins.

The controller's timeline is in ``widgets/timeline``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from lessonlib.lab import recordings, recordings07
from lessonlib.theory.temperature import RATES, four_rates, soften
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.contour import Contour
from lessonlib.widgets.controls import Panel, View, chooser, steps_slider
from lessonlib.widgets.doubling import doubling_axis, place
from lessonlib.widgets.heatmap import Cells, Rings, SlowerKey
from lessonlib.widgets.lesson01 import TEMPERATURES, lump_rest
from lessonlib.widgets.lesson01 import _tail as show_tail
from lessonlib.widgets.marks import Axis, Band, Bars, Dots, Line, Rule, token_axis
from lessonlib.widgets.style import HALF, SHORT

# The same look for a rule in every picture of the lesson.
LOOKS = {
    "shared T": "accepted",
    "greedy draft": "residual",
    "exact match": "bonus",
    "draft left at T = 1": "output",
    "top-k tree": "draft",
}
LEVEL_LOOKS = ("baseline", "target")
HEAT = Axis("temperature T", 0, 10, (0, 1, 2, 3, 4, 5, 7, 10))
RATE = Axis("acceptance rate α", 0, 1)


# One context


def view_context(number: int, temperature: float) -> View:
    """p_T and q_T of a recorded context, and the four rates against T with this T marked."""
    context = recordings.load_contexts()[number]
    p, q = (soften(context[name], temperature) for name in ("p_logits", "q_logits"))
    kept = len(context["tokens"])
    rates = four_rates(context["p_logits"], context["q_logits"], temperature)
    words = "  ·  ".join(f"{name} {rate:.3f}" for name, rate in zip(RATES, rates, strict=True))
    bars = Chart(
        f"After “{show_tail(context['text'])}”",
        f"p and q at temperature {temperature:g}. α by rule: {words.replace('  ·  ', ', ')}.",
        token_axis("next token", [*context["tokens"], "the rest"]),
        Axis("probability", 0, 1),
        [
            Bars(lump_rest(p, kept), "target", "target p at T", 0, 2),
            Bars(lump_rest(q, kept), "draft", "draft q at T", 1, 2),
            Bars(lump_rest(np.minimum(p, q), kept), "accepted", "overlap"),
        ],
        height=320,
    )
    return View([bars, _chart_rates(number, temperature, rates)], words)


@lru_cache(maxsize=16)
def _list_curves(number: int) -> np.ndarray:
    """The four rates of a recorded context, a row for each of TEMPERATURES."""
    context = recordings.load_contexts()[number]
    return np.array([four_rates(context["p_logits"], context["q_logits"], T) for T in TEMPERATURES])


def _chart_rates(number: int, temperature: float, rates: Sequence[float]) -> Chart:
    curves = _list_curves(number).T
    marks = [
        Line(TEMPERATURES, curve, LOOKS[name], name)
        for name, curve in zip(RATES, curves, strict=True)
    ]
    marks += [
        Dots([temperature], [float(rate)], LOOKS[name])
        for name, rate in zip(RATES, rates, strict=True)
    ]
    return Chart(
        "Four acceptance rates of this one context",
        f"At T = {temperature:g} a drafted token passes with chance {max(rates):.2f} under the "
        f"best rule and {min(rates):.2f} under the worst.",
        HEAT,
        RATE,
        [*marks, Rule(temperature, "baseline", "now", axis="x")],
        height=SHORT + 50,
    )


def temperature_on_both() -> Panel:
    """Slide T over the recorded contexts; read the four acceptance rates.

    >>> temperature_on_both().readout.value.split("  ·  ")[0][:8]
    'shared T'
    """
    contexts = recordings.load_contexts()
    names = [(show_tail(context["text"], 40), i) for i, context in enumerate(contexts)]
    controls = {
        "number": chooser("context", names),
        "temperature": steps_slider("temperature T", TEMPERATURES, 1.0),
    }
    return Panel(controls, view_context)


# K and T, measured


FIELDS = ("speedup", "low", "high")


def view_speeds(proposer: str) -> View:
    """Measured speedups of one proposer for every recorded K and T."""
    gains, low, high = (recordings07.look_up(proposer, field) for field in FIELDS)
    sure = np.where(low > 1, gains, 0.0)  # faster in every repeat
    best = [int(np.argmax(row)) if max(row) else None for row in sure]
    chart = Chart(
        f"Measured speedup: {proposer}",
        f"Medians on the code prompt, recorded. Of {gains.size} cells {(low > 1).sum()} were "
        f"faster than plain decoding in every repeat and {(high < 1).sum()} slower in every one; "
        "the others are not clear.",
        _cell_axis("K, drafted tokens deep", recordings07.LENGTHS),
        _cell_axis("temperature T", recordings07.TEMPERATURES),
        [
            Cells(gains.tolist()),
            SlowerKey(),
            Contour(gains.tolist()),
            Rings(best, "best K that won every repeat"),
        ],
        height=380,
    )
    return View([chart], f"{proposer}  ·  {_say_winning(sure)}")


def _cell_axis(label: str, values: Sequence[float]) -> Axis:
    places = tuple(range(len(values)))
    return Axis(label, -0.5, len(values) - 0.5, places, tuple(f"{v:g}" for v in values))


def _say_winning(sure: np.ndarray) -> str:
    """At which of the recorded temperatures some K pays for sure."""
    pairs = zip(recordings07.TEMPERATURES, sure, strict=True)
    paying = [f"{T:g}" for T, row in pairs if max(row)]
    return f"some K pays at T = {', '.join(paying)}" if paying else "no K clearly pays at any T"


def map_of_K_and_temperature() -> Panel:
    """Choose a proposer; see at which K and T it was measured to win.

    >>> len(map_of_K_and_temperature().plots)
    1
    """
    names = recordings07.list_proposers()
    controls = {"proposer": chooser("proposer", [(name, i) for i, name in enumerate(names)])}
    return Panel(controls, lambda proposer: view_speeds(names[proposer]))


# Curves of the profile


def plot_rates(
    kinds: Mapping[str, Mapping[str, Sequence[float]]],
    temperatures: Sequence[float],
    levels: Mapping[str, float],
) -> Panel:
    """α(T) by rule, one chart for each kind of text, with break-even lines.

    ``kinds[kind][rule]`` is a curve over ``temperatures``; ``levels`` are one or two rates to
    reach, by name.
    """
    charts = [
        Chart(
            f"α at fixed contexts: {kind}",
            "Above a level line a chain of that length pays, below it it loses.",
            HEAT, RATE,
            [
                *(Line(temperatures, curve, LOOKS[name], name) for name, curve in curves.items()),
                *(
                    Rule(level, role, name)
                    for (name, level), role in zip(levels.items(), LEVEL_LOOKS, strict=False)
                ),
            ],
            height=SHORT + 80,
        )
        for kind, curves in kinds.items()
    ]  # fmt: skip
    return Panel({}, lambda: View(charts, ", ".join(kinds)))


def plot_drift(
    temperatures: Sequence[float],
    fixed: Mapping[str, Sequence[float]],
    own: Mapping[str, Sequence[float]],
) -> Panel:
    """α of each rule at fixed contexts, and in the text that the target wrote at that T."""
    charts = [
        Chart(
            f"What the text adds: {rule}",
            "The solid line keeps the contexts, the dashed one lets the target write them at T.",
            HEAT, RATE,
            [
                Line(temperatures, fixed[rule], "target", "fixed contexts", dots=True),
                Line(temperatures, own[rule], "draft", "its own text", dots=True),
            ],
            HALF, SHORT,
        )
        for rule in fixed
    ]  # fmt: skip
    return Panel({}, lambda: View(charts, ", ".join(fixed)))


def plot_batches(sizes: Sequence[int], gains: Mapping[str, Sequence[float]]) -> Panel:
    """Measured speedup against the batch, on axes that double."""
    speed = doubling_axis("speedup", -3, 2, "×")
    places = [float(np.log2(size)) for size in sizes]
    roles = ("accepted", "residual", "draft", "output")
    lines = [
        Line(places, place(values, speed), role, name, dots=True)
        for (name, values), role in zip(gains.items(), roles, strict=False)
    ]
    chart = Chart(
        "Speedup against batch",
        "Every sequence in the batch drafts; plain decoding of the same batch is 1×.",
        doubling_axis("batch, sequences decoded together", 0, 5),
        speed,
        [Band(speed.low, 0, "residual", "slower than plain decoding", axis="y"), *lines],
    )
    return Panel({}, lambda: View([chart], "1× is plain decoding of the same batch"))
