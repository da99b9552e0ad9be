"""Trees through models, caches and the loop: logits, laws, greedy equality. Cases 11-14, 18."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.hf_tree import tree_inputs
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Trace, measure_paths
from lessonlib.drafting.tree import RULES, TreeDrafter
from lessonlib.theory.exactlaw import law_of, target_law, total_variation
from lessonlib.theory.treemask import grow_tree, trace_path
from lessonlib.theory.trees import Proposal
from tests.test_gpt2 import checkpoint, devices  # noqa: F401 (a fixture)
from tests.toys import TableModel, coins_of

TEXT = [5, 60, 7, 33, 8, 12]
TREES = {
    "2-2-2": grow_tree([2, 2, 2]),
    "3-1": grow_tree([3, 1]),
    "chain": grow_tree([1] * 5),
    "ragged": (-1, 0, -1, 1, 1, 2, 0, 5, 7),  # not numbered depth by depth
    "star": (-1,) * 6,
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def nodes_of(parents):
    return np.random.default_rng(4).integers(0, 97, len(parents)).tolist()


def poison(cache):
    for buffer in (cache.keys, cache.values):
        buffer[:, :, cache.length :] = float("nan")


def path_logits(model, tokens, parents):
    """Logits (n, V) of every node, each from a forward over its own text alone."""
    rows = []
    for node in range(len(parents)):
        text = TEXT + [tokens[i] for i in trace_path(parents, node)]
        rows.append(model.forward(text, model.new_cache()).logits[-1])
    return torch.stack(rows)


def apart(first, second):
    """The largest difference, NaN counting as infinite, on the scale of the logits."""
    gap = (first - second).abs().nan_to_num(float("inf")).max()
    return float(gap / second.abs().max().clamp(min=1))


@devices()
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", TREES)
def test_one_forward_over_a_tree_equals_a_path_at_a_time(checkpoint, device, dtype, shape):  # noqa: F811
    model = GPT2.from_folder(checkpoint, device=device, dtype=dtype)
    parents = TREES[shape]
    tokens, cache = nodes_of(parents), model.new_cache()
    model.forward(TEXT, cache)
    poison(cache)
    got = model.forward(tokens, cache, parents).logits
    assert cache.length == len(TEXT) + len(parents)
    assert apart(got, path_logits(model, tokens, parents)) < TOLERANCE[dtype]


def test_a_tree_run_depth_by_depth_equals_the_tree_run_at_once(checkpoint):  # noqa: F811
    model = GPT2.from_folder(checkpoint, dtype=torch.float64)
    parents = TREES["2-2-2"]
    tokens, cache = nodes_of(parents), model.new_cache()
    model.forward(TEXT, cache)
    rows, start = [], 0
    for stop in (2, 6, 14):
        poison(cache)
        rows.append(model.forward(tokens[start:stop], cache, parents[:stop]).logits)
        start = stop
    assert apart(torch.cat(rows), path_logits(model, tokens, parents)) < 1e-10


@pytest.mark.parametrize("path", [(), (0,), (1,), (1, 4), (0, 3, 9), (1, 5, 13)])
def test_after_the_commit_of_a_path_the_text_goes_on_as_if_it_had_been_alone(checkpoint, path):  # noqa: F811
    model = GPT2.from_folder(checkpoint, dtype=torch.float64)
    parents = TREES["2-2-2"]
    tokens, cache = nodes_of(parents), model.new_cache()
    model.forward(TEXT, cache)
    model.forward(tokens, cache, parents)
    cache.commit(len(TEXT), path)
    poison(cache)
    got = model.forward([1, 2], cache).logits
    text = [*TEXT, *(tokens[node] for node in path), 1, 2]
    wanted = model.forward(text, model.new_cache()).logits[-2:]
    assert cache.length == len(text)
    assert apart(got, wanted) < 1e-10


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", TREES)
def test_the_same_through_transformers(checkpoint, attention, dtype, shape):  # noqa: F811
    theirs = GPT2LMHeadModel.from_pretrained(
        checkpoint, dtype=dtype, attn_implementation=attention
    ).eval()
    parents = TREES[shape]
    tokens, cache = nodes_of(parents), DynamicCache()
    with torch.no_grad():
        theirs(torch.tensor([TEXT]), cache=cache)
        inputs = tree_inputs(parents, len(TEXT), dtype)
        got = theirs(torch.tensor([tokens]), cache=cache, **inputs).logits[0]
    ours = GPT2.from_folder(checkpoint, dtype=dtype)
    assert apart(got, path_logits(ours, tokens, parents)) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("rows", "start"), [([1, 1], 0), ([2, 1], 0), ([3], 0), ([0], 3), ([-1], 1), ([0], -1)]
)
def test_a_commit_of_rows_that_are_not_there_is_refused(checkpoint, rows, start):  # noqa: F811
    model = GPT2.from_folder(checkpoint)
    cache = model.new_cache()
    model.forward([1, 2, 3], cache)
    with pytest.raises(ValueError, match="must rise and lie within the 3 rows"):
        cache.commit(start, rows)
    assert cache.length == 3


@pytest.mark.parametrize("parents", [(), (-1,), (-1, 0, 1, 2, 3, 4)])
def test_parents_that_do_not_fit_the_tokens_are_refused(checkpoint, parents):  # noqa: F811
    model = GPT2.from_folder(checkpoint)
    cache = model.new_cache()
    model.forward([1, 2, 3], cache)
    with pytest.raises(ValueError, match=f"parents lists {len(parents)} nodes for 2 new tokens"):
        model.forward([4, 5], cache, parents)


# The law


SHAPES = [((2,), 2), ((3,), 2), ((2, 1), 3), ((1, 2), 3), ((2, 2), 3)]


@pytest.mark.parametrize("siblings", RULES)
@pytest.mark.parametrize(("branching", "length"), SHAPES)
@pytest.mark.parametrize("temperature", [0.7, 1])
def test_joint_law_of_a_whole_run_is_the_targets(siblings, branching, length, temperature):
    sampling = Sampling(temperature)
    vocab = 3 if len(branching) == 1 else 2
    target, draft = TableModel(vocab, seed=1), TableModel(vocab, seed=2)

    def speculate(coins):
        drafter = TreeDrafter(draft, sampling, branching, siblings)
        options = {"max_new_tokens": length, "K": len(branching), "sampling": sampling}
        trace = generate(target, drafter, [0], coins=iter(coins.random, None), **options)
        return tuple(trace.new_tokens)

    def p_of(context):
        return sampling.probabilities(np.log(target.row_of((0, *context))))

    law = law_of(speculate)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert total_variation(law, target_law(p_of, length)) < 1e-12


def test_the_plain_row_for_siblings_without_replacement_breaks_the_law():
    # The same drafter, its conditional rows replaced by the plain one: case 12.
    sampling, target, draft = Sampling(), TableModel(3, seed=1), TableModel(3, seed=2)

    class Careless(TreeDrafter):
        def propose(self, text, K, coins):
            tree = yield from super().propose(text, K, coins)
            return Proposal(tree.tokens, tree.parents, (tree.q[0],) * len(tree.q))

    def speculate(coins):
        drafter = Careless(draft, sampling, [2])
        options = {"max_new_tokens": 2, "K": 1, "coins": iter(coins.random, None)}
        return tuple(generate(target, drafter, [0], **options).new_tokens)

    wanted = target_law(lambda context: target.row_of((0, *context)), 2)
    assert total_variation(law_of(speculate), wanted) > 0.01


@given(st.lists(st.integers(1, 3), max_size=4), st.sampled_from(sorted(RULES)))
@settings(max_examples=40, deadline=None)
def test_greedy_over_any_tree_equals_plain_greedy(greedy_pair, branching, siblings):
    target, draft, plain = greedy_pair
    greedy = Sampling(temperature=0)
    drafter = TreeDrafter(draft, greedy, branching, siblings)
    trace = generate(
        target, drafter, TEXT, max_new_tokens=20, K=4, sampling=greedy, coins=coins_of(0)
    )
    assert trace.new_tokens == plain


@pytest.fixture(scope="module")
def greedy_pair(checkpoint):  # noqa: F811
    target = GPT2.from_folder(checkpoint, dtype=torch.float64)
    draft = GPT2.from_folder(checkpoint, dtype=torch.float64)
    draft.blocks = draft.blocks[:2]  # a worse model of the same vocabulary
    draft.shape = type(draft.shape)(**{**vars(draft.shape), "layers": 2})
    greedy = Sampling(temperature=0)
    plain = generate(target, None, TEXT, max_new_tokens=20, sampling=greedy, coins=coins_of(0))
    return target, draft, plain.new_tokens


# The loop


def run_tree(target, draft, branching, siblings="independent", *, seed=0, prompt=(0,), **options):
    drafter = TreeDrafter(draft, Sampling(), branching, siblings)
    options = {"K": len(branching), **options}
    return generate(target, drafter, prompt, coins=coins_of(seed), **options)


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from(sorted(RULES)),
    st.integers(0, 20),
)
@settings(max_examples=60, deadline=None)
def test_budget_and_invariant_of_both_caches(seed, branching, siblings, budget):
    target, draft = TableModel(4, seed=5), TableModel(4, seed=6)
    trace = run_tree(target, draft, branching, siblings, seed=seed, max_new_tokens=budget)
    assert len(trace.new_tokens) == budget
    length = 1
    for round in trace.rounds:
        length += len(round.emitted)
        assert round.target_rows == length - 1
        assert 0 <= length - 1 - round.draft_rows <= 1 + (not round.drafted)
        assert round.accepted == round.kinds.count("drafted")
    assert target.forwards == len(trace.rounds)
    # The draft runs each text token once, and each depth of a tree in one forward.
    depths = sum(min(len(branching), budget - 1 - r.start + 1) for r in trace.rounds if r.drafted)
    assert draft.forwards == depths


@pytest.mark.parametrize("siblings", RULES)
def test_a_self_draft_is_always_accepted_where_it_samples(siblings):
    model = TableModel(5, seed=3)
    trace = run_tree(model, TableModel(5, seed=3), [2, 2], siblings, max_new_tokens=60)
    tau, alpha = measure_paths([trace])
    if siblings == "top-k":  # chosen, not drawn: it accepts the mass of the two likeliest
        assert alpha < 1
    else:
        assert (alpha, tau) == (1, 3)


def test_twins_are_both_tested_and_their_children_are_not_lost():
    # q has two tokens, so three independent siblings always hold a twin: case 12.
    target, draft = TableModel(2, seed=1), TableModel(2, seed=2)
    trace = run_tree(target, draft, [3, 2], max_new_tokens=200, seed=3)
    whole = [round for round in trace.rounds if len(round.drafted) == 9]
    assert len(whole) > 50
    assert all(len(set(round.drafted[:3])) < 3 for round in whole)
    assert any(len(round.tests) >= 3 for round in whole)


@pytest.mark.parametrize("siblings", RULES)
def test_nothing_follows_an_eos_and_its_statistics_stop_there(siblings):
    stopped = 0
    for seed in range(40):
        model = TableModel(4, 1)
        trace = run_tree(
            model, TableModel(4, 1), [2, 2, 1], siblings, seed=seed, max_new_tokens=30, eos=0
        )
        assert 0 not in trace.new_tokens[:-1]
        stopped += trace.stopped == "eos"
        for round in trace.rounds:
            assert round.accepted == round.kinds.count("drafted")
            assert round.target_rows == round.start + len(round.emitted) - 1
    assert stopped > 30


@pytest.mark.parametrize("branching", [[3, 3], [2, 2, 2], [1, 4]])
def test_the_context_limit_prunes_a_wide_tree(branching):
    target, draft = TableModel(4, 1, context=20), TableModel(4, 2, context=20)
    trace = run_tree(target, draft, branching, prompt=[1] * 9, max_new_tokens=100)
    assert trace.stopped == "context"
    assert len(trace.new_tokens) == 11


def test_a_draft_with_a_shorter_context_goes_silent_and_the_target_goes_on():
    trace = run_tree(TableModel(4, 1, context=40), TableModel(4, 2, context=12), [2, 2],
                     max_new_tokens=30)  # fmt: skip
    assert len(trace.new_tokens) == 30
    assert trace.rounds[-1].drafted == []


def test_a_trace_of_trees_survives_json():
    trace = run_tree(TableModel(4, 1), TableModel(4, 2), [2, 2], max_new_tokens=12)
    again = Trace.from_dict(trace.to_dict())
    assert [r.parents for r in again.rounds] == [r.parents for r in trace.rounds]
    assert again.rounds[0].parents == [-1, -1, 0, 0, 1, 1]
    assert measure_paths([again]) == measure_paths([trace])


def test_path_measures_of_a_chain_and_of_nothing():
    target, draft = TableModel(4, 1), TableModel(4, 2)
    trace = run_tree(target, draft, [1, 1, 1], max_new_tokens=50)
    tests = [test.accepted for round in trace.rounds for test in round.tests]
    assert measure_paths([trace]) == (trace.tau, np.mean(tests))
    assert all(round.parents == [] for round in trace.rounds)
    with pytest.raises(ValueError, match="traces hold no round"):
        measure_paths([Trace([0])])


def test_unknown_siblings_are_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match="siblings is 'best': use one of independent, without"):
        TreeDrafter(TableModel(3, 1), Sampling(), [2], "best")
    with pytest.raises(ValueError, match="branching holds 0"):
        TreeDrafter(TableModel(3, 1), Sampling(), [0])
