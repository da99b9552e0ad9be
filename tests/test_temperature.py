"""Acceptance by rule: exact against an enumeration of the real round, and where it breaks even."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.decoding.sampling import warp
from lessonlib.theory.crossings import HOTTEST, break_even_temperature, find_crossings
from lessonlib.theory.exactlaw import law_of, total_variation
from lessonlib.theory.rejection import draw
from lessonlib.theory.siblings import RULES as SIBLINGS
from lessonlib.theory.siblings import draw_independently
from lessonlib.theory.speedup import break_even_alpha
from lessonlib.theory.temperature import (
    RATES,
    chosen_rate,
    four_rates,
    left_rate,
    match_rate,
    shared_gap,
    shared_rate,
    soften,
)
from lessonlib.theory.trees import CHOSEN, ROOT, Proposal
from lessonlib.theory.verify import verify

TOY_P, TOY_Q = np.array([1.2, -0.3, 0.4, 2.0]), np.array([2.1, 0.2, -1.0, 0.9])
HEATS = (0, 0.3, 1.0, 1.5, 4.0, math.inf)


def play(name, p_T, q_T, q_1, coins):
    """One real round over one drafted token under a rule: (whether it passed, the token)."""
    if name == "shared T":
        ((token, row),) = draw_independently(q_T, 1, coins)
    elif name == "draft left at T = 1":
        ((token, row),) = draw_independently(q_1, 1, coins)
    elif name == "greedy draft":
        ((token, row),) = SIBLINGS["top-k"](q_1, 1, coins)
    else:  # exact match: both sides draw, and the draft's token has no row
        token, row = draw(q_T, next(coins)), CHOSEN
    verdict = verify(Proposal((token,), (ROOT,), (row,)), [p_T, p_T], coins)
    passed = bool(verdict.path)
    return passed, token if passed else verdict.token


@pytest.mark.parametrize("T", HEATS)
@pytest.mark.parametrize("name", RATES)
def test_each_rate_is_the_enumerated_chance_to_pass(name, T):
    p_T, q_T, q_1 = soften(TOY_P, T), soften(TOY_Q, T), soften(TOY_Q, 1)
    law = law_of(lambda coins: play(name, p_T, q_T, q_1, iter(coins.random, None)))
    passes = sum(weight for (passed, _), weight in law.items() if passed)
    assert float(RATES[name](TOY_P, TOY_Q, T)) == pytest.approx(passes, abs=1e-12)
    # And no rule is wrong about the text: each emits p_T.
    tokens: dict = {}
    for (_, token), weight in law.items():
        tokens[token] = tokens.get(token, 0) + weight
    assert total_variation(tokens, dict(enumerate(p_T))) < 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_level_of_a_top_k_tree_passes_with_the_mass_of_its_tokens(k):
    p, q = soften(TOY_P, 1.5), soften(TOY_Q, 1)

    def run(coins):
        siblings = SIBLINGS["top-k"](q, k, iter(coins.random, None))
        tokens, rows = zip(*siblings, strict=True)
        proposal = Proposal(tokens, (ROOT,) * k, rows)
        return bool(verify(proposal, [p] * (k + 1), iter(coins.random, None)).path)

    assert law_of(run).get(True, 0) == pytest.approx(float(chosen_rate(TOY_P, TOY_Q, 1.5, k)))


def test_softening_is_what_the_loop_samples_from():
    logits = np.random.default_rng(0).normal(0, 3, (5, 7))
    logits[0, 2] = -np.inf
    for T in (0, 0.2, 1.0, 3.0):
        np.testing.assert_allclose(soften(logits, T), warp(logits, T), atol=1e-15)


def test_the_limits():
    p, q = np.random.default_rng(1).normal(0, 2, (2, 6, 50))
    cold, hot = four_rates(p, q, 0), four_rates(p, q, math.inf)
    agree = (p.argmax(-1) == q.argmax(-1)).astype(float)
    for name, rate in zip(RATES, cold, strict=True):
        if name != "draft left at T = 1":
            np.testing.assert_array_equal(rate, agree)
    shared, greedy, match, left = hot
    np.testing.assert_allclose(shared, 1)
    np.testing.assert_allclose(greedy, 1 / 50)
    np.testing.assert_allclose(match, 1 / 50)
    np.testing.assert_allclose(left, np.minimum(soften(q, 1), 1 / 50).sum(-1))
    # Large but finite temperatures lead there.
    for rate, limit in zip(four_rates(p, q, 1e6), hot, strict=True):
        np.testing.assert_allclose(rate, limit, atol=1e-4)


def test_the_gap_to_1_falls_as_1_over_T():
    p, q = np.random.default_rng(2).normal(0, 2, (2, 4, 200))
    for T in (100.0, 1000.0):
        np.testing.assert_allclose((1 - shared_rate(p, q, T)) * T, shared_gap(p, q), rtol=0.05)


def test_shared_T_may_dip_before_it_rises():
    """So nobody may claim that a higher T always helps."""
    p, q = np.array([3.0, 0.0, -1.0]), np.array([3.0, -1.0, 0.5])
    rates = [float(shared_rate(p, q, T)) for T in (0, 1.5, 100)]
    assert rates[0] == 1 > rates[1] < rates[2]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 9).flatmap(
        lambda n: st.tuples(*[st.lists(st.floats(-30, 30), min_size=n, max_size=n)] * 2)
    ),
    st.floats(0.01, 50),
)
def test_rates_are_chances_in_their_order(rows, T):
    p, q = map(np.array, rows)
    shared, greedy, match, left = map(float, four_rates(p, q, T))
    for rate in (shared, greedy, match, left):
        assert 0 <= rate <= 1 + 1e-12
    assert match <= shared + 1e-12  # p q <= min(p, q): matching throws acceptances away
    assert match <= soften(p, T).max() + 1e-12
    assert shared == pytest.approx(float(shared_rate(q, p, T)))
    assert left == pytest.approx(float(left_rate(p, q, T)))
    assert match == pytest.approx(float(match_rate(q + 5, p, T)))  # a constant means nothing


def test_more_tokens_of_a_level_pass_more_often_up_to_all():
    rates = [float(chosen_rate(TOY_P, TOY_Q, 1.0, k)) for k in range(1, 5)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(1)
    # Ties go to the lower id, with and without a sort.
    assert float(chosen_rate([1.0, 0, 0], [5.0, 5.0, 0], 1.0)) == pytest.approx(
        soften([1.0, 0, 0], 1.0)[0]
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: soften([0.0, 1.0], -0.1), "temperature is -0.1"),
        (lambda: soften([0.0, 1.0], math.nan), "temperature is nan"),
        (lambda: soften([-math.inf] * 2, 1.0), "a row of -infinity"),
        (lambda: soften([math.nan, 1.0], 1.0), "logits hold NaN"),
        (lambda: shared_rate([0.0, 1.0], [0.0], 1.0), "shapes (2,) and (1,)"),
        (lambda: chosen_rate([0.0, 1.0], [0.0, 1.0], 1.0, 3), "k is 3"),
        (lambda: chosen_rate([0.0, 1.0], [0.0, 1.0], 1.0, 0), "k is 0"),
        (lambda: find_crossings(math.sin, 0.5, math.inf), "hottest is inf: use a positive, finite"),
        (lambda: find_crossings(math.sin, 0.5, -1), "hottest is -1: use a positive, finite"),
        (lambda: find_crossings(math.sin, 0.5, math.nan), "hottest is nan: use a positive, finite"),
        (lambda: find_crossings(math.sin, 0.5, 7, 0), "steps is 0: use at least 1"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=r".") as raised:
        call()
    assert words in str(raised.value)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_tie_goes_to_the_lower_id(k):
    p = np.log([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    rates = chosen_rate(p, np.array([[0.0, 5, 5, 5], [5.0, 5, 5, 0]]), 1.0, k)
    assert rates == pytest.approx([[0.2, 0.5, 0.9][k - 1], [0.4, 0.7, 0.9][k - 1]])


# Crossings


def test_crossings_are_found_in_order_and_direction():
    found = find_crossings(lambda T: math.sin(T), 0.5, hottest=7)
    assert [round(c.temperature, 6) for c in found] == [
        round(x, 6) for x in (math.pi / 6, 5 * math.pi / 6, 2 * math.pi + math.pi / 6)
    ]
    assert [c.rises for c in found] == [True, False, True]
    assert find_crossings(lambda T: 0.3, 0.5) == []


def test_break_even_is_where_alpha_meets_the_cost():
    p = np.array([[5.0, 0, 0, 0], [4.0, 1, 0, 0]])
    q = np.array([[2.0, 0, 0, 0], [3.0, 1, 0, 0]])
    for K, c, v in ((1, 0.3, 1.0), (4, 0.1, 1.3)):
        T = break_even_temperature(p, q, K, c, v)
        assert float(chosen_rate(p, q, T).mean()) == pytest.approx(break_even_alpha(K, c, v))
    assert break_even_temperature(p, 1 - q, 1, 0.3) is None  # the draft is wrong everywhere
    assert break_even_temperature(p, q, 2, 3.0) is None  # no alpha is enough
    assert break_even_temperature(p, q, 1, 0.2) == math.inf  # above 1/V for ever
    assert float(chosen_rate(p, q, HOTTEST).mean()) > 0.2
