"""The KV cache: a buffer and a logical length. Setting the length is the rollback.

Rows past the length are garbage, kept for nobody: the forward never reads them and
overwrites them when it gets there.
"""

from __future__ import annotations

import torch


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
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}, but the cache holds {self.length} rows")
        self.length = length
