"""Caches in the real loop: the invariant, nothing run twice, rows that do not see each other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import decode, generate, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import run_together
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.probes import PoisonedCache, Probe
from lessonlib.theory.kv import draft_rows_to_keep, rows_to_keep
from tests.tinypair import CONTEXT, make_pair, write_model
from tests.toys import TableModel, coins_of

SAMPLING = Sampling(temperature=1.0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[GPT2, GPT2]:
    return make_pair(tmp_path_factory.mktemp("batch"))


@pytest.fixture(scope="module")
def long_target(tmp_path_factory) -> GPT2:
    """The same target with room for 430 tokens."""
    folder = tmp_path_factory.mktemp("long")
    write_model(folder, layers=2, seed=1)
    model = GPT2.from_folder(folder, dtype=torch.float64)
    more = torch.randn(430 - CONTEXT, model.shape.width, dtype=torch.float64) / 5
    model.positions = torch.cat([model.positions, more])
    model.context = 430
    return model


# The invariant


class Coarse:
    """A model over 2 tokens that reads the last 2 only: quick, and often right or wrong."""

    vocab_size = 2

    def __init__(self, seed: int, context: int = 4000):
        self.context, self.calls, self.ran = context, [], 0
        self.table = np.log(np.random.default_rng(seed).dirichlet([1, 1], size=(2, 2)))

    def new_cache(self):
        return TableModel(2, 0).new_cache()

    def forward_rows(self, steps):
        return [self._forward(step) for step in steps]

    def _forward(self, step):
        self.calls.append((tuple(step.cache.tokens), tuple(step.tokens)))
        self.ran += len(step.tokens)
        text = [0, *step.cache.tokens, *step.tokens]
        step.cache.tokens += step.tokens
        new = list(pairwise(text))[-len(step.tokens) :]
        return Rows(np.array([self.table[pair] for pair in new]))


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def logit_rows(self):
        return self.rows

    def pick(self, rows):
        return Rows(self.rows[rows])


def test_the_invariant_holds_after_every_one_of_ten_thousand_rounds():
    rounds = 0
    rng = np.random.default_rng(0)
    while rounds < 10_000:
        K, seed = int(rng.integers(1, 9)), int(rng.integers(1 << 30))
        target, draft = Coarse(seed), Coarse(seed + int(rng.integers(2)))
        prompt = rng.integers(0, 2, rng.integers(1, 6)).tolist()
        trace = generate(
            target,
            SmallModelDrafter(draft, SAMPLING),
            prompt,
            max_new_tokens=60,
            K=K,
            coins=coins_of(seed),
        )
        text = [*prompt, *trace.new_tokens]
        check_books(trace, text, K)
        check_forwards(trace, text, target, draft, prefilled=len(prompt) > 1)
        rounds += len(trace.rounds)


def check_books(trace, text, K):
    """Both lengths after every round are what theory/kv says."""
    length = len(trace.prompt)
    for round in trace.rounds:
        passed, drafted = round.accepted, len(round.drafted)
        assert round.target_rows == rows_to_keep(length, passed)
        if drafted:
            assert round.draft_rows == draft_rows_to_keep(length, passed, drafted)
        length += len(round.emitted)
        assert round.target_rows == length - 1
        if drafted:
            assert length - 1 - round.draft_rows == (passed == drafted)
    assert length == len(text)


def check_forwards(trace, text, target, draft, prefilled):
    """Each forward found rows of the text in its cache, and ran no token whose row stood."""
    assert len(target.calls) == len(trace.rounds) + prefilled
    assert len(draft.calls) == trace.drafted
    assert all(list(cached) == text[: len(cached)] for cached, _ in target.calls)
    assert target.ran == len(text) - 1 + trace.drafted - trace.accepted
    first, rows = 0, 0  # the draft's first forward of a round, and its rows before it
    for round in trace.rounds:
        if not round.drafted:
            continue
        forwards = draft.calls[first : first + len(round.drafted)]
        cached, fed = forwards[0]
        assert list(cached) == text[:rows]
        assert list(fed) == text[rows : round.start]
        assert [fed for _, fed in forwards[1:]] == [(token,) for token in round.drafted[:-1]]
        first, rows = first + len(forwards), round.draft_rows


# Long runs


@pytest.mark.parametrize("K", [1, 4, 8])
def test_a_run_fills_the_context_to_its_last_place(pair, K):
    target, draft = (Probe(model, PoisonedCache) for model in pair)
    prompt = [7] * 5
    trace = generate(
        target,
        SmallModelDrafter(draft, SAMPLING),
        prompt,
        max_new_tokens=10 * CONTEXT,
        K=K,
        sampling=SAMPLING,
        coins=coins_of(K),
    )
    assert trace.stopped == "context"
    assert len(prompt) + len(trace.new_tokens) == CONTEXT
    assert trace.rounds[-1].target_rows == CONTEXT - 1
    assert target.forwards == len(trace.rounds) + 1


@pytest.mark.parametrize("K", range(1, 9))
def test_a_self_draft_accepts_everything_over_400_tokens(long_target, K):
    """Also the proof that positions, rows and the two-token catch-up are right over a long run."""
    trace = generate(
        long_target,
        SmallModelDrafter(long_target, SAMPLING),
        [3, 1, 2],
        max_new_tokens=400,
        K=K,
        sampling=SAMPLING,
        coins=coins_of(K),
    )
    assert len(trace.new_tokens) == 400
    assert trace.accepted == trace.drafted
    assert len(trace.rounds) == -(-400 // (K + 1))
    tests = [test for round in trace.rounds for test in round.tests]
    assert min(test.ratio for test in tests) > 1 - 1e-9


# Batches


def make_requests(count: int, vocab: int):
    """Prompts of 1 to 20 tokens, budgets of 0 to 30, K of 0 to 5, one eos each or none."""
    rng = np.random.default_rng(count)
    for row in range(count):
        yield (
            rng.integers(0, vocab, rng.integers(1, 21)).tolist(),
            {
                "max_new_tokens": int(rng.integers(0, 31)),
                "K": int(rng.integers(0, 6)),
                "sampling": Sampling(temperature=(0, 1, 1.5)[row % 3]),
            },
        )


@pytest.mark.parametrize("count", range(1, 9))
def test_rows_of_a_batch_are_what_they_are_alone(pair, count):
    """Mixed prompt lengths, budgets, K, temperatures and ends-of-text; the tokens are equal."""
    target, draft = (Probe(model, PoisonedCache) for model in pair)
    requests = list(make_requests(count, target.vocab_size))
    alone = [run_alone_first(pair, row, *request) for row, request in enumerate(requests)]
    stops = [trace.new_tokens[5] if len(trace.new_tokens) > 5 else None for trace in alone]
    stops = [stop if row % 2 else None for row, stop in enumerate(stops)]
    alone = [run_alone_first(pair, r, *requests[r], eos=stops[r]) for r in range(count)]
    runs = [
        decode(
            target,
            SmallModelDrafter(draft, how["sampling"]),
            prompt,
            coins=coins_of(row),
            eos=stops[row],
            **how,
        )
        for row, (prompt, how) in enumerate(requests)
    ]
    together = run_together(runs, last=target)
    for mine, wanted in zip(together, alone, strict=True):
        assert mine.new_tokens == wanted.new_tokens
        assert mine.stopped == wanted.stopped
        assert [r.drafted for r in mine.rounds] == [r.drafted for r in wanted.rounds]
        assert [r.draft_rows for r in mine.rounds] == [r.draft_rows for r in wanted.rounds]
    assert target.forwards == sum(len(t.rounds) + (len(t.prompt) > 1) for t in alone)
    assert target.calls <= target.forwards


def run_alone_first(pair, row, prompt, how, eos=None):
    target, draft = pair
    drafter = SmallModelDrafter(draft, how["sampling"])
    return generate(target, drafter, prompt, coins=coins_of(row), eos=eos, **how)


def test_a_batch_takes_as_many_target_forwards_as_its_slowest_row(pair):
    target, draft = (Probe(model) for model in pair)
    prompts = [[5, 6, 7], [8] * 9, [3, 4]]
    traces = generate_batch(
        target,
        [SmallModelDrafter(draft, SAMPLING) for _ in prompts],
        prompts,
        max_new_tokens=30,
        K=3,
        sampling=SAMPLING,
        coins=[coins_of(row) for row in range(3)],
    )
    slowest = max(len(trace.rounds) for trace in traces)
    assert target.calls == slowest + 1  # and one prefill for all
    assert target.forwards == sum(len(trace.rounds) + 1 for trace in traces)


def test_a_batch_needs_a_drafter_and_coins_for_each_prompt(pair):
    with pytest.raises(ValueError, match="equally long, got 1, 2 and 2"):
        generate_batch(
            pair[0], [None], [[1], [2]], coins=[coins_of(0), coins_of(1)], max_new_tokens=3
        )
