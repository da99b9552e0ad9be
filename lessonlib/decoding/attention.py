"""What attention does to one row of a ragged batch: who may look at whom, and the look.

Shared by every model of this project that runs over a ``Cache``; ``check_step`` by those of
``transformers``, too.
"""

from __future__ import annotations

import torch

from lessonlib.decoding.cache import Cache
from lessonlib.decoding.steps import Step
from lessonlib.theory.treemask import build_mask, find_positions


def check_step(step: Step, context: int) -> int:
    """How many cached tokens lie in front of the step's tree, or of its tokens if it has none.

    Raises ValueError for no tokens, for more than fit into the context, and for parents
    that do not list every new token.
    """
    n, start, parents = len(step.tokens), step.cache.length, step.parents
    if n == 0:
        raise ValueError("tokens is empty: run at least one")
    if start + n > context:
        raise ValueError(
            f"{start + n} tokens do not fit into this model's context of {context}: "
            "shorten the prompt or max_new_tokens"
        )
    if parents is None:
        return start
    prefix = start + n - len(parents)
    if len(parents) < n or prefix < 0:
        raise ValueError(
            f"parents lists {len(parents)} nodes for {n} new tokens behind {start} "
            "cached ones: list the new ones, and before them any cached part of the tree"
        )
    return prefix


def place(
    step: Step, context: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Positions (n,) of the n new tokens, and what each must not see: bool (n, start + n) or None.

    Raises ValueError as ``check_step`` does.

    >>> cache = Cache(1, 1, 4, 1, device="cpu", dtype=torch.float32)
    >>> positions, unseen = place(Step(None, [7, 8], cache, parents=[-1, -1]), 4, "cpu")
    >>> positions.tolist(), unseen.int().tolist()
    ([0, 0], [[0, 1], [1, 0]])
    """
    prefix = check_step(step, context)
    n, start, parents = len(step.tokens), step.cache.length, step.parents
    if parents is not None:
        positions = torch.from_numpy(find_positions(parents, prefix)[-n:])
        unseen = torch.from_numpy(~build_mask(parents, prefix)[-n:])
        return positions.to(device), unseen.to(device)
    positions = torch.arange(start, start + n, device=device)
    if n == 1:
        return positions, None
    # Token i may look at the cached rows and at new rows 0..i.
    return positions, ~torch.ones(n, start + n, dtype=torch.bool, device=device).tril(start)


def attend(
    mixed: torch.Tensor, layer: int, cache: Cache, unseen: torch.Tensor | None, heads: int
) -> torch.Tensor:
    """One row's attention: its queries, keys and values (n, 3 width) to values (n, width).

    Writes keys and values behind the cache's rows; the cache's length is the caller's to set.
    """
    n, start = len(mixed), cache.length
    queries, keys, values = mixed.view(n, 3, heads, -1).permute(1, 2, 0, 3)
    cache.write(layer, start, keys, values)
    keys, values = cache.read(layer, start + n)
    scores = queries @ keys.mT * queries.shape[-1] ** -0.5
    if unseen is not None:
        scores = scores.masked_fill(unseen, float("-inf"))
    return (scores.softmax(-1) @ values).transpose(0, 1).reshape(n, -1)
