"""Distil a draft from its target: make q close to p where it counts, on p's own full rows.

The draft is judged by α = 1 − TV(p, q), so it is trained on the target's whole
distribution rather than on the next token of the data. Source: DistillSpec, Zhou et
al. 2023 (arXiv 2310.08461), section 3; Leviathan et al. 2023 for α.
"""

from __future__ import annotations

import torch


def kl_loss(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> torch.Tensor:
    """Forward KL(p ‖ q) in nats, averaged over positions; logits are (..., V), temperature 1.

    >>> logits = torch.tensor([[0.0, 1.0, 2.0]])
    >>> float(kl_loss(logits, logits))
    0.0
    """
    log_p = target_logits.log_softmax(-1)
    log_q = draft_logits.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def acceptance_rates(
    target_logits: torch.Tensor, draft_logits: torch.Tensor, temperature: float
) -> torch.Tensor:
    """α = Σ min(p, q) at each position: logits (..., V) to rates (...), both at ``temperature``.

    Temperature 0 compares the two largest logits: 1 where they are the same token.

    >>> p, q = torch.tensor([0.2, 0.8]).log(), torch.tensor([0.5, 0.5]).log()
    >>> round(float(acceptance_rates(p, q, 1.0)), 4)
    0.7
    """
    if temperature == 0:
        return (target_logits.argmax(-1) == draft_logits.argmax(-1)).to(target_logits.dtype)
    p = (target_logits / temperature).softmax(-1)
    q = (draft_logits / temperature).softmax(-1)
    return torch.minimum(p, q).sum(-1)
