"""The rejection rule: keep a draft token or replace it, so that the output follows p.

p is the target's distribution, q the draft's, both *after* every warper
(temperature, top-k, top-p). Source: Leviathan, Kalman and Matias 2023
(arXiv 2211.17192), section 2.3 and appendix A.1; Chen et al. 2023 (arXiv
2302.01318), algorithm 2, with the letters p and q swapped.

Everything works in float64, or exactly on arrays of ``fractions.Fraction``.
"""

from __future__ import annotations

import numpy as np

SUM_TOLERANCE = 1e-6  # a float32 softmax over 50 000 tokens stays well inside it


def as_distribution(values: np.ndarray, name: str) -> np.ndarray:
    """Return ``values`` (V,) as float64, or untouched if they are Fractions.

    Raises ValueError, naming the argument, for a wrong shape, NaN, infinity, a
    negative entry, or a sum that is not 1.

    >>> as_distribution([0.5, 0.6], "p")
    Traceback (most recent call last):
    ...
    ValueError: p must sum to 1, but sums to 1.1: normalise it
    """
    array = np.asarray(values)
    if array.dtype != object:
        array = array.astype(np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one row of V probabilities, got shape {array.shape}")
    total = array.sum()
    # Two passes find every fault, NaN and infinity included; only then ask which it is.
    if not (array.min() >= 0 and abs(total - 1) <= SUM_TOLERANCE):
        if not np.isfinite(array.astype(np.float64)).all():
            raise ValueError(f"{name} holds NaN or infinity: check the logits it came from")
        if (array < 0).any():
            raise ValueError(f"{name} holds a negative probability: {array.min()}")
        raise ValueError(f"{name} must sum to 1, but sums to {float(total):.6g}: normalise it")
    return array


def _as_pair(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, q = as_distribution(p, "p"), as_distribution(q, "q")
    if p.shape != q.shape:
        raise ValueError(f"p has {p.size} tokens and q has {q.size}: use one vocabulary for both")
    return p, q


def _plain(number):
    """A Python float, or the Fraction it was: what a reader wants to see printed."""
    return number.item() if isinstance(number, np.generic) else number


def acceptance_probability(p: np.ndarray, q: np.ndarray, x: int) -> float:
    """Probability min(1, p(x)/q(x)) of keeping token ``x`` that was drawn from ``q``.

    ``q`` must be the very row (V,) that ``x`` was drawn from; q(x) = 0 raises ValueError.

    >>> acceptance_probability([0.2, 0.8], [0.5, 0.5], 0)
    0.4
    """
    p, q = _as_pair(p, q)
    if not 0 <= x < q.size:
        raise ValueError(f"x is token {x}, outside the vocabulary of {q.size}")
    if q[x] == 0:
        raise ValueError(f"q gives token {x} probability 0: pass the row that {x} was drawn from")
    return _plain(min(p[x] / q[x], 1 + 0 * p[x]))


def acceptance_rate(p: np.ndarray, q: np.ndarray) -> float:
    """α at one position: Σ min(p, q) = 1 − TV(p, q), computed, not estimated by coin flips.

    >>> acceptance_rate([0.2, 0.8], [0.5, 0.5])
    0.7
    """
    p, q = _as_pair(p, q)
    return _plain(np.minimum(p, q).sum())


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """What p still lacks after acceptance: (p − q)₊ normalised, shape (V,).

    Where p equals q a draft token is always accepted and the residual is 0/0;
    p itself is returned, as good as anything since it is never drawn from.

    >>> residual([0.2, 0.8], [0.5, 0.5])
    array([0., 1.])
    """
    p, q = _as_pair(p, q)
    gap = np.maximum(p - q, 0 * p)
    total = gap.sum()
    return gap / total if total > 0 else p.copy()


def one_hot(token: int, size: int) -> np.ndarray:
    """The q row (size,) of a token that was chosen, not drawn.

    >>> one_hot(1, 3)
    array([0., 1., 0.])
    """
    row = np.zeros(size)
    row[token] = 1.0
    return row


def draw(weights: np.ndarray, u: float) -> int:
    """Draw a token from ``weights`` (V,) by inverting their running sum at ``u`` in [0, 1).

    The weights need not sum to 1. A token of weight 0 is never returned, whatever the
    rounding. Raises ValueError if no weight is positive or one is NaN.

    >>> [draw([0.0, 0.5, 0.5, 0.0], u) for u in (0.0, 0.49, 0.5, 0.999999)]
    [1, 1, 2, 2]
    """
    steps = np.cumsum(weights)
    if not (steps.size and 0 < steps[-1] < float("inf")):
        raise ValueError("weights must hold a positive number, no NaN and no infinity")
    token = int(np.searchsorted(steps, u * steps[-1], side="right"))
    if token < steps.size:
        return token
    return int(np.flatnonzero(np.asarray(weights) > 0)[-1])
