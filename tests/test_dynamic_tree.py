"""EAGLE-2's expand and rerank against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.drafting.dynamic_tree import Growth, pick_best
from lessonlib.theory.trees import CHOSEN, ROOT

# Few different confidences, 1 among them: ties between parents and children all the time.
CONFIDENCES = st.sampled_from([1.0, 0.5, 0.25, 0.9, 1e-30, 0.0])


@st.composite
def grown(draw, most=9):
    """A random growth: a tree of random shape, each child below its parent by its own factor."""
    growth = Growth()
    for node in range(draw(st.integers(1, most))):
        parent = draw(st.integers(ROOT, node - 1))
        with np.errstate(divide="ignore"):
            log = np.log(draw(CONFIDENCES))
        growth.add_level([parent], np.array([[node + 100]]), np.array([[log]]))
    return growth


def is_tree(nodes, parents):
    return all(parents[node] == ROOT or parents[node] in nodes for node in nodes)


@settings(deadline=None)
@given(grown(), st.integers(1, 10))
def test_the_best_nodes_are_a_tree_and_no_tree_is_better(growth, nodes):
    proposal = growth.rerank(nodes)
    kept, parents = growth.kept, growth.parents
    assert is_tree(set(kept), parents)
    size = min(nodes, len(parents))
    assert len(kept) == len(set(kept)) == size
    confidence = np.exp(growth.scores)
    best = max(
        confidence[list(some)].sum()
        for some in combinations(range(len(parents)), size)
        if is_tree(set(some), parents)
    )
    assert confidence[kept].sum() == pytest.approx(best, abs=1e-15)
    # The proposal is those nodes, renumbered: same tokens, same parents.
    assert [token - 100 for token in proposal.tokens] == kept
    assert [p if p == ROOT else kept[p] for p in proposal.parents] == [parents[n] for n in kept]
    assert set(proposal.q) == {CHOSEN}


@settings(deadline=None)
@given(grown())
def test_a_smaller_tree_is_the_beginning_of_a_larger_one(growth):
    whole = growth.rerank(len(growth.tokens))
    for nodes in range(len(growth.tokens)):
        assert growth.rerank(nodes) == whole.first(nodes)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4), st.integers(1, 12))
def test_expand_and_rerank_equal_a_search_through_all_paths(seed, top_k, depth, nodes):
    # A head whose row depends on the path; brute force scores each path by hand.
    vocab, growth, level = 5, Growth(), [ROOT]

    def row(path):
        return np.log(np.random.default_rng([seed, *path]).dirichlet(np.ones(vocab)))

    def path_of(node):
        parent = growth.parents[node] if node != ROOT else None
        return () if node == ROOT else (*path_of(parent), growth.tokens[node])

    frontier, candidates = [()], {}
    for d in range(depth):
        rows = np.array([row(path_of(node)) for node in level])
        tokens = np.argsort(-rows, axis=1)[:, :top_k]
        growth.add_level(level, tokens, np.take_along_axis(rows, tokens, 1))
        if d + 1 < depth:
            level = growth.expand(top_k)
        new = {}
        for path in frontier:
            for x in np.argsort(-row(path))[:top_k]:
                new[(*path, int(x))] = candidates.get(path, 0.0) + row(path)[x]
        candidates |= new
        frontier = sorted(new, key=new.get, reverse=True)[:top_k]
    growth.rerank(nodes)
    wanted = sorted(candidates, key=candidates.get, reverse=True)[:nodes]
    assert [path_of(node) for node in growth.kept] == wanted
    assert len(growth.expanded) == sum(min(top_k, top_k ** min(d, 2)) for d in range(1, depth))


def test_a_shallow_node_that_was_passed_over_can_come_back():
    growth = Growth()
    growth.add_level([ROOT], np.array([[1, 2]]), np.log([[0.6, 0.4]]))
    assert growth.expand(1) == [0]
    growth.add_level([0], np.array([[3, 4]]), np.log([[0.5, 0.5]]))
    proposal = growth.rerank(2)
    assert (growth.kept, proposal.tokens, proposal.parents) == ([0, 1], (1, 2), (ROOT, ROOT))
    assert growth.expanded_parents() == [ROOT]


def test_ties_and_rounding_never_lift_a_child_over_its_parent():
    growth = Growth()
    growth.add_level([ROOT], np.array([[1, 2]]), np.array([[-1.0, -1.0]]))
    growth.add_level([1], np.array([[3]]), np.array([[1e-9]]))  # a probability just above 1
    assert growth.rerank(2).tokens == (1, 2)
    assert growth.rerank(3).parents == (ROOT, ROOT, 1)


def test_expanded_nodes_are_numbered_as_the_head_runs_them():
    growth = Growth()
    growth.add_level([ROOT], np.array([[1, 2, 3]]), np.log([[0.2, 0.5, 0.3]]))
    assert growth.expand(2) == [1, 2]
    growth.add_level([1, 2], np.array([[4, 5], [6, 7]]), np.log([[0.1, 0.2], [0.9, 0.8]]))
    assert growth.expand(2) == [5, 6]  # below node 2: .27 and .24 against .05 and .1
    assert growth.expanded_parents() == [ROOT, ROOT, 1, 1]


def test_pick_best_refuses_a_negative_count():
    with pytest.raises(ValueError, match="count is -1"):
        pick_best([0.5], -1)
    assert pick_best([], 3) == []
