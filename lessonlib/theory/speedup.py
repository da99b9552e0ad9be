"""What a round brings against what it costs: the speedup formula.

A round drafts K tokens and runs the target once. It emits E tokens and costs c K + v
target forwards, where c = t_draft(1) / t_target(1) and v = v(K + 1) =
t_target(K + 1) / t_target(1). Plain decoding emits one token for one forward, so the
speedup is E / (c K + v). Source: Leviathan, Kalman and Matias 2023 (arXiv
2211.17192), equation 1 and theorem 3.8, which set v = 1.

Everything here also works on ``fractions.Fraction``, and then it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lessonlib.theory.rejection import as_distribution

LONGEST = 100_000  # where the search for the best K gives up


def expected_tokens(alpha: float, K: int) -> float:
    """E: tokens that a round emits on average, (1 − α^(K+1)) / (1 − α), from 1 to K + 1.

    ``alpha`` is the chance that a drafted token passes, the same at every position and
    independent of the others; it may be an array. Token i + 1 comes out if and only if
    the first i drafts passed, so E is a sum of K + 1 powers, which also holds at α = 1.

    >>> round(expected_tokens(0.8, 4), 4)
    3.3616
    """
    _check_alpha(alpha)
    _check_length(K)
    return sum(alpha**i for i in range(K + 1))


def expected_tokens_mixed(alphas: Sequence[float], weights: Sequence[float], K: int) -> float:
    """E where a share ``weights[i]`` of the rounds has acceptance rate ``alphas[i]``.

    E is convex in α, so this is at least ``expected_tokens`` of the mean (Jensen).

    >>> round(expected_tokens_mixed([0.5, 0.9], [0.5, 0.5], 4), 4)
    3.0163
    """
    weights = as_distribution(weights, "weights")
    if len(alphas) != weights.size:
        raise ValueError(f"{len(alphas)} alphas but {weights.size} weights: give one for each")
    return sum(w * expected_tokens(a, K) for a, w in zip(alphas, weights.tolist(), strict=True))


def speedup(alpha: float, K: int, c: float, v: float = 1) -> float:
    """How much faster than plain decoding: E / (c K + v). Below 1 it is slower.

    ``c`` is what drafting one token costs and ``v`` what verifying K + 1 tokens costs,
    both in target forwards over one token. The textbook's v is 1.

    >>> round(speedup(0.8, 4, 0.05), 4), round(speedup(0.8, 4, 0.05, v=2), 4)
    (2.8013, 1.528)
    """
    return expected_tokens(alpha, K) / _round_cost(K, c, v)


def sweep_lengths(alpha: float, c: float, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(E, time per token) for each K in ``lengths`` at v = 1; the time in target forwards.

    >>> tokens, times = sweep_lengths(0.9, 0.04, [1, 5])
    >>> tokens.round(3).tolist(), times.round(4).tolist()
    ([1.9, 4.686], [0.5474, 0.2561])
    """
    tokens = np.array([expected_tokens(alpha, K) for K in lengths])
    return tokens, np.array([_round_cost(K, c, 1) for K in lengths]) / tokens


def best_draft_length(
    alpha: float, c: float, v_of: Callable[[int], float] | None = None
) -> int | None:
    """K*: the draft length with the largest speedup, the smallest one on a tie; 0: do not draft.

    ``v_of(n)`` is what verifying n tokens costs and must not fall as n grows; without
    it v is 1. As E < 1 / (1 − α) for every K, the search ends where even that many
    tokens could not win. None means that there is no best K, which is so if drafting
    costs nothing or everything is accepted (nothing found up to ``LONGEST``).

    >>> best_draft_length(0.8, 0.05), best_draft_length(0.3, 0.5)
    (8, 0)
    >>> best_draft_length(0.8, 0) is None
    True
    """
    _check_alpha(alpha)
    _round_cost(1, c, 1)
    if alpha == 0:
        return 0
    if v_of is None and (c == 0 or alpha == 1):
        # (K + 1) / (c K + 1) and E rise for ever; in floats the search would see an end.
        return None if c < 1 else 0
    ceiling = min(1 / (1 - alpha), LONGEST + 1) if alpha < 1 else LONGEST + 1
    best_K, best, tokens = 0, 1, 1  # K = 0 is plain decoding
    for K in range(1, LONGEST + 1):
        cost = _round_cost(K, c, v_of(K + 1) if v_of else 1)
        if ceiling / cost < best:
            return best_K
        tokens += alpha**K
        if tokens / cost > best:
            best_K, best = K, tokens / cost
    return None


def break_even_alpha(K: int, c: float, v: float = 1) -> float | None:
    """The α at which drafting K tokens just pays, found by halving; None if not even 1 does.

    >>> round(break_even_alpha(4, 0.35), 3), break_even_alpha(4, 1.5)
    (0.622, None)
    """
    cost = _round_cost(K, c, v)
    if cost > K + 1:
        return None
    low, high = 0.0, 1.0  # E grows with alpha, from 1 to K + 1
    if cost <= 1:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, K) < cost else (low, middle)
    return high


def _round_cost(K: int, c: float, v: float) -> float:
    """What a round costs, in target forwards over one token."""
    _check_length(K)
    if not c >= 0:
        raise ValueError(f"c is {c}: a draft forward costs 0 or more target forwards")
    if not v > 0:
        raise ValueError(f"v is {v}: verifying costs more than 0 target forwards, usually 1")
    return c * K + v


def _check_alpha(alpha) -> None:
    if not np.all((np.asarray(alpha) >= 0) & (np.asarray(alpha) <= 1)):
        raise ValueError(f"alpha is {alpha}: an acceptance rate lies between 0 and 1")


def _check_length(K) -> None:
    if isinstance(K, bool) or not isinstance(K, int | np.integer) or K < 0:
        raise ValueError(f"K is {K}: use a whole number of drafted tokens, 0 or more")
