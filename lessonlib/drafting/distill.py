"""Distil a draft from its target: make q close to p where it counts, on p's own full rows.

The draft is judged by α = 1 − TV(p, q), so it is trained on the target's whole
distribution rather than on the next token of the data. Every loss here is a mean over
positions, from finite logits at temperature 1, and is computed in float32 at least.
Sources: DistillSpec, Zhou et al. 2023 (arXiv 2310.08461), section 3, for the choice of
divergence; Leviathan et al. 2023 (arXiv 2211.17192) for α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace

import torch

from lessonlib.decoding.gpt2 import GPT2


def keep_layers(target: GPT2, layers: int) -> GPT2:
    """A shallow copy of ``target``: its embeddings, first ``layers`` blocks and head.

    It is a draft before any training, and shares the weights, so it costs no memory. Raises
    ValueError unless ``layers`` is from 1 to the target's number.
    """
    if not 1 <= layers <= target.shape.layers:
        raise ValueError(f"layers is {layers}: the target has 1 to {target.shape.layers} to keep")
    draft = copy(target)
    draft.shape, draft.blocks = replace(target.shape, layers=layers), target.blocks[:layers]
    return draft


def kl_loss(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> torch.Tensor:
    """Forward KL(p ‖ q) in nats, averaged over positions; logits are (..., V), temperature 1.

    Its gradient with respect to the draft's logits is q − p, divided by the number of
    positions: it is large wherever the draft misses a token that the target likes.
    Raises ValueError for two shapes.

    >>> logits = torch.tensor([[0.0, 1.0, 2.0]])
    >>> float(kl_loss(logits, logits))
    0.0
    """
    log_p, log_q = _log_rows(target_logits, draft_logits)
    return _divergence(log_p, log_q)


def reverse_kl_loss(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> torch.Tensor:
    """Reverse KL(q ‖ p) in nats, averaged over positions; logits are (..., V), temperature 1.

    Its gradient is q (ln(q/p) − KL), divided by the number of positions. The factor q
    makes it forget a token that the draft has given up. Raises ValueError for two shapes.

    >>> p, q = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log()
    >>> round(float(reverse_kl_loss(p, q)), 4), round(float(kl_loss(p, q)), 4)
    (0.1308, 0.1438)
    """
    log_p, log_q = _log_rows(target_logits, draft_logits)
    return _divergence(log_q, log_p)


def tv_loss(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> torch.Tensor:
    """TV(p, q) = ½ Σ |p − q| = 1 − α, averaged over positions: a probability, in [0, 1].

    Logits are (..., V), temperature 1. The gradient with respect to the draft's logits is
    that of −α: q (A − [q < p]), divided by the number of positions, where [q < p] is 1 or
    0 for each token and A = Σ q [q < p] the draft's mass on the tokens that it
    underrates. No entry exceeds ¼, all vanish with q, and those of a row sum to 0: it asks for
    exactly what counts, and asks it softly. Where p = q, the gradient is 0. Raises
    ValueError for two shapes.

    >>> p, q = torch.tensor([0.2, 0.8]).log(), torch.tensor([0.5, 0.5]).log()
    >>> round(float(tv_loss(p, q)), 4), round(1 - float(acceptance_rates(p, q, 1.0)), 4)
    (0.3, 0.3)
    """
    log_p, log_q = _log_rows(target_logits, draft_logits)
    return (log_p.exp() - log_q.exp()).abs().sum(-1).mean() / 2


def data_loss(draft_logits: torch.Tensor, next_tokens: torch.Tensor) -> torch.Tensor:
    """Cross-entropy −ln q(next token) in nats, averaged over positions; the target has no say.

    Logits (..., V), token ids (...) of any integer type. Raises ValueError when these
    shapes do not belong together.

    >>> draft_logits = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> round(float(data_loss(draft_logits, torch.tensor([0, 1]))), 4)  # (ln 4 + ln 2) / 2
    1.0397
    """
    if next_tokens.shape != draft_logits.shape[:-1]:
        raise ValueError(
            f"next_tokens has shape {tuple(next_tokens.shape)}: give one token for each row "
            f"of draft_logits, {tuple(draft_logits.shape[:-1])}"
        )
    chosen = _log_softmax(draft_logits).gather(-1, next_tokens.long().unsqueeze(-1))
    return -chosen.mean()


Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# One signature for all, so that one training loop serves them:
# (target_logits (..., V), draft_logits (..., V), next_tokens (...)) -> scalar
LOSSES: dict[str, Loss] = {
    "forward-kl": lambda target, draft, _: kl_loss(target, draft),
    "reverse-kl": lambda target, draft, _: reverse_kl_loss(target, draft),
    "tv": lambda target, draft, _: tv_loss(target, draft),
    "data": lambda _, draft, next_tokens: data_loss(draft, next_tokens),
}


def acceptance_rates(
    target_logits: torch.Tensor, draft_logits: torch.Tensor, temperature: float
) -> torch.Tensor:
    """α = Σ min(p, q) at each position: logits (..., V) to rates (...), both at ``temperature``.

    Temperature 0 compares the two largest logits: 1 where they are the same token. Raises
    ValueError for two shapes, for logits that are not finite, and for a temperature that is
    no finite number of 0 or more.

    >>> p, q = torch.tensor([0.2, 0.8]).log(), torch.tensor([0.5, 0.5]).log()
    >>> round(float(acceptance_rates(p, q, 1.0)), 4)
    0.7
    """
    _check_shapes(target_logits, draft_logits)
    if not (target_logits.isfinite().all() and draft_logits.isfinite().all()):
        raise ValueError("logits hold NaN or infinity: check the model")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature is {temperature}: use a finite number of 0 or more")
    if temperature == 0:
        return (target_logits.argmax(-1) == draft_logits.argmax(-1)).to(target_logits.dtype)
    p = (target_logits / temperature).softmax(-1)
    q = (draft_logits / temperature).softmax(-1)
    return torch.minimum(p, q).sum(-1)


def _divergence(log_a: torch.Tensor, log_b: torch.Tensor) -> torch.Tensor:
    """KL(a ‖ b) in nats, averaged over positions."""
    return (log_a.exp() * (log_a - log_b)).sum(-1).mean()


def _log_rows(target_logits: torch.Tensor, draft_logits: torch.Tensor):
    _check_shapes(target_logits, draft_logits)
    return _log_softmax(target_logits), _log_softmax(draft_logits)


def _check_shapes(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> None:
    if target_logits.shape != draft_logits.shape:  # they would broadcast into a wrong mean
        raise ValueError(
            f"target_logits has shape {tuple(target_logits.shape)}, draft_logits "
            f"{tuple(draft_logits.shape)}: give both models the same tokens and vocabulary"
        )


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Log-softmax that sums a half-precision row in float32."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
