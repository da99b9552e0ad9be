"""One verifier for every proposal, chain or tree: walk down, accept, or close the round.

Siblings are tried one after another, and after each rejection the target's row is
replaced by its residual (SpecInfer, arXiv 2305.09781, section 4.3). For a chain
this is exactly Leviathan's round. What a sibling was drawn from is in its q row, so
independent draws, draws without replacement and fixed choices need no other code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.theory.rejection import acceptance_probability, acceptance_rate, draw, residual
from lessonlib.theory.trees import ROOT, Proposal, chain


@dataclass(frozen=True)
class Test:
    """One decision: accepted if and only if ``coin`` (a uniform) < ``ratio`` = min(1, p/q).

    ``p`` and ``q`` are the probabilities of ``token`` in the two rows compared, and
    ``alpha`` is Σ min(p, q) over the whole rows: the chance that this test would pass
    for a token drawn afresh.
    """

    __test__ = False  # the name is the field's, not pytest's

    node: int
    token: int
    p: float
    q: float
    ratio: float
    coin: float
    accepted: bool
    alpha: float


@dataclass(frozen=True)
class Verdict:
    """How a round ended: the accepted path, then one token that closes it."""

    path: tuple[int, ...]  # accepted nodes, from the top down
    token: int  # drawn from the residual ("recovered") or from p itself ("bonus")
    kind: str
    tests: tuple[Test, ...]  # in the order they were made


def verify(proposal: Proposal, p_rows: Sequence[np.ndarray], coins: Iterator[float]) -> Verdict:
    """Decide a proposal of n nodes with the target's rows ``p_rows`` (n + 1, V).

    Row 0 is the target's distribution after ROOT, row i + 1 the one after node i.
    ``coins`` yields fresh uniforms in [0, 1): one for each test, one for the close.
    Raises ValueError if the number of rows does not fit.

    >>> p = np.array([[0.2, 0.8], [0.5, 0.5]])
    >>> verdict = verify(chain([0], [np.array([0.5, 0.5])]), p, iter([0.9, 0.3]))
    >>> verdict.tests[0].ratio, verdict.path, verdict.token, verdict.kind
    (0.4, (), 1, 'recovered')
    """
    if len(p_rows) != len(proposal.tokens) + 1:
        raise ValueError(
            f"p_rows has {len(p_rows)} rows for {len(proposal.tokens)} drafted tokens: "
            "pass one for the root and one for each node"
        )
    node, p, path, tests = ROOT, p_rows[0], [], []
    while True:
        accepted, p, kind = _try_children(proposal, node, p, coins, tests)
        if accepted is None:
            return Verdict(tuple(path), draw(p, next(coins)), kind, tuple(tests))
        path.append(accepted)
        node, p = accepted, p_rows[accepted + 1]


def _try_children(proposal, node, p, coins, tests):
    """Test the children of ``node`` in order: (the accepted one or None, the row left, kind)."""
    kind = "bonus"
    for child in proposal.children(node):
        x, q = proposal.tokens[child], proposal.q_row(child, len(p))
        ratio, coin = acceptance_probability(p, q, x), next(coins)
        accepted = bool(coin < ratio)
        tests.append(Test(child, x, p[x], q[x], ratio, coin, accepted, acceptance_rate(p, q)))
        if accepted:
            return child, p, kind
        p, kind = residual(p, q), "recovered"
    return None, p, kind


def speculative_round(
    p_rows: Sequence[np.ndarray],
    q_rows: Sequence[np.ndarray],
    drafted: Sequence[int],
    u: Sequence[float],
) -> list[int]:
    """One round over a chain: the accepted tokens, then one recovered or bonus token.

    ``p_rows`` is (K + 1, V), ``q_rows`` (K, V), ``drafted`` K tokens, ``u`` K + 1 uniforms.
    Source: Leviathan et al. 2023, algorithm 1.

    >>> p = np.array([[0.2, 0.8], [0.5, 0.5]])
    >>> speculative_round(p, [np.array([0.5, 0.5])], [1], [0.7, 0.3])
    [1, 0]
    """
    verdict = verify(chain(drafted, q_rows), p_rows, iter(u))
    return [*(drafted[node] for node in verdict.path), verdict.token]
