"""Widgets of lesson 03: build a tree and read its mask, watch paths, weigh a tree against a chain.

The pure functions here compute what is shown and are tested against the theory; the
three factories at the end each return a fresh widget.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lessonlib.theory.siblings import RULES
from lessonlib.theory.treemask import (
    build_mask,
    expected_tokens,
    find_depths,
    find_positions,
    grow_tree,
    trace_path,
)
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, chooser, int_slider, share_slider, steps_slider
from lessonlib.widgets.marks import Axis, Bars, Dots, Line
from lessonlib.widgets.style import SHORT
from lessonlib.widgets.toy_paths import SEEDS, count_paths
from lessonlib.widgets.tree_marks import Cells, TreeNodes

NO_AXIS = Axis("", 1, 0, (1,), ("",))
TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.3, 1.6, 2.0, 3.0, 5.0)
SHAPES = {  # the same number of verified tokens, cut in different ways: (branching, role)
    "one chain": ([1] * 14, "target"),
    "two chains of 7": ([2] + [1] * 6, "draft"),
    "[2, 2, 2]": ([2, 2, 2], "accepted"),
    "14 siblings": ([14], "residual"),
}


# Build a tree


def view_tree(branching: int, depth: int, prefix: int, chosen: int) -> View:
    """The full tree with one node lit, and the mask it is verified with."""
    parents = grow_tree([branching] * depth)
    mask, depths = build_mask(parents, prefix), find_depths(parents)
    path = trace_path(parents, chosen)
    nodes = TreeNodes(
        parents, depths, [str(i) for i in range(len(parents))],
        [f"node {i}" for i in range(len(parents))],
        frozenset(path), chosen, key="node",
    )  # fmt: skip
    tree = Chart(
        "The tree: click a node, or select it with Tab and press Enter",
        f"{len(parents)} nodes behind {prefix} cached tokens; node {chosen} and its ancestors "
        "are lit.",
        Axis("position", -1.4, depth - 0.6, *_list_positions(prefix, depth)),
        NO_AXIS,
        [nodes],
    )
    return View([tree, _chart_mask(mask, prefix, chosen)], _describe_node(parents, prefix, chosen))


def _list_positions(prefix: int, depth: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ticks of the root's and of every depth's position in the text."""
    return tuple(range(-1, depth)), tuple(str(prefix + d) for d in range(-1, depth))


def _describe_node(parents: Sequence[int], prefix: int, node: int) -> str:
    depth, path = find_depths(parents)[node], trace_path(parents, node)
    seen = ", ".join(map(str, path))
    return (
        f"node {node}: depth {depth}, position {prefix} + {depth} = "
        f"{find_positions(parents, prefix)[node]}, sees {prefix} cached tokens and node"
        f"{'s' * (len(path) > 1)} {seen}"
    )


def _chart_mask(mask: np.ndarray, prefix: int, chosen: int) -> Chart:
    """Who may look at whom, the chosen row in full colour."""
    n, columns = mask.shape
    shown = tuple(range(0, n, 1 if n <= 14 else 6))  # there is no room for more numbers
    nodes = tuple(map(str, shown))
    return Chart(
        "The mask: each row is a node, each column what it may look at",
        f"Row {chosen} sees {mask[chosen].sum()} of {columns} columns: the prefix, its "
        "ancestors and itself.",
        Axis("column: cached tokens (t), then nodes", -0.5, columns - 0.5,
             (*range(prefix), *(prefix + i for i in shown)), (*("t" * prefix), *nodes)),
        Axis("row: the node that looks", n - 0.5, -0.5, shown, nodes),
        [
            Cells(mask, "target", "the prefix", 0, prefix, chosen),
            Cells(mask, "accepted", "ancestor or self", prefix, columns, chosen),
        ],
        height=330,
    )  # fmt: skip


def tree_builder() -> Panel:
    """Slide branching, depth and prefix; click a node to see its row of the mask.

    >>> tree_builder().readout.value
    'node 4: depth 1, position 3 + 1 = 4, sees 3 cached tokens and nodes 1, 4'
    """
    controls = {
        "branching": int_slider("branching", 2, 1, 3, "children of each node"),
        "depth": int_slider("depth", 2, 1, 3, "how many tokens deep"),
        "prefix": int_slider("cached tokens", 3, 1, 6, "tokens before the tree"),
    }
    chosen = {"node": 4}

    def pick(key: str, node: int) -> None:
        chosen[key] = node

    def view(branching: int, depth: int, prefix: int) -> View:
        last = len(grow_tree([branching] * depth)) - 1  # the tree may have shrunk
        return view_tree(branching, depth, prefix, min(chosen["node"], last))

    return Panel(controls, view, on_pick=pick)


# Accepted paths


