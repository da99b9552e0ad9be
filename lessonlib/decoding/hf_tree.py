"""A token tree through a ``transformers`` model: the mask and the positions it must be given.

Two traps, both silent. A boolean mask is added to the scores as 0 and 1 by the eager
attention, so the mask has to be a float one: 0 to look, the smallest float to hide. And
without ``position_ids`` the nodes are numbered by index, though a node's position is its depth.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lessonlib.theory.treemask import build_mask, find_positions


def tree_inputs(
    parents: Sequence[int], prefix: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> dict[str, torch.Tensor]:
    """``attention_mask`` (1, 1, n, prefix + n) and ``position_ids`` (1, n) for n tree nodes.

    ``prefix`` is how many tokens the cache holds, ``dtype`` that of the model. Pass both to
    a causal model's forward together with the tokens and the cache.

    >>> inputs = tree_inputs([-1, -1], prefix=1, dtype=torch.float32)
    >>> (inputs["attention_mask"] == 0)[0, 0].int().tolist(), inputs["position_ids"].tolist()
    ([[1, 1, 0], [1, 0, 1]], [[1, 1]])
    """
    seen = torch.from_numpy(build_mask(parents, prefix)).to(device)
    hidden = torch.full(seen.shape, torch.finfo(dtype).min, dtype=dtype, device=device)
    positions = torch.from_numpy(find_positions(parents, prefix)).to(device)
    return {
        "attention_mask": hidden.masked_fill(seen, 0.0)[None, None],
        "position_ids": positions[None],
    }
