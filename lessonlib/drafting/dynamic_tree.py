"""EAGLE-2's tree: grown where the head is confident, then cut to the best nodes.

The confidence of a node is the product of the head's probabilities along its path, which
stands in for the chance that the whole path is accepted. *Expand*: at each depth only the
``top_k`` most confident new nodes get children, ``top_k`` each. *Rerank*: from all that was
ever proposed, a shallow node that was passed over included, the most confident are kept.

A node is never more confident than its parent, so the best m of all nodes are a tree by
themselves, as long as ties go to the node that came first.

Source: EAGLE-2, Li et al. 2024 (arXiv 2406.16858), sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lessonlib.theory.trees import CHOSEN, ROOT, Proposal


def pick_best(scores: Sequence[float], count: int) -> list[int]:
    """Places of the ``count`` largest scores, best first; a tie goes to the lower place.

    Raises ValueError for a count below 0.

    >>> pick_best([0.1, 0.6, 0.3, 0.6], 3)
    [1, 3, 2]
    """
    if count < 0:
        raise ValueError(f"count is {count}: use 0 or more")
    return np.argsort(-np.asarray(scores, dtype=float), kind="stable")[:count].tolist()


@dataclass
class Growth:
    """One tree as it grew, as plain data: every node that was proposed, and what became of it.

    ``scores[i]`` is the log of node i's confidence. ``expanded`` holds the nodes the head was
    run on, in that order; ``kept`` those that were sent to the target, the best first.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    expanded: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    newest: int = 0  # the first node of the deepest level

    def add_level(self, above: Sequence[int], tokens: np.ndarray, log_q: np.ndarray) -> None:
        """Hang ``tokens`` (m, k) below the m nodes ``above``; ``log_q`` (m, k) are their logs.

        A log above 0 counts as 0: rounding must not make a child beat its parent.
        """
        self.newest = len(self.tokens)
        for node, row, logs in zip(above, tokens.tolist(), log_q.tolist(), strict=True):
            score = 0.0 if node == ROOT else self.scores[node]
            self.tokens += row
            self.parents += [node] * len(row)
            self.scores += [score + min(log, 0.0) for log in logs]

    def expand(self, top_k: int) -> list[int]:
        """The ``top_k`` most confident nodes of the deepest level, to be run next."""
        level = [self.newest + i for i in pick_best(self.scores[self.newest :], top_k)]
        self.expanded += level
        return level

    def expanded_parents(self) -> list[int]:
        """The expanded nodes as a tree of their own: what the head's mask is made from."""
        row_of = {ROOT: ROOT, **{node: row for row, node in enumerate(self.expanded)}}
        return [row_of[self.parents[node]] for node in self.expanded]

    def rerank(self, nodes: int) -> Proposal:
        """Keep the ``nodes`` most confident of all; the best come first, parents before children.

        So the first m nodes of the proposal are the best tree of m nodes.

        >>> growth = Growth([5, 6, 7], [ROOT, ROOT, 0], [-0.1, -2.0, -0.5])
        >>> growth.rerank(2).tokens, growth.kept
        ((5, 7), [0, 2])
        """
        self.kept = pick_best(self.scores, nodes)
        place_of = {ROOT: ROOT, **{node: place for place, node in enumerate(self.kept)}}
        return Proposal(
            tuple(self.tokens[node] for node in self.kept),
            tuple(place_of[self.parents[node]] for node in self.kept),
            (CHOSEN,) * len(self.kept),
        )
