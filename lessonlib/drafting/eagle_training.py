"""EAGLE's losses, and the training-time unroll that lets a head practise on its own outputs.

The alignment, once and for all. The target's features at t have seen tokens[: t + 1], so

    row t      = (features at t, embedding of token t + 1)
    its output = a guess at the features at t + 1, whose logits are p of token t + 2

In drafting, a row further down has no features of the target: it gets the head's own
output instead. ``unroll`` plays that through for every start s: step 0 is row s itself,
step k is (output of step k - 1, token s + k + 1). Step k looks at the true rows 0..s and
at its own steps 1..k, exactly what the cache holds while drafting, never at the true rows
behind s. The chains of different starts do not see each other, so a batch costs one causal
attention and, for each further step, the same keys plus k single scores.

Sources: EAGLE-1, Li et al. 2024 (arXiv 2401.15077), section 4.2; EAGLE-3, Li et al. 2025
(arXiv 2503.01840), section 3.2; the step weights 0.8^k are SpecForge's.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from lessonlib.drafting.distill import acceptance_rates
from lessonlib.drafting.eagle import EagleHead

FEATURE_WEIGHT, TOKEN_WEIGHT = 1.0, 0.1  # EAGLE-1's, from the paper
STEP_DECAY = 0.8
STRIDE = 4
_CHUNK = 256  # rows at a time: their logits stay in the processor's cache


def eagle_loss(
    head: EagleHead, features: torch.Tensor, tokens: torch.Tensor, stride: int = STRIDE
) -> torch.Tensor:
    """The loss the head's kind is trained with, in nats per token (plus EAGLE-1's feature loss).

    ``features`` (B, n, 3, width) are the target's taps, ``tokens`` (B, n or more) the text.
    ``stride`` thins out the later steps of an unroll; see ``unrolled_loss``.
    """
    features = features.to(head.dtype)
    if head.kind.copies:
        return feature_loss(head, features, tokens)
    return unrolled_loss(head, features, tokens, stride)


def feature_loss(head: EagleHead, features: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """EAGLE-1: smooth L1 to the target's next features, and 0.1 of the soft cross-entropy."""
    guess = unroll(head, features, tokens, steps=1)[0]
    wanted = features[:, 1:, -1]
    distance = F.smooth_l1_loss(guess, wanted)
    expected = average_rows(wanted, head.output)[1]
    surprise = soft_cross_entropy(guess, expected, head.output)
    return FEATURE_WEIGHT * distance + TOKEN_WEIGHT * surprise


def unrolled_loss(
    head: EagleHead, features: torch.Tensor, tokens: torch.Tensor, stride: int = STRIDE
) -> torch.Tensor:
    """EAGLE-3: soft cross-entropy only, over ``head.kind.steps`` steps on the head's own outputs.

    Step 0 is scored everywhere. The later steps are unrolled from every ``stride``-th start,
    the first one picked by the batch's own tokens: any start is as likely as another and no
    chain sees another, so on average the gradient is that of all starts, and these steps
    are ``stride`` times cheaper.
    Step k weighs 0.8^k, and the weights are divided by their sum.
    """
    steps = head.kind.steps
    starts = torch.arange(
        _pick_first(tokens, stride), features.shape[1] - steps, stride, device=features.device
    )
    expected = average_rows(features[:, 1:, -1], head.output)[1]
    total, weights = 0.0, 0.0
    for k, output in enumerate(unroll(head, features, tokens, steps, starts)):
        wanted = expected if k == 0 else expected[:, starts + k]
        loss = soft_cross_entropy(head.finish(output), wanted, head.output)
        total, weights = total + STEP_DECAY**k * loss, weights + STEP_DECAY**k
    return total / weights


def _pick_first(tokens: torch.Tensor, stride: int) -> int:
    """As good as a die, and the same again when a run is resumed or repeated."""
    return int(tokens.sum()) % stride


