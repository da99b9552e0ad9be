"""Widgets of lesson 01: drag p and q, slide temperature and closeness, watch one round.

The pure functions here compute what is shown and are tested against the theory; the
three factories at the end each return a fresh widget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lessonlib.decoding.sampling import warp
from lessonlib.decoding.trace import Trace
from lessonlib.theory.rejection import acceptance_rate, residual
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, chooser, share_slider, steps_slider
from lessonlib.widgets.marks import Axis, Bars, Dots, Handles, Line, token_axis
from lessonlib.widgets.player import Player
from lessonlib.widgets.round_frames import draw_round
from lessonlib.widgets.style import HALF, SHORT

TOKENS = (" mat", " sofa", " floor", " roof", " moon")
STARTS = {  # words on the button: (p, q)
    "start": ((0.40, 0.25, 0.20, 0.10, 0.05), (0.20, 0.40, 0.10, 0.20, 0.10)),
    "p = q": ((0.40, 0.25, 0.20, 0.10, 0.05), (0.40, 0.25, 0.20, 0.10, 0.05)),
    "draft too sure": ((0.40, 0.25, 0.20, 0.10, 0.05), (0.96, 0.01, 0.01, 0.01, 0.01)),
    "no overlap": ((0.60, 0.40, 0.00, 0.00, 0.00), (0.00, 0.00, 0.50, 0.30, 0.20)),
}
TEMPERATURES = (*(i / 10 for i in range(21)), 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
CHANCE = Axis("probability", 0, 1)


def drag_bar(distribution: Sequence[float], bar: int, height: float) -> np.ndarray:
    """Set one entry to ``height`` in [0, 1] and scale the others so that the sum stays 1.

    If the others were all 0, they share what is left evenly.

    >>> drag_bar([0.5, 0.25, 0.25], 0, 0.2).tolist()
    [0.2, 0.4, 0.4]
    """
    moved = np.array(distribution, dtype=float)
    others = np.arange(moved.size) != bar
    rest = moved[others].sum()
    share = moved[others] / rest if rest > 1e-12 else np.full(moved.size - 1, 1 / (moved.size - 1))
    moved[bar] = min(max(height, 0.0), 1.0)
    moved[others] = share * (1 - moved[bar])
    return moved


def view_rejection(tokens: Sequence[str], p: np.ndarray, q: np.ndarray) -> View:
    """p and q with their overlap, the residual, and the output law as accepted plus residual."""
    alpha, accepted = acceptance_rate(p, q), np.minimum(p, q)
    missing = residual(p, q)
    both = Chart(
        "Drag a bar, or select it with Tab and press ↑ ↓",
        f"Target p and draft q, token by token; the hatched overlap sums to α = {alpha:.2f}.",
        token_axis("next token", tokens),
        CHANCE,
        [
            Bars(p, "target", "target p", 0, 2, numbers=True),
            Bars(q, "draft", "draft q", 1, 2, numbers=True),
            Bars(accepted, "accepted", "overlap min(p, q)"),
            Handles(p, "target", "p", tokens, 0, 2),
            Handles(q, "draft", "q", tokens, 1, 2),
        ],
    )
    below = [_chart_residual(tokens, missing), _chart_output(tokens, p, accepted, missing)]
    return View([both, *below], _readout(alpha))


def _readout(alpha: float) -> str:
    return f"α = Σ min(p, q) = {alpha:.2f}  ·  TV(p, q) = 1 − α = {1 - alpha:.2f}"


def _chart_residual(tokens: Sequence[str], missing: np.ndarray) -> Chart:
    return Chart(
        "The residual",
        "Drawn from after a rejection: where p is above q, scaled to sum to 1.",
        token_axis("next token", tokens), CHANCE,
        [Bars(missing, "residual", "(p − q)₊ / (1 − α)", numbers=True)],
        HALF, SHORT,
    )  # fmt: skip


def _chart_output(
    tokens: Sequence[str], p: np.ndarray, accepted: np.ndarray, missing: np.ndarray
) -> Chart:
    """The output law is a sum of two parts; dots at p show that the sum is p."""
    rest = (1 - accepted.sum()) * missing
    return Chart(
        "What comes out",
        "The output law: accepted part plus residual part reach exactly p, whatever q is.",
        token_axis("next token", tokens), CHANCE,
        [
            Bars(accepted, "accepted", "accepted"),
            Bars(rest, "residual", "residual", base=accepted),
            Dots(range(len(tokens)), p, "target", "target p"),
        ],
        HALF, SHORT,
    )  # fmt: skip


def bring_closer(
    context: Mapping, temperature: float, closeness: float
) -> tuple[np.ndarray, np.ndarray]:
    """p and q (V,) of a context at one temperature, the draft's logits moved towards the target's.

    ``closeness`` 0 is the recorded draft, 1 makes it equal to the target.
    """
    target = np.asarray(context["p_logits"], dtype=float)
    draft = np.asarray(context["q_logits"], dtype=float)
    # Log-probabilities first: two models' logits may differ by a constant that means nothing.
    target, draft = (z - np.logaddexp.reduce(z) for z in (target, draft))
    mixed = (1 - closeness) * draft + closeness * target
    return warp(target, temperature), warp(mixed, temperature)


def lump_rest(values: np.ndarray, kept: int) -> np.ndarray:
    """The first ``kept`` values, and the sum of all others if there are others.

    >>> lump_rest(np.array([0.5, 0.2, 0.2, 0.1]), 2).tolist()
    [0.5, 0.2, 0.30000000000000004]
    """
    if len(values) == kept:
        return values
    return np.append(values[:kept], values[kept:].sum())


def view_temperature(context: Mapping, temperature: float, closeness: float) -> View:
    """p and q of a recorded context with their overlap, and α against temperature."""
    p, q = bring_closer(context, temperature, closeness)
    alpha, kept = acceptance_rate(p, q), len(context["tokens"])
    names = [*context["tokens"], "the rest"][: kept + (len(p) > kept)]
    bars = Chart(
        f"After “{_tail(context['text'])}”",
        f"p and q at temperature {temperature:g}; the hatched overlap sums to α = {alpha:.2f}.",
        token_axis("next token", names),
        CHANCE,
        [
            Bars(lump_rest(p, kept), "target", "target p", 0, 2),
            Bars(lump_rest(q, kept), "draft", "draft q", 1, 2),
            Bars(lump_rest(np.minimum(p, q), kept), "accepted", "overlap min(p, q)"),
        ],
        height=330,
    )
    return View([bars, _chart_alpha(context, temperature, closeness, alpha)], _readout(alpha))


def _tail(text: str, longest: int = 60) -> str:
    """The end of a text on one line."""
    line = text.replace("\n", "⏎").replace("\t", "⇥")
    return line if len(line) <= longest else "…" + line[-longest + 1 :]


def _chart_alpha(context: Mapping, temperature: float, closeness: float, alpha: float) -> Chart:
    """α at every temperature of the slider, with the present one marked."""
    curve = [acceptance_rate(*bring_closer(context, t, closeness)) for t in TEMPERATURES]
    return Chart(
        "Acceptance rate against temperature",
        "α for this context when target and draft share one temperature T.",
        Axis("temperature T", 0, 10, (0, 1, 2, 3, 4, 5, 7, 10)),
        Axis("α", 0, 1),
        [
            Line(TEMPERATURES, curve, "accepted", "α(T)"),
            Dots([temperature], [alpha], "bonus", "now"),
        ],
        height=SHORT - 20,
    )


def drag_p_and_q(tokens: Sequence[str] = TOKENS) -> Panel:
    """p and q as bars to drag; watch the overlap, the residual and the output law.

    >>> drag_p_and_q().readout.value.split("  ·")[0]
    'α = Σ min(p, q) = 0.70'
    """
    rows = {"p": np.array(STARTS["start"][0]), "q": np.array(STARTS["start"][1])}

    def move(key: str, bar: int, height: float) -> None:
        rows[key] = drag_bar(rows[key], bar, height)

    def set_to(name: str) -> None:
        rows["p"], rows["q"] = (np.array(row) for row in STARTS[name])

    buttons = {name: lambda name=name: set_to(name) for name in STARTS}
    return Panel({}, lambda: view_rejection(tokens, rows["p"], rows["q"]), move, buttons)


def temperature_and_closeness(contexts: Sequence[Mapping]) -> Panel:
    """Slide the temperature, and the closeness of q to p, over recorded contexts.

    A context is a mapping: ``text`` (str), ``tokens`` (about 12 strings), ``p_logits``
    and ``q_logits`` (V,), both in the same order with the logits of ``tokens`` first.
    What follows them is drawn as one bar, "the rest", but counts in full.
    """
    if not contexts:
        raise ValueError("contexts is empty: pass at least one recorded context")
    names = [(_tail(context["text"], 40), i) for i, context in enumerate(contexts)]
    controls = {
        "context": chooser("context", names),
        "temperature": steps_slider("temperature T", TEMPERATURES, 1.0),
        "closeness": share_slider("closeness of q to p", 0.0, "0: the recorded draft, 1: q = p"),
    }

    def view(context: int, temperature: float, closeness: float) -> View:
        return view_temperature(contexts[context], temperature, closeness)

    return Panel(controls, view)


def round_player(trace: Trace, number: int = 0) -> Player:
    """Step through one round of a recorded trace; ``number`` 0 is the first round."""
    return Player(draw_round(trace, number))
