"""The mutation tables of lesson 02: wrong answers fail with their own sentence."""

from __future__ import annotations

import math

import numpy as np

from lessonlib.theory import speedup
from lessonlib.theory.speedup import expected_tokens


def right_tokens(alpha, K):
    return K + 1 if alpha == 1 else (1 - alpha ** (K + 1)) / (1 - alpha)


def right_length(alpha, c):
    if c == 0:
        return None
    last = math.ceil(alpha / ((1 - alpha) * c))
    return max(range(last + 1), key=lambda K: right_tokens(alpha, K) / (c * K + 1))


def right_sweep(alpha, c, lengths):
    tokens = [right_tokens(alpha, K) for K in lengths]
    return [tokens, [(c * K + 1) / E for K, E in zip(lengths, tokens, strict=True)]]


def right_prediction(alpha, K, c, v):
    return np.float64(right_tokens(alpha, K)) / np.float64(c * K + v)


RIGHT = {
    "2.1": [speedup.expected_tokens, right_tokens],
    "2.2": [speedup.best_draft_length, right_length],
    "2.3": [speedup.sweep_lengths, right_sweep],
    "2.4": [speedup.speedup, right_prediction],
}


def search(alpha, c, lengths=range(300), tokens=expected_tokens, cost=lambda c, K: c * K + 1):
    """A K chosen as ``right_length`` does it, with one part swapped."""
    if c == 0:
        return None
    return max(lengths, key=lambda K: tokens(alpha, K) / cost(c, K))


def closed_form(alpha, K):
    return (1 - alpha ** (K + 1)) / (1 - alpha)


def accepted_only(alpha, K):
    return expected_tokens(alpha, K) - 1


def hit_rate(alpha, K):
    return alpha * K + 1


def sweep(tokens=expected_tokens, time=lambda E, c, K: (c * K + 1) / E):
    def answer(alpha, c, lengths):
        values = [tokens(alpha, int(K)) for K in lengths]
        return values, [time(E, c, int(K)) for E, K in zip(values, lengths, strict=True)]

    return answer


def change_in_place(alpha, c, lengths):
    answer = right_sweep(alpha, c, list(lengths))
    if isinstance(lengths, np.ndarray):
        lengths += 1
    return answer


def predict(tokens=expected_tokens, cost=lambda c, K, v: c * K + v):
    return lambda alpha, K, c, v: tokens(alpha, K) / cost(c, K, v)


