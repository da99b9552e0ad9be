"""The geometry of a token tree: depths, positions, paths, and who may look at whom.

A worked example. Three tokens are cached, and five nodes hang below them:

    t t t ─┬─ 0 ─┬─ 2        parents    (-1, -1, 0, 0, 1)
           │     └─ 3        depths     ( 0,  0, 1, 1, 1)
           └─ 1 ─── 4        positions  ( 3,  3, 4, 4, 4)

A node attends to all of the prefix, to its ancestors and to itself. To it, its text is
one chain; siblings share a position because each is *the* next token of its own text:

             t t t | 0 1 2 3 4
        0    1 1 1 | 1 . . . .
        1    1 1 1 | . 1 . . .
        2    1 1 1 | 1 . 1 . .
        3    1 1 1 | 1 . . 1 .
        4    1 1 1 | . 1 . . 1

Source: SpecInfer, Miao et al. 2023 (arXiv 2305.09781), section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lessonlib.theory.trees import ROOT, check_parents


def grow_tree(branching: Sequence[int]) -> tuple[int, ...]:
    """Parents of the full tree in which each node of depth d has ``branching[d + 1]`` children.

    The root has ``branching[0]``. Nodes are numbered depth by depth. Raises ValueError
    for a number below 1.

    >>> grow_tree([2, 2])
    (-1, -1, 0, 0, 1, 1)
    """
    parents: list[int] = []
    level = [ROOT]
    for children in branching:
        if children < 1:
            raise ValueError(f"branching holds {children}: use 1 or more at each depth")
        start = len(parents)
        parents += [node for node in level for _ in range(children)]
        level = list(range(start, len(parents)))
    return tuple(parents)


def under_root(parents: Sequence[int]) -> tuple[int, ...]:
    """The same tree with the root as its node 0, as it is run: root first, then the nodes.

    >>> under_root([-1, -1, 0])
    (-1, 0, 0, 1)
    """
    return (ROOT, *(parent + 1 for parent in parents))


def find_depths(parents: Sequence[int]) -> np.ndarray:
    """Depth (n,) of each node: 0 right below the root, else one more than its parent.

    >>> find_depths([-1, -1, 0, 0, 1]).tolist()
    [0, 0, 1, 1, 1]
    """
    check_parents(parents)
    depths = np.zeros(len(parents), dtype=np.int64)
    for node, parent in enumerate(parents):
        if parent != ROOT:
            depths[node] = depths[parent] + 1
    return depths


def find_positions(parents: Sequence[int], prefix: int) -> np.ndarray:
    """Position (n,) of each node in its own text, behind ``prefix`` tokens: prefix + depth.

    >>> find_positions([-1, -1, 0, 0, 1], prefix=3).tolist()
    [3, 3, 4, 4, 4]
    """
    _check_prefix(prefix)
    return prefix + find_depths(parents)


def build_mask(parents: Sequence[int], prefix: int) -> np.ndarray:
    """Who may look at whom, bool (n, prefix + n): ``[ones over prefix | ancestor or self]``.

    Row i is node i as the one that looks. Raises ValueError for a parent that does not
    come before its child, and for a negative prefix.

    >>> build_mask([-1, -1, 0], prefix=1).astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 1, 0],
           [1, 1, 0, 1]])
    """
    check_parents(parents)
    _check_prefix(prefix)
    mask = np.zeros((len(parents), prefix + len(parents)), dtype=bool)
    mask[:, :prefix] = True
    for node, parent in enumerate(parents):
        if parent != ROOT:
            mask[node] = mask[parent]  # complete already: parents come first
        mask[node, prefix + node] = True
    return mask


def trace_path(parents: Sequence[int], node: int) -> tuple[int, ...]:
    """The nodes from the root down to ``node``, both ends of the path below ROOT included.

    >>> trace_path([-1, -1, 0, 0, 1], 4)
    (1, 4)
    """
    path = []
    while node != ROOT:
        path.append(node)
        node = parents[node]
    return tuple(reversed(path))


def list_paths(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """All root-to-leaf paths, in the order of their leaves.

    >>> list_paths([-1, -1, 0, 0, 1])
    [(0, 2), (0, 3), (1, 4)]
    """
    check_parents(parents)
    inner = set(parents)
    return [trace_path(parents, node) for node in range(len(parents)) if node not in inner]


def match_path(
    parents: Sequence[int], tokens: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...]:
    """The longest path whose tokens are a beginning of ``wanted``.

    Twins (siblings with one token) are told apart by nothing but their children, so both
    are followed.

    >>> match_path([-1, -1, 1], tokens=[7, 7, 8], wanted=[7, 8, 9])
    (1, 2)
    """
    depths, deepest, matched = find_depths(parents), ROOT, {ROOT}
    for node, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
        depth = depths[node]
        if parent in matched and depth < len(wanted) and token == wanted[depth]:
            matched.add(node)
            if deepest == ROOT or depth > depths[deepest]:
                deepest = node
    return trace_path(parents, deepest)


def expected_tokens(rates: Sequence[float]) -> float:
    """Tokens per target forward if depth d, once reached, passes with probability ``rates[d]``.

    One for the token that closes the round, and one for each depth that is passed.

    >>> expected_tokens([0.5, 0.5])
    1.75
    """
    return 1.0 + float(np.cumprod(np.asarray(rates, dtype=float)).sum())


def _check_prefix(prefix: int) -> None:
    if prefix < 0:
        raise ValueError(f"prefix is {prefix}: it counts the tokens before the tree, 0 or more")
