"""The distillation loss and α on torch rows, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lessonlib.decoding.sampling import warp
from lessonlib.drafting.distill import acceptance_rates, kl_loss
from lessonlib.theory.rejection import acceptance_rate


def rows_of(seed: int, shape=(2, 5, 30)) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape) * 2)


def test_the_loss_is_kl_from_target_to_draft_in_nats():
    target, draft = rows_of(1), rows_of(2)
    p, q = warp(target.numpy()), warp(draft.numpy())
    forward, backward = (p * np.log(p / q)).sum(-1).mean(), (q * np.log(q / p)).sum(-1).mean()
    assert abs(forward - backward) > 0.1  # the other direction is another number
    assert float(kl_loss(target, draft)) == pytest.approx(forward, abs=1e-12)


def test_the_loss_is_zero_for_equal_laws_and_only_then():
    target = rows_of(1)
    assert float(kl_loss(target, target)) == 0
    assert float(kl_loss(target, target + 3.0)) == pytest.approx(0, abs=1e-12)  # the same law
    for seed in range(2, 30):
        assert float(kl_loss(target, rows_of(seed))) > 0
    nudged = target.clone()
    nudged[1, 4, 7] += 0.1
    assert float(kl_loss(target, nudged)) > 1e-8


def test_the_gradient_flows_into_the_draft_and_is_q_minus_p():
    target, draft = rows_of(1, (4, 30)), rows_of(2, (4, 30)).requires_grad_()
    kl_loss(target, draft).backward()
    assert target.grad is None
    wanted = (warp(draft.detach().numpy()) - warp(target.numpy())) / 4
    assert abs(draft.grad.numpy() - wanted).max() < 1e-12


def test_the_loss_stays_finite_for_extreme_float32_logits():
    target, draft = torch.tensor([[80.0, -80.0]]), torch.tensor([[-80.0, 80.0]])
    assert float(kl_loss(target, draft)) == pytest.approx(160, rel=1e-6)


@pytest.mark.parametrize("temperature", [0, 0.3, 1.0, 1.5, 10.0])
def test_rates_equal_the_theorys_row_by_row(temperature):
    target, draft = rows_of(3, (4, 25, 6)), rows_of(4, (4, 25, 6))
    rates = acceptance_rates(target, draft, temperature)
    assert rates.shape == (4, 25)
    for index in np.ndindex(4, 25):
        p, q = (warp(rows[index].numpy(), temperature) for rows in (target, draft))
        assert float(rates[index]) == pytest.approx(acceptance_rate(p, q), abs=1e-12)


def test_at_temperature_0_a_rate_is_yes_or_no():
    rates = acceptance_rates(rows_of(3, (200, 3)), rows_of(4, (200, 3)), 0)
    assert rates.dtype == torch.float64
    assert set(rates.tolist()) == {0.0, 1.0}
