"""The proposers that compete at a temperature: one for each way to draft, and to lose.

A new contestant is one line in `list_contestants`.
"""

from __future__ import annotations

from dataclasses import replace

from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.gated import RowlessDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.drafting.tree import TreeDrafter
from lessonlib.lab.proposers import Proposer, list_proposers

RANKED = Sampling(1.0)  # a top-k choice reads the order of q only, so any T will do
WIDE = 2  # how many levels of the small draft's tree have two guesses for each node
NODES = 6  # of EAGLE's tree: a small target makes every verified node dear


def list_contestants(pair) -> dict[str, Proposer]:
    """Proposers by name. EAGLE-3's are there if the pair has such a head: one head, two ways."""
    draft, known = pair.draft, list_proposers(pair)
    found = {
        "sampled, shared T": known["draft model"],
        "greedy draft": Proposer(lambda _, size: TreeDrafter(draft, RANKED, [1] * size.K, "top-k")),
        "exact match": Proposer(lambda T, _: RowlessDrafter(SmallModelDrafter(draft, T))),
        "draft left at T = 1": Proposer(lambda *_: SmallModelDrafter(draft, Sampling(1.0))),
        "top-k tree": Proposer(
            lambda _, size: TreeDrafter(draft, RANKED, shape_tree(size.K), "top-k")
        ),
    }
    if "EAGLE-3 tree" in known:
        found["EAGLE-3 tree"] = replace(known["EAGLE-3 tree"], nodes=NODES)
        found["EAGLE-3, drawn"] = known["EAGLE-3 chain"]
    return found


def shape_tree(K: int) -> list[int]:
    """Two guesses for each node of the first levels, then one.

    >>> shape_tree(1), shape_tree(4)
    ([2], [2, 2, 1, 1])
    """
    return [2] * min(K, WIDE) + [1] * max(K - WIDE, 0)
