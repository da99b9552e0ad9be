"""The speedup formula and the roofline: known values, exact laws, the round itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.theory.exactlaw import round_law
from lessonlib.theory.rejection import draw
from lessonlib.theory.roofline import (
    PRESETS,
    forward_seconds,
    largest_gaining_batch,
    verify_cost,
)
from lessonlib.theory.speedup import (
    best_draft_length,
    break_even_alpha,
    expected_tokens,
    expected_tokens_mixed,
    speedup,
    sweep_lengths,
)
from lessonlib.theory.verify import speculative_round

rates = st.floats(0, 1)
lengths = st.integers(0, 12)

# Known values


@pytest.mark.parametrize(
    ("alpha", "K", "value"),
    [(0.8, 4, 3.3616), (0.6, 5, 2.3834), (0.9, 5, 4.6856), (0.9, 4, 4.0951)],
)
def test_expected_tokens(alpha, K, value):
    assert expected_tokens(alpha, K) == pytest.approx(value, abs=5e-5)


def test_the_copied_value_of_4_1_tokens_at_5_drafts_belongs_to_4():
    assert round(expected_tokens(0.9, 5), 1) == 4.7
    assert round(expected_tokens(0.9, 4), 1) == 4.1
    assert round(expected_tokens(0.6, 5), 1) == 2.4


BEST = [
    (0.8, 0.05, 8, 3.0921),
    (0.95, 0.02, 31, 9.9542),
    (0.5, 0.05, 3, 1.6304),
    (0.7, 0.05, 6, 2.3529),
    (0.9, 0.05, 13, 4.6741),
    (0.5, 0.1, 2, 1.4583),
    (0.7, 0.1, 4, 1.9808),
    (0.9, 0.1, 10, 3.4309),
    (0.9, 0.04, 15, 5.0919),
]


@pytest.mark.parametrize(("alpha", "c", "K", "value"), BEST)
def test_best_draft_lengths_and_their_speedups(alpha, c, K, value):
    assert best_draft_length(alpha, c) == K
    assert speedup(alpha, K, c) == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(
    ("alpha", "c", "claimed_lengths", "claimed_speedup"),
    [(0.8, 0.05, (5, 6, 7), 3.2), (0.95, 0.02, (8, 9, 10), 5.0)],
)
def test_the_copied_best_lengths_are_not_the_best(alpha, c, claimed_lengths, claimed_speedup):
    best = speedup(alpha, best_draft_length(alpha, c), c)
    there = [speedup(alpha, K, c) for K in claimed_lengths]
    assert max(there) < best
    assert all(abs(value - claimed_speedup) > 0.1 for value in (best, *there))


def test_the_sweep_still_falls_at_10():
    tokens, times = sweep_lengths(0.9, 0.04, range(1, 11))
    wanted = [1.9, 2.71, 3.439, 4.095, 4.686, 5.217, 5.695, 6.126, 6.513, 6.862]
    np.testing.assert_allclose(tokens, wanted, atol=5e-4)
    wanted = [0.5474, 0.3985, 0.3257, 0.2833, 0.2561, 0.2377, 0.2247, 0.2155, 0.2088, 0.2040]
    np.testing.assert_allclose(times, wanted, atol=5.1e-5)
    assert (np.diff(times) < 0).all()


@pytest.mark.parametrize(
    ("c", "at_4", "at_8"),
    [
        (0.05, 0.167, 0.286),
        (0.1, 0.287, 0.445),
        (0.2, 0.455, 0.621),
        (0.35, 0.622, 0.759),
        (0.66, 0.841, 0.907),
    ],
)
def test_break_even_rates(c, at_4, at_8):
    assert break_even_alpha(4, c) == pytest.approx(at_4, abs=5e-4)
    assert break_even_alpha(8, c) == pytest.approx(at_8, abs=5e-4)


def test_a_varying_rate_is_worth_more_than_its_mean():
    assert expected_tokens_mixed([0.5, 0.9], [0.5, 0.5], 4) == pytest.approx(3.02, abs=5e-3)
    assert expected_tokens(0.7, 4) == pytest.approx(2.77, abs=5e-3)


# Exact: the formula is the mean of the enumerated round


def constant_rows(alpha):
    """p and q over three tokens with sum(min(p, q)) = alpha, whatever the context."""
    shared, rest = alpha / 3, 1 - alpha
    return np.array([shared + rest, shared, shared]), np.array([shared, shared + rest, shared])


@pytest.mark.parametrize("K", [0, 1, 2, 3])
@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1, 3), Fraction(3, 4)])
def test_the_mean_of_the_rounds_law_is_the_formula_exactly(alpha, K):
    p, q = constant_rows(alpha)
    assert np.minimum(p, q).sum() == alpha
    law = round_law(speculative_round, lambda _: p, lambda _: q, K)
    assert sum(law.values()) == 1
    assert sum(len(tokens) * weight for tokens, weight in law.items()) == expected_tokens(alpha, K)


@given(st.fractions(0, Fraction(49, 50), max_denominator=50), lengths)
def test_the_sum_is_the_closed_form(alpha, K):
    assert expected_tokens(alpha, K) == (1 - alpha ** (K + 1)) / (1 - alpha)


@pytest.mark.parametrize(("alpha", "K"), [(0.5, 2), (0.6, 3), (0.8, 4)])
def test_played_rounds_agree_within_their_own_error(alpha, K):
    """Real rounds; the bound of 5 standard errors fails a right formula once in a million."""
    p, q = constant_rows(alpha)
    rng, n = np.random.default_rng(K), 3000
    played = np.array([play_round(p, q, K, rng) for _ in range(n)])
    error = played.std(ddof=1) / np.sqrt(n)
    assert error < 0.04
    assert abs(played.mean() - expected_tokens(alpha, K)) < 5 * error
    # The test has the power to tell the formula from its neighbours.
    assert abs(played.mean() - expected_tokens(alpha, K + 1)) > 5 * error
    assert abs(played.mean() - (alpha * K + 1)) > 5 * error


def play_round(p, q, K, rng) -> int:
    drafted = [draw(q, u) for u in rng.random(K)]
    return len(speculative_round([p] * (K + 1), [q] * K, drafted, rng.random(K + 1)))


# Properties


@given(rates, lengths)
def test_a_round_emits_between_1_and_K_plus_1_tokens(alpha, K):
    assert 1 <= expected_tokens(alpha, K) <= K + 1


def test_everything_accepted_emits_K_plus_1():
    assert expected_tokens(1, 4) == expected_tokens(1.0, 4) == 5


def test_alpha_may_be_an_array():
    alphas = np.array([0.2, 0.9])
    wanted = [speedup(alpha, 3, 0.1, 1.5) for alpha in alphas]
    np.testing.assert_allclose(speedup(alphas, 3, 0.1, 1.5), wanted)


@given(st.floats(0, 0.97), st.floats(0.02, 2))
@settings(max_examples=60, deadline=None)
def test_the_search_finds_what_brute_force_finds(alpha, c):
    tried = [speedup(alpha, K, c) for K in range(200)]
    assert tried[best_draft_length(alpha, c)] == pytest.approx(max(tried), abs=1e-12)


@given(st.fractions(0, 1), st.fractions(Fraction(1, 50), 2))
@settings(max_examples=60, deadline=None)
def test_some_draft_pays_if_and_only_if_alpha_is_above_c(alpha, c):
    pays = alpha > c
    if alpha < 1:
        assert (best_draft_length(alpha, c) > 0) == pays
    assert any(speedup(alpha, K, c) > 1 for K in (1, 2, 3)) == pays


@given(rates, rates, st.floats(0, 1), lengths)
def test_the_mean_rate_never_overestimates(first, second, share, K):
    mean = share * first + (1 - share) * second
    mixed = expected_tokens_mixed([first, second], [share, 1 - share], K)
    assert expected_tokens(mean, K) <= mixed + 1e-9


@given(st.integers(1, 10), st.floats(0.01, 0.9), st.floats(0.5, 3))
def test_break_even_is_where_the_speedup_is_1(K, c, v):
    alpha = break_even_alpha(K, c, v)
    if alpha is None:
        assert speedup(1, K, c, v) < 1
    elif alpha > 0:
        assert speedup(alpha, K, c, v) == pytest.approx(1, abs=1e-6)
    else:
        assert speedup(0, K, c, v) >= 1


def test_on_a_tie_the_shorter_draft_is_best():
    half, fifth = Fraction(1, 2), Fraction(1, 5)
    assert speedup(half, 1, fifth) == speedup(half, 2, fifth) == Fraction(5, 4)
    assert best_draft_length(half, fifth) == 1
    assert best_draft_length(0.3, 0.3) == 0  # K = 1 would be exactly as fast as plain decoding


def test_a_best_length_does_not_always_exist():
    assert best_draft_length(0.8, 0) is None  # E grows with K for ever
    assert best_draft_length(1, 0.5) is None
    assert best_draft_length(1, 2) == 0
    assert best_draft_length(0, 0) == 0
    assert best_draft_length(0.8, 0, lambda n: 1 + 0.1 * n) > 0  # v alone can set one


@given(st.floats(0.1, 0.95), st.floats(0.02, 0.5), st.floats(0, 0.5))
@settings(max_examples=50, deadline=None)
def test_a_verification_that_grows_evenly_acts_as_a_dearer_draft(alpha, c, slope):
    K = best_draft_length(alpha, c, lambda n: 1 + slope * (n - 1))
    best = speedup(alpha, best_draft_length(alpha, c + slope), c + slope)
    assert speedup(alpha, K, c, 1 + slope * K) == pytest.approx(best, abs=1e-12)


# The roofline


@pytest.mark.parametrize("name", PRESETS)
def test_below_the_ridge_a_forward_costs_the_same_whatever_its_size(name):
    preset = PRESETS[name]
    one = forward_seconds(preset, 1)
    assert forward_seconds(preset, 0.99 * preset.ridge) == one
    assert forward_seconds(preset, 2 * preset.ridge) == pytest.approx(2 * one)
    assert one == pytest.approx(preset.target * preset.weight_bytes / preset.bandwidth)
    assert 0 < preset.c < 1


def test_the_presets_differ_by_a_factor_of_twenty():
    assert PRESETS["H100"].ridge == pytest.approx(295, abs=1)
    assert PRESETS["laptop"].ridge == pytest.approx(14, abs=0.1)


def test_distil_and_medium_pairs_have_the_known_costs():
    assert PRESETS["laptop"].c == pytest.approx(0.35, abs=0.005)


@pytest.mark.parametrize("name", PRESETS)
@given(K=st.integers(1, 12), batch=st.integers(1, 2000))
@settings(max_examples=50, deadline=None)
def test_verifying_costs_between_one_and_n_forwards(name, K, batch):
    v = verify_cost(PRESETS[name], K + 1, batch)
    assert 1 <= v <= K + 1 + 1e-9
    assert v <= verify_cost(PRESETS[name], K + 1, batch + 1) + 1e-9


@pytest.mark.parametrize("name", PRESETS)
@given(alpha=st.floats(0, 1), K=st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_the_gain_ends_at_the_stated_batch(name, alpha, K):
    preset = PRESETS[name]

    def gain(batch):
        return speedup(alpha, K, preset.c, verify_cost(preset, K + 1, batch))

    end = largest_gaining_batch(preset, alpha, K)
    if end < 1:
        assert gain(1) <= 1 + 1e-9
        return
    assert gain(max(1, 0.99 * end)) >= 1 - 1e-9
    assert gain(1.01 * end) < 1
    assert gain(100 * preset.ridge) < 1  # bound by arithmetic, nothing is won


# Odd input


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: expected_tokens(1.2, 4), "alpha is 1.2"),
        (lambda: expected_tokens(float("nan"), 4), "alpha is nan"),
        (lambda: expected_tokens(0.5, -1), "K is -1"),
        (lambda: expected_tokens(0.5, 2.5), "K is 2.5"),
        (lambda: speedup(0.5, 4, -0.1), "c is -0.1"),
        (lambda: speedup(0.5, 4, 0.1, 0), "v is 0"),
        (lambda: speedup(0.5, 4, float("nan")), "c is nan"),
        (lambda: best_draft_length(-0.1, 0.1), "alpha is -0.1"),
        (lambda: best_draft_length(0.5, -1), "c is -1"),
        (lambda: break_even_alpha(4, -1), "c is -1"),
        (lambda: expected_tokens_mixed([0.5], [0.5, 0.5], 2), "1 alphas but 2 weights"),
        (lambda: expected_tokens_mixed([0.5, 0.6], [0.5, 0.6], 2), "weights must sum to 1"),
        (lambda: forward_seconds(PRESETS["H100"], 0), "n is 0"),
        (lambda: verify_cost(PRESETS["H100"], 4, 0), "batch is 0"),
    ],
)
def test_odd_input_is_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
