"""A transformer of two layers in NumPy: small enough to call with any mask you like.

Random weights, no training: what it says means nothing, but who sees whom, and at which
position, changes every number of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WIDTH, LAYERS = 16, 2


class TinyTransformer:
    """``model(tokens, mask, positions)`` gives logits (m, V) for m tokens at once.

    ``mask`` (m, m) is boolean: row i may look at column j. ``positions`` (m,) are whole
    numbers below ``context``. ``calls`` lists how many tokens each call ran.

    >>> model = TinyTransformer(vocab=5, seed=0)
    >>> model([3, 1], np.tril(np.ones((2, 2), dtype=bool)), [0, 1]).shape, model.calls
    ((2, 5), [2])
    """

    def __init__(self, vocab: int, seed: int, context: int = 64):
        rng = np.random.default_rng([seed, vocab])
        self.vocab, self.seed, self.context = vocab, seed, context
        self.calls: list[int] = []
        self._embedding = rng.normal(size=(vocab, WIDTH))
        self._positions = rng.normal(size=(context, WIDTH))
        self._layers = rng.normal(size=(LAYERS, 4, WIDTH, WIDTH)) / WIDTH**0.5

    def __call__(
        self, tokens: Sequence[int], mask: np.ndarray, positions: Sequence[int]
    ) -> np.ndarray:
        """Run the tokens. Raises ValueError for a mask or positions that do not fit them."""
        tokens, positions, mask = np.asarray(tokens), np.asarray(positions), np.asarray(mask)
        if mask.shape != (len(tokens), len(tokens)) or mask.dtype != bool:
            raise ValueError(
                f"mask has shape {mask.shape} and dtype {mask.dtype}: for {len(tokens)} tokens "
                f"it must be boolean, ({len(tokens)}, {len(tokens)})"
            )
        if (
            positions.shape != tokens.shape
            or not ((positions >= 0) & (positions < self.context)).all()
        ):
            raise ValueError(
                f"positions must be {len(tokens)} whole numbers from 0 to {self.context - 1}"
            )
        self.calls.append(len(tokens))
        x = self._embedding[tokens] + self._positions[positions]
        for query, key, value, mixer in self._layers:
            scores = (x @ query) @ (x @ key).T / WIDTH**0.5
            scores = np.where(mask, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            x = np.tanh(x + weights @ (x @ value) @ mixer)
        return x @ self._embedding.T
