"""The geometry of trees: masks, positions, paths. Case 14."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.theory import treemask
from lessonlib.theory.trees import CHOSEN, Proposal, chain


@st.composite
def trees(draw, most=14):
    n = draw(st.integers(0, most))
    return tuple(draw(st.integers(-1, node - 1)) for node in range(n))


def ancestors_or_self(parents, node):
    """By the definition, written apart from the library: climb until the root."""
    found = {node}
    while parents[node] != -1:
        node = parents[node]
        found.add(node)
    return found


@given(trees(), st.integers(0, 5))
@settings(max_examples=500, deadline=None)
def test_masks_equal_brute_force_ancestor_sets(parents, prefix):
    mask = treemask.build_mask(parents, prefix)
    positions = treemask.find_positions(parents, prefix)
    assert mask.shape == (len(parents), prefix + len(parents))
    assert mask.dtype == bool
    for node in range(len(parents)):
        family = ancestors_or_self(parents, node)
        assert mask[node, :prefix].all()
        assert set(np.flatnonzero(mask[node, prefix:])) == family
        assert positions[node] == prefix + len(family) - 1
        assert positions[node] == mask[node].sum() - 1  # as many as it sees before itself
        assert set(treemask.trace_path(parents, node)) == family


@given(trees())
def test_paths_cover_the_tree_and_end_in_leaves(parents):
    paths = treemask.list_paths(parents)
    assert {node for path in paths for node in path} == set(range(len(parents)))
    for path in paths:
        assert path[-1] not in parents
        assert [parents[node] for node in path] == [-1, *path[:-1]]


def test_the_example_in_the_docstring_is_what_the_code_gives():
    page, parents = treemask.__doc__, (-1, -1, 0, 0, 1)
    rows = [line.split()[1:] for line in page.splitlines() if "1 1 1 |" in line]
    drawn = np.array([[cell == "1" for cell in row if cell != "|"] for row in rows])
    assert (drawn == treemask.build_mask(parents, 3)).all()
    assert str(parents) in page
    assert "( 3,  3, 4, 4, 4)" in page
    assert treemask.find_positions(parents, 3).tolist() == [3, 3, 4, 4, 4]


@pytest.mark.parametrize(
    ("branching", "sizes"), [([2, 2, 2], [2, 4, 8]), ([3, 1], [3, 3]), ([1] * 4, [1] * 4), ([], [])]
)
def test_branching_gives_the_sizes_of_each_depth(branching, sizes):
    parents = treemask.grow_tree(branching)
    assert np.bincount(treemask.find_depths(parents), minlength=len(sizes)).tolist() == sizes


def test_a_chain_is_the_tree_with_one_child_each():
    parents = treemask.grow_tree([1, 1, 1])
    assert Proposal((5, 6, 7), parents, (CHOSEN,) * 3) == chain([5, 6, 7], [CHOSEN] * 3)
    assert chain([5, 6, 7], [CHOSEN] * 3).is_chain
    assert not Proposal((5, 6), (-1, -1), (CHOSEN, CHOSEN)).is_chain
    np.testing.assert_array_equal(
        treemask.build_mask(parents, 2), np.tril(np.ones((3, 5), dtype=bool), 2)
    )


@given(trees(), st.integers(0, 16))
def test_the_first_nodes_of_a_tree_are_a_tree(parents, count):
    whole = Proposal(tuple(range(len(parents))), parents, (CHOSEN,) * len(parents))
    assert whole.first(count).tokens == whole.tokens[:count]


@given(trees(), st.data())
def test_the_matched_path_is_the_longest_there_is(parents, data):
    tokens = [data.draw(st.integers(0, 1)) for _ in parents]
    wanted = data.draw(st.lists(st.integers(0, 1), max_size=5))
    best = 0
    for node in range(len(parents)):
        said = [tokens[i] for i in treemask.trace_path(parents, node)]
        best = max(best, len(said) * (said == wanted[: len(said)]))
    path = treemask.match_path(parents, tokens, wanted)
    assert len(path) == best
    assert [tokens[i] for i in path] == wanted[:best]


def test_expected_tokens_of_a_chain_is_the_geometric_sum():
    assert treemask.expected_tokens([0.8] * 4) == pytest.approx((1 - 0.8**5) / 0.2)
    assert treemask.expected_tokens([]) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: treemask.grow_tree([2, 0]), "branching holds 0: use 1 or more"),
        (lambda: treemask.build_mask([-1, 1], 0), r"parents\[1\] is 1: a parent comes before"),
        (lambda: treemask.build_mask([-2], 0), r"parents\[0\] is -2"),
        (lambda: treemask.build_mask([-1], -1), "prefix is -1: it counts"),
        (lambda: treemask.find_positions([0], 3), r"parents\[0\] is 0"),
        (lambda: treemask.list_paths([3]), r"parents\[0\] is 3"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
