"""How far a draft is from its target: α, total variation and the two KL divergences, on logits.

p is the target's distribution, q the draft's. α = 1 − TV(p, q), and Pinsker's inequality
TV ≤ √(KL / 2) puts a floor under it. Sources: Leviathan et al. 2023 (arXiv 2211.17192) for
α; Cover and Thomas, Elements of Information Theory, lemma 11.6.1, for Pinsker. The torch
versions that a training differentiates are in ``drafting/distill``.
"""

from __future__ import annotations

import numpy as np

from lessonlib.theory.rejection import acceptance_rate, as_distribution


def log_softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Log-probabilities (..., V) of logits (..., V), the largest taken off first: no overflow.

    Raises ValueError unless ``temperature`` is above 0 and all logits are finite.

    >>> np.exp(log_softmax([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise ValueError("logits hold NaN or infinity: check the model")
    if not 0 < temperature < np.inf:
        raise ValueError(f"temperature is {temperature}: use a finite number above 0")
    scaled = (logits - logits.max(axis=-1, keepdims=True)) / temperature
    return scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))


def kl_loss(target_logits: np.ndarray, draft_logits: np.ndarray, temperature: float = 1.0) -> float:
    """Forward KL(p ‖ q) in nats, both at ``temperature``, averaged over rows of logits (..., V).

    Zero if and only if the laws agree. Raises ValueError for two shapes, and as
    ``log_softmax`` does.

    >>> target, draft = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(kl_loss(target, draft), 4), round(kl_loss(draft, target), 4)  # not symmetric
    (0.1438, 0.1308)
    """
    log_p, log_q = _log_rows(target_logits, draft_logits, temperature)
    return float((np.exp(log_p) * (log_p - log_q)).sum(axis=-1).mean())


def acceptance_rates(
    target_logits: np.ndarray, draft_logits: np.ndarray, temperature: float = 1.0
) -> np.ndarray:
    """α = Σ min(p, q) of each row: logits (..., V) to rates (...), both at ``temperature``.

    Temperature 0 compares the two largest logits: 1 where they are the same token. Raises
    ValueError for two shapes, and as ``log_softmax`` does.

    >>> acceptance_rates(np.log([[0.2, 0.8]]), np.log([[0.5, 0.5]])).round(4).tolist()
    [0.7]
    """
    log_p, log_q = _log_rows(target_logits, draft_logits, temperature or 1.0)
    if temperature == 0:
        return (log_p.argmax(axis=-1) == log_q.argmax(axis=-1)).astype(np.float64)
    return np.minimum(np.exp(log_p), np.exp(log_q)).sum(axis=-1)


def alpha_floor(kl: float) -> float:
    """The least α that a KL divergence of ``kl`` nats allows, by Pinsker: 1 − √(kl / 2), or 0.

    It holds for either direction of KL, and for means over positions too (Jensen).

    >>> alpha_floor(0.02), alpha_floor(5)
    (0.9, 0.0)
    """
    if not kl >= 0:
        raise ValueError(f"kl is {kl}: a divergence is 0 or more")
    return max(0.0, 1 - float(np.sqrt(kl / 2)))


def compare_teachers(p: np.ndarray, r: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean α of a draft that has one row for n contexts: taught by the data, and by the target.

    ``p`` (n, V) holds the target's rows, ``r`` (n, V) what really follows in the text, and
    ``weights`` (n,) how often each context comes. Cross-entropy on the text is least at
    q = Σ w r, forward KL from the target at q = Σ w p: both are linear in ln q. α is
    measured against p in both cases. Raises ValueError for rows that are no distributions.

    >>> p, r = [[0.9, 0.1], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]
    >>> [round(alpha, 2) for alpha in compare_teachers(p, r, [0.5, 0.5])]
    [0.8, 0.8]
    >>> [round(alpha, 2) for alpha in compare_teachers(p, r, [1.0, 0.0])]
    [0.9, 1.0]
    """
    weights = as_distribution(weights, "weights")
    p, r = (_as_rows(rows, name, weights.size) for rows, name in ((p, "p"), (r, "r")))
    taught = weights @ r, weights @ p
    return tuple(
        float(sum(w * acceptance_rate(row, q) for w, row in zip(weights, p, strict=True)))
        for q in taught
    )


def _as_rows(rows: np.ndarray, name: str, count: int) -> np.ndarray:
    if len(rows) != count:
        raise ValueError(f"{name} has {len(rows)} rows but there are {count} weights")
    return np.array([as_distribution(row, f"row {i} of {name}") for i, row in enumerate(rows)])


def _log_rows(target_logits, draft_logits, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    if np.shape(target_logits) != np.shape(draft_logits):  # they would broadcast
        raise ValueError(
            f"target_logits has shape {np.shape(target_logits)}, draft_logits "
            f"{np.shape(draft_logits)}: give both models the same tokens and vocabulary"
        )
    return log_softmax(target_logits, temperature), log_softmax(draft_logits, temperature)
