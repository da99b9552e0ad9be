"""Drafting with an EAGLE head: a sampled chain, or a tree that grows where the head is sure.

What the head's cache holds, with a text of n tokens after each ``settle``:

    cache rows 0..c - 1     row t = (the target's features at t, token t + 1): verified
    waiting features c..    c + waiting == n - 1, one for each token the target has run

A round first runs the waiting rows, whose last one ends in the newest token, and then
drafts on: those rows hold the head's own outputs. When the round is decided they go, the
accepted ones too, because the target has by then made the true features of those tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run
from lessonlib.decoding.taps import take_taps
from lessonlib.drafting.dynamic_tree import Growth
from lessonlib.drafting.eagle import EagleHead, EagleStep
from lessonlib.theory.rejection import draw
from lessonlib.theory.trees import ROOT, Proposal, chain


class VerifiedRows:
    """A head's cache, and the target's features it has still to read."""

    def __init__(self, head: EagleHead):
        self.head, self.cache = head, head.new_cache()
        self._count = 0  # cache rows made from the target's features
        self._waiting: torch.Tensor | None = None  # (m, taps, width), those that come next

    def settle(self, text: Sequence[int], seen) -> None:
        """Drop what was drafted; queue the features of the tokens the target has just run.

        Raises ValueError if features of earlier tokens are missing.
        """
        taps = take_taps(seen).to(self.head.dtype)
        start = len(text) - 1 - len(taps)
        self._keep(start)
        self._waiting = taps if self._waiting is None else torch.cat([self._waiting, taps])

    def catch_up(self, text: Sequence[int]) -> EagleStep | None:
        """The step that brings the cache up to ``text``; None while the target has run nothing.

        Its last row drafts the first token behind ``text``.
        """
        self._keep(len(text) - 1)
        if not self._waiting_rows:
            return None
        shift = self.head.kind.shift
        tokens = text[self._count + shift : len(text) - 1 + shift]
        step = EagleStep(self.head, tokens, self.cache, features=self._waiting)
        self._count, self._waiting = len(text) - 1, None
        return step

    @property
    def _waiting_rows(self) -> int:
        return 0 if self._waiting is None else len(self._waiting)

    def _keep(self, rows: int) -> None:
        """Keep just the first ``rows`` verified rows, in the cache or waiting."""
        if rows > self._count + self._waiting_rows:
            raise ValueError(
                f"the head has features of {self._count + self._waiting_rows} tokens and needs "
                f"{rows}: call settle after the prefill and after every round"
            )
        self._count = min(self._count, rows)
        self.cache.rollback(self._count)
        if self._waiting is not None:
            self._waiting = self._waiting[: rows - self._count]


class EagleDrafter:
    """EAGLE's chain: K tokens, each drawn from the row q that it hands to the verifier."""

    def __init__(self, head: EagleHead, sampling: Sampling):
        self.model, self.vocab_size = head, head.vocab_size
        self._sampling = sampling
        self._verified = VerifiedRows(head)

    @property
    def rows(self) -> int:
        """How many rows the head's cache holds."""
        return self._verified.cache.length

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """Draft K tokens after ``text``; none behind a one-token prompt, which has no features."""
        step, q_rows, sequence = self._verified.catch_up(text), [], list(text)
        while step is not None and len(q_rows) < K:
            output = yield step
            q = self._sampling.probabilities(output.logit_rows()[-1])
            q_rows.append(q)
            sequence.append(draw(q, next(coins)))
            token = sequence[self.rows + self.model.kind.shift]
            features = output.features[-1:]
            step = EagleStep(self.model, [token], self._verified.cache, features=features)
        return chain(sequence[len(text) :], q_rows)

    def settle(self, text: Sequence[int], seen) -> None:
        """Drop the drafted rows; ``seen`` is the target's Output for its newest tokens."""
        self._verified.settle(text, seen)


class DynamicTreeDrafter:
    """EAGLE-2's tree of ``nodes`` nodes, grown ``top_k`` wide; every token is chosen, not drawn.

    Confidence is the head's softmax at temperature ``heat``, whatever the sampling; 1 is
    EAGLE-2's own. With ``rank_rates`` (top_k,) the i-th best child of any node counts as
    accepted at the rate ``rank_rates[i]`` instead, so the tree has one and the same shape
    everywhere: EAGLE-1's static tree. ``growth`` is how the newest tree grew.

    Raises ValueError for sizes below 1, a heat that is not above 0, too few rates, and a head
    without the shifted token.
    """

    def __init__(
        self,
        head: EagleHead,
        *,
        top_k: int = 4,
        nodes: int = 24,
        heat: float = 1.0,
        rank_rates: Sequence[float] | None = None,
    ):
        if top_k < 1 or nodes < 1:
            raise ValueError(f"top_k is {top_k} and nodes {nodes}: use 1 or more")
        if not heat > 0:
            raise ValueError(f"heat is {heat}: use a number above 0")
        if rank_rates is not None and (len(rank_rates) < top_k or not min(rank_rates) > 0):
            raise ValueError(f"rank_rates must hold {top_k} or more rates above 0")
        if head.kind.shift != 1:
            raise ValueError(f"a head of kind {head.shape.kind!r} drafts chains only")
        self.model, self.vocab_size = head, head.vocab_size
        self.growth = Growth()
        self._top_k, self._nodes, self._heat = min(top_k, head.vocab_size), nodes, heat
        self._rates = None if rank_rates is None else np.log(rank_rates[: self._top_k])
        self._verified = VerifiedRows(head)

    @property
    def rows(self) -> int:
        """How many rows the head's cache holds."""
        return self._verified.cache.length

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """Draft a tree up to K tokens deep; none behind a prompt of one token."""
        self.growth = growth = Growth()
        step = self._verified.catch_up(text)
        level, last = [ROOT], slice(-1, None)
        for depth in range(K if step is not None else 0):
            output = yield step
            growth.add_level(level, *self._rank(output.logits[last]))
            room = self.model.context - self.rows
            if depth + 1 == K or room == 0:
                break
            above, features = level, output.features[last]
            level, last = growth.expand(min(self._top_k, room)), slice(None)
            step = self._run_level(above, features, level)
        return growth.rerank(self._nodes)

    def _rank(self, logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The ``top_k`` tokens of each row and the logs of what they are trusted with."""
        log_q, tokens = (logits / self._heat).log_softmax(-1).topk(self._top_k)
        log_q = log_q.double().cpu().numpy()
        if self._rates is not None:
            log_q = np.broadcast_to(self._rates, log_q.shape)
        return tokens.cpu().numpy(), log_q

    def _run_level(self, above: list[int], features: torch.Tensor, level: list[int]) -> EagleStep:
        """The head's step over ``level``; a node gets the output that its parent's row gave."""
        growth = self.growth
        rows = [above.index(growth.parents[node]) for node in level]
        return EagleStep(
            self.model,
            [growth.tokens[node] for node in level],
            self._verified.cache,
            growth.expanded_parents(),
            features[rows],
        )

    def settle(self, text: Sequence[int], seen) -> None:
        """Drop the drafted rows; ``seen`` is the target's Output for its newest tokens."""
        self._verified.settle(text, seen)
