"""Tiny random ``transformers`` models: a Llama pair on disk, and models to be refused."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

VOCAB, CONTEXT = 97, 64
TINY = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
}


def disturb(model: PreTrainedModel, amount: float, seed: int) -> PreTrainedModel:
    """Add noise to every weight: large enough that a wrong row or position shows."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += amount * torch.randn(weight.shape, generator=noise, dtype=weight.dtype)
    return model.eval()


def make_llama(seed: int = 0, **changes) -> LlamaForCausalLM:
    """A random Llama in float64: rotary positions, two KV heads for four query heads."""
    torch.manual_seed(seed)
    config = LlamaConfig(**{**TINY, "num_key_value_heads": 2, **changes})
    return disturb(LlamaForCausalLM(config).double(), 0.1, seed)


def write_pair(model: PreTrainedModel, folder: Path, amount: float = 0.02) -> Path:
    """Write ``folder/target``, and as ``folder/draft`` the same model with some more noise."""
    model.save_pretrained(folder / "target")
    disturb(model, amount, seed=9).save_pretrained(folder / "draft")
    return folder
