"""Plausible wrong answers of lesson 07's formulas, and what to tell whoever wrote them."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises.named_mistakes import Slips
from lessonlib.theory.crossings import break_even_temperature
from lessonlib.theory.temperature import chosen_rate, match_rate, shared_rate, soften

# For each of the four rates: (sentence, wrong formula of p_logits, q_logits, T).
WRONG_RATES: dict[str, Slips] = {
    "shared T": (
        (
            "your draft is still at T = 1: shared T means both",
            lambda p, q, T: _overlap(soften(p, T), soften(q, 1)),
        ),
        (
            "your target is still at T = 1: shared T means both",
            lambda p, q, T: _overlap(soften(p, 1), soften(q, T)),
        ),
        ("T is not used: divide the logits by it", lambda p, q, T: shared_rate(p, q, 1)),
        (
            "you multiply the logits by T: divide them",
            lambda p, q, T: _overlap(soften(p, 1 / T), soften(q, 1 / T)),
        ),
        (
            "that is TV(p, q), what is rejected: alpha is 1 - TV",
            lambda p, q, T: 1 - _share(p, q, T),
        ),
        (
            "TV is half of the sum of |p - q|: a factor 1/2 is missing",
            lambda p, q, T: 2 * _share(p, q, T) - 1,
        ),
        ("that sums max(p, q): the overlap is min", lambda p, q, T: 2 - _share(p, q, T)),
        ("that is the rate of exact match, the sum of p q", match_rate),
    ),
    "greedy draft": (
        (
            "that is q(argmax q): the target decides, so read p there",
            lambda p, q, T: soften(q, T)[np.argmax(q)],
        ),
        ("that is max p: read p at the draft's favourite", lambda p, q, T: soften(p, T).max()),
        (
            "p is not softened by T there",
            lambda p, q, T: soften(p, 1)[np.argmax(q)],
        ),
        (
            "a token that was not drawn has no q to divide by: keep it with p(x)",
            lambda p, q, T: min(1, soften(p, T)[np.argmax(q)] / soften(q, T)[np.argmax(q)]),
        ),
        (
            "that asks whether both favourites agree, which is T = 0 only",
            lambda p, q, T: float(np.argmax(p) == np.argmax(q)),
        ),
    ),
    "exact match": (
        ("min(p, q) is the rejection rule; two draws agree with chance p q", shared_rate),
        (
            "that is the sum of p p: one of the two draws is from q",
            lambda p, q, T: match_rate(p, p, T),
        ),
        (
            "that is the sum of q q: one of the two draws is from p",
            lambda p, q, T: match_rate(q, q, T),
        ),
        ("T is not used: both sides draw at T", lambda p, q, T: match_rate(p, q, 1)),
        (
            "the product is averaged, not summed, over the tokens",
            lambda p, q, T: match_rate(p, q, T) / len(p),
        ),
    ),
    "draft left at T = 1": (
        (
            "it is the draft that stays at T = 1, and the target that softens",
            lambda p, q, T: _overlap(soften(p, 1), soften(q, T)),
        ),
        ("your draft softens too: here it stays at T = 1", shared_rate),
        (
            "both of yours stay at T = 1: the target is softened",
            lambda p, q, T: shared_rate(p, q, 1),
        ),
        (
            "that is the chance of a match: the rule is still min(p, q)",
            lambda p, q, T: float((soften(p, T) * soften(q, 1)).sum()),
        ),
    ),
}

# (sentence, wrong temperature from p_logits, q_logits, K, c, v)
WRONG_TEMPERATURES: Slips = (
    (
        "v is not used: the round costs c K + v",
        lambda p, q, K, c, v: break_even_temperature(p, q, K, c, 1),
    ),
    (
        "drafting is free in it: the round costs c K + v",
        lambda p, q, K, c, v: break_even_temperature(p, q, K, 0, v),
    ),
    (
        "K is not used: a longer draft asks for a higher alpha",
        lambda p, q, K, c, v: break_even_temperature(p, q, 1, c, v),
    ),
    (
        "that is where max p breaks even: the draft's favourite may be another token",
        lambda p, q, K, c, v: break_even_temperature(p, p, K, c, v),
    ),
    (
        "that is where q(argmax q) breaks even: read p there",
        lambda p, q, K, c, v: break_even_temperature(q, q, K, c, v),
    ),
    (
        "only the first row is used: alpha is the mean over all rows",
        lambda p, q, K, c, v: break_even_temperature(p[:1], q[:1], K, c, v),
    ),
    (
        "average the rates over the rows, not the logits",
        lambda p, q, K, c, v: break_even_temperature(p.mean(0)[None], q.mean(0)[None], K, c, v),
    ),
)


def _share(p, q, T) -> float:
    return float(shared_rate(p, q, T))


def _overlap(p, q) -> float:
    return float(np.minimum(p, q).sum())


def greedy_mean(p: np.ndarray, q: np.ndarray, T: float) -> float:
    """Mean α of the greedy draft over rows."""
    return float(np.mean(chosen_rate(p, q, T)))
