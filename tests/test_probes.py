"""The probes: they count right, poison what is stale, and are wrong just where they should be."""

from __future__ import annotations

import pytest

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.probes import ForgetfulDrafter, OffByOneCache, PoisonedCache, Probe
from tests.tinypair import make_pair
from tests.toys import coins_of

SAMPLING = Sampling(temperature=1.0)
PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[GPT2, GPT2]:
    return make_pair(tmp_path_factory.mktemp("probes"))


def run(target, draft, *, drafter=SmallModelDrafter, K=4, new=60, seed=0):
    return generate(
        target,
        drafter(draft, SAMPLING),
        PROMPT,
        max_new_tokens=new,
        K=K,
        sampling=SAMPLING,
        coins=coins_of(seed),
    )


def test_poisoned_tails_change_nothing(pair):
    plain, poisoned = run(*pair), run(*(Probe(model, PoisonedCache) for model in pair))
    assert poisoned == plain
    assert any(round.kinds[-1] == "recovered" for round in plain.rounds)


def test_a_poisoned_row_that_is_read_shows(pair):
    target = pair[0]
    cache = Probe(target, PoisonedCache).new_cache()
    target.forward(PROMPT, cache)
    cache.rollback(1)
    cache.length = 2  # reads a row that does not stand
    assert target.forward([1], cache).logits.isnan().all()


def test_the_counters_say_what_was_run(pair):
    target, draft = Probe(pair[0]), Probe(pair[1])
    trace = run(target, draft)
    assert target.forwards == target.calls == len(trace.rounds) + 1  # and the prefill
    assert target.tokens_run == len(PROMPT) - 1 + len(trace.rounds) + trace.drafted
    assert draft.forwards == trace.drafted


def test_a_row_too_many_changes_the_text(pair):
    wrong = run(Probe(pair[0], OffByOneCache), pair[1], new=40)
    right = run(*pair, new=40)
    first = next(i for i, round in enumerate(right.rounds) if round.kinds[-1] == "recovered")
    assert wrong.rounds[: first + 1] == right.rounds[: first + 1]
    assert wrong.new_tokens != right.new_tokens


@pytest.mark.parametrize("K", [1, 3])
def test_a_forgotten_catch_up_shows_with_a_self_draft_only(pair, K):
    target = pair[0]
    assert run(target, target, K=K).accepted == run(target, target, K=K).drafted
    trace = run(target, target, drafter=ForgetfulDrafter, K=K)
    assert trace.accepted < trace.drafted
    assert trace.rounds[0].accepted == K  # the hole comes with the first full acceptance
    assert len(trace.new_tokens) == 60
