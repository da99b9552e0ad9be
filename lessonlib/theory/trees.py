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
CHOSEN = "chosen"  # stands where a q row would, for a token that was chosen, not drawn


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens as a tree, parents before children.

    ``q[i]`` is the row (V,) that node i was drawn from, or CHOSEN if the drafter took
    the token without drawing it (greedy, top-k, n-gram). A row that is merely missing
    is an error: nobody could tell a slip from a choice, and a token that was drawn passes
    less often if it is scored as a chosen one. Siblings are tried in order; one drawn
    without replacement carries the conditional row.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    q: tuple[np.ndarray | str, ...]

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.q):
            sizes = f"{len(self.tokens)}, {len(self.parents)} and {len(self.q)}"
            raise ValueError(f"tokens, parents and q must be equally long, got {sizes}")
        check_parents(self.parents)
        for node, row in enumerate(self.q):
            if row is None or (isinstance(row, str) and row != CHOSEN):
                raise ValueError(
                    f"q[{node}] is {row!r}: pass the row the token was drawn from, or CHOSEN"
                )

    @property
    def is_chain(self) -> bool:
        """Whether every token follows the one before it: no mask and no gathering needed."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    @property
    def depth(self) -> int:
        """How many tokens the longest path has.

        >>> Proposal((7, 8, 9), (ROOT, 0, ROOT), (CHOSEN,) * 3).depth
        2
        """
        depths = {ROOT: 0}
        for node, parent in enumerate(self.parents):
            depths[node] = depths[parent] + 1
        return max(depths.values())

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
        return one_hot(self.tokens[node], vocab) if isinstance(row, str) else row


def check_parents(parents: Sequence[int]) -> None:
    """Raise ValueError unless every parent is ROOT or an earlier node."""
    for node, parent in enumerate(parents):
        if not ROOT <= parent < node:
            raise ValueError(f"parents[{node}] is {parent}: a parent comes before its child")


def chain(tokens: list[int], q_rows: list[np.ndarray | str]) -> Proposal:
    """A proposal in which every token follows the one before it.

    >>> chain([7, 8, 9], [CHOSEN] * 3).parents
    (-1, 0, 1)
    """
    return Proposal(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(q_rows))
