"""EAGLE's losses and the training-time unroll. Case 15."""

from __future__ import annotations

import pytest
import torch

from lessonlib.drafting import eagle_training
from lessonlib.drafting.distill import acceptance_rates
from lessonlib.drafting.eagle import KINDS, EagleStep, build_head
from lessonlib.drafting.eagle_training import (
    acceptance_by_step,
    average_rows,
    eagle_loss,
    soft_cross_entropy,
    unroll,
)
from tests.tinytarget import make_head, make_target, true_taps


def make_batch(target, rows=3, n=12, seed=5):
    """Random texts (rows, n + 1) and the target's taps (rows, n, 3, width)."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(target.vocab_size, (rows, n + 1), generator=generator)
    features = torch.stack([true_taps(target, row[:-1].tolist()) for row in tokens])
    return features, tokens


def draft_outputs(head, features, tokens, start, steps):
    """The decoding loop's outputs at each step: true rows 0..start, then the head's own."""
    cache, shift = head.new_cache(), head.kind.shift
    fresh = tokens[shift : start + 1 + shift].tolist()
    step, outputs = EagleStep(head, fresh, cache, features=features[: start + 1]), []
    for k in range(1, steps + 1):
        (output,) = head.forward_rows([step])
        outputs.append(output.pick(slice(-1, None)))
        fed = [int(tokens[start + k + shift])] if k < steps else []
        step = EagleStep(head, fed, cache, features=outputs[-1].features)
    return outputs


@pytest.mark.parametrize("kind", KINDS)
def test_the_unroll_equals_the_decoding_loop_at_every_step(kind):
    target, steps = make_target(), 5
    head = make_head(kind, target)
    features, tokens = make_batch(target)
    unrolled = unroll(head, features, tokens, steps)
    for row in range(len(tokens)):
        for start in range(features.shape[1] - steps):
            looped = draft_outputs(head, features[row], tokens[row], start, steps)
            for output, wanted in zip(unrolled, looped, strict=True):
                logits = head.finish(output[row, start]) @ head.output.mT
                assert torch.allclose(logits, wanted.logits[0], atol=1e-9)


def test_the_unroll_of_some_starts_is_that_part_of_the_whole_unroll():
    target = make_target()
    head = make_head("eagle3", target)
    features, tokens = make_batch(target)
    starts = torch.tensor([1, 4, 6])
    whole, part = (unroll(head, features, tokens, 4, s) for s in (None, starts))
    assert torch.equal(whole[0], part[0])
    for k in range(1, 4):
        assert torch.allclose(whole[k][:, starts], part[k], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_knows_nothing_of_what_comes_behind_it(kind):
    # Row s of step k has seen the text up to token s + k + shift and the features up to s.
    target, steps = make_target(), 4
    head, start = make_head(kind, target), 5
    features, tokens = make_batch(target)
    before = unroll(head, features, tokens, steps)
    for k in range(steps):
        changed = features.clone()
        changed[:, start + 1 :] += 1
        later = tokens.clone()
        later[:, start + k + head.kind.shift + 1 :] += 1
        after = unroll(head, changed, later % target.vocab_size, steps)
        assert torch.allclose(before[k][:, : start + 1], after[k][:, : start + 1])


@pytest.mark.parametrize("shift_of", ["token", "features"])
def test_a_row_reads_the_newest_token_and_the_features_before_it(shift_of):
    target = make_target()
    head = make_head("eagle3", target)
    features, tokens = make_batch(target)
    before = unroll(head, features, tokens, 1)[0]
    if shift_of == "token":
        tokens[:, 4] = (tokens[:, 4] + 1) % target.vocab_size  # token 4 enters at row 3
    else:
        features[:, 3] += torch.randn(8, dtype=torch.float64)
    moved = (unroll(head, features, tokens, 1)[0] - before).abs().amax((0, 2)) > 1e-9
    assert moved.tolist() == [False] * 3 + [True] * (features.shape[1] - 4)


def test_soft_cross_entropy_and_its_gradient_are_the_textbook_ones():
    torch.manual_seed(0)
    matrix = torch.randn(11, 6, dtype=torch.float64)
    wanted = torch.randn(2, 3, 6, dtype=torch.float64)
    rows = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    p = (wanted @ matrix.mT).softmax(-1)
    textbook = -(p * (rows @ matrix.mT).log_softmax(-1)).sum(-1).mean()
    (slope,) = torch.autograd.grad(3 * textbook, rows)
    ours = soft_cross_entropy(rows, average_rows(wanted, matrix)[1], matrix)
    (ours_slope,) = torch.autograd.grad(3 * ours, rows)
    assert torch.allclose(ours, textbook)
    assert torch.allclose(ours_slope, slope)


def test_rows_are_averaged_in_pieces_without_overflow(monkeypatch):
    monkeypatch.setattr(eagle_training, "_CHUNK", 2)
    matrix, rows = torch.eye(3), torch.tensor([[900.0, 0, 0], [0, 0, 0], [0, -900, 0]])
    sums, means = average_rows(rows, matrix)
    assert torch.allclose(sums, rows.logsumexp(-1))
    assert torch.allclose(means, rows.softmax(-1))


def test_a_perfect_eagle1_head_loses_nothing_but_the_entropy(monkeypatch):
    target = make_target()
    head = make_head("eagle1", target)
    features, tokens = make_batch(target)
    wanted = features[:, 1:, -1]
    monkeypatch.setattr(eagle_training, "unroll", lambda *args, **kwargs: [wanted])
    p = (wanted @ head.output.mT).softmax(-1)
    entropy = -(p * p.log()).sum(-1).mean()
    assert torch.allclose(eagle_loss(head, features, tokens), 0.1 * entropy)


def test_the_unrolled_loss_averages_over_first_starts_to_the_whole_one(monkeypatch):
    target = make_target()
    head = make_head("eagle3", target)
    features, tokens = make_batch(target, n=4 * 3 + 4)  # as many starts behind each first one
    whole = eagle_loss(head, features, tokens, stride=1)
    parts = []
    for first in range(4):
        monkeypatch.setattr(eagle_training, "_pick_first", lambda *_, first=first: first)
        parts.append(eagle_loss(head, features, tokens, stride=4))
    assert torch.allclose(torch.stack(parts).mean(), whole)
    assert not torch.allclose(parts[0], whole)


def test_every_first_start_is_picked_about_as_often_and_always_by_the_same_batch():
    tokens = torch.randint(2048, (400, 4, 32), generator=torch.Generator().manual_seed(0))
    firsts = [eagle_training._pick_first(batch, 4) for batch in tokens]
    assert min(firsts.count(first) for first in range(4)) > 70  # 100 expected, 8.7 their spread
    assert firsts == [eagle_training._pick_first(batch, 4) for batch in tokens]


def test_each_step_weighs_less_than_the_one_before():
    target = make_target()
    head = make_head("eagle3", target)
    features, tokens = make_batch(target)
    losses = []
    for k, output in enumerate(unroll(head, features, tokens, 4)):
        rows = features.shape[1] - (1 if k == 0 else 4)
        p = (features[:, k + 1 :][:, :rows, -1] @ head.output.mT).softmax(-1)
        q = (head.finish(output) @ head.output.mT).log_softmax(-1)
        losses.append(-(p * q).sum(-1).mean())
    wanted = sum(0.8**k * loss for k, loss in enumerate(losses)) / sum(0.8**k for k in range(4))
    assert torch.allclose(eagle_loss(head, features, tokens, stride=1), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss_and_leaves_the_target_alone(kind):
    target = make_target(dtype=torch.float32)
    head = build_head(kind, target.shape, target.embedding, target.head)
    frozen = target.embedding.clone(), target.head.clone()
    features, tokens = make_batch(target, rows=8)
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = eagle_loss(head, features.half(), tokens, stride=1)  # stored as float16
        loss.backward()
        assert all(weight.grad is not None for weight in head.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert torch.equal(frozen[0], head.embedding)
    assert torch.equal(frozen[1], head.output)


def test_acceptance_by_step_is_that_of_the_loop():
    target, steps = make_target(), 3
    head = make_head("eagle3", target)
    features, tokens = make_batch(target, rows=1)
    wanted = torch.zeros(steps)
    starts = range(features.shape[1] - steps)
    for start in starts:
        looped = draft_outputs(head, features[0], tokens[0], start, steps)
        for k, output in enumerate(looped):
            p = features[0, start + k + 1, -1] @ head.output.mT
            wanted[k] += acceptance_rates(p, output.logits[0], 0.7) / len(starts)
    rates = acceptance_by_step(head, features, tokens, steps, temperature=0.7)
    assert rates == pytest.approx(wanted.tolist(), abs=1e-6)
