"""The rule and its parts, value by value. Cases 1, 6, 9."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.theory.rejection import (
    acceptance_probability,
    acceptance_rate,
    as_distribution,
    draw,
    one_hot,
    residual,
)
from lessonlib.theory.trees import CHOSEN, Proposal, chain
from lessonlib.theory.verify import speculative_round, verify

rows = st.lists(st.integers(0, 20), min_size=2, max_size=6).filter(any)


@given(rows, st.integers(0, 99))
def test_accepted_part_plus_residual_part_is_p(counts, seed):
    p = np.array(counts) / sum(counts)
    q = np.random.default_rng(seed).dirichlet(np.ones(len(counts)))
    alpha = acceptance_rate(p, q)
    np.testing.assert_allclose(np.minimum(p, q) + (1 - alpha) * residual(p, q), p, atol=1e-12)
    assert residual(p, q).sum() == pytest.approx(1)


def test_fractions_stay_exact():
    p, q = np.array([Fraction(1, 3), Fraction(2, 3)]), np.array([Fraction(1, 2)] * 2)
    assert acceptance_probability(p, q, 0) == Fraction(2, 3)
    assert acceptance_rate(p, q) == Fraction(5, 6)
    assert residual(p, q).tolist() == [0, 1]


@pytest.mark.parametrize("p", [np.array([0.3, 0.7]), one_hot(1, 4)])
def test_equal_distributions_accept_always_and_have_p_as_residual(p):
    assert acceptance_rate(p, p) == 1
    assert acceptance_probability(p, p, int(p.argmax())) == 1
    np.testing.assert_array_equal(residual(p, p), p)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([0.5, np.nan], "NaN or infinity"),
        ([0.5, np.inf], "NaN or infinity"),
        ([1.5, -0.5], "negative probability"),
        ([0.5, 0.4], "must sum to 1, but sums to 0.9"),
        ([[0.5, 0.5]], "must be one row of V probabilities"),
        ([], "must be one row"),
    ],
)
def test_bad_rows_are_named(row, sentence):
    for function in (acceptance_rate, residual):
        with pytest.raises(ValueError, match=f"^p .*{sentence}"):
            function(row, [0.5, 0.5])
        with pytest.raises(ValueError, match=f"^q .*{sentence}"):
            function([0.5, 0.5], row)


def test_a_token_that_q_cannot_have_drawn_is_an_error():
    with pytest.raises(ValueError, match="q gives token 1 probability 0"):
        acceptance_probability([0.5, 0.5], [1.0, 0.0], 1)
    with pytest.raises(ValueError, match="x is token 2, outside the vocabulary of 2"):
        acceptance_probability([0.5, 0.5], [1.0, 0.0], 2)


def test_vocabularies_must_agree():
    with pytest.raises(ValueError, match="p has 2 tokens and q has 3"):
        residual([0.5, 0.5], [0.5, 0.25, 0.25])


@given(rows, st.floats(0, 1, exclude_max=True))
def test_draw_inverts_the_running_sum_and_never_draws_zero(counts, u):
    p = np.array(counts) / sum(counts)
    token = draw(p, u)
    assert p[token] > 0
    assert p[:token].sum() <= u + 1e-12
    assert u < p[: token + 1].sum() + 1e-12


@pytest.mark.parametrize(("u", "token"), [(0.0, 1), (0.5, 2), (0.75, 4)])
def test_draw_at_the_very_edges_skips_tokens_of_probability_zero(u, token):
    assert draw([0.0, 0.5, 0.25, 0.0, 0.25, 0.0], u) == token


@pytest.mark.parametrize("weights", [[0.0, 0.0], [np.nan, 0.5], [0.5, np.inf], []])
def test_draw_refuses_weights_that_cannot_be_drawn_from(weights):
    with pytest.raises(ValueError, match="weights must hold a positive number"):
        draw(weights, 0.5)


def test_nan_among_fractions_is_seen():
    with pytest.raises(ValueError, match="p holds NaN"):
        as_distribution(np.array([float("nan"), 0.5], dtype=object), "p")


def test_draw_survives_a_sum_that_rounds_below_u():
    p = np.array([0.1] * 10 + [0.0])
    assert draw(p, np.nextafter(1, 0)) == 9


def test_arguments_are_left_alone():
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    kept = p.copy(), q.copy()
    residual(p, q)
    speculative_round([p, p], [q], [0], [0.9, 0.5])
    np.testing.assert_array_equal((p, q), kept)
    equal = residual(p, p)
    equal[0] = 9
    assert p[0] == 0.2


# Two tokens: 0 is kept with probability 0.4, 1 always. Words as in vLLM's table tests.
P, Q = np.array([0.2, 0.8]), np.array([0.5, 0.5])


@pytest.mark.parametrize(
    ("drafted", "u", "emitted", "kind"),
    [
        ([1, 1, 1], [0.9, 0.9, 0.9, 0.1], [1, 1, 1, 0], "bonus"),  # all accepted
        ([0, 1, 1], [0.5, 0.9, 0.9, 0.9], [1], "recovered"),  # rejected at once
        ([1, 0, 1, 1], [0.9, 0.5, 0.9, 0.9, 0.9], [1, 1], "recovered"),  # [T, F, T, T] gives 1
        ([0, 0], [0.39, 0.41, 0.5], [0, 1], "recovered"),
        ([], [0.19], [0], "bonus"),  # nothing drafted: plain decoding
    ],
)
def test_rounds_by_hand(drafted, u, emitted, kind):
    K = len(drafted)
    assert speculative_round([P] * (K + 1), [Q] * K, drafted, u) == emitted
    assert verify(chain(drafted, [Q] * K), [P] * (K + 1), iter(u)).kind == kind


def test_tests_record_what_was_compared():
    test = verify(chain([0], [Q]), [P, P], iter([0.3, 0.5])).tests[0]
    assert (test.p, test.q, test.ratio, test.coin, test.accepted) == (0.2, 0.5, 0.4, 0.3, True)
    assert test.alpha == pytest.approx(0.7)


def test_rows_must_fit_the_proposal():
    with pytest.raises(ValueError, match="p_rows has 1 rows for 1 drafted tokens"):
        verify(chain([0], [Q]), [P], iter([0.5]))


@pytest.mark.parametrize(
    ("parents", "q", "sentence"),
    [
        ((0,), (CHOSEN,), r"parents\[0\] is 0"),
        ((-2,), (CHOSEN,), r"parents\[0\] is -2"),
        ((-1,), (None,), r"q\[0\] is None: pass the row the token was drawn from, or CHOSEN"),
        ((-1,), ("top-k",), r"q\[0\] is 'top-k'"),
        ((-1,), (), "equally long, got 1, 1 and 0"),
    ],
)
def test_a_proposal_that_is_no_tree_or_lacks_a_row_is_refused(parents, q, sentence):
    with pytest.raises(ValueError, match=sentence):
        Proposal((0,), parents, q)


def test_as_distribution_does_not_convert_fractions():
    row = np.array([Fraction(1, 2)] * 2)
    assert as_distribution(row, "p").dtype == object
