"""Which of the target's hidden states a draft head may look at: low, middle and top."""

from __future__ import annotations

import torch

from lessonlib.decoding.gpt2 import Output

TAPS = 3


def take_taps(output: Output) -> torch.Tensor:
    """(n, TAPS, width): the streams a quarter and half of the way up, and the features.

    EAGLE-1 and EAGLE-2 read the last one only, which the LM head multiplies; EAGLE-3
    (arXiv 2503.01840, section 3) fuses all three. Raises ValueError for a model that does
    not show its hidden states.
    """
    if not output.hidden:
        raise ValueError("output has no hidden states: EAGLE needs a target that shows them")
    layers = len(output.hidden)
    low, middle = output.hidden[max(0, layers // 4 - 1)], output.hidden[max(0, layers // 2 - 1)]
    return torch.stack([low, middle, output.features], dim=1)
