"""Widgets of lesson 06: watch EAGLE-2's tree grow, and compare the heads by draft position.

Trees and heads are recordings; cutting, reranking and verifying a tree is done live, with
the functions that decoding uses. The two factories each return a fresh widget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lessonlib.lab.headrecords import HeadRecord, load_heads
from lessonlib.lab.recordings06 import DEEPEST, PROMPTS, WIDTHS, load_trees
from lessonlib.theory.treemask import expected_tokens
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, chooser, int_slider, steps_slider
from lessonlib.widgets.growth_frames import draw_growth, place_nodes
from lessonlib.widgets.growth_scene import Scene, describe
from lessonlib.widgets.marks import Axis, Line, Rule
from lessonlib.widgets.player_panel import PlayerPanel, Reel
from lessonlib.widgets.style import HALF, SHORT

BUDGETS = (8, 16, 24)
LOOKS = {  # kind of head: (words, role)
    "eagle1": ("EAGLE-1/2", "draft"),
    "eagle1-unshifted": ("no shift", "baseline"),
    "eagle3": ("EAGLE-3", "target"),
    "eagle3-one-step": ("one step", "residual"),
    "eagle3-top": ("top only", "accepted"),
}


# The growing tree


def show_growth(name: str, K: int, top_k: int, nodes: int, temperature: float) -> Reel:
    """The frames of one tree: grown K levels deep, cut to ``nodes`` nodes, verified."""
    recording = load_trees()
    tree = recording.trees[name, top_k]
    growth = tree.cut(K)
    places = place_nodes(growth, top_k, max(BUDGETS))
    growth.rerank(nodes)
    judged = tree.judge(growth, temperature)
    text = recording.texts[name]
    scene = Scene(growth, judged, recording.pieces, text, top_k, temperature, places)
    trusted, reached = np.exp(growth.scores), tree.reach(temperature)
    expected = [1 + float(chances[growth.kept].sum()) for chances in (trusted, reached)]
    steps, names = draw_growth(scene)
    return Reel(steps, names, describe(scene, expected))


def growing_tree() -> PlayerPanel:
    """Choose a prompt; slide depth, width, node budget and temperature; step through the growth.

    >>> growing_tree().readout.value.split("  ·  ")[0]
    '16 of 52 kept'
    """
    prompts = list(PROMPTS)
    controls = {
        "prompt": chooser("prompt", [(name, i) for i, name in enumerate(prompts)]),
        "K": int_slider("K, depth of the tree", 4, 1, DEEPEST, "K: levels the head drafts"),
        "top_k": steps_slider("width, top_k", WIDTHS, 4, "nodes run a level, children of each"),
        "nodes": steps_slider("node budget", BUDGETS, 16, "nodes that the target verifies"),
        "temperature": steps_slider("temperature T", (0.0, 1.0), 0.0, "T of the verdict"),
    }
    return PlayerPanel(controls, lambda prompt, **rest: show_growth(prompts[prompt], **rest))


# The heads by position


def chain_tokens(rates: Sequence[float], K: int) -> float:
    """Tokens per target forward of a chain of K, if position k passes at ``rates[k]``.

    >>> chain_tokens([0.5, 0.4, 0.4], 2)
    1.7
    """
    return expected_tokens(rates[:K])


def view_positions(temperature: float, K: int, heads: Mapping[str, HeadRecord]) -> View:
    """α by position beside the expected tokens by K, for every recorded head."""
    rates = {kind: head.by_position[temperature] for kind, head in heads.items()}
    longest = min(map(len, rates.values()))
    tokens = {
        kind: [chain_tokens(row, n) for n in range(1, longest + 1)] for kind, row in rates.items()
    }
    told = [f"{LOOKS[kind][0]} {row[K - 1]:.2f}" for kind, row in tokens.items()]
    falls = [f"{LOOKS[kind][0]} {row[0]:.2f} → {row[K - 1]:.2f}" for kind, row in rates.items()]
    charts = [
        _draw_lines(
            "Acceptance by draft position",
            f"Held-out text, T = {temperature:g}, position 1 → {K}: {', '.join(falls)}.",
            Axis("position in the drafted chain", 1, longest, tuple(range(1, longest + 1))),
            Axis("α", 0, 1),
            rates,
            K,
        ),
        _draw_lines(
            "Tokens per target forward",
            f"E = 1 + α₁ + α₁α₂ + …, up to K = {K}: {', '.join(told)}.",
            Axis("K, drafted tokens", 1, longest, tuple(range(1, longest + 1))),
            Axis("E", 1, _find_ceiling(heads)),
            tokens,
            K,
        ),
    ]
    return View(charts, "E: " + "  ·  ".join(told))


def _find_ceiling(heads: Mapping[str, HeadRecord]) -> int:
    """A whole number that no E exceeds, at any temperature: the axis does not move."""
    rows = [row for head in heads.values() for row in head.by_position.values()]
    return max(2, math.ceil(max(expected_tokens(row) for row in rows)))


def _draw_lines(title, caption, x_axis, y_axis, values, K: int) -> Chart:
    """A line with markers for each head, and a rule at K."""
    marks = [Rule(K, "bonus", axis="x")]
    for kind, row in values.items():
        words, role = LOOKS[kind]
        places = range(1, len(row) + 1)
        marks.append(Line(places, row, role, words, dots=True))
    return Chart(title, caption, x_axis, y_axis, marks, HALF, SHORT + 60)


def positions_compared(heads: Mapping[str, HeadRecord] | None = None) -> Panel:
    """Slide temperature and K over the recorded heads: α by position, and tokens per forward.

    Without ``heads``, those recorded with the course are compared.

    >>> head = HeadRecord("eagle1", {1.0: 0.5}, {1.0: [0.5, 0.4], 0.0: [0.4, 0.2]})
    >>> positions_compared({"eagle1": head}).readout.value
    'E: EAGLE-1/2 1.70'
    """
    heads = load_heads() if heads is None else heads
    if not heads:
        raise ValueError("heads is empty: pass at least one recorded head")
    grids = [set(head.by_position) for head in heads.values()]
    temperatures = sorted(set.intersection(*grids))
    longest = min(len(row) for head in heads.values() for row in head.by_position.values())
    start = 1.0 if 1.0 in temperatures else temperatures[0]
    controls = {
        "temperature": steps_slider("temperature T", temperatures, start, "T of both models"),
        "K": int_slider("K, drafted tokens", longest, 1, longest, "length of the chain"),
    }
    return Panel(controls, lambda **values: view_positions(**values, heads=heads))
