"""Checks of exercise 6.3: a tree that grows where the head is confident, and is cut to its best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from lessonlib.drafting.dynamic_tree import Growth
from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.named_mistakes import Slips, name_slip
from lessonlib.theory.toys import random_rows
from lessonlib.theory.treemask import trace_path
from lessonlib.theory.trees import ROOT

Path = tuple[int, ...]
Row = Callable[[Path], np.ndarray]
# (vocabulary, seed, depth, top_k, nodes), found by search: they tell the slips below apart.
_TREES = [
    (5, 174, 3, 2, 6),
    (6, 197, 4, 2, 12),
    (5, 187, 5, 3, 18),
    (6, 176, 4, 3, 12),
    (8, 184, 3, 4, 16),
]
_TIE = "a certain head (q = 1) makes a child tie with its parent: the tie goes to the parent"


def grow_tree(q_of: Row, depth: int, top_k: int, nodes: int) -> tuple[list[int], list[int]]:
    """The reference: (tokens, parents) of the reranked tree, the most confident first."""
    proposal = _grow(q_of, depth, top_k).rerank(nodes)
    return list(proposal.tokens), list(proposal.parents)


def _grow(q_of: Row, depth: int, top_k: int) -> Growth:
    growth, level = Growth(), [ROOT]
    for step in range(depth):
        rows = np.array([q_of(path_of(growth.tokens, growth.parents, node)) for node in level])
        tokens = np.argsort(-rows, axis=1, kind="stable")[:, :top_k]
        with np.errstate(divide="ignore"):
            growth.add_level(level, tokens, np.log(np.take_along_axis(rows, tokens, axis=1)))
        if step + 1 < depth:
            level = growth.expand(top_k)
    return growth


def path_of(tokens, parents, node: int) -> Path:
    """The tokens from the text down to ``node``; none for ROOT."""
    return () if node == ROOT else tuple(tokens[i] for i in trace_path(parents, node))


# Plausible wrong ways to grow it, by the paths they keep


def slip(
    *,
    score: Callable = lambda above, q: above * q,
    expand: Callable = lambda node, whole: node[1],
    level_of: Callable = lambda newest, proposed: newest,
    width: Callable = lambda top_k, level: top_k,
    kept: Callable = lambda proposed, newest, expanded: proposed,
    rank: Callable = lambda node: -node[1],
) -> Callable:
    """The right way with some of its parts swapped; a node is (path, confidence, own q)."""

    def grow(q_of: Row, depth: int, top_k: int, nodes: int) -> frozenset[Path]:
        proposed, level, expanded = [], [((), 1.0, 1.0)], []
        for step in range(depth):
            newest = []
            for path, confidence, _ in level:
                q = q_of(path)
                best = np.argsort(-q, kind="stable")[:top_k].tolist()
                newest += [((*path, x), score(confidence, q[x]), q[x]) for x in best]
            proposed += newest
            if step + 1 < depth:
                pool = [n for n in level_of(newest, proposed) if n not in expanded]
                pool.sort(key=lambda node: -expand(node, proposed))
                level = pool[: width(top_k, pool)]
                expanded += level
        return frozenset(n[0] for n in sorted(kept(proposed, newest, expanded), key=rank)[:nodes])

    return grow


WRONG_TREES: Slips = (
    (
        "only expanded nodes and the last level are ranked: one that was passed over counts too",
        slip(kept=lambda proposed, newest, expanded: expanded + newest),
    ),
    (
        "every node is expanded: at each depth only the top_k most confident get children",
        slip(width=lambda top_k, level: len(level)),
    ),
    (
        "nodes are expanded by their own q: compare the products along their paths",
        slip(expand=lambda node, whole: node[2]),
    ),
    (
        "the first nodes proposed are kept: keep the most confident of all",
        slip(rank=lambda node: 0),
    ),
    (
        "only the best node of each depth is expanded: expand top_k of them",
        slip(width=lambda top_k, level: 1),
    ),
    (
        "the first nodes of a level are expanded: take its most confident ones",
        slip(expand=lambda node, whole: 0),
    ),
    (
        "nodes of earlier depths are expanded: only the deepest level grows",
        slip(level_of=lambda newest, proposed: proposed),
    ),
)


def _read_tree(answer, q_of: Row, depth: int, top_k: int, nodes: int) -> frozenset[Path]:
    """The paths of the learner's tree, which must be one."""
    tokens, parents = inputs.as_tuple(answer(q_of, depth, top_k, nodes), "what you return", 2)
    tokens = inputs.as_tokens(tokens, "your tokens")
    if not isinstance(parents, list | tuple) and getattr(parents, "ndim", None) != 1:
        raise Wrong("your parents are no list: give one number for each kept node")
    parents = [inputs.as_int(parent, "a parent", low=ROOT) for parent in parents]
    if len(tokens) != len(parents):
        raise Wrong(f"you return {len(tokens)} tokens, but {len(parents)} parents")
    for node, parent in enumerate(parents):
        if parent >= len(parents):
            raise Wrong(
                f"parents[{node}] is {parent}, but {len(parents)} nodes are kept: number the kept "
                "nodes anew, from 0"
            )
        if parent >= node:
            raise Wrong(f"parents[{node}] is {parent}: a parent comes before its children")
    paths = [path_of(tokens, parents, node) for node in range(len(tokens))]
    if len(set(paths)) < len(paths):
        raise Wrong(f"the path {_twice(paths)} is in the tree twice")
    return frozenset(paths)


