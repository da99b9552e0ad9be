"""α, KL and TV on logits in NumPy, against their definitions and against torch's versions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.decoding.sampling import warp
from lessonlib.drafting import distill
from lessonlib.theory import divergence
from lessonlib.theory.rejection import acceptance_rate


def logits_of(seed: int, shape=(2, 5, 30)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) * 2


def test_log_softmax_is_the_log_of_what_is_sampled():
    logits = logits_of(1)
    for temperature in (0.3, 1.0, 4.0):
        np.testing.assert_allclose(
            np.exp(divergence.log_softmax(logits, temperature)), warp(logits, temperature)
        )


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.5])
def test_kl_is_its_definition_and_the_loss_of_the_training(temperature):
    target, draft = logits_of(1), logits_of(2)
    p, q = warp(target, temperature), warp(draft, temperature)
    wanted = (p * np.log(p / q)).sum(-1).mean()
    assert divergence.kl_loss(target, draft, temperature) == pytest.approx(wanted, abs=1e-12)
    rows = (torch.from_numpy(logits / temperature) for logits in (target, draft))
    assert float(distill.kl_loss(*rows)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("temperature", [0, 0.3, 1.0, 1.5])
def test_rates_are_the_theorys_and_torchs(temperature):
    target, draft = logits_of(3, (4, 25, 6)), logits_of(4, (4, 25, 6))
    rates = divergence.acceptance_rates(target, draft, temperature)
    both = distill.acceptance_rates(
        torch.from_numpy(target), torch.from_numpy(draft), temperature
    ).numpy()
    np.testing.assert_allclose(rates, both, atol=1e-12)
    for index in np.ndindex(4, 25):
        p, q = (warp(logits[index], temperature) for logits in (target, draft))
        assert rates[index] == pytest.approx(acceptance_rate(p, q), abs=1e-12)


def test_cold_rows_stay_finite():
    cold = np.array([[20.0, 1.0, -8.0]])
    assert divergence.kl_loss(cold, cold[:, ::-1], 0.02) == pytest.approx(1400)
    assert divergence.acceptance_rates(cold, cold, 0.02)[0] == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.1, 8))
def test_the_floor_holds_for_each_row_and_for_means(seed, sharpness):
    target, draft = logits_of(seed, (20, 6)) * sharpness, logits_of(seed + 1, (20, 6)) * sharpness
    rates = divergence.acceptance_rates(target, draft)
    for a, b, rate in zip(target, draft, rates, strict=True):
        for kl in (divergence.kl_loss(a, b), divergence.kl_loss(b, a)):
            assert rate >= divergence.alpha_floor(kl) - 1e-9
    assert rates.mean() >= divergence.alpha_floor(divergence.kl_loss(target, draft)) - 1e-9


def test_the_floor_is_tight_for_near_laws():
    """Pinsker's constant is the best one: two tokens at 1/2 reach it in the limit."""
    p, q = np.log([[0.5, 0.5]]), np.log([[0.501, 0.499]])
    rate, kl = divergence.acceptance_rates(p, q)[0], divergence.kl_loss(p, q)
    assert (1 - rate) / (1 - divergence.alpha_floor(kl)) == pytest.approx(1, abs=1e-5)


def least(loss, vocab: int, steps: int = 3000) -> np.ndarray:
    logits = torch.zeros(vocab, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(logits.log_softmax(-1)).backward()
        optimizer.step()
    return logits.detach().softmax(-1).numpy()


def test_two_teachers_lead_where_gradient_descent_leads():
    rng = np.random.default_rng(5)
    p, r, w = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(3))
    wp, wr = torch.from_numpy(w[:, None] * p), torch.from_numpy(w[:, None] * r)
    by_data = least(lambda log_q: -(wr * log_q).sum(), 5)
    by_target = least(lambda log_q: (wp * (torch.from_numpy(p).log() - log_q)).sum(), 5)
    wanted = [sum(w[i] * np.minimum(p[i], q).sum() for i in range(3)) for q in (by_data, by_target)]
    np.testing.assert_allclose(divergence.compare_teachers(p, r, w), wanted, atol=1e-9)


def test_with_one_context_the_target_teaches_perfectly():
    p, r = [[0.7, 0.2, 0.1]], [[0.1, 0.2, 0.7]]
    np.testing.assert_allclose(divergence.compare_teachers(p, r, [1.0]), [0.4, 1.0])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: divergence.log_softmax([0.0, np.nan]), "logits hold NaN or infinity"),
        (lambda: divergence.log_softmax([0.0, 1.0], 0), "temperature is 0: use a finite number"),
        (lambda: divergence.acceptance_rates([[0.0]], [[0.0]], -1), "temperature is -1"),
        (lambda: divergence.kl_loss(np.zeros((2, 3)), np.zeros((1, 3))), r"shape \(2, 3\), draft"),
        (lambda: divergence.alpha_floor(-0.1), "kl is -0.1"),
        (lambda: divergence.alpha_floor(np.nan), "kl is nan"),
        (lambda: divergence.compare_teachers([[1.0]], [[1.0]], [0.5, 0.5]), "p has 1 rows but"),
        (lambda: divergence.compare_teachers([[0.5]], [[1.0]], [1.0]), "row 0 of p must sum to 1"),
        (lambda: divergence.compare_teachers([[1.0]], [[1.0]], [0.9]), "weights must sum to 1"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
