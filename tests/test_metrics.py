"""Counting accepted and emitted tokens. Cases 6 and 29."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.theory.metrics import count_accepted, tokens_per_forward
from tests.toys import TableModel, coins_of


@pytest.mark.parametrize(
    ("passed", "count"),
    [([], 0), ([True, False, True, True], 1), ([False, True], 0), ([True] * 3, 3)],
)
def test_what_passes_behind_a_failure_does_not_count(passed, count):
    for form in (list, tuple, np.array):
        assert count_accepted(form(passed)) == count


@given(st.lists(st.booleans()))
def test_accepted_is_the_length_of_the_unbroken_start(passed):
    count = count_accepted(passed)
    assert all(passed[:count])
    assert count == len(passed) or not passed[count]


def test_tau_counts_one_closing_token_for_each_round():
    assert tokens_per_forward([4, 0, 2]) == 3
    assert tokens_per_forward([0]) == 1
    assert tokens_per_forward(np.array([3, 4])) == 4.5


def test_tau_without_rounds_is_one_sentence():
    with pytest.raises(ValueError, match="accepted is empty: τ needs at least one round"):
        tokens_per_forward([])


@pytest.mark.parametrize("K", [0, 1, 4])
def test_both_agree_with_the_trace_of_a_real_run(K):
    drafter = SmallModelDrafter(TableModel(5, 2), Sampling())
    target = TableModel(5, 1)
    trace = generate(target, drafter, [0, 1, 2], max_new_tokens=50, K=K, coins=coins_of(3))
    accepted = [count_accepted([test.accepted for test in r.tests]) for r in trace.rounds]
    assert accepted == [round.accepted for round in trace.rounds]
    assert trace.tau == tokens_per_forward(accepted) == 50 / (target.forwards - 1)  # less prefill