def _twice(paths: list[Path]) -> list[int]:
    return list(next(path for path in paths if paths.count(path) > 1))


def _list_trees():
    for vocab, seed, *shape in _TREES:
        yield random_rows(vocab, seed), *shape


def _wanted(*tree) -> frozenset[Path]:
    tokens, parents = grow_tree(*tree)
    return frozenset(path_of(tokens, parents, node) for node in range(len(tokens)))


def _check_numbers(answer, trees) -> None:
    """The right tree, but parents are counted among all proposed nodes: it needs its own words."""
    for q_of, depth, top_k, nodes in trees:
        growth, given = _grow(q_of, depth, top_k), answer(q_of, depth, top_k, nodes)
        growth.rerank(nodes)
        proposed = [growth.parents[node] for node in growth.kept]
        if not (isinstance(given, list | tuple) and len(given) == 2):
            return
        if not np.array_equal(given[1], proposed):
            return
    raise Wrong("your parents count all proposed nodes: number the kept nodes anew, from 0")


def check_trees(answer) -> None:
    trees = list(_list_trees())
    _check_numbers(answer, trees)
    yours, wanted = [_read_tree(answer, *t) for t in trees], [_wanted(*t) for t in trees]
    if yours != wanted:
        name_slip(yours, trees, WRONG_TREES, frozenset.__eq__)
    for mine, right, (_, depth, top_k, nodes) in zip(yours, wanted, trees, strict=True):
        where = f"for depth {depth}, top_k {top_k}, nodes {nodes}"
        if len(mine) != len(right):
            raise Wrong(f"{where} you keep {len(mine)} nodes, wanted {len(right)}")
        if mine != right:
            raise Wrong(
                f"{where} the path {list(min(right - mine))} is not kept, but the path "
                f"{list(min(mine - right))} is"
            )


def check_ties(answer) -> None:
    """A head that is certain: child and parent tie, and the parent must be kept first."""

    def certain(path: Path) -> np.ndarray:
        return np.eye(4)[(len(path) + 1) % 4]

    for nodes in (1, 2, 3):
        tree = certain, 3, 1, nodes
        try:
            yours = _read_tree(answer, *tree)
        except NotImplementedError:
            raise
        except Exception as error:  # typically KeyError: the parent was not kept
            reason = str(error) if isinstance(error, Wrong) else type(error).__name__
            raise Wrong(f"{_TIE} ({reason})") from None
        if yours != _wanted(*tree):
            raise Wrong(f"{_TIE} (of {nodes} nodes you keep {sorted(map(list, yours))})")


def check_small_trees(answer) -> None:
    """One level; more nodes asked for than were proposed."""
    for depth, top_k, nodes in ((1, 3, 2), (2, 2, 99)):
        tree = random_rows(4, 11), depth, top_k, nodes
        mine, right = _read_tree(answer, *tree), _wanted(*tree)
        if mine != right:
            raise Wrong(
                f"for depth {depth}, top_k {top_k}, nodes {nodes} and 4 tokens you keep "
                f"{sorted(map(list, mine))}, wanted {sorted(map(list, right))}"
            )


def check_forwards(answer) -> None:
    """The head runs once behind the text and on each expanded node: that is what a tree costs."""
    for q_of, depth, top_k, nodes in _list_trees():
        watched, allowed = _watch(q_of)
        grow_tree(watched, depth, top_k, nodes)
        watched, asked = _watch(q_of)
        _read_tree(answer, watched, depth, top_k, nodes)
        if any(len(path) == depth for path in asked):
            raise Wrong(f"for depth {depth} the head is run on the deepest nodes, to no use")
        if set(asked) - set(allowed):
            raise Wrong(
                f"for depth {depth}, top_k {top_k} the head is run on {len(asked) - 1} nodes: only "
                f"the {len(allowed) - 1} expanded ones need it"
            )
        path, times = max(asked.items(), key=lambda item: item[1])
        if times > 1:
            where = f"path {list(path)}" if path else "text"
            raise Wrong(f"the head is run on the {where} {times} times: run it once, keep the row")


def _watch(q_of: Row) -> tuple[Row, Counter[Path]]:
    """The same head, and how often it was run on each path."""
    seen: Counter[Path] = Counter()

    def watched(path: Path) -> np.ndarray:
        seen[tuple(map(int, path))] += 1
        return q_of(path)

    return watched, seen
