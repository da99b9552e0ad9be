"""The proposers of a pair by name, each with the way to make a fresh drafter for a run.

A new proposer is one line in `list_proposers`. Only those whose weights are there are
listed: a pair from the hub has no EAGLE heads until its learner has trained them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.decoding.loop import Drafter, decode
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run
from lessonlib.decoding.trace import Trace
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.heads import find_head
from lessonlib.lab.pairs import Pair

PLAIN = "plain decoding"  # no drafter at all: what every speed is measured against
NODES = 24  # of a tree, where nobody says otherwise
HEADS = ("eagle1", "eagle3")


@dataclass(frozen=True)
class Size:
    """How much one round drafts: K deep, and for a tree how many ``nodes`` are kept.

    >>> str(Size(4)), Size(4).width, str(Size(6, 16)), Size(6, 16).width
    ('4', 5, '6, 16 nodes', 17)
    """

    K: int
    nodes: int | None = None  # None: a chain, which has K

    @property
    def width(self) -> int:
        """How many tokens the target verifies at once: all nodes and the newest token."""
        return 1 + (self.K if self.nodes is None else self.nodes)

    def __str__(self) -> str:
        return f"{self.K}" if self.nodes is None else f"{self.K}, {self.nodes} nodes"


Maker = Callable[[Sampling, Size], Drafter]


@dataclass(frozen=True)
class Proposer:
    """``make`` gives a fresh drafter for (the target's sampling, the size of a round).

    ``nodes`` is how many a tree has where nobody says otherwise, None for a chain.
    """

    make: Maker
    nodes: int | None = None

    def size(self, K: int, nodes: int | None = None) -> Size:
        """The size of a round K deep; only where there is a budget of ``nodes`` can it change.

        >>> Proposer(None).size(4, 8), Proposer(None, nodes=24).size(4, 8)
        (Size(K=4, nodes=None), Size(K=4, nodes=8))
        """
        return Size(K) if self.nodes is None else Size(K, nodes or self.nodes)


def list_proposers(pair: Pair) -> dict[str, Proposer]:
    """The proposers of ``pair`` by name, from the oldest idea to the newest.

    EAGLE-2 is EAGLE-1's head with another shape of draft. Its trees, and EAGLE-3's, are
    chosen by confidence and not drawn, so the sampling does not enter into them.
    """
    found = {"draft model": Proposer(lambda sampling, _: SmallModelDrafter(pair.draft, sampling))}
    eagle1, eagle3 = (_find_or_none(pair, kind) for kind in HEADS)
    if eagle1:
        found["EAGLE-1 chain"] = Proposer(lambda sampling, _: EagleDrafter(eagle1, sampling))
        found["EAGLE-2 tree"] = Proposer(_plant(eagle1), NODES)
    if eagle3:
        found["EAGLE-3 chain"] = Proposer(lambda sampling, _: EagleDrafter(eagle3, sampling))
        found["EAGLE-3 tree"] = Proposer(_plant(eagle3), NODES)
    return found


def start_run(
    target, proposer: Proposer | None, size: Size | None, prompt: Sequence[int], *,
    tokens: int, sampling: Sampling, seed: int | Sequence[int],
) -> Run[Trace]:  # fmt: skip
    """A run of ``tokens`` tokens behind ``prompt`` that nobody has driven yet.

    ``seed`` makes its coins, so two runs of one proposer are the same. No proposer: plain.
    """
    return decode(
        target,
        proposer.make(sampling, size) if proposer else None,
        prompt,
        max_new_tokens=tokens,
        K=size.K if size else 0,
        sampling=sampling,
        coins=iter(np.random.default_rng(seed).random, None),
    )


def list_missing(pair: Pair) -> list[str]:
    """One sentence for each head that ``pair`` lacks, with the command that trains it."""
    missing = []
    for kind in HEADS:
        try:
            find_head(pair, kind)
        except FileNotFoundError as error:
            missing.append(str(error))
    return missing


def _plant(head) -> Maker:
    return lambda sampling, size: DynamicTreeDrafter(head, nodes=size.nodes)


def _find_or_none(pair: Pair, kind: str):
    try:
        return find_head(pair, kind)
    except FileNotFoundError:
        return None
