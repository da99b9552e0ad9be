"""EAGLE-2's trees for three prompts, recorded: lesson 06 plays them without a model.

A growth does not depend on the temperature, a shallower one is its beginning, and the node
budget is only a rerank. So one growth for each prompt and width, with what the target thinks
of every node, is enough to replay every K, budget and temperature exactly.
``python -m lessonlib.lab.recordings06`` records them again, after the weights changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lessonlib.drafting.dynamic_tree import Growth
from lessonlib.lab.kinds import CODE, PROSE
from lessonlib.lab.recordings import DATA
from lessonlib.theory.rejection import one_hot
from lessonlib.theory.treemask import find_depths, under_root
from lessonlib.theory.trees import CHOSEN, ROOT, Proposal
from lessonlib.theory.verify import verify

FILE = "lesson06_trees.json"
PROMPTS = {  # name: (text, where it is cut)
    "code, and the head is sure": (CODE, "if self._sock is not"),
    "code, and the head hesitates": (CODE, "while count > 0"),
    "a docstring": (PROSE, "If the file"),
}
WIDTHS = (2, 4, 8)
DEEPEST = 6
PROMPT_TOKENS, SHOWN = 160, 48  # tokens the models read, characters of them that are drawn
SEED = 1  # of the coins at T = 1


@dataclass(frozen=True)
class Judged:
    """The accepted nodes from the top down, and the target's own token that closes the round.

    ``closing`` is None for a token that was not recorded.
    """

    path: tuple[int, ...]
    closing: int | None


@dataclass(frozen=True)
class GrownTree:
    """One growth of n nodes at the largest depth, and the target's view of it.

    ``p[i]`` is the target's probability of node i's token after its path; ``top[i + 1]`` its
    likeliest token after node i and ``top_p[i + 1]`` that token's probability, 0 the root.
    """

    whole: Growth
    p: tuple[float, ...]
    top: tuple[int, ...]
    top_p: tuple[float, ...]

    def cut(self, K: int) -> Growth:
        """The same growth stopped at K levels, not reranked yet."""
        whole, depths = self.whole, find_depths(self.whole.parents)
        n = int((depths < K).sum())
        run = [node for node in whole.expanded if depths[node] < K - 1]
        return Growth(whole.tokens[:n], whole.parents[:n], whole.scores[:n], run)

    def reach(self, temperature: float) -> np.ndarray:
        """The chance (n,) that the target's own text runs through each node, at T = 0 or 1."""
        reached = self._chances(temperature)
        for node, parent in enumerate(self.whole.parents):
            reached[node] *= 1.0 if parent == ROOT else reached[parent]
        return reached

    def judge(self, growth: Growth, temperature: float) -> Judged:
        """The verdict on the nodes that ``growth`` kept, with the coins of SEED."""
        words = sorted({*self.whole.tokens, *self.top})
        place = {token: i for i, token in enumerate(words)}
        parents = {ROOT: ROOT, **{node: i for i, node in enumerate(growth.kept)}}
        proposal = Proposal(
            tuple(place[growth.tokens[node]] for node in growth.kept),
            tuple(parents[growth.parents[node]] for node in growth.kept),
            (CHOSEN,) * len(growth.kept),
        )
        rows = [self._row(node, temperature, place) for node in (ROOT, *growth.kept)]
        verdict = verify(proposal, rows, iter(np.random.default_rng(SEED).random, None))
        closing = words[verdict.token] if verdict.token < len(words) else None
        return Judged(tuple(growth.kept[i] for i in verdict.path), closing)

    def _chances(self, temperature: float) -> np.ndarray:
        if temperature not in (0, 1):
            raise ValueError(f"temperature is {temperature}: use 0 or 1, which are recorded")
        if temperature == 1:
            return np.array(self.p)
        pairs = zip(self.whole.tokens, self.whole.parents, strict=True)
        return np.array([float(self.top[parent + 1] == token) for token, parent in pairs])

    def _row(self, node: int, temperature: float, place: dict[int, int]) -> np.ndarray:
        """The target's row after ``node`` over the recorded tokens; what is left comes last."""
        likeliest = place[self.top[node + 1]]
        if temperature == 0:
            return one_hot(likeliest, len(place) + 1)
        row = np.zeros(len(place) + 1)
        row[likeliest] = self.top_p[node + 1]
        for child, parent in enumerate(self.whole.parents):
            if parent == node:
                row[place[self.whole.tokens[child]]] = self.p[child]
        row[-1] = max(0.0, 1.0 - row.sum())
        return row / row.sum()


@dataclass(frozen=True)
class Recording:
    """``trees[name, top_k]`` for each prompt, the end of each text, and every token's words."""

    texts: dict[str, str]
    trees: dict[tuple[str, int], GrownTree]
    pieces: dict[int, str]


@cache
def load_trees() -> Recording:
    """The recorded trees; imports no torch.

    >>> len(load_trees().trees[next(iter(PROMPTS)), 2].whole.tokens)  # 2, then 4 a level
    22
    """
    found = json.loads((DATA / FILE).read_text(encoding="ascii"))
    trees = {(row["name"], row["top_k"]): _read_tree(row) for row in found["trees"]}
    pieces = {int(token): piece for token, piece in found["pieces"].items()}
    return Recording(found["texts"], trees, pieces)


def _read_tree(row: dict) -> GrownTree:
    whole = Growth(row["tokens"], row["parents"], row["scores"], row["expanded"])
    return GrownTree(whole, *(tuple(row[name]) for name in ("p", "top", "top_p")))


def record(folder: Path = DATA) -> None:
    """Grow the trees with the bundled EAGLE-1 head, in float64, and write them into ``folder``."""
    from lessonlib.lab.heads import find_head
    from lessonlib.lab.pairs import load_pair

    pair = load_pair("bundled", dtype="float64")
    head = find_head(pair, "eagle1")
    texts, trees, pieces = {}, [], {}
    for name, (text, end) in PROMPTS.items():
        text = text[: text.index(end) + len(end)]
        texts[name] = text[-SHOWN:]
        for top_k in WIDTHS:
            tree = grow(pair.target, head, pair.encode(text)[-PROMPT_TOKENS:], top_k)
            trees.append({"name": name, "top_k": top_k, **tree})
            pieces.update({t: pair.decode([t]) for t in (*tree["tokens"], *tree["top"])})
    found = {"texts": texts, "trees": trees, "pieces": dict(sorted(pieces.items()))}
    text = json.dumps(found, separators=(",", ":"))
    (folder / FILE).write_text(text + "\n", encoding="ascii")


def grow(target, head, tokens: list[int], top_k: int) -> dict:
    """One growth behind ``tokens`` and the target's one forward over all of it, as plain data."""
    from lessonlib.decoding.steps import run_alone
    from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter

    drafter, rows = DynamicTreeDrafter(head, top_k=top_k), target.new_cache()
    drafter.settle(tokens, target.forward(tokens[:-1], rows))
    run_alone(drafter.propose(tokens, DEEPEST, iter(())))
    growth = drafter.growth
    logits = target.forward([tokens[-1], *growth.tokens], rows, under_root(growth.parents))
    logits = logits.logit_rows()
    p_rows = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    above = np.array(growth.parents) + 1
    return {
        "tokens": growth.tokens,
        "parents": growth.parents,
        "scores": np.round(growth.scores, 5).tolist(),
        "expanded": growth.expanded,
        "p": p_rows[above, growth.tokens].round(6).tolist(),
        "top": p_rows.argmax(1).tolist(),
        "top_p": p_rows.max(1).round(6).tolist(),
    }


if __name__ == "__main__":
    record()
