"""The distillation losses and α on torch rows, against NumPy written out token by token."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.sampling import warp
from lessonlib.drafting.distill import (
    LOSSES,
    acceptance_rates,
    data_loss,
    keep_layers,
    kl_loss,
    reverse_kl_loss,
    tv_loss,
)
from lessonlib.theory import divergence
from lessonlib.theory.rejection import acceptance_rate
from tests.tinypair import write_model

OF_TWO_LAWS = [kl_loss, reverse_kl_loss, tv_loss]


def rows_of(seed: int, shape=(2, 5, 30)) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape) * 2)


def next_of(rows: torch.Tensor, seed: int = 9) -> torch.Tensor:
    ids = np.random.default_rng(seed).integers(rows.shape[-1], size=rows.shape[:-1])
    return torch.from_numpy(ids)


def by_hand(name: str, target, draft, next_tokens) -> float:
    """The loss by its definition, one token at a time, in plain Python."""
    total = 0.0
    for index in np.ndindex(*target.shape[:-1]):
        p, q = ([math.exp(z) for z in rows[index].tolist()] for rows in (target, draft))
        p, q = ([x / sum(row) for x in row] for row in (p, q))
        pairs = list(zip(p, q, strict=True))
        total += {
            "forward-kl": sum(a * math.log(a / b) for a, b in pairs),
            "reverse-kl": sum(b * math.log(b / a) for a, b in pairs),
            "tv": 1 - sum(min(a, b) for a, b in pairs),
            "data": -math.log(q[int(next_tokens[index])]),
        }[name]
    return total / math.prod(target.shape[:-1])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", [(7,), (4, 6), (2, 5, 30)])
def test_each_loss_is_its_definition_averaged_over_positions(name, shape):
    target, draft = rows_of(1, shape), rows_of(2, shape)
    loss = LOSSES[name](target, draft, next_of(target))
    assert loss.shape == ()
    assert float(loss) == pytest.approx(by_hand(name, target, draft, next_of(target)), abs=1e-12)


def test_the_losses_are_four_numbers():
    target, draft = rows_of(1), rows_of(2)
    values = sorted(float(loss(target, draft, next_of(target))) for loss in LOSSES.values())
    assert min(np.diff(values)) > 0.1


@pytest.mark.parametrize("loss", OF_TWO_LAWS)
def test_a_loss_of_two_laws_is_zero_for_equal_laws_and_only_then(loss):
    target = rows_of(1)
    assert float(loss(target, target)) == 0
    assert float(loss(target, target + 3.0)) == pytest.approx(0, abs=1e-12)  # the same law
    for seed in range(2, 30):
        assert float(loss(target, rows_of(seed))) > 0
    nudged = target.clone()
    nudged[1, 4, 7] += 0.1
    assert float(loss(target, nudged)) > 1e-8


def gradient(name: str, target, draft):
    draft = draft.clone().requires_grad_()
    target = target.clone().requires_grad_(False)
    LOSSES[name](target, draft, next_of(target)).backward()
    assert target.grad is None
    return draft.grad.numpy() * math.prod(draft.shape[:-1])


def test_the_gradients_are_those_of_the_docstrings():
    target, draft = rows_of(1, (4, 30)), rows_of(2, (4, 30))
    p, q = warp(target.numpy()), warp(draft.numpy())
    below = (q < p).astype(float)
    held = (q * below).sum(-1, keepdims=True)
    backward = (q * np.log(q / p)).sum(-1, keepdims=True)
    wanted = {
        "forward-kl": q - p,
        "reverse-kl": q * (np.log(q / p) - backward),
        "tv": q * (held - below),
        "data": q - np.eye(30)[next_of(target).numpy()],
    }
    for name in LOSSES:
        assert abs(gradient(name, target, draft) - wanted[name]).max() < 1e-12, name


def test_the_gradient_of_tv_is_that_of_minus_alpha_and_at_most_a_quarter():
    target, draft = rows_of(3, (50, 8)) * 2, (rows_of(4, (50, 8)) * 2).requires_grad_()
    (-acceptance_rates(target, draft, 1.0).sum()).backward()
    ours = gradient("tv", target, draft.detach())
    assert abs(ours - draft.grad.numpy()).max() < 1e-12
    assert abs(ours).max() <= 0.25
    assert abs(ours.sum(-1)).max() < 1e-12


def test_where_the_laws_agree_tv_asks_for_nothing():
    rows = rows_of(5, (3, 6))
    assert abs(gradient("tv", rows, rows.clone())).max() == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.1, 8))
def test_pinsker_bounds_tv_by_either_kl(seed, sharpness):
    target, draft = rows_of(seed, (20, 6)) * sharpness, rows_of(seed + 1, (20, 6)) * sharpness
    for p, q in zip(target, draft, strict=True):
        tv = float(tv_loss(p, q))
        for kl in (kl_loss, reverse_kl_loss):
            assert tv <= math.sqrt(float(kl(p, q)) / 2) + 1e-9


def test_the_losses_stay_finite_for_extreme_float32_logits():
    target, draft = torch.tensor([[80.0, -80.0]]), torch.tensor([[-80.0, 80.0]])
    wanted = {"forward-kl": 160, "reverse-kl": 160, "tv": 1, "data": 160}
    for name, loss in LOSSES.items():
        leaf = draft.clone().requires_grad_()
        value = loss(target, leaf, torch.tensor([0]))
        value.backward()
        assert value.item() == pytest.approx(wanted[name], rel=1e-6)
        assert leaf.grad.isfinite().all(), name


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_rows_are_summed_in_float32(name):
    target, draft = (rows_of(seed, (3, 4000)).bfloat16() for seed in (1, 2))
    value = LOSSES[name](target, draft, next_of(target))
    assert value.dtype == torch.float32
    exact = LOSSES[name](target.double(), draft.double(), next_of(target))
    assert float(value) == pytest.approx(float(exact), rel=1e-5)


def test_shapes_that_do_not_belong_together_are_refused_in_one_sentence():
    for loss in OF_TWO_LAWS:
        with pytest.raises(ValueError, match=r"target_logits has shape \(5, 30\).*same tokens"):
            loss(rows_of(1, (5, 30)), rows_of(2, (2, 5, 30)))  # would broadcast
    with pytest.raises(ValueError, match=r"next_tokens has shape \(6,\).*one token for each row"):
        data_loss(rows_of(1, (5, 30)), torch.zeros(6, dtype=torch.long))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_token_ids_may_have_any_integer_type(dtype):
    rows = rows_of(1)
    assert float(data_loss(rows, next_of(rows).to(dtype))) == float(data_loss(rows, next_of(rows)))


@pytest.mark.parametrize("temperature", [0, 0.3, 1.0, 1.5, 10.0])
def test_rates_equal_the_theorys_row_by_row(temperature):
    target, draft = rows_of(3, (4, 25, 6)), rows_of(4, (4, 25, 6))
    rates = acceptance_rates(target, draft, temperature)
    assert rates.shape == (4, 25)
    for index in np.ndindex(4, 25):
        p, q = (warp(rows[index].numpy(), temperature) for rows in (target, draft))
        assert float(rates[index]) == pytest.approx(acceptance_rate(p, q), abs=1e-12)


BAD_RATES = {
    "shapes": ((2, 3), (1, 3), 1.0, r"target_logits has shape \(2, 3\)"),
    "greedy shapes": ((2, 3), (1, 3), 0, r"target_logits has shape \(2, 3\)"),
    "negative": ((2, 3), (2, 3), -1.0, "temperature is -1.0: use a finite number"),
    "nan": ((2, 3), (2, 3), math.nan, "temperature is nan: use a finite number"),
    "infinite": ((2, 3), (2, 3), math.inf, "temperature is inf: use a finite number"),
}


@pytest.mark.parametrize("case", BAD_RATES)
def test_rates_refuse_what_their_numpy_twin_refuses(case):
    first, second, temperature, words = BAD_RATES[case]
    target, draft = rows_of(1, first), rows_of(2, second)
    with pytest.raises(ValueError, match=words):
        acceptance_rates(target, draft, temperature)
    with pytest.raises(ValueError, match=words):
        divergence.acceptance_rates(target.numpy(), draft.numpy(), temperature)


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rates_refuse_logits_that_are_not_finite(bad, temperature):
    good, spoilt = rows_of(1, (2, 3)), rows_of(2, (2, 3))
    spoilt[1, 2] = bad
    for rows in ((good, spoilt), (spoilt, good)):
        with pytest.raises(ValueError, match="logits hold NaN or infinity: check the model"):
            acceptance_rates(*rows, temperature)


def test_at_temperature_0_a_rate_is_yes_or_no():
    rates = acceptance_rates(rows_of(3, (200, 3)), rows_of(4, (200, 3)), 0)
    assert rates.dtype == torch.float64
    assert set(rates.tolist()) == {0.0, 1.0}


def test_the_untrained_draft_is_the_targets_first_blocks_and_head(tmp_path):
    write_model(tmp_path, layers=3, seed=1)
    target = GPT2.from_folder(tmp_path)
    whole = target.forward([1, 2, 3], target.new_cache())
    for layers in range(1, target.shape.layers + 1):
        draft = keep_layers(target, layers)
        output = draft.forward([1, 2, 3], draft.new_cache())
        assert len(output.hidden) == layers
        assert torch.equal(output.hidden[-1], whole.hidden[layers - 1])
        assert draft.head is target.head
    assert torch.equal(output.logits, whole.logits)
    assert len(target.blocks) == target.shape.layers  # the target itself is left alone
    for layers in (0, target.shape.layers + 1):
        with pytest.raises(ValueError, match=f"layers is {layers}: the target has 1 to"):
            keep_layers(target, layers)
