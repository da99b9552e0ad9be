"""Muon: momentum whose step is the nearest orthogonal matrix (Jordan et al. 2024).

PyTorch ships a Muon, but it orthogonalises in bfloat16, which most CPUs emulate,
far slower than float32. This one stays in float32 and works on GPT-2's fused
query-key-value matrix as three matrices.
"""

from __future__ import annotations

import torch

# Quintic Newton-Schulz coefficients from the Muon write-up: they push every
# singular value of a matrix of norm <= 1 towards 1 within five rounds.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(matrix: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """Return roughly ``U @ V.T`` of ``matrix = U @ S @ V.T``, batched over leading dims.

    >>> s = torch.linalg.svdvals(orthogonalise(torch.randn(8, 4, generator=torch.manual_seed(0))))
    >>> bool(((s > 0.6) & (s < 1.3)).all())
    True
    """
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = x @ x.mT
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon for matrices laid out (inputs, outputs), as GPT-2's are.

    A matrix whose output is a whole multiple of its input and is named fused
    (``parts=3`` in its group) is orthogonalised part by part.
    """

    def __init__(self, groups: list[dict], lr: float, momentum: float = 0.95, decay: float = 0.05):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "decay": decay, "parts": 1})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                velocity = self.state[weight].setdefault("velocity", torch.zeros_like(weight))
                velocity.lerp_(weight.grad, 1 - group["momentum"])
                nesterov = weight.grad.lerp(velocity, group["momentum"])
                parts = torch.stack(nesterov.chunk(group["parts"], dim=1))
                update = torch.cat(tuple(orthogonalise(parts)), dim=1)
                # Wide outputs get longer steps: each output row then moves alike.
                rows, columns = parts.shape[1:]
                scale = max(1.0, columns / rows) ** 0.5
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.add_(update, alpha=-group["lr"] * scale)


def build_optimizers(
    model: torch.nn.Module, muon_lr: float, adam_lr: float
) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between layers, AdamW for embeddings, norms and biases."""
    fused, plain, rest = [], [], []
    for name, weight in model.named_parameters():
        inside = weight.ndim == 2 and "wte" not in name and "wpe" not in name
        (fused if inside and "c_attn" in name else plain if inside else rest).append(weight)
    return [
        Muon([{"params": fused, "parts": 3}, {"params": plain}], lr=muon_lr),
        torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]
