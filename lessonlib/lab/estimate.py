"""Before a long training starts: how long it will take and how much it needs."""

from __future__ import annotations

import sys

import torch

from lessonlib.lab.features import FeatureStore
from lessonlib.lab.training import Plan


def announce(
    what: str, model: torch.nn.Module, plan: Plan, stores: dict[str, FeatureStore]
) -> None:
    """Print the size of a training: weights, memory, features on disk, and its budget."""
    weights = sum(weight.numel() for weight in model.parameters())
    disk = sum(store.features.nbytes + store.tokens.nbytes for store in stores.values())
    budget = f"{plan.tokens:,} tokens" if plan.tokens else f"{plan.minutes:g} minutes"
    print(
        f"train: {what} with {weights / 1e6:.1f} million weights for {budget} on "
        f"{next(model.parameters()).device}; memory about "
        f"{estimate_memory(weights, plan, stores['train']) / 1e9:.1f} GB, "
        f"features on disk {disk / 1e9:.1f} GB; the bar shows the time that is left",
        file=sys.stderr,
    )


def estimate_memory(weights: int, plan: Plan, store: FeatureStore) -> int:
    """Bytes: weights, gradients and two optimizer states in float32, and the logits of a batch.

    The logits of draft and target with their log-probabilities and gradients are what
    grows with the batch: about six float32 arrays (batch, window, V).
    """
    vocab = int(store.tokens.max()) + 1
    return 16 * weights + 6 * 4 * plan.batch * plan.window * vocab
