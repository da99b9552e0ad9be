"""Testing by sampling: the floor, a test with the error rate it states, and one without."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, kstest

from lessonlib.theory.empirical import one_sample_test, sampling_floor

SKEWED = np.array([0.35, 0.2, 0.15, 0.12, 0.08, 0.06, 0.03, 0.01])
RATE_SLACK = 0.1  # χ² is an approximation: its 1 % may be 0.9 % to 1.1 %


def zipf(vocab: int) -> np.ndarray:
    weights = 1 / np.arange(1, vocab + 1)
    return weights / weights.sum()


def samples(p: np.ndarray, n: int, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [rng.multinomial(n, p) for _ in range(count)]


def distances(p: np.ndarray, n: int, count: int) -> np.ndarray:
    return np.array([abs(counts / n - p).sum() / 2 for counts in samples(p, n, count)])


# The floor


@pytest.mark.parametrize(
    ("p", "n", "runs"),
    [
        (np.random.default_rng(1).dirichlet(np.ones(32)), 10_000, 2000),
        (np.random.default_rng(1).dirichlet(np.ones(32)), 50_000, 2000),
        (np.full(32, 1 / 32), 10_000, 2000),
        (np.array([0.5, 0.5]), 7, 20_000),
        (np.array([0.999, 0.001]), 30, 20_000),
        (zipf(50_257), 10_000, 40),
    ],
)
def test_the_floor_is_the_mean_distance_of_a_perfect_sampler(p, n, runs):
    found = distances(p, n, runs)
    error = found.std() / np.sqrt(runs)
    assert abs(found.mean() - sampling_floor(p, n)) < 5 * error  # wrong once in two million


def test_the_floors_that_the_lessons_name():
    rows = np.random.default_rng(0).dirichlet(np.ones(32), size=50)
    assert np.mean([sampling_floor(p, 10_000) for p in rows]) == pytest.approx(0.019, abs=1e-3)
    assert np.mean([sampling_floor(p, 50_000) for p in rows]) == pytest.approx(0.0087, abs=2e-4)
    assert sampling_floor(zipf(50_257), 10_000) == pytest.approx(0.355, abs=2e-3)


def test_the_floor_of_few_draws_by_hand():
    # One draw of a fair coin is always half a unit away; of two draws, half the time.
    assert sampling_floor([0.5, 0.5], 1) == pytest.approx(0.5)
    assert sampling_floor([0.5, 0.5], 2) == pytest.approx(0.25)
    assert sampling_floor([0.25] * 4, 1) == pytest.approx(0.75)


@pytest.mark.parametrize("n", [1, 2, 10, 10_000])
def test_a_certain_token_never_deviates(n):
    assert sampling_floor([0, 1, 0], n) == 0
    assert one_sample_test([0, n, 0], [0, 1, 0]) == (0, 0, 1)


@pytest.mark.parametrize("n", [0, -3])
def test_a_sample_without_draws_has_no_floor(n):
    with pytest.raises(ValueError, match=f"n is {n}: a sample has at least one draw"):
        sampling_floor([0.5, 0.5], n)


# The test


def p_values(p: np.ndarray, n: int, count: int) -> np.ndarray:
    return np.array([one_sample_test(counts, p)[2] for counts in samples(p, n, count)])


def test_a_perfect_sampler_is_rejected_as_often_as_stated():
    # 2 000 seeds at 1 %: between 2 and 50 rejections, wrong with probability below 1e-6.
    low, high, runs = 2, 50, 2000
    assert binom.cdf(low - 1, runs, 0.01 * (1 - RATE_SLACK)) < 1e-6
    assert binom.sf(high, runs, 0.01 * (1 + RATE_SLACK)) < 1e-6
    values = p_values(SKEWED, 20_000, runs)
    assert low <= (values < 0.01).sum() <= high
    assert kstest(values, "uniform").pvalue > 1e-6


def test_a_wrong_sampler_is_caught_however_small_its_fault():
    wrong = SKEWED + 0.02 * np.array([1, -1, 0, 0, 0, 0, 0, 0])
    caught = [one_sample_test(counts, SKEWED)[2] < 1e-6 for counts in samples(wrong, 20_000, 50)]
    assert all(caught)
    distance, floor, _ = one_sample_test(samples(wrong, 20_000, 1)[0], SKEWED)
    assert distance > 2 * floor


def test_too_many_rare_tokens_are_caught_in_their_pool():
    p = np.array([0.5, 0.48, *[0.0001] * 200])
    wrong = np.array([0.5, 0.46, *[0.0002] * 200])
    values = [one_sample_test(counts, p)[2] for counts in samples(wrong, 5000, 20)]
    assert max(values) < 1e-6
    # And a perfect sampler is not: cell by cell, the 200 rare ones would be far from χ².
    assert p_values(p, 5000, 200).min() > 1e-6


def test_one_rare_token_drawn_once_is_no_scandal():
    # Expected 0.01 times: seen in one sample of a hundred, which is no evidence at 1e-4.
    p = np.array([0.5, 0.4999, 0.0001])
    assert one_sample_test([50, 49, 1], p)[2] > 0.5
    # 2 000 samples at 1e-4: more than 6 rejections with probability below 1e-8.
    assert binom.sf(6, 2000, 1e-4) < 1e-8
    assert (p_values(p, 100, 2000) < 1e-4).sum() <= 6


def test_few_draws_decide_nothing():
    assert one_sample_test([1, 2], [0.5, 0.5])[2] == 1
    assert one_sample_test([0, 4, 0], [0.2, 0.3, 0.5])[2] == 1


def test_pooling_keeps_the_order_of_tokens_out_of_it():
    counts, p = np.array([3, 480, 2, 515]), np.array([0.002, 0.47, 0.003, 0.525])
    order = [2, 0, 3, 1]
    assert one_sample_test(counts, p) == pytest.approx(one_sample_test(counts[order], p[order]))
    by_hand = chisquare([515, 480, 5], [525, 470, 5]).pvalue
    assert one_sample_test(counts, p)[2] == pytest.approx(by_hand)


def test_a_token_that_cannot_be_drawn_was_drawn():
    distance, _, p_value = one_sample_test([500, 499, 1], [0.5, 0.5, 0])
    assert p_value == 0
    assert distance == pytest.approx(0.001)


def test_an_impossible_token_that_was_not_drawn_changes_nothing():
    with_it, without = (
        one_sample_test([480, 520, 0], [0.5, 0.5, 0]),
        one_sample_test([480, 520], [0.5, 0.5]),
    )
    assert with_it == pytest.approx(without)
    assert without[0] == pytest.approx(0.02)


def test_why_one_sample_and_not_two():
    """Taking a second sample for the truth rejects a perfect sampler 43 % of the time at 5 %.

    Both samples deviate, so the statistic is twice a χ² of 7 degrees of freedom.
    """
    runs, p = 1000, np.full(8, 1 / 8)
    pairs = zip(samples(p, 10_000, runs, 1), samples(p, 10_000, runs, 2), strict=True)
    misused = np.mean([chisquare(a, b).pvalue < 0.05 for a, b in pairs])
    right = (p_values(p, 10_000, runs) < 0.05).mean()
    assert misused == pytest.approx(0.43, abs=0.08)  # five standard errors of 1 000 runs
    assert right == pytest.approx(0.05, abs=0.035)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([1, 2, 3], "counts must be 2 counts that are not all 0, one for each token"),
        ([[1, 2]], "counts must be 2 counts"),
        ([0, 0], "not all 0"),
        ([-1, 3], "counts must be 2 counts"),
        ([0.4, 0.6], "counts must be whole numbers: pass how often, not how large a share"),
        ([np.nan, 3], "counts must be whole numbers"),
    ],
)
def test_counts_that_are_no_counts_are_one_sentence(counts, sentence):
    with pytest.raises(ValueError, match=sentence):
        one_sample_test(counts, [0.5, 0.5])


def test_a_law_that_is_none_is_one_sentence():
    with pytest.raises(ValueError, match="p must sum to 1"):
        one_sample_test([1, 2], [0.5, 0.6])
    with pytest.raises(ValueError, match="p holds NaN"):
        sampling_floor([np.nan, 1], 5)


def test_nothing_is_changed_in_place():
    counts, p = np.array([480, 520, 3]), np.array([0.48, 0.519, 0.001])
    one_sample_test(counts, p)
    assert counts.tolist() == [480, 520, 3]
    assert p.tolist() == [0.48, 0.519, 0.001]
