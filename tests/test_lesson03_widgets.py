"""The widgets of lesson 03: what they compute, draw and say, without a browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lessonlib.theory.exactlaw import total_variation
from lessonlib.theory.siblings import RULES
from lessonlib.theory.treemask import build_mask, find_depths, grow_tree, trace_path
from lessonlib.widgets import lesson03, toy_paths, tree_marks
from lessonlib.widgets.style import WIDE
from lessonlib.widgets.tree_marks import Cells, TreeNodes

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = {
    "binary": lesson03.view_tree(2, 3, 3, 9),
    "wide": lesson03.view_tree(3, 3, 6, 20),
    "chain": lesson03.view_tree(1, 3, 1, 0),
    "paths": lesson03.view_paths(1.0, "without replacement"),
    "greedy": lesson03.view_paths(0.0, "top-k"),
    "shapes": lesson03.view_shapes(0.6, 0.4),
    "edges": lesson03.view_shapes(1.0, 0.0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_chart_is_valid_svg_that_says_what_it_shows(name):
    for chart in VIEWS[name].charts:
        root = ET.fromstring(chart.svg())
        assert root.get("aria-label") == chart.caption
        assert len(chart.title) * 8.5 < chart.width, "the title is clipped"
        assert len(chart.svg()) < 60_000
        assert all(float(node.get("x", 0)) <= WIDE for node in root.iter(f"{SVG}text"))
        assert "…" not in "".join(root.itertext()), "a label was cut"


def cells_of(view):
    """The mask as it is drawn: every cell of both series."""
    marks = [mark for mark in view.charts[1].marks if isinstance(mark, Cells)]
    drawn = np.zeros_like(marks[0].matrix)
    for mark in marks:
        for row, cells in enumerate(mark.matrix):
            for start, stop in tree_marks._find_runs(cells, mark.first, mark.last):
                drawn[row, start:stop] = True
    return drawn


@pytest.mark.parametrize(("branching", "depth", "prefix"), [(2, 3, 3), (3, 2, 1), (1, 3, 6)])
def test_the_cells_drawn_are_the_mask(branching, depth, prefix):
    view = lesson03.view_tree(branching, depth, prefix, 0)
    parents = grow_tree([branching] * depth)
    np.testing.assert_array_equal(cells_of(view), build_mask(parents, prefix))


@pytest.mark.parametrize("node", [0, 4, 13])
def test_the_lit_nodes_are_the_path_and_the_readout_names_its_position(node):
    view = lesson03.view_tree(2, 3, 3, node)
    parents = grow_tree([2, 2, 2])
    (tree,) = view.charts[0].marks
    assert tree.lit == frozenset(trace_path(parents, node))
    depth = find_depths(parents)[node]
    assert f"position 3 + {depth} = {3 + depth}" in view.readout
    words = "".join(ET.fromstring(view.charts[0].svg()).itertext())
    assert all(str(i) in words for i in range(len(parents)))


def test_nodes_are_buttons_that_a_keyboard_reaches_and_a_reader_hears():
    root = ET.fromstring(lesson03.view_tree(2, 2, 3, 4).charts[0].svg())
    picks = [node for node in root.iter(f"{SVG}g") if node.get("class") == "sd-pick"]
    assert [pick.get("data-bar") for pick in picks] == [str(i) for i in range(6)]
    assert {pick.get("tabindex") for pick in picks} == {"0"}
    assert [pick.get("aria-label") for pick in picks] == [f"node {i}" for i in range(6)]
    assert [pick.get("aria-pressed") for pick in picks].index("true") == 4
    assert root.get("role") == "group"  # an img would hide the buttons


def test_a_click_changes_no_place_of_a_node_in_the_page_so_the_focus_stays():
    def outline(node):
        root = ET.fromstring(lesson03.view_tree(2, 2, 3, node).charts[0].svg())
        groups = [child for child in root if child.find(f"{SVG}g") is not None]
        return [child.tag for child in root], [[kid.tag for kid in g.iter()] for g in groups]

    assert outline(0) == outline(5)
    assert len(outline(0)[1]) == 1


def test_a_click_lights_the_node_and_a_smaller_tree_keeps_a_node_lit():
    panel = lesson03.tree_builder()
    before = [plot.svg for plot in panel.plots]
    panel.plots[0].picked = {"key": "node", "bar": 0, "count": 1}
    assert "node 0: depth 0, position 3" in panel.readout.value
    assert all(old != plot.svg for old, plot in zip(before, panel.plots, strict=True))
    panel.plots[0].picked = {"key": "node", "bar": 5, "count": 2}
    panel.controls["depth"].value = 1
    assert "node 1: depth 0, position 3" in panel.readout.value
    assert panel.errors.outputs == ()


@pytest.mark.parametrize("factory", ["tree_builder", "accepted_paths", "tree_against_chain"])
def test_each_control_redraws_every_plot_and_each_call_gives_a_fresh_panel(factory):
    panel, other = getattr(lesson03, factory)(), getattr(lesson03, factory)()
    untouched = other.readout.value
    for control in panel.controls.values():
        before = panel.plots[0].svg, panel.readout.value
        options = getattr(control, "options", None)
        if options:
            control.value = options[-1][1]
        else:
            control.value = control.max
        assert (panel.plots[0].svg, panel.readout.value) != before
    assert other.readout.value == untouched
    assert panel.errors.outputs == ()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 3.0])
def test_path_counts_add_up(rule, temperature):
    accepted, lengths = toy_paths.count_paths((2, 2, 2), rule, temperature)
    assert lengths.sum() == toy_paths.SEEDS
    depths = find_depths(grow_tree((2, 2, 2)))
    for depth in range(3):
        assert accepted[depths == depth].sum() == lengths[depth + 1 :].sum()
    for node, parent in enumerate(grow_tree((2, 2, 2))):
        assert accepted[node] <= (toy_paths.SEEDS if parent < 0 else accepted[parent])


def test_the_first_guess_passes_as_often_as_alpha_says():
    p, q = toy_paths.toy_rows((), 1.0)
    alpha = np.minimum(p, q).sum()
    accepted, _ = toy_paths.count_paths((1,), "independent", 1.0, seeds=4000)
    # Six standard errors: a right count is outside with probability below 1e-8.
    assert abs(accepted[0] / 4000 - alpha) < 6 * (alpha * (1 - alpha) / 4000) ** 0.5


def test_shapes_hold_the_same_number_of_tokens_and_the_chain_is_the_geometric_sum():
    sizes = {name: len(grow_tree(branching)) for name, (branching, _) in lesson03.SHAPES.items()}
    assert set(sizes.values()) == {14}
    chain = lesson03.shape_tokens([1] * 14, 0.6, 0.4)
    assert chain == pytest.approx((1 - 0.6**15) / 0.4)
    assert lesson03.shape_tokens([14], 0.6, 0.4) == pytest.approx(2 - 0.4 * 0.6**13)
    roles = [role for _, role in lesson03.SHAPES.values()]
    assert len(set(roles)) == len(roles)


def test_leaves_do_not_touch_and_edges_do_not_cross():
    for parents in (grow_tree([3, 3, 3]), (-1, 0, -1, 1, 1, 2, 0, 5, 7)):
        heights = tree_marks.spread_nodes(parents)
        leaves = [i for i in range(len(parents)) if i not in parents]
        assert len(set(heights[leaves].round(9))) == len(leaves)
        for node, parent in enumerate(parents):
            if parent >= 0:
                children = [heights[i] for i, p in enumerate(parents) if p == parent]
                assert min(children) <= heights[parent] <= max(children), node


def test_a_tree_without_a_key_is_only_a_picture():
    nodes = TreeNodes((-1,), (0,), ("x",), ("x",))
    assert not nodes.interactive
    assert lesson03.view_paths(1.0, "top-k").charts[0].svg().count("sd-pick") == 0


@pytest.mark.parametrize("factory", ["tree_builder", "accepted_paths", "tree_against_chain"])
def test_a_panel_leaves_a_picture_and_words_for_static_viewers(factory):
    panel = getattr(lesson03, factory)()
    data, _ = panel._repr_mimebundle_()
    ET.fromstring(data["image/svg+xml"])
    assert panel.readout.value in data["text/plain"]
    assert all(control.description for control in panel.controls.values())


def test_toy_rows_are_a_language_of_their_own_at_each_context():
    first, second = toy_paths.toy_rows((1,), 1.0), toy_paths.toy_rows((2,), 1.0)
    assert total_variation(dict(enumerate(first[0])), dict(enumerate(second[0]))) > 0.05
    assert toy_paths.toy_rows((1,), 0.0)[0].max() == 1
