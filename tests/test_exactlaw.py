"""Exact laws: the right round, every mistake, and the enumerator itself. Cases 7, 10, 11, 12."""

from __future__ import annotations

import bisect
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from lessonlib.decoding.sampling import Sampling
from lessonlib.theory.exactlaw import (
    complete_law,
    law_of,
    round_law,
    target_law,
    total_variation,
)
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.rejection import draw
from lessonlib.theory.toys import random_rows
from lessonlib.theory.trees import CHOSEN, Proposal
from lessonlib.theory.verify import speculative_round, verify


def warped(rows, sampling):
    return lambda context: sampling.probabilities(np.log(rows(context)))


@pytest.mark.parametrize("vocab", [2, 3, 4])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("temperature", [0, 0.5, 1, 1.5])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (2, 1.0), (0, 0.7), (2, 0.7)])
def test_joint_law_equals_the_targets(vocab, K, temperature, top_k, top_p):
    sampling = Sampling(temperature, top_k, top_p)
    p_of = warped(random_rows(vocab, seed=1), sampling)
    q_of = warped(random_rows(vocab, seed=2), sampling)
    law = complete_law(round_law(speculative_round, p_of, q_of, K), p_of, K + 1)
    assert total_variation(law, target_law(p_of, K + 1)) < 1e-12
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_joint_law_in_rationals_is_equal_not_close(K):
    p_of, q_of = random_rows(4, 1, exact=True), random_rows(4, 2, exact=True)
    law = complete_law(round_law(speculative_round, p_of, q_of, K), p_of, K + 1)
    assert law == target_law(p_of, K + 1)


@cache
def laws_of_mistakes():
    p_of, q_of = random_rows(4, 1, exact=True), random_rows(4, 2, exact=True)
    return {name: round_law(wrong, p_of, q_of, K=2) for name, wrong in MISTAKES.items()}


LOSSLESS_BUT_SLOW = {"accept-exact-match", "bonus-missing"}  # right law, fewer tokens
INVISIBLE_AT_FIRST = {
    "accept-on-one-coin",
    "go-on-after-rejection",
    "go-on-and-add-bonus",
    "bonus-from-draft",
    "bonus-from-stale-position",
    "bonus-arg-max",
}


def test_every_mistake_is_seen_and_told_from_every_other():
    assert len(MISTAKES) >= 14
    p_of, q_of = random_rows(4, 1, exact=True), random_rows(4, 2, exact=True)
    right = round_law(speculative_round, p_of, q_of, 2)
    laws = {"right": right, **laws_of_mistakes()}
    for one, other in combinations(laws, 2):
        assert total_variation(laws[one], laws[other]) > 0.01, (one, other)


@pytest.mark.parametrize("name", MISTAKES)
def test_joint_law_condemns_what_the_first_token_misses(name):
    p_of = random_rows(4, 1, exact=True)
    law = complete_law(laws_of_mistakes()[name], p_of, 3)
    joint = total_variation(law, target_law(p_of, 3))
    first = {}
    for tokens, weight in law.items():
        first[tokens[0]] = first.get(tokens[0], 0) + weight
    alone = total_variation(first, dict(enumerate(p_of(()))))
    assert (joint == 0) == (name in LOSSLESS_BUT_SLOW)
    assert (alone == 0) == (name in INVISIBLE_AT_FIRST | LOSSLESS_BUT_SLOW)


@pytest.mark.parametrize("siblings", ["independent", "without replacement", "top-k"])
def test_sibling_rules_keep_the_law(siblings):
    p, q = random_rows(4, 1, exact=True)(()), random_rows(4, 2, exact=True)((0,))

    def run(coins):
        if siblings == "top-k":
            tokens, rows = [1, 3], [CHOSEN, CHOSEN]
        else:
            first = draw(q, coins.random())
            rest = q.copy()
            if siblings == "without replacement":
                rest[first] = 0
                rest = rest / rest.sum()
            tokens, rows = [first, draw(rest, coins.random())], [q, rest]
        proposal = Proposal(tuple(tokens), (-1, -1), tuple(rows))
        verdict = verify(proposal, [p] * 3, iter(coins.random, None))
        return tokens[verdict.path[0]] if verdict.path else verdict.token

    assert law_of(run) == pytest.approx(dict(enumerate(p)), abs=1e-12)


