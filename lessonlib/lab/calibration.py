"""What a round of each proposer costs and brings here, and so how much it should draft.

The speedup is E / (c K + v) (`theory/speedup`). c and v are ratios of seconds, measured in
turn with plain decoding. E is counted, not computed from one α: acceptance varies with the
context and with the draft position, and then the formula of a single α is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from statistics import median

import numpy as np

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Round, Trace
from lessonlib.lab.bench_rows import Costs, count_asked
from lessonlib.lab.proposers import Proposer, Size
from lessonlib.lab.race import play_turn
from lessonlib.lab.timing import time_interleaved
from lessonlib.lab.turns import Turn
from lessonlib.theory.treemask import under_root

DEEPEST = 8  # the longest draft that is tried where nobody asks for one
NODES = (4, 8, 16, 24)
TOKENS = 48


def calibrate(
    target, proposers: Mapping[str, Proposer], prompt: Sequence[int],
    temperatures: Sequence[float],
    K: int | None = None, progress: Callable[[], object] = lambda: None,
) -> dict[str, Costs]:  # fmt: skip
    """The size of each proposer's rounds that the formula likes best, with its c and v.

    Every proposer drafts as much as it may, once at each temperature, in turn with plain
    decoding; what it would have brought with less is counted from those rounds. ``K``
    fixes the depth. ``progress`` is called after each turn, and once for the widths.
    """
    deepest = K or DEEPEST
    tokens = min(max(TOKENS, 3 * deepest), target.context - len(prompt))
    turns: dict[str, list[tuple[Turn, Turn]]] = {name: [] for name in proposers}
    for seed, T in enumerate(temperatures):
        how = {"tokens": tokens, "sampling": Sampling(T), "seed": seed}
        plain = play_turn(target, None, None, prompt, **how)
        progress()
        for name, proposer in proposers.items():
            largest = proposer.size(deepest, max(NODES))
            turns[name].append((plain, play_turn(target, proposer, largest, prompt, **how)))
            progress()
    sizes = {name: list_sizes(proposer, deepest, K) for name, proposer in proposers.items()}
    v = measure_widths(target, prompt, {size for found in sizes.values() for size in found})
    progress()
    found = {}
    for name, pairs in turns.items():
        c = median(measure_c(plain, turn, deepest) for plain, turn in pairs)
        rounds = list_full_rounds([turn.trace for _, turn in pairs], deepest)
        size = max(sizes[name], key=lambda s, c=c, r=rounds: count_tokens(r, s) / (c * s.K + v[s]))
        found[name] = Costs(size, c, v[size])
    return found


def list_sizes(proposer: Proposer, deepest: int, K: int | None = None) -> list[Size]:
    """The sizes to choose from, the smallest first; with ``K`` only those of that depth.

    >>> [str(size) for size in list_sizes(Proposer(None), deepest=3)]
    ['1', '2', '3']
    >>> [size.nodes for size in list_sizes(Proposer(None, nodes=24), 3, K=3)]
    [4, 8, 16, 24]
    """
    depths = [K] if K else range(1, deepest + 1)
    nodes = NODES if proposer.nodes else (None,)
    return [proposer.size(depth, count) for depth in depths for count in nodes]


def measure_c(plain: Turn, turn: Turn, K: int) -> float:
    """c: seconds of one of the draft's forwards, over those of a plain target forward."""
    forwards = max(1, count_asked(turn.trace, K) - 1)  # the first one is its prefill, off the clock
    return turn.draft / forwards / (plain.target / plain.rounds)


def measure_widths(target, prompt: Sequence[int], sizes: set[Size]) -> dict[Size, float]:
    """v for each size: verifying all its tokens at once, in plain forwards, behind ``prompt``.

    A tree is run as a tree, mask included; a size too wide for the context as far as it goes.
    """
    cache = target.new_cache()
    rows = max(0, len(prompt) - 1)
    if rows:
        target.forward(list(prompt[:-1]), cache)

    def forward(width: int, is_tree: bool):
        width = min(width, target.context - rows)
        parents = under_root([-1] * (width - 1)) if is_tree else None

        def run():
            target.forward([0] * width, cache, parents)
            cache.rollback(rows)

        return run

    shapes = {(size.width, size.nodes is not None) for size in sizes}
    seconds = time_interleaved(
        {"one": forward(1, False), **{shape: forward(*shape) for shape in sorted(shapes)}},
        repeats=15,
    )
    return {s: seconds[s.width, s.nodes is not None] / seconds["one"] for s in sizes}


def list_full_rounds(traces: Sequence[Trace], K: int) -> list[Round]:
    """The rounds that had room to draft K deep; all of them if none had."""
    rounds, full = [], []
    for trace in traces:
        end = len(trace.prompt) + len(trace.new_tokens)
        rounds += trace.rounds
        full += [round for round in trace.rounds if end - round.start > K]
    return full or rounds


def count_tokens(rounds: Sequence[Round], size: Size) -> float:
    """E: tokens a round would have emitted at ``size``, from rounds that drafted more.

    Nodes come best first and siblings are tried in that order, so a smaller tree is the
    first nodes of the larger one: an accepted node is kept if it is among them, and no
    deeper than K.
    """
    largest = size.width - 1
    kept = []
    for round in rounds:
        path = [test.node for test in round.tests if test.accepted][: size.K]
        kept.append(len(list(takewhile(lambda node: node < largest, path))))
    return 1 + float(np.mean(kept))
