"""A toy model with a cache, for exercises on the whole loop: exact, tiny, and it takes notes.

Its cache holds the very tokens that were run, so a row that should have been rolled back, or
was never run, changes what the model says, as it does in a transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from lessonlib.theory.rejection import one_hot
from lessonlib.theory.toys import random_rows

RowOf = Callable[[tuple[int, ...]], np.ndarray]


class ContextFull(ValueError):
    """A forward would have run more tokens than the model's context holds."""


@dataclass
class ToyCache:
    """``length`` rows, one for each token that was run and not rolled back."""

    tokens: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` rows. Raises ValueError for more rows than there are."""
        if not 0 <= length <= self.length:
            raise ValueError(f"rollback to {length}, but the cache holds {self.length} rows")
        del self.tokens[length:]


@dataclass(frozen=True)
class Call:
    """One forward: who ran it, the tokens that were cached, and those that were fed."""

    model: str
    cached: tuple[int, ...]
    fed: tuple[int, ...]


class CachedToy:
    """A model over ``vocab_size`` tokens whose next-token row is ``row_of(all tokens so far)``.

    Models that share a ``log`` (a list) write their calls into it in the order in which they
    happen. ``caches`` lists the caches handed out.

    >>> model = CachedToy("target", 3, random_rows(3, seed=0))
    >>> cache = model.new_cache()
    >>> model.forward([0, 2], cache).shape, cache.length
    ((2, 3), 2)
    """

    def __init__(
        self,
        name: str,
        vocab_size: int,
        row_of: RowOf,
        *,
        context: int = 1000,
        log: list[Call] | None = None,
    ):
        self.name, self.vocab_size, self.context = name, vocab_size, context
        self.log = [] if log is None else log
        self.caches: list[ToyCache] = []
        self._row_of = row_of

    def new_cache(self) -> ToyCache:
        """An empty cache."""
        self.caches.append(ToyCache())
        return self.caches[-1]

    def forward(self, tokens: Sequence[int], cache: ToyCache) -> np.ndarray:
        """Run ``tokens`` behind the cached ones: row i (of n, V) is the law of what follows i.

        Raises ValueError without a token or for one outside the vocabulary, and
        ContextFull if the tokens do not fit.
        """
        tokens = [int(token) for token in tokens]
        if not tokens:
            raise ValueError("forward was given no tokens: feed at least the newest one")
        outside = [token for token in tokens if not 0 <= token < self.vocab_size]
        if outside:
            raise ValueError(f"token {outside[0]} is outside the vocabulary of {self.vocab_size}")
        stop = cache.length + len(tokens)
        if stop > self.context:
            raise ContextFull(f"{stop} tokens do not fit into the context of {self.context}")
        self.log.append(Call(self.name, tuple(cache.tokens), tuple(tokens)))
        start = cache.length
        cache.tokens += tokens
        return np.array([self._row_of(tuple(cache.tokens[: i + 1])) for i in range(start, stop)])


def scripted_rows(script: Sequence[int], vocab: int) -> RowOf:
    """One-hot rows of a model that writes ``script``, whatever it has read so far.

    Only how much it has read counts: behind n tokens comes script[n].

    >>> scripted_rows([1, 0, 2], 3)((1, 0)).tolist()
    [0.0, 0.0, 1.0]
    """
    return lambda context: one_hot(script[len(context)], vocab)


@cache
def language(vocab: int, seed: int, greedy: bool = False) -> RowOf:
    """The rows of ``theory/toys``, each computed once; ``greedy`` makes them one-hot, as at T = 0.

    An enumeration asks for the same rows thousands of times.

    >>> row = language(3, seed=0)((1,))
    >>> language(3, seed=0, greedy=True)((1,))[row.argmax()] == 1
    np.True_
    """
    row_of = random_rows(vocab, seed)
    if greedy:
        return cache(lambda context: one_hot(int(row_of(context).argmax()), vocab))
    return cache(row_of)
