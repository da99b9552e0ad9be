"""Models and caches to experiment with: counted, poisoned, or wrong on purpose.

A rollback that is right cannot be seen, so lesson 04 and the tests break it and watch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lessonlib.decoding.cache import Cache
from lessonlib.decoding.gpt2 import GPT2, Output
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run, Step
from lessonlib.theory.rejection import draw
from lessonlib.theory.trees import Proposal, chain


class Probe:
    """A model that counts what it runs, and hands out caches of another kind if asked to.

    ``forwards`` counts the sequences' forwards (a batch of three counts three),
    ``calls`` the batched ones, ``tokens_run`` the tokens in all of them.
    """

    def __init__(self, model: GPT2, cache_class: type[Cache] = Cache):
        self.model, self.cache_class = model, cache_class
        self.vocab_size, self.context = model.vocab_size, model.context
        self.calls = self.forwards = self.tokens_run = 0

    def new_cache(self) -> Cache:
        """An empty cache of the wanted class, as large as the model's own."""
        keys = self.model.new_cache().keys
        return self.cache_class(*keys.shape, device=keys.device, dtype=keys.dtype)

    def forward_rows(self, steps: Sequence[Step]) -> list[Output]:
        """The model's answer; only the counters change."""
        self.calls += 1
        self.forwards += len(steps)
        self.tokens_run += sum(len(step.tokens) for step in steps)
        return self.model.forward_rows(steps)


class PoisonedCache(Cache):
    """Fills every row past its length with NaN: whoever reads one cannot hide it."""

    def rollback(self, length: int) -> None:
        super().rollback(length)
        self._poison()

    def commit(self, start: int, rows: Sequence[int]) -> None:
        super().commit(start, rows)
        self._poison()

    def _poison(self) -> None:
        for buffer in (self.keys, self.values):
            buffer[:, :, self.length :] = float("nan")


class OffByOneCache(Cache):
    """Wrong: after a rejection it keeps one row more, that of the rejected token."""

    def commit(self, start: int, rows: Sequence[int]) -> None:
        held = self.length
        super().commit(start, rows)
        self.length = min(self.length + 1, held)


class ForgetfulDrafter:
    """Wrong: feeds its model the newest token only, also where the cache lacks two.

    A small-model drafter otherwise. After full acceptance its own last token was never run,
    so from then on its cache has a hole, and every later token stands a place too early.
    """

    def __init__(self, model: GPT2, sampling: Sampling):
        self.model, self.vocab_size = model, model.vocab_size
        self._sampling, self._cache = sampling, model.new_cache()
        self._known = 0  # tokens of the text when the round began
        self._before = 0  # rows then

    @property
    def rows(self) -> int:
        return self._cache.length

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """Draft K tokens after ``text``."""
        fresh = [text[-1]] if self.rows else list(text)
        self._known, self._before = len(text), self.rows + len(fresh)
        tokens, q_rows = [], []
        for _ in range(K):
            output = yield Step(self.model, fresh, self._cache)
            q_rows.append(self._sampling.probabilities(output.logit_rows()[-1]))
            fresh = [draw(q_rows[-1], next(coins))]
            tokens += fresh
        return chain(tokens, q_rows)

    def settle(self, text: Sequence[int], seen) -> None:
        """Keep the rows of what was accepted, by counting."""
        accepted = len(text) - self._known - 1
        self._cache.rollback(min(self.rows, self._before + max(accepted, 0)))
