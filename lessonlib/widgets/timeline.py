"""Widget of lesson 07: the controller's timeline, simulated under sliders or as it ran live."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lessonlib.theory.controller import PLAIN, PROBE, Played, Settings, measure_gain, simulate_gate
from lessonlib.theory.speedup import expected_tokens
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, int_slider, share_slider, steps_slider
from lessonlib.widgets.marks import Axis, Band, Line, Rule
from lessonlib.widgets.style import SHORT

K, COST = 4, 2.0  # the simulated proposer: depth, and target forwards per drafted round
CHANGES = (0, 300, 600, 900)  # where the workload turns cold, hot, cold, and ends
MARGINS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
SEED = 3


def view_simulation(cold: float, hot: float, window: int, hysteresis: float, probe: int) -> View:
    """A gate over a workload that heats up and cools down, against drafting always and never."""
    settings = Settings(window, COST, hysteresis, probe)
    gated, always = (play_workload(s, cold, hot) for s in (settings, Settings(threshold=0.0)))
    phases = [(CHANGES[0], CHANGES[1], cold), (CHANGES[1], CHANGES[2], hot),
              (CHANGES[2], CHANGES[3], cold)]  # fmt: skip
    expected = [(start, end, expected_tokens(alpha, K)) for start, end, alpha in phases]
    charts = [draw_modes(gated, settings, expected, K), draw_speeds(gated, always)]
    flips = sum(a.mode != b.mode for a, b in pairwise(gated))
    readout = (
        f"gated {measure_gain(gated):.2f}×  ·  always drafting {measure_gain(always):.2f}×  ·  "
        f"never 1.00×  ·  {flips} changes of mode"
    )
    return View(charts, readout)


def play_workload(settings: Settings, cold: float, hot: float) -> list[Played]:
    """The simulated rounds; the same seed for every setting, so that only settings differ."""

    def alpha_at(position: int) -> float:
        return hot if CHANGES[1] <= position < CHANGES[2] else cold

    coins = iter(np.random.default_rng(SEED).random, None)
    return simulate_gate(settings, alpha_at, CHANGES[-1], K, COST, coins)


def draw_modes(
    rounds: Sequence[Played],
    settings: Settings,
    phases: Sequence[tuple[float, float, float]],
    depth: int,
) -> Chart:
    """Tokens per round over the text, as the gate saw them, with its silence shaded.

    ``phases`` are (start, end, tokens per round to expect); NaN draws no expectation.
    """
    end = rounds[-1].start + rounds[-1].tokens
    bands = list_silences(rounds)
    known = any(math.isfinite(tokens) for *_, tokens in phases)
    marks = [
        *(Band(low, high, "baseline", "plain decoding" * (i == 0))
          for i, (low, high) in enumerate(bands)),
        *([Line(*_draw_steps(phases), "output", "expected, unknown to the gate")] if known else []),
        Line([p.start for p in rounds], trail_means(rounds, settings.window), "target",
             "mean of the window"),
        Rule(settings.threshold, "accepted", "threshold"),
        Rule(settings.threshold + settings.hysteresis, "bonus", "to come back"),
        *(Rule(start, "baseline", axis="x") for start, _, _ in phases[1:]),
    ]  # fmt: skip
    shown = 1 - sum(high - low for low, high in bands) / end
    return Chart(
        "The gate's timeline",
        f"Shaded where it decodes plainly; it drafted for {100 * shown:.0f} % of the tokens.",
        Axis("tokens of text", 0, end),
        Axis("tokens per round", 1, depth + 1),
        marks,
        height=SHORT + 90,
    )


def list_silences(rounds: Sequence[Played]) -> list[tuple[int, int]]:
    """The stretches (from, to) of the text that were decoded plainly.

    >>> list_silences([Played(0, "draft", 2, 2.0), Played(2, "plain", 1, 1.0)])
    [(2, 3)]
    """
    found: list[tuple[int, int]] = []
    for played in rounds:
        if played.mode != PLAIN:
            continue
        if found and found[-1][1] == played.start:
            found[-1] = (found[-1][0], played.start + played.tokens)
        else:
            found.append((played.start, played.start + played.tokens))
    return found


def trail_means(rounds: Sequence[Played], window: int) -> list[float]:
    """Mean tokens of the rounds in the gate's window; NaN while it is not drafting.

    >>> trail_means([Played(0, "draft", 3, 2.0), Played(3, "draft", 1, 2.0)], 2)
    [3.0, 2.0]
    """
    means, recent = [], []
    for before, played in zip([None, *rounds], rounds, strict=False):
        if played.mode == PLAIN:
            means.append(math.nan)
            continue
        if played.mode == PROBE and before is not None and before.mode == PLAIN:
            recent = []
        recent = [*recent, played.tokens][-window:]
        means.append(sum(recent) / len(recent))
    return means


def _draw_steps(phases: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Corners of a line that is flat within each phase."""
    x = [edge for start, end, _ in phases for edge in (start, end)]
    return x, [value for _, _, value in phases for _ in range(2)]


def draw_speeds(gated: Sequence[Played], always: Sequence[Played]) -> Chart:
    """The speedup so far, over the text, of the gate and of drafting in every round."""
    end = max(rounds[-1].start + rounds[-1].tokens for rounds in (gated, always))
    return Chart(
        "Speed so far",
        "Tokens emitted per target forward paid, from the beginning; 1 is plain decoding.",
        Axis("tokens of text", 0, end),
        Axis("speedup so far", 0, 2.5),
        [
            Band(0, 1, "residual", "slower than plain decoding", axis="y"),
            Line(*run_speed(gated), "target", "gated"),
            Line(*run_speed(always), "draft", "always drafting"),
        ],
        height=SHORT + 20,
    )


def run_speed(rounds: Sequence[Played]) -> tuple[list[float], list[float]]:
    """(tokens so far, speedup so far) after each round; beyond the axis it is clipped."""
    tokens = np.cumsum([played.tokens for played in rounds])
    costs = np.cumsum([played.cost for played in rounds])
    return tokens.tolist(), np.clip(tokens / costs, 0, 2.5).tolist()


def controller_timeline() -> Panel:
    """Slide window, hysteresis and probe; watch the gate fall back and return.

    >>> controller_timeline().readout.value.split("  ·  ")[2]
    'never 1.00×'
    """
    controls = {
        "cold": share_slider("α while cold", 0.75),
        "hot": share_slider("α while hot", 0.15),
        "window": int_slider("window, rounds", 12, 1, 40, "how many rounds are judged together"),
        "hysteresis": steps_slider("hysteresis, tokens", MARGINS, 0.3, "asked for to come back"),
        "probe": int_slider("probe after, rounds", 40, 1, 120, "plain rounds between probes"),
    }
    return Panel(controls, view_simulation)


def plot_timeline(
    rounds: Sequence[Played], always: Sequence[Played], settings: Settings,
    starts: Sequence[int], depth: int,
) -> Panel:  # fmt: skip
    """A live run as the simulation draws it; ``starts`` are where requests begin."""
    edges = [*starts, rounds[-1].start + rounds[-1].tokens]
    phases = [(a, b, math.nan) for a, b in pairwise(edges)]
    charts = [draw_modes(rounds, settings, phases, depth), draw_speeds(rounds, always)]
    return Panel({}, lambda: View(charts, f"gated {measure_gain(rounds):.2f}× by its costs"))
