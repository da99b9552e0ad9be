"""Many rounds over a tree of a made-up pair: which node is accepted how often, for pictures."""

from __future__ import annotations

from functools import cache

import numpy as np

from lessonlib.decoding.sampling import warp
from lessonlib.theory.siblings import RULES
from lessonlib.theory.treemask import grow_tree
from lessonlib.theory.trees import ROOT, Proposal
from lessonlib.theory.verify import verify

VOCAB, SEEDS = 8, 100


@cache
def toy_rows(context: tuple[int, ...], temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """p and q (VOCAB,) of a made-up language: the draft is the target, blurred."""
    rng = np.random.default_rng([3, len(context), *context])
    logits = 1.6 * rng.normal(size=VOCAB)
    return warp(logits, temperature), warp(logits + 1.4 * rng.normal(size=VOCAB), temperature)


@cache
def count_paths(
    branching: tuple[int, ...], rule: str, temperature: float, seeds: int = SEEDS
) -> tuple[np.ndarray, np.ndarray]:
    """Counts over many rounds: how often each node was accepted, and how many depths were.

    A node here is a place in the full tree: the first or second guess, below the first or
    second guess, and so on.
    """
    full = grow_tree(branching)
    accepted, lengths = np.zeros(len(full), dtype=int), np.zeros(len(branching) + 1, dtype=int)
    for seed in range(seeds):
        coins = iter(np.random.default_rng(seed).random, None)
        proposal, places, p_rows = _draft_tree(branching, rule, temperature, coins)
        path = verify(proposal, p_rows, coins).path
        accepted[[places[node] for node in path]] += 1
        lengths[len(path)] += 1
    return accepted, lengths


def _draft_tree(branching, rule, temperature, coins):
    """A drafted tree, the place of each of its nodes in the full tree, and the target's rows."""
    full = grow_tree(branching)
    below = {
        place: [i for i, above in enumerate(full) if above == place]
        for place in (-1, *range(len(full)))
    }
    tokens, parents, q_rows, places, texts = [], [], [], [], {ROOT: ()}
    level = [ROOT]
    for children in branching:
        start = len(tokens)
        for parent in level:
            q = toy_rows(texts[parent], temperature)[1]
            place = ROOT if parent == ROOT else places[parent]
            # Fewer guesses than places where the draft has no more tokens to offer.
            drafted = RULES[rule](q, children, coins)
            for (token, row), spot in zip(drafted, below[place], strict=False):
                texts[len(tokens)] = (*texts[parent], token)
                tokens.append(token)
                parents.append(parent)
                q_rows.append(row)
                places.append(spot)
        level = list(range(start, len(tokens)))
    p_rows = [toy_rows(texts[node], temperature)[0] for node in (ROOT, *range(len(tokens)))]
    return Proposal(tuple(tokens), tuple(parents), tuple(q_rows)), places, p_rows
