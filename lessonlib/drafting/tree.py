"""A smaller model that drafts a tree: several guesses for each token, not one.

How the siblings of a node are chosen is in ``theory/siblings``; any way keeps the law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lessonlib.decoding.loop import Model
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run, Step
from lessonlib.theory.siblings import RULES
from lessonlib.theory.treemask import grow_tree, match_path
from lessonlib.theory.trees import ROOT, Proposal


class TreeDrafter:
    """Drafts a tree over ``model``: ``branching[d]`` guesses below each node at depth d - 1.

    Each depth is one forward of the draft over all its nodes; the last depth is not run.
    ``siblings`` names a rule in RULES. Raises ValueError for an unknown one.
    """

    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        branching: Sequence[int],
        siblings: str = "without replacement",
    ):
        if siblings not in RULES:
            raise ValueError(f"siblings is {siblings!r}: use one of {', '.join(RULES)}")
        grow_tree(branching)  # refuses a number below 1
        self.model = model
        self.vocab_size = model.vocab_size
        self.forwards = 0
        self._choose, self._branching, self._sampling = RULES[siblings], branching, sampling
        self._cache = model.new_cache()
        self._start = 0  # where the tree's rows begin in the cache
        self._parents: list[int] = []  # of all nodes drafted in this round
        self._tokens: list[int] = []

    @property
    def rows(self) -> int:
        """How many tokens the draft's cache holds."""
        return self._cache.length

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """Draft up to K tokens deep after ``text``; less deep where the draft's context ends."""
        self._start, self._parents, self._tokens = len(text), [], []
        q_rows: list[np.ndarray | str] = []
        level = [ROOT]
        fresh = list(text[self._cache.length :])  # what the last round left to catch up with
        for children in self._branching[:K]:
            if self._cache.length + len(fresh) > self.model.context:
                break
            rows = yield from self._run(fresh, len(level))
            start = len(self._tokens)
            for parent, q in zip(level, rows, strict=True):
                for token, row in self._choose(q, children, coins):
                    self._parents.append(parent)
                    self._tokens.append(token)
                    q_rows.append(row)
            level = list(range(start, len(self._tokens)))
            fresh = self._tokens[start:]
        return Proposal(tuple(self._tokens), tuple(self._parents), tuple(q_rows))

    def _run(self, fresh: list[int], count: int) -> Run[np.ndarray]:
        """The draft's rows (count, V) after the last ``count`` of the ``fresh`` tokens."""
        parents = self._parents or None  # None while it is still the text that is run
        output = yield Step(self.model, fresh, self._cache, parents)
        self.forwards += 1
        return self._sampling.probabilities(output.logit_rows()[-count:])

    def settle(self, text: Sequence[int], seen) -> None:
        """Keep the rows of the accepted path; ``text`` is what stands after the round."""
        if not self._tokens:  # nothing was drafted in this round
            self._cache.rollback(min(self._cache.length, len(text) - 1))
            return
        run = self._cache.length - self._start
        wanted = text[self._start : len(text) - 1]
        path = match_path(self._parents[:run], self._tokens[:run], wanted)
        self._cache.commit(self._start, path)
        self._parents, self._tokens = [], []
