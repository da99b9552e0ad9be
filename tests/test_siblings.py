"""Siblings: three rules that keep the law, and a zoo that does not. Cases 11, 12."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from lessonlib.theory.exactlaw import total_variation
from lessonlib.theory.sibling_mistakes import (
    SIBLING_MISTAKES,
    best_accepted,
    own_target_samples,
)
from lessonlib.theory.siblings import RULES, accept_sibling, sibling_law, token_law
from lessonlib.theory.toys import random_rows

LOSSLESS_BUT_SLOW = {"only-the-first-sibling", "one-target-sample"}


def rows(seed=1, vocab=4):
    return random_rows(vocab, seed)(()), random_rows(vocab, seed + 100)(())


def signature(choose, seed=1):
    """The laws of one implementation under every rule, as one law."""
    p, q = rows(seed)
    return {
        (rule, *outcome): weight / len(RULES)
        for rule in RULES
        for outcome, weight in sibling_law(choose, p, q, rule, 2).items()
    }


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_rule_keeps_the_law(rule, count, seed):
    p, q = rows(seed, vocab=4 if count < 4 else 3)
    law = token_law(sibling_law(accept_sibling, p, q, rule, count))
    assert total_variation(law, dict(enumerate(p))) < 1e-12


@pytest.mark.parametrize("rule", ["independent", "without replacement"])
def test_in_rationals_the_laws_are_equal(rule):
    p, q = random_rows(4, 1, exact=True)(()), random_rows(4, 2, exact=True)((0,))
    law = token_law(sibling_law(accept_sibling, p, q, rule, 2))
    assert {x: w for x, w in law.items() if w} == {x: w for x, w in enumerate(p) if w}


@pytest.mark.parametrize("rule", RULES)
def test_more_siblings_are_accepted_more_often(rule):
    p, q = rows()

    def chance(count):
        law = sibling_law(accept_sibling, p, q, rule, count)
        return sum(weight for (child, _), weight in law.items() if child is not None)

    chances = [chance(count) for count in (1, 2, 3)]
    assert chances == sorted(chances)
    assert chances[0] < chances[2]


def test_every_sibling_mistake_is_seen_and_told_from_every_other():
    laws = {"right": signature(accept_sibling)}
    laws |= {name: signature(wrong) for name, wrong in SIBLING_MISTAKES.items()}
    for one, other in combinations(laws, 2):
        assert total_variation(laws[one], laws[other]) > 0.001, (one, other)


@pytest.mark.parametrize("name", SIBLING_MISTAKES)
def test_the_law_of_the_token_condemns_all_but_the_slow_ones(name):
    p, q = rows()
    worst = max(
        total_variation(
            token_law(sibling_law(SIBLING_MISTAKES[name], p, q, rule, 2)), dict(enumerate(p))
        )
        for rule in RULES
    )
    assert (worst < 1e-12) == (name in LOSSLESS_BUT_SLOW)


def test_the_popular_best_accepted_rule_is_off_by_a_quarter():
    # Even a perfect draft: both siblings pass, and the likelier one is always preferred.
    p = np.array([Fraction(1, 2), Fraction(1, 2)])
    law = token_law(sibling_law(best_accepted, p, p, "independent", 2))
    assert law == {0: Fraction(3, 4), 1: Fraction(1, 4)}
    assert total_variation(law, dict(enumerate(p))) == Fraction(1, 4)


def test_a_target_sample_for_each_candidate_favours_what_is_drafted():
    # Both candidates say token 0, whose p is .35; each gets a target sample of its own.
    p, q = np.array([Fraction(7, 20), Fraction(13, 20)]), np.array([Fraction(1), Fraction(0)])
    law = token_law(sibling_law(own_target_samples, p, q, "independent", 2))
    assert law[0] == 1 - Fraction(13, 20) ** 3
    assert token_law(sibling_law(accept_sibling, p, q, "independent", 2))[0] == p[0]


def test_a_twin_of_a_rejected_sibling_is_rejected_for_certain():
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    child, token = accept_sibling(p, [0, 0], [q, q], [0.9, 0.0, 0.5])
    assert (child, token) == (None, 1)
