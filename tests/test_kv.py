"""The bookkeeping of caches: against a token-by-token replay, and the toy that keeps its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.theory import kv
from lessonlib.theory.cachedtoy import CachedToy, ContextFull, ToyCache, language, scripted_rows
from lessonlib.theory.kv import SequenceRound

plans = st.integers(1, 8).flatmap(
    lambda K: st.tuples(
        st.just(K), st.lists(st.lists(st.integers(0, K), max_size=8), min_size=1, max_size=5)
    )
)


def test_the_figures_of_the_lesson():
    # A text of 10 tokens, K = 4: rejected at index 2, then everything accepted.
    assert (kv.rows_to_keep(10, 2), kv.draft_rows_to_keep(10, 2, 4)) == (12, 12)
    assert (kv.rows_to_keep(13, 4), kv.draft_rows_to_keep(13, 4, 4)) == (17, 16)
    text = list(range(18))
    assert kv.catch_up(text, 17) == [17]
    assert kv.catch_up(text, 16) == [16, 17]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: kv.rows_to_keep(0, 1), "text_length is 0"),
        (lambda: kv.rows_to_keep(3, -1), "accepted -1"),
        (lambda: kv.draft_rows_to_keep(3, 5, 4), "accepted is 5 of K = 4"),
        (lambda: kv.draft_rows_to_keep(3, 0, 0), "of K = 0"),
        (lambda: kv.catch_up([1, 2], 2), "the newest token is never cached"),
        (lambda: kv.catch_up([1, 2], -1), "rows is -1"),
        (lambda: kv.simulate_batch([1], [[1], [1]], 2), "1 text_lengths but 2 plans"),
        (lambda: kv.simulate_batch([1], [[3]], 2), "accepted is 3 of K = 2"),
        (lambda: kv.list_slots([1, 2], [3], [3, 4], rows_before=2), "rows is 2"),
    ],
)
def test_impossible_numbers_get_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@given(plans, st.integers(1, 30))
def test_a_batch_is_what_a_replay_of_each_sequence_gives(plan, length):
    """Two lists of positions stand for the caches: run, then cut to what the text begins with."""
    K, accepted = plan
    rounds = kv.simulate_batch([length] * len(accepted), accepted, K)
    assert len(rounds) == max(map(len, accepted))
    for i, passes in enumerate(accepted):
        text = [(n, 0) for n in range(length)]  # (position, attempt): a rejected token is another
        caches = {"target": text[:-1], "draft": text[:-1]}
        ran = {name: list(cache) for name, cache in caches.items()}
        for r, passed in enumerate(passes):
            now = rounds[r][i]
            drafted = [(len(text) + j, 0 if j < passed else -r - 1) for j in range(K)]
            line = [*text, *drafted]
            for name, end in (("target", len(line)), ("draft", len(line) - 1)):
                fed = line[len(caches[name]) : end]
                assert len(fed) == len(getattr(now, f"{name}_fed"))
                assert [n for n, _ in fed] == list(getattr(now, f"{name}_fed"))
                caches[name] += fed
                ran[name] += fed
            text += [*drafted[:passed], (len(text) + passed, 0)]
            assert (len(text), now.emitted) == (now.text + now.emitted, passed + 1)
            for name, cache in caches.items():
                while cache != text[: len(cache)] or len(cache) >= len(text):
                    cache.pop()
                assert len(cache) == getattr(now, f"{name}_rows")
            assert now.target_rows == len(text) - 1
            assert now.draft_first_fed == (2 if r and passes[r - 1] == K else 1)
            assert now.closing == ("bonus" if passed == K else "correction")
        assert all(rounds[r][i] is None for r in range(len(passes), len(rounds)))
        for tokens in ran.values():  # no token that stands is run twice
            assert len(set(tokens)) == len(tokens)


def test_a_sequence_does_not_know_its_neighbours():
    alone = kv.simulate_batch([7], [[2, 0, 3]], K=3)
    together = kv.simulate_batch([7, 2], [[2, 0, 3], [3]], K=3)
    assert [row[0] for row in alone] == [row[0] for row in together]
    assert [row[1] is None for row in together] == [False, True, True]


# Pictures


def states(slots):
    return [slot.state for slot in slots]


def test_the_slots_of_a_rejection():
    asked = {"text": [7, 8], "drafted": [1, 2, 3], "emitted": [1, 9]}
    target = kv.list_slots(**asked, rows_before=1)
    assert states(target) == ["prefix", "fed", "accepted", "stale", "stale", "correction"]
    assert target[-1].position == target[3].position == 3  # beside the token it replaces
    draft = kv.list_slots(**asked, rows_before=1, draft=True, rolled_back=False)
    assert states(draft) == ["prefix", "fed", "accepted", "rejected", "correction"]
    assert [slot.token for slot in draft] == [7, 8, 1, 2, 9]
    assert [slot.has_row for slot in draft] == [True] * 4 + [False]


def test_the_slots_of_full_acceptance_and_of_the_catch_up_behind_it():
    target = kv.list_slots([7, 8], [1, 2], [1, 2, 3], rows_before=1)
    assert states(target) == ["prefix", "fed", "accepted", "accepted", "bonus"]
    draft = kv.list_slots([7, 8], [1, 2], [1, 2, 3], rows_before=1, draft=True)
    assert states(draft) == ["prefix", "fed", "accepted", "bonus"]
    after = kv.list_slots([7, 8, 1, 2, 3], [4], [4, 5], rows_before=3, draft=True)
    assert states(after) == ["prefix"] * 3 + ["fed", "fed", "bonus"]


def test_an_accepted_end_of_text_has_no_row_either():
    slots = kv.list_slots([7, 8], [1, 0, 3], [1, 0], rows_before=1)
    assert states(slots) == ["prefix", "fed", "accepted", "stale", "stale", "stop"]
    assert set(states(slots)) <= set(kv.STATES)
    assert not slots[-1].has_row


@given(st.integers(1, 8), st.data())
def test_rows_in_the_picture_are_rows_in_the_books(K, data):
    passed = data.draw(st.integers(0, K))
    length = data.draw(st.integers(1, 9))
    behind = data.draw(st.integers(1, min(2, length)))
    now = SequenceRound(length, length - 1, length - behind, K, passed)
    text, drafted = list(range(length)), list(range(100, 100 + K))
    emitted = [*drafted[:passed], 999]
    for draft, before, rows in (
        (False, now.target_before, now.target_rows),
        (True, now.draft_before, now.draft_rows),
    ):
        slots = kv.list_slots(text, drafted, emitted, before, draft=draft)
        standing = [slot for slot in slots if slot.has_row and slot.state != "stale"]
        assert len(standing) == rows
        assert [slot.position for slot in standing] == list(range(rows))


# The toy


def test_the_toy_sees_what_its_cache_holds():
    row_of = language(5, 3)
    model = CachedToy("m", 5, row_of)
    cache = model.new_cache()
    rows = model.forward([1, 2, 3], cache)
    assert np.array_equal(rows[2], row_of((1, 2, 3)))
    cache.rollback(1)
    assert np.array_equal(model.forward([4], cache)[0], row_of((1, 4)))
    assert [(call.cached, call.fed) for call in model.log] == [((), (1, 2, 3)), ((1,), (4,))]
    assert model.caches == [cache]


def test_the_toy_refuses_what_a_model_would():
    model = CachedToy("m", 5, language(5, 3), context=3)
    cache = model.new_cache()
    with pytest.raises(ContextFull, match="4 tokens do not fit into the context of 3"):
        model.forward([1, 1, 1, 1], cache)
    with pytest.raises(ValueError, match="no tokens"):
        model.forward([], cache)
    with pytest.raises(ValueError, match="token 5 is outside"):
        model.forward([5], cache)
    assert cache.length == len(model.log) == 0
    with pytest.raises(ValueError, match="rollback to 1, but the cache holds 0"):
        ToyCache().rollback(1)


def test_scripted_rows_count_and_do_not_read():
    row_of = scripted_rows([4, 3, 2], 5)
    assert row_of((0, 0)).argmax() == row_of((1, 4)).argmax() == 2


@given(st.integers(0, 20))
def test_a_greedy_language_is_the_arg_max_of_the_other(seed):
    assert language(4, seed, greedy=True)((1, 2)).argmax() == language(4, seed)((1, 2)).argmax()
