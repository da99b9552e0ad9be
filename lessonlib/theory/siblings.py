"""Several guesses for one token: how siblings are chosen, and how one of them is accepted.

There are three ways to choose them, and all keep the target's law, because each sibling
carries the row it was really drawn from. Sources: SpecInfer, Miao et al. 2023
(arXiv 2305.09781), section 4.3; without replacement, Jeon et al. 2024 (arXiv 2402.14160).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lessonlib.theory.exactlaw import Law, law_of
from lessonlib.theory.rejection import draw, one_hot
from lessonlib.theory.trees import CHOSEN, ROOT, Proposal
from lessonlib.theory.verify import verify

Siblings = list[tuple[int, np.ndarray | str]]  # (token, the row it was drawn from)
Choice = tuple[int | None, int]  # (the accepted sibling or None, the token that comes out)


def draw_independently(q: np.ndarray, count: int, coins: Iterator[float]) -> Siblings:
    """``count`` draws from q (V,), twins included: each carries the plain row.

    >>> [x for x, _ in draw_independently(np.array([0.5, 0.5]), 2, iter([0.1, 0.2]))]
    [0, 0]
    """
    return [(draw(q, next(coins)), q) for _ in range(count)]


def draw_without_replacement(q: np.ndarray, count: int, coins: Iterator[float]) -> Siblings:
    """Up to ``count`` different draws: each carries q without those before it, renormalised.

    >>> draw_without_replacement(np.array([0.5, 0.5]), 3, iter([0.1, 0.2]))
    [(0, array([0.5, 0.5])), (1, array([0., 1.]))]
    """
    siblings: Siblings = []
    for left in range(min(count, np.count_nonzero(q)), 0, -1):
        siblings.append((draw(q, next(coins)), q))
        if left > 1:
            q = q * (np.arange(len(q)) != siblings[-1][0])
            q = q / q.sum()
    return siblings


def take_top(q: np.ndarray, count: int, coins: Iterator[float]) -> Siblings:
    """The ``count`` likeliest tokens, ties to the lower id: chosen, so without a row.

    >>> take_top(np.array([0.1, 0.5, 0.4]), 2, iter([]))
    [(1, 'chosen'), (2, 'chosen')]
    """
    order = np.argsort(-q, kind="stable")[: min(count, np.count_nonzero(q))]
    return [(int(token), CHOSEN) for token in order]


RULES: dict[str, Callable[[np.ndarray, int, Iterator[float]], Siblings]] = {
    "independent": draw_independently,
    "without replacement": draw_without_replacement,
    "top-k": take_top,
}


def accept_sibling(
    p: np.ndarray, tokens: Sequence[int], q_rows: Sequence[np.ndarray], u: Sequence[float]
) -> Choice:
    """Accept one of the siblings ``tokens``, or draw from what p (V,) has left: (which, token).

    ``q_rows[i]`` (V,) is the row sibling i was drawn from, one-hot if it was chosen;
    ``u`` holds one uniform for each sibling and one for the draw. The token follows p.

    >>> accept_sibling(np.array([0.2, 0.8]), [0], [np.array([0.5, 0.5])], [0.9, 0.3])
    (None, 1)
    """
    siblings = Proposal(tuple(tokens), (ROOT,) * len(tokens), tuple(q_rows))
    verdict = verify(siblings, [p] * (len(tokens) + 1), iter(u))
    if verdict.path:
        return verdict.path[0], tokens[verdict.path[0]]
    return None, verdict.token


def sibling_law(choose: Callable, p: np.ndarray, q: np.ndarray, rule: str, count: int) -> Law:
    """The exact law of what ``choose(p, tokens, q_rows, u)`` returns, the drawing included.

    ``rule`` names in RULES how ``count`` siblings are taken from q; ``choose`` is an
    implementation as ``accept_sibling``.
    """

    def run(coins) -> Choice:
        siblings = RULES[rule](q, count, iter(coins.random, None))
        tokens = [token for token, _ in siblings]
        rows = [one_hot(x, len(p)) if isinstance(row, str) else row.copy() for x, row in siblings]
        return choose(p.copy(), tokens, rows, [coins.random() for _ in range(len(tokens) + 1)])

    return law_of(run)


def token_law(law: Law) -> Law:
    """The law of the token alone, whichever sibling it came from."""
    alone: Law = {}
    for (_, token), weight in law.items():
        alone[token] = alone.get(token, 0) + weight
    return alone
