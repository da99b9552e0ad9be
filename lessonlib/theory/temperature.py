"""What temperature does to the acceptance rate, for each way to accept.

Divide the logits by T: p_T = softmax(z / T). Whether a higher T helps or kills drafting
depends on what the draft's token is and what it is tested against, so there are four
rates, each the exact chance that one drafted token passes. They work on logits rows
(..., V) and give one rate for each row; no coin is flipped.

Source of the first: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), theorem 3.5,
with both sides warped as in their section 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Rate = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def soften(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (..., V) of ``logits`` at a temperature from 0 to infinity.

    0 puts all mass on the first largest logit; infinity makes every token that is not
    ruled out (-infinity) equally likely. Raises ValueError for a temperature below 0 or
    NaN, and for logits with NaN, +infinity or nothing but -infinity in a row.

    >>> soften([0.0, 1.0, -math.inf], 0).tolist(), soften([0.0, 1.0], math.inf).tolist()
    ([0.0, 1.0, 0.0], [0.5, 0.5])
    """
    if not temperature >= 0:
        raise ValueError(f"temperature is {temperature}: use 0 (greedy) or a positive number")
    logits = np.asarray(logits, dtype=np.float64)
    top = logits.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("logits hold NaN, +infinity or a row of -infinity: check the model")
    if temperature == 0:
        weights = np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[..., None]
    elif temperature == math.inf:
        weights = logits > -math.inf
    else:
        with np.errstate(over="ignore"):  # a tiny temperature sends the rest to 0: right
            weights = np.exp((logits - top) / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)


def shared_rate(p_logits: np.ndarray, q_logits: np.ndarray, temperature: float) -> np.ndarray:
    """Drafted from q_T, kept with min(1, p_T/q_T): Σ min(p_T, q_T) = 1 − TV(p_T, q_T).

    >>> float(shared_rate([1.0, 0.0], [0.0, 1.0], math.inf))
    1.0
    """
    _check_pair(p_logits, q_logits)
    p, q = soften(p_logits, temperature), soften(q_logits, temperature)
    return np.minimum(p, q).sum(axis=-1)


def chosen_rate(
    p_logits: np.ndarray, q_logits: np.ndarray, temperature: float, k: int = 1
) -> np.ndarray:
    """The draft's k likeliest tokens, not drawn: one of them passes with their mass in p_T.

    k = 1 is a greedy draft, p_T(argmax q); more is one level of a top-k tree. Ties go to
    the lower id. The draft's own temperature plays no part: it does not change the order.

    >>> round(float(chosen_rate(np.log([0.2, 0.8]), [1.0, 0.0], 1.0)), 3)
    0.2
    """
    _check_pair(p_logits, q_logits)
    p = soften(p_logits, temperature)
    if not 1 <= k <= p.shape[-1]:
        raise ValueError(f"k is {k}: use 1 (greedy) up to the vocabulary's {p.shape[-1]}")
    q_logits = np.asarray(q_logits, dtype=np.float64)
    if k == 1:  # the same token, found without a sort
        chosen = q_logits.argmax(axis=-1)[..., None]
    else:
        chosen = np.argsort(-q_logits, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(p, chosen, axis=-1).sum(axis=-1)


def match_rate(p_logits: np.ndarray, q_logits: np.ndarray, temperature: float) -> np.ndarray:
    """Drawn on both sides and kept if it is the same token: Σ p_T q_T.

    >>> float(match_rate([0.0, 0.0], [0.0, 0.0], 1.0))
    0.5
    """
    _check_pair(p_logits, q_logits)
    return (soften(p_logits, temperature) * soften(q_logits, temperature)).sum(axis=-1)


def left_rate(
    p_logits: np.ndarray, q_logits: np.ndarray, temperature: float, left_at: float = 1.0
) -> np.ndarray:
    """The right rule, but the draft stays at ``left_at``: Σ min(p_T, q_left).

    >>> round(float(left_rate([0.0, 0.0], np.log([0.9, 0.1]), 5.0)), 3)
    0.6
    """
    _check_pair(p_logits, q_logits)
    p, q = soften(p_logits, temperature), soften(q_logits, left_at)
    return np.minimum(p, q).sum(axis=-1)


RATES: dict[str, Rate] = {
    "shared T": shared_rate,
    "greedy draft": chosen_rate,
    "exact match": match_rate,
    "draft left at T = 1": left_rate,
}


def four_rates(
    p_logits: np.ndarray, q_logits: np.ndarray, temperature: float
) -> tuple[np.ndarray, ...]:
    """The four rates of logits (..., V) in the order of RATES, an array (...) each.

    ``temperature`` may be ``math.inf``: then these are the limits, 1 for shared T, 1/V for
    a greedy draft and for exact match, Σ min(1/V, q) for a draft left at 1.

    >>> p, q = np.array([2.0, 1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.0, 0.0])
    >>> [round(float(rate), 2) for rate in four_rates(p, q, math.inf)]
    [1.0, 0.25, 0.25, 0.64]
    """
    return tuple(rate(p_logits, q_logits, temperature) for rate in RATES.values())


def shared_gap(p_logits: np.ndarray, q_logits: np.ndarray) -> np.ndarray:
    """How fast shared T heals: 1 − α(T) ≈ gap / T for large T.

    A flat distribution answers to logits in first order, p_T ≈ (1 + (z − mean z) / T) / V,
    so TV(p_T, q_T) is half the mean absolute difference of the centred logits, over T.

    >>> float(shared_gap([1.0, -1.0], [-1.0, 1.0]))
    1.0
    """
    _check_pair(p_logits, q_logits)
    apart = np.asarray(p_logits, dtype=np.float64) - np.asarray(q_logits, dtype=np.float64)
    return np.abs(apart - apart.mean(axis=-1, keepdims=True)).mean(axis=-1) / 2


def _check_pair(p_logits: np.ndarray, q_logits: np.ndarray) -> None:
    if np.shape(p_logits) != np.shape(q_logits):
        shapes = f"{np.shape(p_logits)} and {np.shape(q_logits)}"
        raise ValueError(f"p_logits and q_logits have shapes {shapes}: use the same rows of both")
