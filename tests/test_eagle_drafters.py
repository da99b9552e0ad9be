"""EAGLE's drafters: exact laws, greedy equality, true features after a rejection. Case 20."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lessonlib.decoding.loop import generate, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import run_alone
from lessonlib.drafting.eagle import EagleStep
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.drafting.eagle_training import unroll
from lessonlib.theory.exactlaw import law_of, target_law, total_variation
from lessonlib.theory.treemask import trace_path
from lessonlib.theory.trees import CHOSEN
from tests.tinytarget import make_head, make_target, true_taps
from tests.toys import coins_of

PROMPT = [1, 0, 2, 2]
RATES = (0.5, 0.2, 0.1, 0.05)


def make_drafter(name, target, sampling=Sampling(), **sizes):  # noqa: B008
    """A drafter by name: "eagle1" and so on for a chain, "... tree" or "... static" for a tree."""
    kind, *shape = name.split()
    head = make_head(kind, target)
    if not shape:
        return EagleDrafter(head, sampling)
    rates = {"rank_rates": RATES} if shape == ["static"] else {}
    return DynamicTreeDrafter(head, **({"top_k": 2, "nodes": 4} | sizes), **rates)


DRAFTERS = ["eagle1", "eagle1-unshifted", "eagle3", "eagle1 tree", "eagle3 tree", "eagle1 static"]


@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
@pytest.mark.parametrize("name", DRAFTERS)
def test_joint_law_of_a_whole_run_is_the_targets(name, temperature):
    # Three tokens take up to three rounds, so the law covers what a rejection leaves behind.
    sampling, target = Sampling(temperature), make_target(vocab=3, layers=2)

    def speculate(coins):
        drafter = make_drafter(name, target, sampling)
        options = {"max_new_tokens": 3, "K": 2, "sampling": sampling}
        trace = generate(target, drafter, PROMPT, coins=iter(coins.random, None), **options)
        return tuple(trace.new_tokens)

    def p_of(context):
        output = target.forward([*PROMPT, *context], target.new_cache())
        return sampling.probabilities(output.logit_rows()[-1])

    law, wanted = law_of(speculate), target_law(p_of, 3)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert total_variation(law, wanted) < 1e-12


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_output_is_the_targets_own(name, seed):
    target, greedy = make_target(vocab=4, seed=seed), Sampling(0)
    options = {"max_new_tokens": 40, "sampling": greedy, "coins": coins_of(seed)}
    plain = generate(target, None, PROMPT, **options)
    drafter = make_drafter(name, target, greedy, top_k=4, nodes=20)
    trace = generate(target, drafter, PROMPT, K=4, **options)
    assert trace.new_tokens == plain.new_tokens
    assert trace.drafted > 40
    if name.endswith("tree"):
        assert trace.accepted > 0


class Watcher:
    """Passes everything on to a drafter, and looks at its cache when the round is over."""

    def __init__(self, drafter, target):
        self.drafter, self.target, self.checked = drafter, target, 0
        self.vocab_size, self.text = drafter.vocab_size, None

    @property
    def rows(self):
        return self.drafter.rows

    def propose(self, text, K, coins):
        self.text = list(text)
        return self.drafter.propose(text, K, coins)

    def settle(self, text, seen):
        if self.text is not None and self.rows:
            self.compare(self.drafter._verified.cache)
        self.text = None
        self.drafter.settle(text, seen)

    def compare(self, cache):
        """The rows up to the old text must be those of a head that ran true features only."""
        head, text = self.drafter.model, self.text
        taps, fresh = true_taps(self.target, text[:-1]), head.new_cache()
        tokens = text[head.kind.shift : len(text) - 1 + head.kind.shift]
        head.forward_rows([EagleStep(head, tokens, fresh, features=taps)])
        n = len(text) - 1
        assert cache.length >= n
        assert torch.allclose(cache.keys[:, :, :n], fresh.keys[:, :, :n], atol=1e-9)
        assert torch.allclose(cache.values[:, :, :n], fresh.values[:, :, :n], atol=1e-9)
        self.checked += 1


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("prompt", [PROMPT, [1]])
def test_after_every_round_the_heads_rows_are_made_of_the_targets_features(name, prompt):
    target, sampling = make_target(vocab=4), Sampling(1.5)
    watcher = Watcher(make_drafter(name, target, sampling), target)
    options = {"max_new_tokens": 40, "K": 3, "sampling": sampling, "coins": coins_of(2)}
    trace = generate(target, watcher, prompt, **options)
    accepted = [round.accepted for round in trace.rounds]
    assert watcher.checked == sum(round.drafted != [] for round in trace.rounds) > 10
    assert min(accepted) == 0 < max(accepted)


def propose_once(drafter, target, text, K, seed=0):
    """One proposal behind ``text``, as the loop would ask for it."""
    drafter.settle(text, target.forward(list(text[:-1]), target.new_cache()))
    return run_alone(drafter.propose(text, K, coins_of(seed)))


def unrolled_logits(head, target, text, drafted):
    """Logits (len(drafted), V) that the training unroll gives along ``drafted``."""
    steps, tokens = len(drafted), torch.tensor([[*text, *drafted]])
    taps = true_taps(target, text[:-1])
    future = taps.new_full((steps, *taps.shape[1:]), 1e6)  # nothing may look there
    features = torch.cat([taps, future])[None]
    outputs = unroll(head, features, tokens, steps, torch.tensor([len(text) - 2]))
    rows = [outputs[0][0, len(text) - 2], *(output[0, 0] for output in outputs[1:])]
    return head.finish(torch.stack(rows)) @ head.output.mT


@pytest.mark.parametrize("name", ["eagle1", "eagle1-unshifted", "eagle3"])
def test_a_chains_q_rows_are_those_of_the_training_unroll(name):
    target, sampling, text = make_target(), Sampling(0.7), [3, 1, 4, 1, 5]
    drafter = make_drafter(name, target, sampling)
    proposal = propose_once(drafter, target, text, 5)
    logits = unrolled_logits(drafter.model, target, text, proposal.tokens)
    wanted = sampling.probabilities(logits.numpy())
    assert np.allclose(np.array(proposal.q), wanted, atol=1e-9)


@pytest.mark.parametrize("name", ["eagle1", "eagle3"])
def test_a_trees_confidences_are_those_of_the_training_unroll(name):
    target, text = make_target(), [3, 1, 4, 1, 5]
    drafter = make_drafter(f"{name} tree", target, top_k=3, nodes=12)
    proposal = propose_once(drafter, target, text, 4)
    growth = drafter.growth
    assert proposal.depth > 2
    assert len(growth.tokens) == 3 + 3 * 9
    for node in range(len(growth.tokens)):
        path = [growth.tokens[i] for i in trace_path(growth.parents, node)]
        logs = unrolled_logits(drafter.model, target, text, path).log_softmax(-1)
        wanted = sum(float(logs[i, token]) for i, token in enumerate(path))
        assert growth.scores[node] == pytest.approx(wanted, abs=1e-9)
    assert set(proposal.q) == {CHOSEN}


def test_a_static_tree_has_one_shape_and_a_dynamic_one_has_many():
    target = make_target()
    shapes = {"static": set(), "tree": set()}
    for name, found in shapes.items():
        drafter = make_drafter(f"eagle1 {name}", target, top_k=3, nodes=9)
        for text in ([3, 1, 4], [1, 5, 2, 6], [5, 3, 5, 0, 2], [6, 6, 6]):
            proposal = propose_once(drafter, target, text, 4)
            assert len(proposal.tokens) == 9
            found.add(proposal.parents)
    assert len(shapes["static"]) == 1 < len(shapes["tree"])


def test_a_batch_drafts_what_each_row_drafts_alone():
    target, sampling = make_target(), Sampling(1)
    head, prompts = make_head("eagle3", target), [[3, 1], [4, 1, 5, 2, 6], [5]]
    options = {"max_new_tokens": 17, "K": 3, "sampling": sampling}
    for make in (lambda: EagleDrafter(head, sampling), lambda: DynamicTreeDrafter(head, top_k=3)):
        coins = [coins_of(seed) for seed in range(3)]
        together = generate_batch(
            target, [make() for _ in prompts], prompts, coins=coins, **options
        )
        for seed, prompt in enumerate(prompts):
            alone = generate(target, make(), prompt, coins=coins_of(seed), **options)
            assert together[seed].new_tokens == alone.new_tokens
            assert [r.drafted for r in together[seed].rounds] == [r.drafted for r in alone.rounds]


@pytest.mark.parametrize("name", DRAFTERS)
def test_the_end_of_the_context_is_reached_and_not_passed(name):
    target = make_target(context=14)
    drafter = make_drafter(name, target, top_k=4, nodes=20)
    trace = generate(target, drafter, PROMPT, max_new_tokens=99, K=5, coins=coins_of(0))
    assert trace.stopped == "context"
    assert len(PROMPT) + len(trace.new_tokens) == 14


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("second", [[2], [1, 0, 2], [3, 3, 3, 3, 3, 3, 3]])
def test_one_drafter_may_serve_one_text_after_another(name, second):
    target, used = make_target(), make_drafter(name, make_target())
    options = {"max_new_tokens": 12, "K": 3}
    generate(target, used, PROMPT, coins=coins_of(0), **options)
    again = generate(target, used, second, coins=coins_of(1), **options)
    fresh = generate(target, make_drafter(name, target), second, coins=coins_of(1), **options)
    assert [r.drafted for r in again.rounds] == [r.drafted for r in fresh.rounds]


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_one_token_prompt_has_no_features_so_its_first_round_drafts_nothing(name):
    target = make_target()
    options = {"max_new_tokens": 12, "K": 3, "coins": coins_of(0)}
    trace = generate(target, make_drafter(name, target), [0], **options)
    assert trace.rounds[0].drafted == []
    assert all(round.drafted for round in trace.rounds[1:-1])


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_round_without_a_draft_leaves_its_features_waiting(name):
    # K is 0 for two rounds in a row, then the head catches up with both.
    target, text = make_target(), [3, 1, 4, 1, 5, 2]
    late, prompt = make_drafter(name, target), target.forward(text[:3], target.new_cache())
    late.settle(text[:4], prompt)
    whole = target.forward(text[:5], target.new_cache())
    late.settle(text[:5], whole.pick([3]))
    late.settle(text, whole.pick([4]))
    wanted = propose_once(make_drafter(name, target), target, text, 3)
    assert run_alone(late.propose(text, 3, coins_of(0))).tokens == wanted.tokens


def test_bad_requests_get_one_sentence():
    target = make_target()
    head = make_head("eagle3", target)
    for sizes in ({"top_k": 0}, {"nodes": 0}):
        with pytest.raises(ValueError, match="use 1 or more"):
            DynamicTreeDrafter(head, **sizes)
    with pytest.raises(ValueError, match="rank_rates must hold 3 or more rates"):
        DynamicTreeDrafter(head, top_k=3, rank_rates=[0.5, 0.2])
    with pytest.raises(ValueError, match="'eagle1-unshifted' drafts chains only"):
        DynamicTreeDrafter(make_head("eagle1-unshifted", target))
    for drafter in (EagleDrafter(head, Sampling()), DynamicTreeDrafter(head)):
        with pytest.raises(ValueError, match="features of 0 tokens and needs 2"):
            run_alone(drafter.propose([1, 2, 3], 2, coins_of(0)))
