"""Plausible wrong losses and acceptance rates of lesson 05, and what to tell their author.

An answer that agrees with one of them at every test point is told so, however the code
looks.
"""

from __future__ import annotations

import numpy as np

from lessonlib.exercises.named_mistakes import Slips


def softmax(logits: np.ndarray, T: float = 1.0, axis: int | None = -1) -> np.ndarray:
    powers = np.exp(logits / T - np.max(logits / T, axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def kl_rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return (p * np.log(p / q)).sum(axis=-1)


def kl_of(a: np.ndarray, b: np.ndarray, T_a: float = 1.0, T_b: float = 1.0, axis=-1) -> float:
    """KL of two arrays of logits, averaged over rows."""
    return kl_rows(softmax(a, T_a, axis), softmax(b, T_b, axis)).mean()


def _by_logits(a: np.ndarray, b: np.ndarray, T: float) -> float:
    return (softmax(a, T) * (a - b) / T).sum(axis=-1).mean()


def _cross_entropy(a: np.ndarray, b: np.ndarray, T: float) -> float:
    return -(softmax(a, T) * np.log(softmax(b, T))).sum(axis=-1).mean()


# (target logits, draft logits, temperature) -> loss
WRONG_LOSSES: Slips = (
    (
        "that is KL(q || p), the other direction: weigh with the target's p",
        lambda a, b, T: kl_of(b, a, T, T),
    ),
    ("the temperature is not used: divide both models' logits by it", lambda a, b, T: kl_of(a, b)),
    (
        "the logits are multiplied by the temperature: divide",
        lambda a, b, T: kl_of(a, b, 1 / T, 1 / T),
    ),
    ("only the target's logits are divided by T", lambda a, b, T: kl_of(a, b, T, 1)),
    ("only the draft's logits are divided by T", lambda a, b, T: kl_of(a, b, 1, T)),
    (
        "that is T^2 times the KL: here the loss is the KL itself",
        lambda a, b, T: T * T * kl_of(a, b, T, T),
    ),
    ("it adds the rows up: average over them", lambda a, b, T: len(a) * kl_of(a, b, T, T)),
    (
        "it also divides by the vocabulary: sum over tokens, then average over rows",
        lambda a, b, T: kl_of(a, b, T, T) / a.shape[-1],
    ),
    (
        "the softmax runs down the columns: use axis=-1, over the vocabulary",
        lambda a, b, T: kl_of(a, b, T, T, axis=0),
    ),
    (
        "the softmax runs over all rows at once: use axis=-1 and keepdims=True",
        lambda a, b, T: kl_of(a, b, T, T, axis=None),
    ),
    (
        "that is the cross-entropy: the target's own entropy is not taken off",
        _cross_entropy,
    ),
    ("the sign is wrong: p (ln p - ln q)", lambda a, b, T: -kl_of(a, b, T, T)),
    ("that is in bits: use the natural logarithm", lambda a, b, T: kl_of(a, b, T, T) / np.log(2)),
    ("a logit is not ln p: subtract the log of the summed powers", _by_logits),
    (
        "that is TV, not KL",
        lambda a, b, T: abs(softmax(a, T) - softmax(b, T)).sum(axis=-1).mean() / 2,
    ),
    ("that compares logits: compare distributions", lambda a, b, T: ((a - b) ** 2).mean()),
)


def _shared(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.minimum(p, q).sum(axis=-1)


# (target logits, draft logits, temperature) -> one rate for each row
WRONG_RATES: Slips = (
    (
        "sum p q is the chance that two draws match: sum the smaller of p and q",
        lambda a, b, T: (softmax(a, T) * softmax(b, T)).sum(axis=-1),
    ),
    (
        "the temperature is not used: divide both models' logits by it",
        lambda a, b, T: _shared(softmax(a), softmax(b)),
    ),
    (
        "the logits are multiplied by the temperature: divide",
        lambda a, b, T: _shared(softmax(a, 1 / T), softmax(b, 1 / T)),
    ),
    (
        "only the target's logits are divided by T",
        lambda a, b, T: _shared(softmax(a, T), softmax(b)),
    ),
    (
        "only the draft's logits are divided by T",
        lambda a, b, T: _shared(softmax(a), softmax(b, T)),
    ),
    (
        "that is TV: alpha is 1 - TV",
        lambda a, b, T: 1 - _shared(softmax(a, T), softmax(b, T)),
    ),
    (
        "it sums the larger of p and q: take the smaller",
        lambda a, b, T: np.maximum(softmax(a, T), softmax(b, T)).sum(axis=-1),
    ),
    (
        "TV is half of sum |p - q|",
        lambda a, b, T: 1 - abs(softmax(a, T) - softmax(b, T)).sum(axis=-1),
    ),
    (
        "it averages over the vocabulary: sum over it",
        lambda a, b, T: _shared(softmax(a, T), softmax(b, T)) / a.shape[-1],
    ),
    (
        "the mean of min(1, p/q) treats all tokens alike: weigh with q, which drafts them",
        lambda a, b, T: np.minimum(1, softmax(a, T) / softmax(b, T)).mean(axis=-1),
    ),
    (
        "it weighs min(1, p/q) with p: the draft's tokens come from q",
        lambda a, b, T: (softmax(a, T) * np.minimum(1, softmax(a, T) / softmax(b, T))).sum(axis=-1),
    ),
    (
        "it counts q where p >= q only: elsewhere p/q of the tokens pass",
        lambda a, b, T: (softmax(b, T) * (softmax(a, T) >= softmax(b, T))).sum(axis=-1),
    ),
    (
        "comparing the largest entries is right at temperature 0 only",
        lambda a, b, T: (a.argmax(axis=-1) == b.argmax(axis=-1)) * 1.0,
    ),
    (
        "the softmax runs down the columns: use axis=-1, over the vocabulary",
        lambda a, b, T: _shared(softmax(a, T, 0), softmax(b, T, 0)),
    ),
    (
        "the softmax runs over all rows at once: use axis=-1 and keepdims=True",
        lambda a, b, T: _shared(softmax(a, T, None), softmax(b, T, None)),
    ),
    ("1 - KL is no acceptance rate: that is 1 - TV", lambda a, b, T: 1 - _kl_both(a, b, T)),
    ("exp(-KL) is no acceptance rate: that is 1 - TV", lambda a, b, T: np.exp(-_kl_both(a, b, T))),
)


def _kl_both(a: np.ndarray, b: np.ndarray, T: float) -> np.ndarray:
    return kl_rows(softmax(a, T), softmax(b, T))


def _mean_rate(p: np.ndarray, q: np.ndarray, w: np.ndarray) -> float:
    return float(w @ _shared(p, q))


def _middle(rows: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What reverse KL is least at: the normalised geometric mean."""
    mean = np.exp(w @ np.log(rows))
    return mean / mean.sum()


def _top(row: np.ndarray) -> np.ndarray:
    return np.eye(row.size)[row.argmax()]


# (p rows, r rows, weights) -> (alpha taught by the data, alpha taught by the target)
WRONG_TEACHERS: Slips = (
    (
        "the two are swapped: the data's draft first, then the target's",
        lambda p, r, w: (_mean_rate(p, w @ p, w), _mean_rate(p, w @ r, w)),
    ),
    (
        "alpha is measured against the target p, whatever taught the draft",
        lambda p, r, w: (_mean_rate(r, w @ r, w), _mean_rate(p, w @ p, w)),
    ),
    (
        "each context has a row of its own there: the draft has one q for all of them",
        lambda p, r, w: (_mean_rate(p, r, w), 1.0),
    ),
    (
        "compare q with each context's row, then average: not with the mean row",
        lambda p, r, w: (float(np.minimum(w @ p, w @ r).sum()), 1.0),
    ),
    (
        "the weights are not used: frequent contexts count more",
        lambda p, r, w: tuple(_shared(p, rows.mean(axis=0)).mean() for rows in (r, p)),
    ),
    (
        "q leaves the weights out: it is sum w p, not the plain mean",
        lambda p, r, w: tuple(_mean_rate(p, rows.mean(axis=0), w) for rows in (r, p)),
    ),
    (
        "alpha leaves the weights out: frequent contexts count more",
        lambda p, r, w: tuple(_shared(p, w @ rows).mean() for rows in (r, p)),
    ),
    (
        "a mean of ln p is what reverse KL wants: forward KL wants the mean of p",
        lambda p, r, w: tuple(_mean_rate(p, _middle(rows, w), w) for rows in (r, p)),
    ),
    (
        "q keeps its largest entry only: the least loss is at the whole mean row",
        lambda p, r, w: tuple(_mean_rate(p, _top(w @ rows), w) for rows in (r, p)),
    ),
    (
        "sum p q is the chance that two draws match: sum the smaller of p and q",
        lambda p, r, w: tuple(float(w @ (p @ (w @ rows))) for rows in (r, p)),
    ),
    (
        "that is TV: alpha is 1 - TV",
        lambda p, r, w: tuple(1 - _mean_rate(p, w @ rows, w) for rows in (r, p)),
    ),
)
