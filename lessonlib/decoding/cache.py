"""The KV cache: a buffer and a logical length. Setting the length is the rollback.

Rows past the length are garbage, kept for nobody: the forward never reads them and
overwrites them when it gets there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch


def check_rollback(length: int, held: int) -> None:
    """Raise ValueError unless a cache that holds ``held`` rows can keep the first ``length``."""
    if not 0 <= length <= held:
        raise ValueError(f"length is {length}, but the cache holds {held} rows")


def check_commit(start: int, rows: Sequence[int], held: int) -> None:
    """Raise ValueError unless rows start + i, for i in ``rows``, rise and are in the cache."""
    ends = [-1, *rows, held - start]
    if start < 0 or any(a >= b for a, b in pairwise(ends)):
        raise ValueError(
            f"rows {list(rows)} behind row {start} must rise and lie within the "
            f"{held} rows of the cache"
        )


class Cache:
    """Keys and values of ``length`` tokens in buffers (layers, heads, capacity, head size)."""

    def __init__(self, layers, heads, capacity, head_size, *, device, dtype):
        shape = (layers, heads, capacity, head_size)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def write(self, layer: int, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put rows (heads, n, head size) of one layer at ``start``; the length is not changed."""
        stop = start + keys.shape[1]
        self.keys[layer, :, start:stop] = keys
        self.values[layer, :, start:stop] = values

    def read(self, layer: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """One layer's rows before ``stop``, as views (heads, stop, head size)."""
        return self.keys[layer, :, :stop], self.values[layer, :, :stop]

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` rows. Raises ValueError for more rows than there are."""
        check_rollback(length, self.length)
        self.length = length

    def commit(self, start: int, rows: Sequence[int]) -> None:
        """Keep the rows before ``start`` and, right behind them, rows start + i for i in ``rows``.

        ``rows`` is the accepted path, from the top down. For a chain it counts up from 0:
        the rows lie where they belong, and only the length is set. Raises ValueError for
        rows that are not there or not in rising order.
        """
        check_commit(start, rows, self.length)
        stop = start + len(rows)
        if len(rows) and rows[-1] != len(rows) - 1:
            picked = torch.tensor(rows, device=self.keys.device) + start
            for buffer in (self.keys, self.values):
                buffer[:, :, start:stop] = buffer[:, :, picked]  # the right side is a copy
        self.length = stop
