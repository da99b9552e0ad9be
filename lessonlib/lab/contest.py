"""The proposers that compete at a temperature, each made fresh for one run.

A new proposer is one line in `list_contestants`: a name, and how to make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from lessonlib.decoding.loop import Drafter, decode
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run
from lessonlib.decoding.trace import Trace
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.drafting.gated import ForgetfulDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.drafting.tree import TreeDrafter
from lessonlib.lab.heads import find_head
from lessonlib.lab.proposers import PLAIN

RANKED = Sampling(1.0)  # a top-k choice reads the order of q only, so any T will do
WIDE = 2  # how many levels of the small draft's tree have two guesses for each node
NODES = 6  # of EAGLE's tree: a small target makes every verified node dear

Maker = Callable[[Sampling, int], Drafter]


def list_contestants(pair) -> dict[str, Maker]:
    """Proposers by name; each makes a fresh drafter for (the target's sampling, depth K).

    Those of EAGLE-3 are there if the pair has such a head: one head, chosen from or drawn from.
    """
    draft = pair.draft
    found = {
        "sampled, shared T": lambda sampling, K: SmallModelDrafter(draft, sampling),
        "greedy draft": lambda sampling, K: TreeDrafter(draft, RANKED, [1] * K, "top-k"),
        "exact match": lambda sampling, K: ForgetfulDrafter(SmallModelDrafter(draft, sampling)),
        "draft left at T = 1": lambda sampling, K: SmallModelDrafter(draft, Sampling(1.0)),
        "top-k tree": lambda sampling, K: TreeDrafter(draft, RANKED, shape_tree(K), "top-k"),
    }
    with suppress(FileNotFoundError):
        head = find_head(pair, "eagle3")
        found["EAGLE-3 tree"] = lambda sampling, K: DynamicTreeDrafter(head, top_k=2, nodes=NODES)
        found["EAGLE-3, drawn"] = lambda sampling, K: EagleDrafter(head, sampling)
    return found


def shape_tree(K: int) -> list[int]:
    """Two guesses for each node of the first levels, then one.

    >>> shape_tree(1), shape_tree(4)
    ([2], [2, 2, 1, 1])
    """
    return [2] * min(K, WIDE) + [1] * max(K - WIDE, 0)


def make_entrants(
    pair, contestants: Mapping[str, Maker], prompt: Sequence[int], temperature: float, K: int,
    tokens: int, seeds: Sequence[int],
) -> dict[str, Callable[[], list[Run[Trace]]]]:  # fmt: skip
    """Plain decoding and every contestant, as ``race.race`` wants them.

    Each decodes ``tokens`` tokens behind ``prompt`` once for each seed.
    """
    sampling = Sampling(temperature)

    def entrant(make: Maker | None) -> Callable[[], list[Run[Trace]]]:
        return lambda: [
            decode(
                pair.target,
                make(sampling, K) if make else None,
                prompt,
                max_new_tokens=tokens,
                K=K,
                sampling=sampling,
                coins=iter(np.random.default_rng(seed).random, None),
            )
            for seed in seeds
        ]

    return {PLAIN: entrant(None), **{name: entrant(make) for name, make in contestants.items()}}
