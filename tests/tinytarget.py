"""A random GPT-2 of a few numbers, for tests that need a target's features to be real."""

from __future__ import annotations

import torch

from lessonlib.decoding.gpt2 import GPT2, Shape
from lessonlib.decoding.taps import take_taps
from lessonlib.drafting.eagle import build_head


def make_target(vocab=7, layers=4, width=8, context=48, seed=0, dtype=torch.float64) -> GPT2:
    """A target with weights so large that each token matters to the next."""
    shape = Shape(layers, 2, width, vocab, context, 1e-5)
    generator = torch.Generator().manual_seed(seed)

    def draw(*size):
        return torch.randn(*size, generator=generator, dtype=dtype)

    weights = {"wte.weight": draw(vocab, width), "wpe.weight": draw(context, width)}
    for layer in range(layers):
        for name, size in _matrices(width):
            weights[f"h.{layer}.{name}.weight"] = draw(*size) * size[0] ** -0.5
            weights[f"h.{layer}.{name}.bias"] = draw(size[-1]) * 0.1
        for name in ("ln_1", "ln_2"):
            weights[f"h.{layer}.{name}.weight"] = 1 + 0.1 * draw(width)
            weights[f"h.{layer}.{name}.bias"] = 0.1 * draw(width)
    weights |= {"ln_f.weight": 1 + 0.1 * draw(width), "ln_f.bias": 0.1 * draw(width)}
    return GPT2(shape, weights)


def _matrices(width):
    return (
        ("attn.c_attn", (width, 3 * width)),
        ("attn.c_proj", (width, width)),
        ("mlp.c_fc", (width, 4 * width)),
        ("mlp.c_proj", (4 * width, width)),
    )


def make_head(kind: str, target: GPT2, seed: int = 1):
    """A head whose every weight is random: none of its branches starts out at zero."""
    head = build_head(kind, target.shape, target.embedding, target.head)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in head.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight += 0.3 * noise.to(weight)
    return head.eval().requires_grad_(False)


def true_taps(target: GPT2, text) -> torch.Tensor:
    """The target's taps (len(text), 3, width) of a whole text, from one fresh forward."""
    return take_taps(target.forward(list(text), target.new_cache()))