def view_paths(temperature: float, rule: str) -> View:
    """The tree [2, 2, 2] with every edge as thick as it is often accepted, and the lengths."""
    branching = (2, 2, 2)
    accepted, lengths = count_paths(branching, rule, temperature)
    _, chain_lengths = count_paths((1, 1, 1), "independent", temperature)
    parents, shares = grow_tree(branching), accepted / SEEDS
    names = [f"{100 * share:.0f}" for share in shares]
    nodes = TreeNodes(parents, find_depths(parents), names, names, shares=shares, label="accepted")
    tree = Chart(
        f"Which path is accepted: {SEEDS} rounds at temperature {temperature:g}",
        "A node shows in how many of 100 rounds it was accepted, its edge is as wide; the upper "
        "of two siblings is tested first.",
        Axis("depth", -1.4, 2.4, (-1, 0, 1, 2), ("text", "0", "1", "2")),
        NO_AXIS,
        [nodes],
    )
    return View([tree, _chart_lengths(lengths, chain_lengths)], _compare(lengths, chain_lengths))


def _chart_lengths(lengths: np.ndarray, chain_lengths: np.ndarray) -> Chart:
    names = tuple(str(i + 1) for i in range(len(lengths)))
    return Chart(
        "Tokens from one forward of the target",
        "How often a round emits 1, 2, 3 or 4 tokens: the tree against a chain of equal depth.",
        Axis("tokens per round", -0.5, len(lengths) - 0.5, tuple(range(len(lengths))), names),
        Axis("share of rounds", 0, 1),
        [
            Bars(lengths / lengths.sum(), "accepted", "tree [2, 2, 2]", 0, 2, numbers=True),
            Bars(chain_lengths / lengths.sum(), "draft", "chain of 3", 1, 2, numbers=True),
        ],
        height=SHORT,
    )


def _compare(lengths: np.ndarray, chain_lengths: np.ndarray) -> str:
    tree, chain = (
        float(counts @ np.arange(1, len(counts) + 1) / counts.sum())
        for counts in (lengths, chain_lengths)
    )
    return f"tokens per target forward: tree {tree:.2f}, chain of equal depth {chain:.2f}"


def accepted_paths() -> Panel:
    """Slide the temperature and see which path of a drafted tree is accepted, over many seeds."""
    rules = [(rule, i) for i, rule in enumerate(RULES)]
    controls = {
        "temperature": steps_slider("temperature T", TEMPERATURES, 1.0),
        "rule": chooser("siblings are drawn", rules),
    }
    names = list(RULES)
    return Panel(controls, lambda temperature, rule: view_paths(temperature, names[rule]))


# Tree against chain


def pass_rate(children: int, first: float, later: float) -> float:
    """Chance that one of ``children`` siblings passes: the first with ``first``, others ``later``.

    >>> pass_rate(2, 0.6, 0.5)
    0.8
    """
    return 1 - (1 - first) * (1 - later) ** (children - 1)


def shape_tokens(branching: Sequence[int], first: float, later: float) -> float:
    """Tokens per target forward of a tree, if each sibling passes as in ``pass_rate``."""
    return expected_tokens([pass_rate(children, first, later) for children in branching])


def view_shapes(first: float, later: float) -> View:
    """Tokens per target forward of four shapes with the same number of verified tokens."""
    grid = np.linspace(0, 1, 51)
    lines = [
        Line(grid, [shape_tokens(branching, a, later) for a in grid], role, name)
        for name, (branching, role) in SHAPES.items()
    ]
    now = {name: shape_tokens(branching, first, later) for name, (branching, _) in SHAPES.items()}
    best = max(now, key=now.get)
    marks = [*lines, Dots([first] * len(now), list(now.values()), "bonus", "now")]
    curves = Chart(
        "14 verified tokens, cut in four ways",
        f"Tokens per target forward against the chance that a first guess passes; at "
        f"{first:.2f} the best shape is: {best}.",
        Axis("chance that the first guess passes", 0, 1),
        Axis("tokens per target forward", 1, 15, (1, 3, 5, 7, 9, 11, 13, 15)),
        marks,
    )
    forwards = Chart(
        "What drafting costs",
        "Forwards of the draft for one round: one for each depth.",
        Axis("shape", -0.5, len(SHAPES) - 0.5, tuple(range(len(SHAPES))), tuple(SHAPES)),
        Axis("draft forwards", 0, 16),
        [Bars([len(branching) for branching, _ in SHAPES.values()], "draft")],
        height=SHORT - 30,
    )
    numbers = "  ·  ".join(f"{name} {value:.2f}" for name, value in now.items())
    return View([curves, forwards], numbers)


def tree_against_chain() -> Panel:
    """Slide how often a first and a later guess pass; compare shapes of 14 verified tokens.

    >>> tree_against_chain().readout.value.split("  ·  ")[0]
    'one chain 2.50'
    """
    controls = {
        "first": share_slider("first guess passes", 0.6),
        "later": share_slider("later guess passes", 0.4, "given that those before it failed"),
    }
    return Panel(controls, view_shapes)
