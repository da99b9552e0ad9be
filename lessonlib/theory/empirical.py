"""Testing a sampler by sampling, with the right test and the right expectation.

A perfect sampler is never at distance 0 from its law: with n draws it is at the
*sampling floor*. Judge a distance against the floor, and decide by a one-sample test
against p itself, never by comparing one noisy sample with another as if it were exact.
"""

from __future__ import annotations

import numpy as np

from lessonlib.theory.rejection import as_distribution


def sampling_floor(p: np.ndarray, n: int) -> float:
    """Expected TV distance between p (V,) and the frequencies of n perfect draws from it.

    Exact: the mean absolute deviation of a binomial count (de Moivre 1730) gives
    E|N − np| / 2n = p (1 − p) · pmf(⌊np⌋; n − 1, p) for each token.

    >>> round(sampling_floor(np.full(32, 1 / 32), 10_000), 4)
    0.0222
    """
    from scipy.stats import binom

    p = as_distribution(p, "p")
    if n < 1:
        raise ValueError(f"n is {n}: a sample has at least one draw")
    # A token of probability 1 never deviates; its ⌊np⌋ = n lies outside the pmf's range.
    return float(np.sum(p * (1 - p) * binom.pmf(np.floor(n * p), n - 1, p)))


def one_sample_test(counts: np.ndarray, p: np.ndarray) -> tuple[float, float, float]:
    """Judge counts (V,) of drawn tokens against p (V,): (TV distance, floor, p-value).

    The p-value is Pearson's χ² against n·p. Tokens expected fewer than five times are
    pooled, as the χ² approximation needs (and if the pool is still too small, it joins
    the rarest of the others); a token of probability 0 that was drawn gives p-value 0.
    Raises ValueError for counts that are not whole, not one for each token, or all 0.

    >>> tv, floor, p_value = one_sample_test([498, 502], [0.5, 0.5])
    >>> round(tv, 4), round(floor, 4), round(p_value, 2)
    (0.002, 0.0126, 0.9)
    """
    from scipy.stats import chisquare

    p, counts = as_distribution(p, "p"), np.asarray(counts)
    if counts.shape != p.shape or (counts < 0).any() or counts.sum() == 0:
        raise ValueError(f"counts must be {p.size} counts that are not all 0, one for each token")
    if (counts % 1 != 0).any():
        raise ValueError("counts must be whole numbers: pass how often, not how large a share")
    n = int(counts.sum())
    distance = float(np.abs(counts / n - p).sum() / 2)
    if counts[p == 0].any():
        return distance, sampling_floor(p, n), 0.0
    observed, expected = _pool_rare(counts, n * p)
    if observed.size == 1:
        return distance, sampling_floor(p, n), 1.0
    p_value = chisquare(observed, expected * (n / expected.sum())).pvalue
    return distance, sampling_floor(p, n), float(p_value)


def _pool_rare(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge cells (V,) until each is expected at least five times, or only one is left."""
    order = np.argsort(-expected, kind="stable")
    observed, expected = observed[order], expected[order]
    kept = int((expected >= 5).sum())
    if expected[kept:].sum() < 5:
        kept -= 1  # the pool would be too small on its own
    starts = [*range(kept), max(kept, 0)]
    return np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
