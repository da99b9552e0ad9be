"""The loop on toy targets: exact laws, counts, stops, limits. Cases 16, 17, 21-25, 29, 30."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.theory.exactlaw import law_of, target_law, total_variation
from lessonlib.theory.trees import CHOSEN, chain
from tests.toys import TableModel, coins_of


def run(target, draft, prompt=(0,), *, sampling=Sampling(), seed=0, **options):  # noqa: B008
    drafter = SmallModelDrafter(draft, sampling) if draft is not None else None
    return generate(target, drafter, prompt, sampling=sampling, coins=coins_of(seed), **options)


@pytest.mark.parametrize("temperature", [0, 0.5, 1, 1.5])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (2, 1.0), (0, 0.7), (2, 0.7)])
def test_joint_law_of_a_whole_run_is_the_targets(temperature, top_k, top_p):
    # Four tokens from several rounds, through rollback and catch-up, with both caches live.
    sampling = Sampling(temperature, top_k, top_p)
    target, draft = TableModel(3, seed=1), TableModel(3, seed=2)

    def speculate(coins):
        drafter = SmallModelDrafter(draft, sampling)
        options = {"max_new_tokens": 4, "K": 2, "sampling": sampling}
        trace = generate(target, drafter, [0], coins=iter(coins.random, None), **options)
        return tuple(trace.new_tokens)

    def p_of(context):
        return sampling.probabilities(np.log(target.row_of((0, *context))))

    law, wanted = law_of(speculate), target_law(p_of, 4)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert total_variation(law, wanted) < 1e-12


@pytest.mark.parametrize("K", range(1, 9))
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_self_draft_is_always_accepted(K, temperature):
    trace = run(
        TableModel(5, seed=3),
        TableModel(5, seed=3),
        K=K,
        max_new_tokens=400,
        sampling=Sampling(temperature),
    )
    assert trace.accepted == trace.drafted
    assert all(test.alpha == pytest.approx(1) for round in trace.rounds for test in round.tests)
    assert set(trace.rounds[0].kinds) == {"drafted", "bonus"}


@given(st.integers(0, 10_000), st.integers(0, 6), st.integers(0, 30), st.integers(1, 5))
def test_budget_invariant_and_no_token_run_twice(seed, K, budget, prompt_length):
    target, draft = TableModel(4, seed=5), TableModel(4, seed=6)
    prompt = [i % 4 for i in range(prompt_length)]
    trace = run(target, draft, prompt, K=K, max_new_tokens=budget, seed=seed)
    assert len(trace.new_tokens) == budget
    assert trace.stopped == "length"
    length = len(prompt)
    for round in trace.rounds:
        assert round.start == length
        length += len(round.emitted)
        assert round.target_rows == length - 1
        if round.drafted:  # one row behind after full acceptance, else level
            behind = length - 1 - round.draft_rows
            assert behind == (round.accepted == len(round.drafted))
        assert len(round.emitted) == round.accepted + 1
    assert target.forwards == len(trace.rounds) + (prompt_length > 1)
    # A token is run again only after it was rejected: prompt, emitted and rejected, once each.
    rejected = trace.drafted - trace.accepted
    ran_once = prompt_length - 1 + sum(len(round.emitted) for round in trace.rounds) + rejected
    assert target.tokens_run == ran_once


def test_plain_decoding_is_the_same_code_without_a_drafter():
    trace = run(TableModel(4, seed=5), None, max_new_tokens=7)
    assert [len(round.emitted) for round in trace.rounds] == [1] * 7
    assert (trace.tau, trace.drafted) == (1, 0)
    assert np.isnan(trace.alpha)


@pytest.mark.parametrize("K", range(9))
def test_nothing_follows_an_eos(K):
    stopped = 0
    for seed in range(60):
        trace = run(TableModel(4, 1), TableModel(4, 1), K=K, max_new_tokens=30, eos=0, seed=seed)
        tokens = trace.new_tokens
        assert 0 not in tokens[:-1]
        assert (trace.stopped == "eos") == (tokens[-1] == 0)
        assert trace.accepted == sum(round.kinds.count("drafted") for round in trace.rounds)
        assert trace.tau == len(tokens) / len(trace.rounds)
        stopped += trace.stopped == "eos"
    assert stopped > 50  # token id 0 is falsy, and still ends the text


@pytest.mark.parametrize("K", range(1, 9))
def test_the_context_limit_shortens_the_draft(K):
    target, draft = TableModel(4, 1, context=20), TableModel(4, 2, context=20)
    trace = run(target, draft, [1] * 9, K=K, max_new_tokens=100)
    assert trace.stopped == "context"
    assert len(trace.new_tokens) == 11


def test_a_draft_with_a_shorter_context_goes_silent_and_the_target_goes_on():
    trace = run(TableModel(4, 1, context=40), TableModel(4, 2, context=12), K=4, max_new_tokens=30)
    assert len(trace.new_tokens) == 30
    assert trace.rounds[-1].drafted == []


def test_same_seed_same_output_and_another_seed_another():
    def tokens(seed):
        return run(TableModel(9, 1), TableModel(9, 2), max_new_tokens=40, seed=seed).new_tokens

    assert tokens(1) == tokens(1) != tokens(2)


def test_a_drafter_that_chose_its_tokens_needs_no_q():
    class AlwaysOne:
        vocab_size, rows = 3, 0

        def propose(self, text, K, coins):
            return chain([1] * K, [CHOSEN] * K)

        def settle(self, text, seen):
            pass

    target = TableModel(3, seed=1)

    def speculate(coins):
        options = {"max_new_tokens": 3, "K": 2, "coins": iter(coins.random, None)}
        return tuple(generate(target, AlwaysOne(), [0], **options).new_tokens)

    wanted = target_law(lambda context: target.row_of((0, *context)), 3)
    assert total_variation(law_of(speculate), wanted) < 1e-12


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": [1] * 21}, "prompt has 21 tokens, but the target's context holds 20"),
        ({"prompt": [4]}, "prompt holds token 4, outside the vocabulary of 4"),
        ({"prompt": [-1]}, "prompt holds token -1"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"K": -1}, "K is -1"),
        ({"draft": TableModel(5, 2)}, "vocabulary has 5 tokens and the target's 4"),
    ],
)
def test_a_bad_request_gets_one_sentence(change, sentence):
    good = {"draft": TableModel(4, 2), "prompt": [0], "max_new_tokens": 3, "K": 2}
    with pytest.raises(ValueError, match=sentence):
        run(TableModel(4, 1, context=20), **{**good, **change})


def test_a_draft_warped_in_its_own_way_is_slower_but_right():
    # The q it hands over is the row it drew from, so any warping of the draft keeps the law.
    target, draft = TableModel(3, seed=1), TableModel(3, seed=2)

    def speculate(coins):
        drafter = SmallModelDrafter(draft, Sampling(temperature=0.4, top_k=2))
        options = {"max_new_tokens": 3, "K": 2, "coins": iter(coins.random, None)}
        return tuple(generate(target, drafter, [0], **options).new_tokens)

    wanted = target_law(lambda context: target.row_of((0, *context)), 3)
    assert total_variation(law_of(speculate), wanted) < 1e-12


def test_a_drafter_that_goes_too_deep_is_told():
    class TooEager:
        vocab_size, rows = 4, 0

        def propose(self, text, K, coins):
            return chain([1] * (K + 1), [CHOSEN] * (K + 1))

    with pytest.raises(ValueError, match="drafter went 3 tokens deep, asked for 2"):
        generate(TableModel(4, 1), TooEager(), [0], max_new_tokens=9, K=2, coins=coins_of(0))


@pytest.mark.parametrize("second", [[2], [0, 1, 2, 3, 1, 2], [0, 1]])
def test_one_drafter_may_serve_one_text_after_another(second):
    drafter = SmallModelDrafter(TableModel(4, 1), Sampling())
    for prompt in ([0, 1, 2, 3], second):
        target = TableModel(4, 1)
        trace = generate(target, drafter, prompt, max_new_tokens=20, K=3, coins=coins_of(1))
        assert trace.accepted == trace.drafted  # a self-draft that kept a stale row would miss