WRONG = {
    "2.1": [
        (accepted_only, "that counts the accepted tokens only"),
        (lambda a, K: (1 - a**K) / (1 - a), "that is one term short"),
        (lambda a, K: (1 - a ** (K + 2)) / (1 - a), "that is one term too many"),
        (hit_rate, "alpha K + 1 counts passes behind a rejection"),
        (lambda a, K: a * (K + 1), "alpha (K + 1) counts passes behind a rejection"),
        (lambda a, K: 1 / (1 - a), "K without end"),
        (lambda a, K: 1 - a ** (K + 1), "divide by 1 - alpha"),
        (lambda a, K: K + 1, "the most a round can emit"),
        (lambda a, K: a**K, "the chance that all K pass"),
        (closed_form, "alpha = 1 gives 0/0"),
        (lambda a, K: closed_form(np.float64(a), K), "alpha = 1 gives 0/0"),
        (lambda a, K: round(closed_form(a, K), 2), "E at alpha=0.25, K=2 is 1.31, wanted 1.312"),
        (lambda a, K: closed_form(a, min(K, 10)), "K=16 is"),
        (lambda a, K: None, "is a return missing?"),
        (lambda a, K: a ** np.arange(K + 1), "wanted one number"),
        (lambda a, K: "3.36", "(str), wanted one number"),
    ],
    "2.2": [
        (lambda a, c: 1 + right_length(a, c), "each is 1 too long"),
        (lambda a, c: max(0, right_length(a, c) - 1), "each is 1 too short"),
        (lambda a, c: 7, "it is 7 for every alpha and c"),
        (lambda a, c: 2**63 - 1 if a == 0.9 else 3, "wanted an int from 0 to 10000"),
        (lambda a, c: search(a, c, range(51), cost=lambda c, K: 1), "it is 50 for every"),
        (lambda a, c: search(a, c, tokens=accepted_only), "the token that closes each round"),
        (lambda a, c: search(a, c, range(101), hit_rate), "it is 100 for every"),
        (lambda a, c: search(a, c, cost=lambda c, K: c * (K + 1) + 1), "your K = "),
        (lambda a, c: search(a, c, range(1, 11)), "your K = 10 gives 4.5"),
        (lambda a, c: search(a, c, range(41)), "the speedup still rises at your K = 40"),
        (lambda a, c: search(a, c, range(1, 300)), "every draft makes it slower"),
        (lambda a, c: search(a, c or 1e-9, range(300)), "with c = 0 your K is 85"),
        (lambda a, c: right_length(a, c or a / 0), "c = 0 divides by zero"),
        (lambda a, c: speedup.speedup(a, right_length(a, c), c), "(float), wanted an int"),
        (lambda a, c: str(right_length(a, c)), "(str), wanted an int"),
        (lambda a, c: print(right_length(a, c)), "is a return missing?"),
    ],
    "2.3": [
        (lambda a, c, n: right_sweep(a, c, n)[::-1], "the two curves are swapped"),
        (sweep(accepted_only), "that counts the accepted tokens only"),
        (sweep(lambda a, K: expected_tokens(a, K - 1)), "that is one term short"),
        (sweep(hit_rate), "alpha K + 1 counts passes"),
        (sweep(time=lambda E, c, K: E / (c * K + 1)), "the speedup: turn it over"),
        (sweep(time=lambda E, c, K: c * K + 1), "divide by its tokens"),
        (sweep(time=lambda E, c, K: c * K / E), "the target's own forward is missing"),
        (sweep(time=lambda E, c, K: (c * (K + 1) + 1) / E), "only N tokens are drafted"),
        (sweep(time=lambda E, c, K: 1 / E), "drafting is missing from the cost"),
        (sweep(time=lambda E, c, K: (c * K + 1) / K), "not by N"),
        (sweep(time=lambda E, c, K: (c * K + 1) / (K + 1)), "not by N + 1"),
        (lambda a, c, n: right_sweep(a, c, range(1, 11)), "has shape (10,), wanted (5,)"),
        (lambda a, c, n: right_sweep(0.9, 0.04, n), "E is"),
        (lambda a, c, n: (right_tokens(a, n[-1]), 1.0), "your E has shape ()"),
        (lambda a, c, n: right_sweep(a, c, n)[0], "holds 10 values, wanted 2"),
        (lambda a, c, n: None, "your answer is None"),
        (change_in_place, "your code changed lengths in place"),
    ],
    "2.4": [
        (predict(cost=lambda c, K, v: c * K + 1), "v is not used"),
        (predict(cost=lambda c, K, v: v), "drafting is free in it"),
        (predict(cost=lambda c, K, v: c + v), "c is paid for each"),
        (predict(cost=lambda c, K, v: c * (K + 1) + v), "only K tokens are drafted"),
        (predict(cost=lambda c, K, v: c * K + v * (K + 1)), "not of one token"),
        (predict(cost=lambda c, K, v: c * K + v + 1), "do not add another 1"),
        (lambda a, K, c, v: 1 / right_prediction(a, K, c, v), "it is upside down"),
        (predict(cost=lambda c, K, v: 1), "divide by its cost"),
        (predict(accepted_only), "the token that closes the round is missing"),
        (predict(hit_rate), "alpha K + 1 is not the tokens of a round"),
        (predict(closed_form), "divides by zero at an end: alpha = 1"),
        (lambda a, K, c, v: right_prediction(a, max(K, 1), c, v), "K = 0 is plain decoding"),
        (lambda a, K, c, v: None, "is a return missing?"),
        (lambda a, K, c, v: [right_prediction(a, K, c, v)], "wanted one number"),
    ],
}


def test_another_best_length_of_the_same_speedup_passes():
    """K = 1 and K = 2 tie at alpha = 1/2, c = 1/5: rounding decides, so neither is wrong."""
    from lessonlib.exercises.lesson02 import _compare_lengths

    for K in (1, 2):
        _compare_lengths(0.5, 0.2, K)
