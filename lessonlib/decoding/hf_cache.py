"""Rollback and commit for the cache of a ``transformers`` model, its DynamicCache.

That cache has no spare room: a layer's rows are one tensor that grows by concatenation, so
rolling back cuts it, and committing a tree's path gathers the rows that stay. Its own
``crop`` takes the number of rows to drop, as a negative number, and drops them all without
a word if there are fewer; here every length is checked first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer

from lessonlib.decoding.cache import check_commit, check_rollback


class HFCache:
    """The rows of one sequence in a DynamicCache, in ``rows``, for ``transformers`` to fill.

    Raises ValueError for a model whose cache cannot be rolled back: a sliding window has
    dropped the rows it would need again, a state space folds all tokens into one state.
    """

    def __init__(self, config: PreTrainedConfig):
        self.rows = DynamicCache(config=config)
        kinds = {type(layer) for layer in self.rows.layers} - {DynamicLayer}
        if kinds:
            odd = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(
                f"the cache of this {config.model_type} model cannot be rolled back, because its "
                f"{odd} does not keep a row for every token: use a model with "
                "full attention in all its layers"
            )

    @property
    def length(self) -> int:
        """How many tokens the cache holds."""
        return self.rows.get_seq_length()

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` rows. Raises ValueError for more rows than there are."""
        check_rollback(length, self.length)
        self.rows.crop(length - self.length)

    def commit(self, start: int, rows: Sequence[int]) -> None:
        """Keep the rows before ``start`` and, right behind them, rows start + i for i in ``rows``.

        ``rows`` is the accepted path, from the top down. For a chain it counts up from 0:
        the rows lie where they belong, and the rest is cut off. Raises ValueError for rows
        that are not there or not in rising order.
        """
        check_commit(start, rows, self.length)
        if len(rows) and rows[-1] != len(rows) - 1:
            for layer in self.rows.layers:
                layer.keys = _gather(layer.keys, start, rows)
                layer.values = _gather(layer.values, start, rows)
        self.rollback(start + len(rows))


def _gather(buffer: torch.Tensor, start: int, rows: Sequence[int]) -> torch.Tensor:
    """Of a buffer (1, heads, length, head size) the rows before ``start`` and start + rows."""
    kept = [*range(start), *(start + row for row in rows)]
    return buffer[:, :, torch.tensor(kept, device=buffer.device)]
