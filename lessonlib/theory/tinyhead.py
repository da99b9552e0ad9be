"""An EAGLE head in NumPy: small enough to call with any features, tokens and mask you like.

Random weights, no training: what it says means nothing, but which features a row was given,
which token, and what it may look at, change every number of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class TinyHead:
    """``head(features, tokens, mask)`` gives outputs (m, width) for m rows at once.

    Row i is (features[i], the embedding of tokens[i]) and may look at row j if ``mask[i, j]``.
    There are no positions, as in EAGLE's heads here. ``calls`` lists how many rows each ran.

    >>> head = TinyHead(vocab=5, width=4, seed=0)
    >>> head(np.zeros((2, 4)), [3, 1], np.tri(2, dtype=bool)).shape, head.calls
    ((2, 4), [2])
    """

    def __init__(self, vocab: int, width: int, seed: int):
        rng = np.random.default_rng([seed, vocab, width])
        self.vocab, self.width = vocab, width
        self.calls: list[int] = []
        self._embedding = rng.normal(size=(vocab, width))
        self._fuse = rng.normal(size=(2 * width, width)) / (2 * width) ** 0.5
        self._layer = rng.normal(size=(4, width, width)) / width**0.5

    def __call__(self, features: np.ndarray, tokens: Sequence[int], mask: np.ndarray) -> np.ndarray:
        """Run the rows. Raises ValueError for tokens or a mask that do not fit the features."""
        features, tokens, mask = np.asarray(features), np.asarray(tokens), np.asarray(mask)
        m = len(features)
        if features.shape != (m, self.width) or tokens.shape != (m,):
            raise ValueError(
                f"features have shape {features.shape} and tokens {tokens.shape}: give one row "
                f"of {self.width} features, and one token, for each row"
            )
        if mask.shape != (m, m) or mask.dtype != bool or not mask.any(axis=1).all():
            raise ValueError(
                f"mask has shape {mask.shape} and dtype {mask.dtype}: for {m} rows it must be "
                f"boolean, ({m}, {m}), with a True in every row"
            )
        self.calls.append(m)
        x = np.hstack([features, self._embedding[tokens]]) @ self._fuse
        query, key, value, mixer = self._layer
        scores = np.where(mask, (x @ query) @ (x @ key).T / self.width**0.5, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.tanh(x + weights @ (x @ value) @ mixer)
