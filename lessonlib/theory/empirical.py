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
    pooled, as the χ² approximation needs; a token of probability 0 that was drawn
    gives p-value 0.

    >>> tv, floor, p_value = one_sample_test([498, 502], [0.5, 0.5])
    >>> round(tv, 4), round(floor, 4), round(p_value, 2)
    (0.002, 0.0126, 0.9)
    """
    from scipy.stats import chisquare

    p, counts = as_distribution(p, "p"), np.asarray(counts)
    if counts.shape != p.shape or (counts < 0).any() or counts.sum() == 0:
        raise ValueError(f"counts must be {p.size} counts that are not all 0, one for each token")
    n = int(counts.sum())
    distance = float(np.abs(counts / n - p).sum() / 2)
    if counts[p == 0].any():
        return distance, sampling_floor(p, n), 0.0
    often = n * p >= 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(n * p[often], n * p[~often].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    if observed.size == 1:
        return distance, sampling_floor(p, n), 1.0
    p_value = chisquare(observed, expected * (n / expected.sum())).pvalue
    return distance, sampling_floor(p, n), float(p_value)
