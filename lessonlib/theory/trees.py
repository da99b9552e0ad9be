"""Proposals: what a drafter hands to the target. A chain is a tree with one child per node.

A node is a drafted token; its parent is another node, or ROOT: the newest token
of the text, which the target has not run yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.theory.rejection import one_hot

ROOT = -1


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens as a tree, parents before children.

    ``q[i]`` is the row (V,) that node i was drawn from, or None if the drafter
    chose the token instead of drawing it (greedy, top-k, n-gram). Siblings are
    tried in order; one drawn without replacement carries the conditional row.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    q: tuple[np.ndarray | None, ...]

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.q):
            sizes = f"{len(self.tokens)}, {len(self.parents)} and {len(self.q)}"
            raise ValueError(f"tokens, parents and q must be equally long, got {sizes}")
        check_parents(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether every token follows the one before it: no mask and no gathering needed."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    def first(self, count: int) -> Proposal:
        """The first ``count`` nodes, a tree again.

        How many are kept must not depend on what was drawn: then the law is the same.
        """
        if count >= len(self.tokens):
            return self
        return Proposal(self.tokens[:count], self.parents[:count], self.q[:count])

    def children(self, node: int) -> list[int]:
        """The nodes directly below ``node`` (or ROOT), in drafting order."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def q_row(self, node: int, vocab: int) -> np.ndarray:
        """The row (vocab,) the rule divides by: one-hot for a token that was chosen."""
        row = self.q[node]
        return one_hot(self.tokens[node], vocab) if row is None else row


def check_parents(parents: Sequence[int]) -> None:
    """Raise ValueError unless every parent is ROOT or an earlier node."""
    for node, parent in enumerate(parents):
        if not ROOT <= parent < node:
            raise ValueError(f"parents[{node}] is {parent}: a parent comes before its child")


def chain(tokens: list[int], q_rows: list[np.ndarray | None]) -> Proposal:
    """A proposal in which every token follows the one before it.

    >>> chain([7, 8, 9], [None, None, None]).parents
    (-1, 0, 1)
    """
    return Proposal(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(q_rows))
