"""The mutation tables of lessons 00 and 01: wrong answers fail with their own sentence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency, chisquare

from lessonlib.exercises.misconceptions import ADVICE
from lessonlib.theory import empirical, metrics, rejection
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.rejection import draw
from lessonlib.theory.verify import speculative_round
from tests.answers import outcome

LINE = "ex {} {}: {}"


def right_ratio(p, q, x):
    return 1.0 if q[x] <= p[x] else float(p[x]) / float(q[x])


def right_residual(p, q):
    gap = (p - q).clip(min=0)
    return p if gap.sum() == 0 else gap / gap.sum()


def right_round(p_rows, q_rows, drafted, u):
    """Closes with the last uniform instead of the next one: as right as the library's."""
    for j, x in enumerate(drafted):
        if u[j] >= p_rows[j][x] / q_rows[j][x]:
            return (*drafted[:j], draw(right_residual(p_rows[j], q_rows[j]), u[-1]))
    return np.array([*drafted, draw(p_rows[-1], u[-1])])


def right_test(counts, p):
    n = counts.sum()
    tv = 0.5 * np.abs(counts / n - p).sum()
    return tv, empirical.sampling_floor(p, n), chisquare(counts, n * p).pvalue


def float32_ratio(p, q, x):
    return min(np.float32(1), np.float32(p[x]) / np.float32(q[x]))


def float32_residual(p, q):
    return right_residual(p.astype(np.float32), q.astype(np.float32))


def round_with_a_hand_made_draw(p_rows, q_rows, drafted, u):
    """The classical inverse of a running sum, which may end a rounding error below 1."""

    def pick(weights, coin):
        return next(i for i, edge in enumerate(np.cumsum(weights)) if coin < edge)

    for j, x in enumerate(drafted):
        print(f"u[{j}] = {u[j]:.2f}")
        if not u[j] < np.float32(p_rows[j][x]) / np.float32(q_rows[j][x]):
            return [*drafted[:j], pick(right_residual(p_rows[j], q_rows[j]), u[-1])]
    return [*drafted, int(np.flatnonzero(np.cumsum(p_rows[-1]) > u[-1])[0])]


RIGHT = {
    "0.1": [
        metrics.count_accepted,
        lambda m: next((i for i, ok in enumerate(m) if not ok), len(m)),
    ],
    "0.2": [metrics.tokens_per_forward, lambda a: np.mean(np.array(a) + 1)],
    "1.1": [rejection.acceptance_probability, right_ratio, float32_ratio],
    "1.2": [rejection.residual, right_residual, float32_residual],
    "1.3": [speculative_round, right_round, round_with_a_hand_made_draw],
    "1.4": [empirical.one_sample_test, right_test, lambda c, p: np.array(right_test(c, p))],
}


def tv_doubled(counts, p):
    tv, floor, value = right_test(counts, p)
    return min(1, 2 * tv), floor, value


def against_a_sample(counts, p):
    tv, floor, _ = right_test(counts, p)
    again = np.random.default_rng(int(counts[0])).multinomial(counts.sum(), p)
    return tv, floor, chisquare(counts, again * counts.sum() / again.sum()).pvalue


def floor_without_rounding(counts, p):
    n = counts.sum()
    tv, _, value = right_test(counts, p)
    return tv, (p * (1 - p) * binom.pmf(n * p, n - 1, p)).sum(), value


def never_rejects(counts, p):
    tv, floor, _ = right_test(counts, p)
    return tv, floor, 1.0


def two_sample(counts, p):
    tv, floor, _ = right_test(counts, p)
    return tv, floor, chi2_contingency([counts, counts.sum() * p])[1]


WRONG = {
    "0.1": [(sum, "nothing counts after a failure"), (len, "wanted 0"), (lambda m: 1.0, "an int")],
    "0.2": [
        (lambda a: sum(a) / len(a), "each round adds one token"),
        (lambda a: sum(a) + 1, "tau for"),
    ],
    "1.1": [
        (lambda p, q, x: p[x] / q[x], "cap it with min"),
        (lambda p, q, x: min(1, q[x] / p[x]) if p[x] else 1.0, ADVICE["ratio-inverted"]),
        (lambda p, q, x: float(p[x] >= q[x]), ADVICE["accept-iff-p-at-least-q"]),
        (lambda p, q, x: p[x], ADVICE["accept-with-p"]),
        (lambda p, q, x: 1, ADVICE["accept-everything"]),
        (lambda p, q, x: min(p[x], q[x]), ADVICE["accept-with-min-of-p-and-q"]),
        (lambda p, q, x: min(1, 2 * p[x] / q[x]), ADVICE["accept-leniently"]),
        (lambda p, q, x: None, "is a return missing?"),
        (lambda p, q, x: np.minimum(1, p / q), "wanted one number"),
        (lambda p, q, x: float("nan"), "division by zero"),
    ],
    "1.2": [
        (lambda p, q: abs(p - q) / abs(p - q).sum(), ADVICE["residual-not-clipped"]),
        (lambda p, q: np.maximum(p - q, 0), ADVICE["residual-not-renormalised"]),
        (lambda p, q: p, ADVICE["residual-from-p"]),
        (lambda p, q: q, ADVICE["residual-from-q"]),
        (lambda p, q: right_residual(q, p), ADVICE["residual-reversed"]),
        (lambda p, q: np.maximum(p - q, 0) / np.maximum(p - q, 0).sum(), "gives 0/0"),
        (lambda p, q: p - q, "negative"),
        (lambda p, q: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "has shape (7,)"),
        (lambda p, q: "residual", "(str)"),
    ],
    "1.4": [
        (tv_doubled, "it is half the sum"),
        (against_a_sample, "rejects a perfect sampler"),
        (two_sample, "the p-value"),
        (floor_without_rounding, "the sampling floor"),
        (never_rejects, "does not notice 10 000 uniform draws"),
        (lambda counts, p: 0.5, "wanted 3 values"),
        (lambda counts, p: (right_test(counts, p)[0], 0.0, 1.0), "sampling floor"),
    ],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_round_is_told_which_mistake_it_made(name):
    assert outcome("1.3", MISTAKES[name]) == f"ex 1.3 speculative_round: wrong - {ADVICE[name]}"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda p, q, d, u: None, "what your round returns is None"),
        (lambda p, q, d, u: d.append(0) or [0], "your code changed drafted in place"),
        (lambda p, q, d, u: [0] * 9, "emits"),
        (lambda p, q, d, u: [0.5], "wanted an int"),
    ],
)
def test_odd_rounds_get_one_sentence(answer, sentence):
    line = outcome("1.3", answer)
    assert line.startswith("ex 1.3 speculative_round: wrong - ")
    assert sentence in line


def test_advice_exists_for_every_mistake_and_is_one_plain_line():
    assert set(ADVICE) == set(MISTAKES)
    assert len(set(ADVICE.values())) == len(ADVICE)
    assert all(sentence.isascii() and len(sentence) < 100 for sentence in ADVICE.values())