def unroll(
    head: EagleHead,
    features: torch.Tensor,
    tokens: torch.Tensor,
    steps: int,
    starts: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """The head's outputs on true features (B, n - 1, width), then on its own, step by step.

    Entry k > 0 is (B, m, width): ``starts`` (m,), or all 0..n - 1 - steps, each k steps on.
    Row s of entry k guesses the features at s + k + 1.

    >>> from lessonlib.decoding.gpt2 import Shape
    >>> from lessonlib.drafting.eagle import build_head
    >>> shape = Shape(layers=2, heads=2, width=8, vocab_size=5, context=16, epsilon=1e-5)
    >>> head = build_head("eagle3", shape, torch.ones(5, 8), torch.ones(5, 8))
    >>> outputs = unroll(head, torch.ones(1, 7, 3, 8), torch.ones(1, 8).long(), steps=3)
    >>> [tuple(output.shape) for output in outputs]
    [(1, 6, 8), (1, 4, 8), (1, 4, 8)]
    """
    n, layer = features.shape[1], head.layer
    x = head.enter(head.read(features[:, :-1]), tokens[:, head.kind.shift :][:, : n - 1])
    queries, keys, values = _split(head, x)
    mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    outputs = [layer.close(x, _merge(mixed))]
    if starts is None:
        starts = torch.arange(n - steps, device=features.device)
    hidden = torch.arange(n - 1, device=features.device) > starts[:, None]
    own_keys, own_values, output = [], [], outputs[0][:, starts]
    for k in range(1, steps):
        x = head.enter(output, tokens[:, starts + k + head.kind.shift])
        query, key, value = _split(head, x)
        own_keys.append(key)
        own_values.append(value)
        mixed = _attend(query, keys, values, hidden, own_keys, own_values)
        output = layer.close(x, _merge(mixed))
        outputs.append(output)
    return outputs


def _split(head, x):
    """Queries, keys and values (B, heads, n, head size) of the layer's input x (B, n, width)."""
    mixed = head.layer.open(x).unflatten(-1, (3, head.shape.heads, -1))
    return mixed.permute(2, 0, 3, 1, 4)


def _merge(mixed):
    """(B, heads, n, head size) back to (B, n, width)."""
    return mixed.transpose(1, 2).flatten(2)


def _attend(query, keys, values, hidden, own_keys, own_values):
    """Attention of one query per start over the true rows up to it and over its own steps."""
    scale = query.shape[-1] ** -0.5
    true = (query @ keys.mT * scale).masked_fill(hidden, float("-inf"))
    own = torch.stack([(query * key).sum(-1) * scale for key in own_keys], -1)
    weights = torch.cat([true, own], -1).softmax(-1)
    true, own = weights.split([true.shape[-1], own.shape[-1]], -1)
    mixed = true @ values
    for i, value in enumerate(own_values):
        mixed = mixed + own[..., i, None] * value
    return mixed


def average_rows(rows: torch.Tensor, matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(log of the softmax's sum (...), average row of ``matrix`` (V, width) under the softmax).

    For ``rows`` (..., width), in pieces, so that the logits (..., V) are never all stored.

    >>> lse, mean = average_rows(torch.zeros(1, 2), torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
    >>> round(float(lse.exp()), 4), mean.tolist()
    (2.0, [[0.5, 1.5]])
    """
    sums, means = [], []
    for part in rows.detach().flatten(0, -2).split(_CHUNK):
        logits = part @ matrix.mT
        top = logits.amax(-1, keepdim=True)
        weights = logits.sub_(top).exp_()
        total = weights.sum(-1, keepdim=True)
        sums.append((top + total.log()).squeeze(-1))
        means.append(weights @ matrix / total)
    return torch.cat(sums).view(rows.shape[:-1]), torch.cat(means).view(rows.shape)


class _SoftCrossEntropy(torch.autograd.Function):
    """Mean of -Σ p log q, where q's logits are rows @ matrixᵀ and p comes as ``expected``.

    The matrix is frozen, so p matters only through its average row: -Σ p log q is
    lse(rows @ matrixᵀ) - rows · expected, and the gradient is q's average row minus p's.
    Both fall out of one pass, and the backward pass has nothing left to do.
    """

    @staticmethod
    def forward(ctx, rows, expected, matrix):
        lse, average = average_rows(rows, matrix)
        ctx.save_for_backward((average - expected) / lse.numel())
        return (lse - (rows * expected).sum(-1)).mean()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None, None


def soft_cross_entropy(
    rows: torch.Tensor, expected: torch.Tensor, matrix: torch.Tensor
) -> torch.Tensor:
    """-Σ p log q in nats, averaged over rows (..., width); q = softmax(rows @ matrixᵀ).

    ``expected`` (..., width) is p's average row of the frozen ``matrix`` (V, width).

    >>> matrix = torch.eye(2)
    >>> round(float(soft_cross_entropy(torch.zeros(3, 2), torch.full((3, 2), 0.5), matrix)), 4)
    0.6931
    """
    return _SoftCrossEntropy.apply(rows, expected, matrix)


@torch.inference_mode()
def acceptance_by_step(
    head: EagleHead,
    features: torch.Tensor,
    tokens: torch.Tensor,
    steps: int,
    temperature: float = 1.0,
) -> list[float]:
    """Mean α of each unroll step: how acceptance falls as the head feeds on its own outputs.

    Along the text that is given, so step k is what a chain meets if all before it was accepted.
    """
    features = features.to(head.dtype)
    rates = []
    for k, output in enumerate(unroll(head, features, tokens, steps)):
        rows = features.shape[1] - steps  # the same starts at every step
        wanted = features[:, k + 1 : k + 1 + rows, -1] @ head.output.mT
        guess = head.finish(output[:, :rows]) @ head.output.mT
        rates.append(float(acceptance_rates(wanted, guess, temperature).mean()))
    return rates
