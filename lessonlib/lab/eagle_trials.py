"""What EAGLE's trees do on real prompts: counted, not timed, so any machine will do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import Drafter, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run
from lessonlib.decoding.taps import take_taps
from lessonlib.decoding.trace import Trace
from lessonlib.drafting.dynamic_tree import Growth
from lessonlib.drafting.eagle import EagleHead, EagleStep
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter
from lessonlib.theory.trees import ROOT, Proposal

LEAST = 1e-3  # a rate of 0 would keep a rank out of every static tree


def decode_all(
    target: GPT2,
    make_drafter: Callable[[Sampling], Drafter],
    prompts: Sequence[Sequence[int]],
    temperature: float,
    *,
    K: int,
    tokens: int,
) -> tuple[list[Trace], list[Drafter]]:
    """All prompts in one batch, each with coins and a drafter of its own: both come back."""
    sampling, rows = Sampling(temperature), range(len(prompts))
    drafters = [make_drafter(sampling) for _ in rows]
    traces = generate_batch(
        target,
        drafters,
        prompts,
        coins=[iter(np.random.default_rng(row).random, None) for row in rows],
        max_new_tokens=tokens,
        K=K,
        sampling=sampling,
    )
    return traces, drafters


class WatchedTree:
    """A tree drafter that remembers how each of its trees grew."""

    def __init__(self, drafter: DynamicTreeDrafter):
        self.drafter, self.vocab_size = drafter, drafter.vocab_size
        self.grown: list[Growth] = []

    @property
    def rows(self) -> int:
        return self.drafter.rows

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """The drafter's own proposal."""
        proposal = yield from self.drafter.propose(text, K, coins)
        self.grown.append(self.drafter.growth)
        return proposal

    def settle(self, text: Sequence[int], seen) -> None:
        self.drafter.settle(text, seen)


@dataclass(frozen=True)
class Nodes:
    """Every verified node of some runs, an array (n,) each.

    ``accepted``: the whole path to it was. ``first``: every step of that path was the head's
    first guess.
    """

    confidence: np.ndarray
    accepted: np.ndarray
    first: np.ndarray


def list_nodes(traces: Sequence[Trace], watched: Sequence[WatchedTree]) -> Nodes:
    """The nodes of all rounds of all runs, each with the tree that it was kept from."""
    confidence, accepted, first = [], [], []
    for trace, tree in zip(traces, watched, strict=True):
        rounds = [round for round in trace.rounds if round.drafted]
        for round, growth in zip(rounds, (g for g in tree.grown if g.kept), strict=True):
            kept = growth.kept[: len(round.drafted)]  # the target's context may cut a tree
            passed = {test.node for test in round.tests if test.accepted}
            guesses = _find_first_guesses(growth)
            confidence += np.exp([growth.scores[node] for node in kept]).tolist()
            accepted += [place in passed for place in range(len(kept))]
            first += [node in guesses for node in kept]
    return Nodes(np.array(confidence), np.array(accepted, bool), np.array(first, bool))


def _find_first_guesses(growth: Growth) -> set[int]:
    """The nodes that are their parent's likeliest child, as are all nodes above them."""
    found, seen = {ROOT}, set()
    for node, parent in enumerate(growth.parents):  # children come likeliest first
        if parent in found and parent not in seen:
            found.add(node)
        seen.add(parent)
    return found


def measure_tau(traces: Sequence[Trace]) -> tuple[float, float]:
    """(τ, its standard error over the rounds): tokens per target forward of several runs."""
    emitted = [len(round.emitted) for trace in traces for round in trace.rounds]
    return float(np.mean(emitted)), float(np.std(emitted) / len(emitted) ** 0.5)


def compare_tau(old: Sequence[Trace], new: Sequence[Trace]) -> tuple[float, float]:
    """(what ``new`` gains in τ over ``old``, its standard error), from run to run of one prompt.

    Prompts differ more than proposers do: a difference taken within each prompt is free of that.
    """
    gains = [b.tau - a.tau for a, b in zip(old, new, strict=True)]
    return float(np.mean(gains)), float(np.std(gains, ddof=1) / len(gains) ** 0.5)


@dataclass(frozen=True)
class Bin:
    """Nodes of similar confidence: how many, their mean confidence, the share accepted."""

    count: int
    confidence: float
    accepted: float


def sort_by_confidence(
    confidence: np.ndarray, accepted: np.ndarray, edges: Sequence[float]
) -> list[Bin]:
    """One Bin for each pair of neighbouring ``edges`` that has a node, low ones first.

    >>> sort_by_confidence(np.array([0.1, 0.7, 0.9]), np.array([False, True, False]), [0, 0.5, 1])
    [Bin(count=1, confidence=0.1, accepted=0.0), Bin(count=2, confidence=0.8, accepted=0.5)]
    """
    place = np.searchsorted(edges, confidence, side="right")
    return [
        Bin(int(here.sum()), float(confidence[here].mean()), float(accepted[here].mean()))
        for here in (place == i for i in np.unique(place))
    ]


def run_along(head: EagleHead, target: GPT2, text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, V) of target and head, row by row for the same place of ``text`` (n + 1,).

    Row t is about token t + 2: the head was given the features at t and token t + 1.
    """
    output = target.forward(list(text), target.new_cache())
    step = EagleStep(head, list(text[1:]), head.new_cache(), features=take_taps(output)[:-1])
    return output.logit_rows()[1:], head.forward_rows([step])[0].logit_rows()


def measure_ranks(
    head: EagleHead, target: GPT2, texts: Sequence[Sequence[int]], top_k: int
) -> np.ndarray:
    """How often the i-th best guess of the head is the target's favourite, (top_k,)."""
    hits = []
    for text in texts:
        wanted, given = run_along(head, target, text)
        best = np.argsort(-given, axis=1, kind="stable")[:, :top_k]
        hits.append(best == wanted.argmax(axis=1)[:, None])
    return np.maximum(np.concatenate(hits).mean(axis=0), LEAST)
