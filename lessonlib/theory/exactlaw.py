"""The exact joint law of a speculative round, and of the target it must equal.

Built on ``theory/coins``: every world a round can lead to is visited, in float64 or,
on Fractions, exactly. First-token laws miss half of the known mistakes; these are
laws of K + 1 tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lessonlib.theory.coins import Law, World, law_of
from lessonlib.theory.rejection import draw

Row = Callable[[tuple[int, ...]], np.ndarray]  # context -> distribution of the next token


def target_law(p_of: Row, length: int, context: tuple[int, ...] = ()) -> Law:
    """The target's own joint law of the next ``length`` tokens: the product of its rows."""
    law: Law = {(): 1}
    for _ in range(length):
        law = {
            (*tokens, x): weight * chance
            for tokens, weight in law.items()
            for x, chance in enumerate(p_of((*context, *tokens)))
            if chance > 0
        }
    return law


def round_law(round_of: Callable, p_of: Row, q_of: Row, K: int) -> Law:
    """The law of what one round emits (a tuple of 1 to K + 1 tokens), drafting included.

    ``round_of(p_rows, q_rows, drafted, u)`` is an implementation as in
    ``verify.speculative_round``: a learner's, a mutant's, or ours.
    """

    def run(coins: World) -> tuple[int, ...]:
        drafted: list[int] = []
        for _ in range(K):
            drafted.append(draw(q_of(tuple(drafted)), coins.random()))
        prefixes = [tuple(drafted[:j]) for j in range(K + 1)]
        p_rows = np.array([p_of(prefix) for prefix in prefixes])
        q_rows = np.array([q_of(prefix) for prefix in prefixes[:K]])
        u = [coins.random() for _ in range(K + 1)]
        return tuple(int(x) for x in round_of(p_rows, q_rows, drafted, u))

    return law_of(run)


def complete_law(law: Law, p_of: Row, length: int) -> Law:
    """Fill every outcome up to ``length`` tokens from the target itself.

    A round emits between 1 and K + 1 tokens; filled up to K + 1 they have a joint law
    that must equal ``target_law``. First-token tests miss half of the known mistakes.
    """
    filled: Law = {}
    for tokens, weight in law.items():
        for rest, chance in target_law(p_of, length - len(tokens), tokens).items():
            key = (*tokens, *rest)
            filled[key] = filled.get(key, 0) + weight * chance
    return filled


def total_variation(first: Law, second: Law) -> float:
    """TV distance of two laws: half the sum of absolute differences.

    >>> total_variation({"a": 1.0}, {"a": 0.75, "b": 0.25})
    0.25
    """
    return sum(abs(first.get(x, 0) - second.get(x, 0)) for x in {*first, *second}) / 2
