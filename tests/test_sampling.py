"""From logits to the sampled law, against transformers' own warpers. Cases 2, 4, 8, 9."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lessonlib.decoding.sampling import Sampling, warp

SETTINGS = list(product((0.3, 1.0, 1.7), (0, 1, 5, 40), (0.1, 0.6, 0.95, 1.0)))


def logits_of(seed: int, rows: int = 6, vocab: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, vocab)) * 2  # no ties


def warp_like_transformers(logits, temperature, top_k, top_p):
    scores = torch.tensor(logits, dtype=torch.float64)
    warpers = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    for one in warpers:
        scores = one(None, scores)
    return scores.softmax(-1).numpy()


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), SETTINGS)
def test_the_law_is_the_one_transformers_samples(temperature, top_k, top_p):
    for seed in range(5):
        logits = logits_of(seed)
        wanted = warp_like_transformers(logits, temperature, top_k, top_p)
        assert abs(warp(logits, temperature, top_k, top_p) - wanted).max() < 1e-12


def test_temperature_comes_before_top_k_and_top_k_before_top_p():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    # Top-k leaves 4/7 and 3/7; top-p = 0.5 then needs the first alone. The other way round,
    # top-p would keep two of the four (0.4 < 0.5), and top-k would change nothing.
    assert warp(np.log(p), 1, 2, 0.5).tolist() == [1, 0, 0, 0]
    # At T = 2 the first has 0.32 of the mass: top-p counts the flattened mass.
    assert np.count_nonzero(warp(np.log(p), 2, 0, 0.39)) == 2
    assert np.count_nonzero(warp(np.log(p), 1, 0, 0.39)) == 1


def test_temperature_0_is_greedy_and_ties_go_to_the_lower_id():
    assert warp(np.array([1.0, 3.0, 3.0, 2.0]), 0).tolist() == [0, 1, 0, 0]
    assert warp(np.array([2.0, 2.0, 2.0]), 1, top_k=2).tolist() == [0.5, 0.5, 0]
    assert warp(np.array([2.0, 2.0, 2.0, 2.0]), 1, top_p=0.5).tolist() == [0.5, 0.5, 0, 0]
    # Few enough for any sort to be stable; a hundred are not.
    logits = np.tile([0.0, 1.0], 50)
    for settings in ({"top_k": 10}, {"top_p": 10 / 50 * 2 * np.e / (2 * np.e + 2) - 1e-9}):
        assert np.flatnonzero(warp(logits, **settings)).tolist() == list(range(1, 20, 2))


@pytest.mark.parametrize("tiny", [1e-6, 1e-8, 1e-300, 5e-324])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (3, 1.0), (0, 0.9), (3, 0.9)])
def test_a_tiny_temperature_is_greedy_too(tiny, top_k, top_p):
    logits = logits_of(1)
    with np.errstate(all="raise", under="ignore"):  # no warning reaches a student
        assert np.array_equal(warp(logits, tiny, top_k, top_p), warp(logits, 0, top_k, top_p))


def test_a_huge_temperature_is_uniform():
    assert abs(warp(logits_of(1), 1e300) - 1 / 40).max() < 1e-12


@pytest.mark.parametrize("settings", [*SETTINGS, (0, 0, 1.0), (0, 5, 0.6)])
def test_many_rows_at_once_are_each_row_alone(settings):
    logits = logits_of(2)
    assert np.array_equal(warp(logits, *settings), [warp(row, *settings) for row in logits])
    cube = logits.reshape(2, 3, 40)
    assert np.array_equal(warp(cube, *settings).reshape(6, 40), warp(logits, *settings))


@given(
    st.integers(0, 10_000), st.floats(0, 50), st.integers(0, 12), st.floats(0.01, 1), st.booleans()
)
def test_every_row_is_a_distribution_over_no_more_than_was_kept(seed, temperature, k, p, masked):
    logits = logits_of(seed, 3, 10)
    logits[:, 3] = -np.inf if masked else 0.0
    before = logits.copy()
    rows = warp(logits, temperature, k, p)
    assert np.array_equal(logits, before)
    assert rows.dtype == np.float64
    assert abs(rows.sum(-1) - 1).max() < 1e-12
    assert (rows >= 0).all()
    assert not masked or not rows[:, 3].any()
    if k:
        assert (np.count_nonzero(rows, axis=-1) <= k).all()
    likeliest = logits.argmax(-1)[:, None]
    assert np.array_equal(rows.max(-1), np.take_along_axis(rows, likeliest, -1)[:, 0])


def test_float32_logits_and_torch_rows_are_computed_in_float64():
    logits = logits_of(3).astype(np.float32)
    assert abs(warp(logits) - warp_like_transformers(logits, 1.0, 0, 1.0)).max() < 1e-12
    assert np.array_equal(warp(torch.tensor(logits)), warp(logits))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_broken_logit_in_any_row_is_one_sentence(bad, temperature):
    logits = logits_of(4)
    logits[2, 7] = bad
    with pytest.raises(ValueError, match="logits hold NaN, \\+infinity or a row of -infinity"):
        warp(logits, temperature)


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_row_with_nothing_to_draw_is_one_sentence(temperature):
    logits = logits_of(4)
    logits[5] = -np.inf
    with pytest.raises(ValueError, match="a row of -infinity: check the model"):
        warp(logits, temperature)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -0.1}, "temperature is -0.1: use 0 \\(greedy\\) or a positive number"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": float("-inf")}, "temperature is -inf"),
        ({"top_k": -1}, "top_k is -1: use 0 \\(off\\)"),
        ({"top_p": 0}, "top_p is 0: use a number in \\(0, 1\\]"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"top_p": float("nan")}, "top_p is nan"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_both_doors(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sampling(**settings)
    with pytest.raises(ValueError, match=sentence):
        warp(np.zeros(3), **settings)


def test_sampling_is_warp_with_its_settings():
    logits = logits_of(5)
    assert np.array_equal(Sampling(0.7, 5, 0.9).probabilities(logits), warp(logits, 0.7, 5, 0.9))
    assert np.array_equal(Sampling().probabilities(logits), warp(logits))
