"""The classic drafter: a smaller model of the same vocabulary that samples a chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lessonlib.decoding.loop import Model
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run, Step
from lessonlib.theory.rejection import draw
from lessonlib.theory.trees import Proposal, chain


class SmallModelDrafter:
    """Samples K tokens from ``model``, each from the q row it hands to the verifier.

    Before drafting it runs whatever part of the text its cache lacks: the prompt, the
    token that closed the last round, and after full acceptance also the last drafted
    token, which it proposed but never ran. So the famous two-token catch-up is no
    special case.
    """

    def __init__(self, model: Model, sampling: Sampling):
        self.model = model
        self.vocab_size = model.vocab_size
        self._sampling = sampling
        self._cache = model.new_cache()
        self._ran: list[int] = []  # the tokens behind the cache's rows

    @property
    def rows(self) -> int:
        """How many tokens the draft's cache holds."""
        return self._cache.length

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """Draft up to K tokens after ``text``, fewer where the draft's own context ends."""
        self._rewind(text)
        room = self.model.context - len(text) + 1  # the last drafted token is not run
        tokens, q_rows = [], []
        fresh = list(text[self._cache.length :])
        for _ in range(min(K, room)):
            output = yield Step(self.model, fresh, self._cache)
            self._ran += fresh
            q = self._sampling.probabilities(output.logit_rows()[-1])
            fresh = [draw(q, next(coins))]
            tokens += fresh
            q_rows.append(q)
        return chain(tokens, q_rows)

    def settle(self, text: Sequence[int], seen) -> None:
        """Forget the rows of rejected tokens; ``text`` is what stands after the round."""
        self._rewind(text)

    def _rewind(self, text: Sequence[int]) -> None:
        """Keep the rows of what ``text`` begins with, short of its newest token."""
        pairs = enumerate(zip(self._ran, text[:-1], strict=False))
        shared = min(len(self._ran), len(text) - 1)
        length = next((i for i, (ran, given) in pairs if ran != given), shared)
        self._cache.rollback(length)
        del self._ran[length:]
