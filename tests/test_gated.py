"""A drafter that can be silent, and one that forgets its rows: neither changes the text's law."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lessonlib.decoding.loop import generate, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.gated import GatedDrafter, RowlessDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.drafting.tree import TreeDrafter
from lessonlib.lab.proposers import Proposer
from lessonlib.lab.serving import serve
from lessonlib.theory.controller import DRAFT, PLAIN, PROBE, Gate, Settings
from lessonlib.theory.exactlaw import law_of, target_law, total_variation
from lessonlib.theory.temperature import match_rate
from tests.toys import TableModel, coins_of

ONE = Sampling(1.0)
NEVER = Settings(window=1, threshold=99.0, probe=1)  # probes every second round, always in vain


def joint_law(wrap):
    """The exact law of four tokens of a run whose drafter is ``wrap(a small draft)``."""
    target, draft = TableModel(3, seed=1), TableModel(3, seed=2)

    def speculate(coins):
        drafter = wrap(SmallModelDrafter(draft, ONE))
        options = {"max_new_tokens": 4, "K": 1, "sampling": ONE}
        trace = generate(target, drafter, [0], coins=iter(coins.random, None), **options)
        return tuple(trace.new_tokens)

    wanted = target_law(lambda context: target.row_of((0, *context)), 4)
    return total_variation(law_of(speculate), wanted)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: GatedDrafter(inner, NEVER),
        lambda inner: GatedDrafter(inner, Settings(window=2, threshold=1.6, probe=1)),
        RowlessDrafter,
        lambda inner: GatedDrafter(RowlessDrafter(inner), NEVER),
    ],
    ids=["never", "sometimes", "forgetful", "both"],
)
def test_the_joint_law_is_the_targets(wrap):
    assert joint_law(wrap) < 1e-12


def test_a_closed_gate_runs_no_draft_and_catches_up_after_it():
    target, draft = TableModel(4, seed=3), TableModel(4, seed=3)  # a perfect draft
    drafter = GatedDrafter(SmallModelDrafter(draft, ONE), NEVER, Gate(PLAIN))
    trace = generate(target, drafter, [0, 1, 2], coins=coins_of(0), max_new_tokens=40, K=3)
    assert set(drafter.modes) == {PLAIN, PROBE}
    for round, mode in zip(trace.rounds, drafter.modes, strict=False):
        assert bool(round.drafted) == (mode == PROBE)
        assert len(round.emitted) == (1 if mode == PLAIN else 4)  # what it drafts still passes
    assert draft.tokens_run < len(trace.new_tokens) + 3


@pytest.mark.parametrize("branching", [[1, 1], [2, 2]])
def test_a_tree_drafter_can_be_gated(branching):
    target = TableModel(4, seed=5)
    inner = TreeDrafter(TableModel(4, seed=5), ONE, branching, "top-k")
    drafter = GatedDrafter(inner, Settings(window=2, threshold=1.9, hysteresis=0.0, probe=3))
    trace = generate(target, drafter, [0, 1], coins=coins_of(1), max_new_tokens=60, K=2)
    assert len(trace.new_tokens) == 60
    assert {DRAFT, PLAIN} < set(drafter.modes)


def test_the_gate_counts_rounds_not_the_prefill_nor_rounds_without_room():
    settings = Settings(window=50)
    drafter = GatedDrafter(SmallModelDrafter(TableModel(3, 1), ONE), settings)
    trace = generate(TableModel(3, 2), drafter, [0, 1, 2], coins=coins_of(2), max_new_tokens=9, K=2)
    counted = [len(round.emitted) for round in trace.rounds if round.drafted]
    assert list(drafter.gate.recent) == counted
    assert len(drafter.modes) == len(counted)


def test_a_last_round_without_room_leaves_the_gate_alone():
    """A perfect draft with K = 1 emits 2, 2, 2, 2 and then has no room: 1 by the target."""
    drafter = GatedDrafter(SmallModelDrafter(TableModel(3, 2), ONE), Settings(window=50))
    trace = generate(TableModel(3, 2), drafter, [0, 1], coins=coins_of(2), max_new_tokens=9, K=1)
    assert [len(round.emitted) for round in trace.rounds] == [2, 2, 2, 2, 1]
    assert not trace.rounds[-1].drafted
    assert drafter.gate == Gate(DRAFT, (2, 2, 2, 2), 0)


def test_forgetting_the_rows_is_the_exact_match_rule():
    """Pooled over many runs, the share that passes is Σ p q of the contexts that were tested."""
    target, draft = TableModel(3, seed=7), TableModel(3, seed=8)
    passed, expected = [], []
    for seed in range(300):
        drafter = RowlessDrafter(SmallModelDrafter(draft, ONE))
        trace = generate(target, drafter, [0], coins=coins_of(seed), max_new_tokens=2, K=1)
        assert [test.q for test in trace.rounds[0].tests] == [1.0], "its row was not handed over"
        passed.append(trace.rounds[0].accepted)
        p, q = (np.log(model.row_of((0,))) for model in (target, draft))
        expected.append(float(match_rate(p, q, 1.0)))
    assert np.mean(passed) == pytest.approx(np.mean(expected), abs=5 * 0.5 / np.sqrt(300))


def test_gated_rows_decode_in_a_batch_as_they_do_alone():
    settings = Settings(window=2, threshold=1.7, hysteresis=0.0, probe=2)

    def drafter():
        return GatedDrafter(SmallModelDrafter(TableModel(3, 2), ONE), settings)

    target, prompts = TableModel(3, 1), [[0], [1, 2], [2, 0, 1]]
    options = {"max_new_tokens": 12, "K": 2}
    together = generate_batch(
        target,
        [drafter() for _ in prompts],
        prompts,
        coins=[coins_of(i) for i in range(3)],
        **options,
    )
    for i, prompt in enumerate(prompts):
        alone = generate(target, drafter(), prompt, coins=coins_of(i), **options)
        assert together[i].new_tokens == alone.new_tokens


def test_requests_go_on_in_one_text_under_one_gate():
    pair = SimpleNamespace(target=TableModel(4, seed=1), draft=TableModel(4, seed=2))
    settings = Settings(window=3, threshold=1.6, hysteresis=0.1, probe=4)

    proposer = Proposer(lambda sampling, _: SmallModelDrafter(pair.draft, sampling))
    served = serve(
        pair.target,
        proposer,
        (0.3, 3.0, 0.3),
        settings,
        prompt=[0, 1],
        tokens=20,
        K=3,
        cost=1.7,
        seed=4,
    )
    assert served.starts == [0, 20, 40]
    assert sum(played.tokens for played in served.rounds) == 60
    assert [p.start for p in served.rounds[1:]] == list(
        np.cumsum([p.tokens for p in served.rounds])[:-1]
    )
    assert {p.cost for p in served.rounds if p.mode == PLAIN} == {1.0}
    assert {p.cost for p in served.rounds if p.mode != PLAIN} == {1.7}
    assert served.seconds == pytest.approx(sum(turn.seconds for turn in served.turns)) != 0
    plain = serve(pair.target, None, (1.0,), settings, prompt=[0], tokens=5, K=3)
    assert [played.tokens for played in plain.rounds] == [1] * 5


def test_a_request_begins_in_the_mode_in_which_the_last_one_ended():
    """Shut for good after one round: request 2 knows it."""
    shut = Settings(window=1, threshold=99.0, probe=500)
    proposer = Proposer(lambda sampling, _: SmallModelDrafter(TableModel(4, seed=2), sampling))
    target = TableModel(4, seed=1)
    served = serve(target, proposer, (1.0, 1.0), shut, prompt=[0], tokens=10, K=2)
    modes = {played.start: played.mode for played in served.rounds}
    assert modes[0] == DRAFT
    assert modes[served.starts[1]] == PLAIN
    assert {mode for start, mode in modes.items() if start} == {PLAIN}


def test_requests_that_outgrow_the_context_are_refused_up_front():
    target = TableModel(4, seed=1, context=24)
    ways = {"prompt": [0, 1], "K": 2}
    words = (
        "tokens is 8: the target's context of 24 has room for at most 7 behind a prompt of 2 "
        "in each of 3 requests"
    )
    with pytest.raises(ValueError, match=words):
        serve(target, None, (1.0,) * 3, Settings(), tokens=8, **ways)
    assert target.forwards == 0
    full = serve(target, None, (1.0, 1.0), Settings(), tokens=11, **ways)
    assert [turn.tokens for turn in full.turns] == [11, 11]
    assert serve(target, None, (), Settings(), tokens=8, **ways).rounds == []
