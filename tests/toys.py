"""Toy models for the tests: tiny, exact, and honest about what their cache holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from lessonlib.decoding.gpt2 import Output
from lessonlib.theory.toys import random_rows
from lessonlib.theory.treemask import trace_path


@dataclass
class TokenCache:
    """Holds the tokens that were run, so that a stale row changes the output."""

    tokens: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def rollback(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        del self.tokens[length:]

    def commit(self, start: int, rows) -> None:
        assert all(start + row < len(self.tokens) for row in rows)
        self.tokens[start:] = [self.tokens[start + row] for row in rows]


class TableModel:
    """Next-token rows that depend on the whole cached text; counts what it runs."""

    def __init__(self, vocab_size: int, seed: int, context: int = 1000):
        self.vocab_size, self.context = vocab_size, context
        self.row_of = random_rows(vocab_size, seed)
        self.forwards, self.tokens_run = 0, 0

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward_rows(self, steps) -> list[Output]:
        return [self.forward(step.tokens, step.cache, step.parents) for step in steps]

    def forward(self, tokens, cache: TokenCache, parents=None) -> Output:
        assert len(tokens) > 0
        assert cache.length + len(tokens) <= self.context
        self.forwards += 1
        self.tokens_run += len(tokens)
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        cache.tokens += [int(token) for token in tokens]
        prefix = cache.length - len(parents)
        assert prefix >= 0
        rows = []
        for node in range(len(parents) - len(tokens), len(parents)):
            text = cache.tokens[:prefix]
            text += [cache.tokens[prefix + i] for i in trace_path(parents, node)]
            rows.append(np.log(self.row_of(tuple(text))))
        logits = torch.tensor(np.array(rows))
        return Output(logits, logits)


def coins_of(seed: int):
    """An endless iterator of seeded uniforms."""
    rng = np.random.default_rng(seed)
    return iter(rng.random, None)
