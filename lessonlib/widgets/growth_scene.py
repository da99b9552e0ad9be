"""A grown tree with its verdict, and the words that go with each moment of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lessonlib.drafting.dynamic_tree import Growth
from lessonlib.lab.recordings06 import Judged
from lessonlib.theory.treemask import find_depths
from lessonlib.widgets import svg


@dataclass(frozen=True)
class Scene:
    """A reranked growth with the words and places of its drawn nodes, and what was judged.

    ``wide`` nodes were run on each level; ``temperature`` is the verdict's.
    """

    growth: Growth
    judged: Judged
    pieces: Mapping[int, str]
    text: str
    wide: int
    temperature: float
    places: Mapping[int, tuple[float, float]]

    @property
    def depth(self) -> int:
        return int(find_depths(self.growth.parents).max()) + 1

    def word(self, node: int) -> str:
        return svg.show_token(self.pieces[self.growth.tokens[node]])


def say_level(scene: Scene, level: int) -> tuple[str, str]:
    growth, depths = scene.growth, find_depths(scene.growth.parents).tolist()
    new = [node for node, depth in enumerate(depths) if depth == level]
    run = [node for node in growth.expanded if depths[node] == level]
    above = [node for node in growth.expanded if depths[node] == level - 1]
    title = f"Level {level + 1} of {scene.depth}: "
    if not above:
        says = f"The head reads the text and proposes its {len(new)} likeliest next tokens."
    else:
        says = (
            f"The head runs {len(above)} nodes in one forward and proposes {scene.wide} tokens "
            f"below each: {len(new)}."
        )
    if not run:
        return title + "the last", f"{says} K allows no deeper level, so none of them is run."
    first, last = (say_percent(growth.scores[node]) for node in (run[0], run[-1]))
    return title + "propose, then choose what to run", (
        f"{says} The {len(run)} it trusts most are run next, confidence {first}% to {last}%."
    )


def say_rerank(scene: Scene, level: int) -> tuple[str, str]:
    growth = scene.growth
    kept, run = set(growth.kept), set(growth.expanded)
    title = f"Rerank: the {len(kept)} best of {len(growth.tokens)} proposals, of all levels"
    return title, (
        f"{len(run - kept)} of the {len(run)} nodes that were run are dropped, and "
        f"{len(kept - run)} that were never run are kept. The target will see {len(kept)} nodes."
    )


def say_verdict(scene: Scene, level: int) -> tuple[str, str]:
    count, T = len(scene.judged.path), scene.temperature
    how = "it follows its own likeliest token" if T == 0 else "it tosses a coin at each sibling"
    own = f"“{name_closing(scene)}”" if name_closing(scene) else "another token"
    title = f"Verdict at T = {T:g}: {count} accepted, and one of the target's own"
    return title, (
        f"The target runs the {len(scene.growth.kept)} nodes in one forward; at T = {T:g} {how}. "
        f"{count} accepted, then {own}: {count + 1} token{'s' * (count > 0)}."
    )


def name_closing(scene: Scene) -> str:
    """The words of the token that closes the round, or none if it was not recorded."""
    token = scene.judged.closing
    return "" if token is None else svg.show_token(scene.pieces[token])


def say_percent(score: float) -> str:
    """A confidence, given as its log, in percent."""
    share = 100 * math.exp(score)
    return "<1" if share < 0.5 else f"{share:.0f}"


def describe(scene: Scene, expected: Sequence[float]) -> str:
    """One line: how many are kept, and tokens a round as the head and the target expect them."""
    head, target = expected
    counts = f"{len(scene.growth.kept)} of {len(scene.growth.tokens)} kept"
    mean = f"expected tokens: head {head:.2f}, target {target:.2f}"
    return f"{counts}  ·  {mean}  ·  this round {len(scene.judged.path) + 1}"