def test_the_popular_best_path_rule_breaks_the_law():
    # Two siblings, both tested against the plain row; the likelier accepted one wins.
    p = np.array([Fraction(1, 4), Fraction(3, 4)])
    q = np.array([Fraction(1, 2), Fraction(1, 2)])

    def run(coins):
        drafted = [draw(q, coins.random()), draw(q, coins.random())]
        passed = [x for x in drafted if coins.random() < p[x] / q[x]]
        return max(passed) if passed else 1

    assert total_variation(law_of(run), dict(enumerate(p))) > 0.05


@pytest.mark.parametrize(
    "toss",
    [
        lambda u, cdf: int(np.searchsorted(cdf, u, side="right")),
        lambda u, cdf: int(np.sum(cdf <= u)),
        lambda u, cdf: int(np.argmax(u < cdf)),
        lambda u, cdf: bisect.bisect(cdf.tolist(), u),
        lambda u, cdf: next(i for i, edge in enumerate(cdf) if u < edge),
        lambda u, cdf: int(np.searchsorted(2 * cdf + 1, 1 + 2 * u)),
        lambda u, cdf: int(cdf.searchsorted(u, side="right")),
        lambda u, cdf: int(np.searchsorted(cdf, v=u)),
        lambda u, cdf: int(np.flatnonzero(cdf > u)[0]),
        lambda u, cdf: int(np.argmax(np.greater(cdf, u))),
        lambda u, cdf: int(np.less(cdf[0], u)) + int(np.less_equal(cdf[1], u)),
        lambda u, cdf: 0 if u < cdf[0] or u == cdf[0] else 1 + (not u <= cdf[1]),
        lambda u, cdf: 2 - int(np.searchsorted(np.cumsum([0.5, 0.3, 0.2]), 1 - u)),
    ],
)
def test_a_coin_may_be_used_the_way_people_do(toss):
    law = law_of(lambda coins: toss(coins.random(), np.cumsum([0.2, 0.3, 0.5])))
    assert law == pytest.approx({0: 0.2, 1: 0.3, 2: 0.5})


def test_two_looks_at_one_coin_agree_and_two_coins_are_independent():
    def same(coins):
        u = coins.random()
        return u < 0.5, u < 0.25, u >= 0.75

    def two(coins):
        return coins.random() < 0.5, coins.random() < 0.25

    assert law_of(same) == {
        (True, True, False): 0.25,
        (True, False, False): 0.25,
        (False, False, False): 0.25,
        (False, False, True): 0.25,
    }
    assert law_of(two)[True, True] == 0.125


def test_a_running_sum_that_ends_below_one_opens_no_world_above_it():
    cdf = np.cumsum([0.1] * 10)
    assert cdf[-1] < 1
    law = law_of(lambda coins: next(i for i, edge in enumerate(cdf) if coins.random() < edge))
    assert sum(law.values()) == pytest.approx(1)
    one = law_of(
        lambda coins: (lambda u: next(i for i, c in enumerate(cdf) if u < c))(coins.random())
    )
    assert one == pytest.approx(dict.fromkeys(range(10), 0.1))


def test_a_coin_can_be_printed():
    def run(coins):
        u = coins.random()
        return f"{u:.2f}{u!r}" != "", u < 0.5

    assert law_of(run) == {(True, True): 0.5, (True, False): 0.5}


@pytest.mark.parametrize(
    "misuse",
    [float, int, bool, round, abs, np.sin, np.log, lambda u: u**2, lambda u: np.digitize(u, [0.5])],
)
def test_a_coin_that_is_asked_for_a_number_says_what_to_do(misuse):
    with pytest.raises(TypeError, match="can only be compared with a threshold or given to draw"):
        law_of(lambda coins: misuse(coins.random()))


def test_two_coins_are_not_compared():
    with pytest.raises(TypeError, match="not with another uniform"):
        law_of(lambda coins: coins.random() < coins.random())


def test_randomness_from_elsewhere_is_told():
    thresholds = iter([[0.2, 0.4, 0.6, 0.8], [0.5]])  # another answer at the second look

    def run(coins):
        return int(np.sum(np.array(next(thresholds)) <= coins.random()))

    with pytest.raises(RuntimeError, match="draw all randomness from u"):
        law_of(run)
