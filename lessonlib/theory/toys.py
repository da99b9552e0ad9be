"""Toy distributions over a handful of tokens, small enough to enumerate every outcome."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np


def random_rows(
    vocab: int, seed: int, exact: bool = False
) -> Callable[[tuple[int, ...]], np.ndarray]:
    """A language in which each context has its own random next-token row (vocab,).

    Float64 rows come from a flat Dirichlet; ``exact`` ones hold Fractions, some of
    them 0. The same seed gives the same language.

    >>> random_rows(3, seed=0, exact=True)((1, 2)).sum()
    Fraction(1, 1)
    """

    def row(context: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, vocab, len(context), *context])
        if not exact:
            return rng.dirichlet(np.ones(vocab))
        counts = rng.integers(0, 9, vocab)
        counts[rng.integers(vocab)] += 1  # never all zero
        return np.array([Fraction(int(count), int(counts.sum())) for count in counts])

    return row
