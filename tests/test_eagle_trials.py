"""Lesson 06's measurements: counted on a tiny target, against what the trace itself says."""

from __future__ import annotations

import numpy as np
import pytest

from lessonlib.decoding.sampling import warp
from lessonlib.decoding.trace import measure_paths
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.lab.eagle_trials import (
    LEAST,
    WatchedTree,
    decode_all,
    list_nodes,
    measure_ranks,
    measure_tau,
    run_along,
    sort_by_confidence,
)
from lessonlib.theory.treemask import trace_path
from tests.tinytarget import make_head, make_target, true_taps

PROMPTS = [[1, 0, 2, 2], [3, 1, 4], [5, 2]]


def decode_trees(make, temperature=1.0):
    target = make_target()
    head = make_head("eagle3", target)
    return decode_all(target, lambda _: make(head), PROMPTS, temperature, K=3, tokens=20)


def watch(head, **sizes):
    return WatchedTree(DynamicTreeDrafter(head, top_k=3, nodes=8, **sizes))


def test_every_prompt_is_decoded_by_its_own_drafter_and_again_the_same():
    traces, drafters = decode_trees(watch)
    again, _ = decode_trees(watch)
    assert [trace.prompt for trace in traces] == PROMPTS
    assert len({id(drafter) for drafter in drafters}) == len(PROMPTS)
    assert [t.new_tokens for t in traces] == [t.new_tokens for t in again]
    assert all(len(trace.new_tokens) == 20 for trace in traces)


def test_tau_is_the_traces_own_and_its_error_shrinks_with_the_rounds():
    traces, _ = decode_trees(watch)
    tau, error = measure_tau(traces)
    assert tau == pytest.approx(measure_paths(traces)[0])
    assert measure_tau(traces * 4) == pytest.approx((tau, error / 2))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nodes_come_with_the_confidence_they_had_and_whether_their_path_passed(temperature):
    traces, drafters = decode_trees(watch, temperature)
    for trace, drafter in zip(traces, drafters, strict=True):
        nodes = list_nodes([trace], [drafter])
        assert len(nodes.confidence) == len(nodes.accepted) == len(nodes.first) == trace.drafted
        assert nodes.accepted.sum() == trace.accepted
        assert (nodes.confidence > 0).all()
        assert (nodes.confidence <= 1).all()
    whole = list_nodes(traces, drafters)
    assert whole.accepted.sum() == sum(trace.accepted for trace in traces)
    # The first round of the first run: kept best first, one entry for each drafted node.
    growth, count = drafters[0].grown[0], len(traces[0].rounds[0].drafted)
    assert (np.diff(whole.confidence[:count]) <= 1e-12).all()
    assert whole.confidence[0] == pytest.approx(np.exp(max(growth.scores)))
    passed = {test.node for test in traces[0].rounds[0].tests if test.accepted}
    assert set(np.flatnonzero(whole.accepted[:count])) == passed


def test_first_guesses_are_likeliest_children_all_the_way():
    traces, drafters = decode_trees(watch)
    nodes, at = list_nodes(traces, drafters), 0
    for drafter in drafters:
        for growth in (g for g in drafter.grown if g.kept):
            for node in growth.kept:
                path = trace_path(growth.parents, node)
                assert nodes.first[at] == all(
                    growth.scores[i]
                    == max(
                        score
                        for score, parent in zip(growth.scores, growth.parents, strict=True)
                        if parent == growth.parents[i]
                    )
                    for i in path
                )
                at += 1
    assert at == len(nodes.first)
    assert 0 < nodes.first.sum() < at


def test_bins_hold_every_node_once():
    confidence = np.array([0.02, 0.3, 0.3, 0.99])
    bins = sort_by_confidence(confidence, confidence > 0.5, (0.1, 0.5))
    assert [one.count for one in bins] == [1, 2, 1]
    assert [one.accepted for one in bins] == [0, 0, 1]
    assert sum(one.count * one.confidence for one in bins) == pytest.approx(confidence.sum())


def test_rows_of_target_and_head_are_about_the_same_token():
    target = make_target()
    head, text = make_head("eagle1", target), [3, 1, 4, 1, 5]
    p, q = run_along(head, target, text)
    assert p.shape == q.shape == (4, target.vocab_size)
    whole = target.forward(text, target.new_cache()).logit_rows()
    assert np.allclose(p, whole[1:])
    # Row t of the head is what a chain drafts from behind text[: t + 2].
    drafter = EagleDrafter(head, sampling=None)
    drafter.settle(text[:3], target.forward(text[:2], target.new_cache()))
    step = drafter._verified.catch_up(text[:3])
    assert np.allclose(head.forward_rows([step])[0].logit_rows()[-1], q[1])
    assert true_taps(target, text).shape[0] == 5


def test_ranks_are_how_often_the_guess_is_the_targets_favourite():
    target = make_target(vocab=5)
    head, texts = make_head("eagle1", target), [[3, 1, 4, 1, 0], [2, 2, 0, 3]]
    hits = np.zeros(5)
    for text in texts:
        for wanted, given in zip(*run_along(head, target, text), strict=True):
            favourite = int(wanted.argmax())
            hits[sum(given > given[favourite])] += 1  # as many tokens the head likes better
    assert len(np.flatnonzero(hits)) > 1
    ranks = measure_ranks(head, target, texts, top_k=5)
    np.testing.assert_allclose(ranks, np.maximum(hits / hits.sum(), LEAST))
    assert (ranks > 0).all()
    np.testing.assert_array_equal(measure_ranks(head, target, texts, top_k=2), ranks[:2])
    DynamicTreeDrafter(head, top_k=5, rank_rates=ranks)  # is accepted as it is


def test_a_sharp_tree_ranks_by_a_colder_softmax():
    target = make_target()
    head = make_head("eagle3", target)

    def first_scores(drafter):
        text = [3, 1, 4, 1, 5]
        drafter.settle(text, target.forward(text[:-1], target.new_cache()))
        run = drafter.propose(text, 1, iter([]))
        step = next(run)
        output = head.forward_rows([step])[0]
        with pytest.raises(StopIteration):
            run.send(output)
        return np.exp(drafter.growth.scores), output.logit_rows()[-1]

    plain, logits = first_scores(DynamicTreeDrafter(head, top_k=3))
    same, _ = first_scores(DynamicTreeDrafter(head, heat=1.0, top_k=3))
    cold, _ = first_scores(DynamicTreeDrafter(head, heat=0.5, top_k=3))
    assert np.allclose(plain, same)
    assert np.allclose(cold, np.sort(warp(logits, 0.5))[::-1][:3])
    assert cold[0] > plain[0]
    for heat in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="heat is"):
            DynamicTreeDrafter(head, heat=heat)
