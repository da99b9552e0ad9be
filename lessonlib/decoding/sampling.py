"""From logits to the distribution that is really sampled: temperature, top-k, top-p.

Both models go through the same warpers, and the row that comes out is the row the
draft token is drawn from *and* the row the rule divides by. NumPy float64, so that
lessons without torch can use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def warp(
    logits: np.ndarray, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> np.ndarray:
    """Turn logits (..., V) into probabilities (..., V), in float64.

    Order as in ``transformers``: temperature, then top-k (0 keeps all), then top-p
    (keep the smallest set of most likely tokens that reaches it). Temperature 0 is
    greedy: all mass on the first largest logit. Ties go to the lower token id.

    Raises ValueError for a temperature below 0, a top_k below 0, a top_p outside
    (0, 1], and for logits with NaN, +infinity or nothing but -infinity in a row.

    >>> warp(np.array([0.0, 0.0, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    >>> warp(np.array([1.0, 3.0, 2.0]), temperature=0).tolist()
    [0.0, 1.0, 0.0]
    """
    Sampling(temperature, top_k, top_p)  # refuses bad settings
    logits = np.asarray(logits, dtype=np.float64)
    top = logits.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("logits hold NaN, +infinity or a row of -infinity: check the model")
    if temperature == 0:
        probabilities = np.zeros_like(logits)
        np.put_along_axis(probabilities, logits.argmax(axis=-1, keepdims=True), 1.0, axis=-1)
        return probabilities
    with np.errstate(over="ignore"):  # a tiny temperature sends the rest to -infinity: right
        probabilities = np.exp((logits - top) / temperature)
    if 0 < top_k < logits.shape[-1]:
        probabilities = np.where(_ranks(probabilities) < top_k, probabilities, 0.0)
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    if top_p < 1:
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        ordered = np.take_along_axis(probabilities, order, axis=-1)
        before = np.cumsum(ordered, axis=-1) - ordered  # mass of all likelier tokens
        np.put_along_axis(probabilities, order, np.where(before < top_p, ordered, 0.0), axis=-1)
        probabilities /= probabilities.sum(axis=-1, keepdims=True)
    return probabilities


def _ranks(values: np.ndarray) -> np.ndarray:
    """Rank of each entry along the last axis, 0 for the largest, ties to the lower index."""
    order = np.argsort(-values, axis=-1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[-1])[(None,) * (values.ndim - 1)], -1)
    return ranks


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled, the same for target and draft."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0 or self.temperature == float("inf"):
            raise ValueError(
                f"temperature is {self.temperature}: use 0 (greedy) or a positive number"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}: use 0 (off) or a positive number of tokens")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}: use a number in (0, 1], 1 is off")

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """``warp`` with these settings: logits (..., V) to probabilities (..., V)."""
        return warp(logits, self.temperature, self.top_k, self.top_p)
