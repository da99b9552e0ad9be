"""Traces: what they count, and that they survive a file. Cases 29 and 30."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Round, TopRow, Trace
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.theory.verify import Test
from tests.toys import TableModel, coins_of


def test_of(token: int, accepted: bool, alpha: float) -> Test:
    coin = 0.1 if accepted else 0.9
    return Test(0, token, 0.1, 0.2, 0.5, coin, accepted, alpha)


test_of.__test__ = False  # a helper, not a test


@pytest.fixture
def trace() -> Trace:
    """Three rounds: two of three accepted, none of two, nothing drafted."""
    passed = [test_of(5, True, 0.9), test_of(6, True, 0.8), test_of(7, False, 0.4)]
    return Trace(
        [1, 2],
        [
            Round(2, [5, 6, 7], passed, [5, 6, 9], ["drafted"] * 2 + ["recovered"], 4, 4),
            Round(5, [3, 4], [test_of(3, False, 0.1)], [8], ["recovered"], 5, 5),
            Round(6, [], [], [0], ["bonus"], 6, 5, [TopRow([0, 9], [0.7, 0.3], [])]),
        ],
        stopped="eos",
        pieces={5: " α", 0: "<|endoftext|>"},
    )


def test_what_a_run_emitted_and_what_it_cost(trace):
    assert trace.new_tokens == [5, 6, 9, 8, 0]
    assert (trace.drafted, trace.accepted) == (5, 2)
    assert [round.accepted for round in trace.rounds] == [2, 0, 0]
    assert trace.tau == pytest.approx(5 / 3)
    assert trace.alpha == pytest.approx((0.9 + 0.8 + 0.4 + 0.1) / 4)  # tested, not drafted


def test_without_rounds_there_is_nothing_to_measure():
    empty = Trace([1])
    assert math.isnan(empty.tau)
    assert math.isnan(empty.alpha)
    assert (empty.new_tokens, empty.drafted, empty.accepted) == ([], 0, 0)


def test_without_drafts_there_is_a_tau_but_no_alpha(trace):
    plain = Trace([1], trace.rounds[2:])
    assert plain.tau == 1
    assert math.isnan(plain.alpha)


def test_a_trace_survives_a_file(trace, tmp_path):
    trace.to_json(tmp_path / "trace.json")
    assert Trace.from_json(tmp_path / "trace.json") == trace
    (tmp_path / "trace.json").read_bytes().decode("ascii")
    assert Trace.from_dict(trace.to_dict()) == trace
    assert Trace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


def test_floats_are_rounded_to_six_digits(trace):
    fine = replace(trace.rounds[1], tests=[test_of(3, False, 1 / 3)])
    data = Trace([1], [fine]).to_dict()
    assert data["rounds"][0]["tests"][0]["alpha"] == 0.333333
    small = Trace([1], [replace(fine, tests=[test_of(3, False, 1.23456789e-9)])])
    assert small.to_dict()["rounds"][0]["tests"][0]["alpha"] == 1.23457e-9


def test_writing_changes_nothing_in_the_trace(trace):
    trace.to_dict()["rounds"][0]["drafted"].append(99)
    assert trace.rounds[0].drafted == [5, 6, 7]


@pytest.mark.parametrize("K", [0, 3])
def test_a_real_run_survives_a_file_up_to_rounding(tmp_path, K):
    drafter = SmallModelDrafter(TableModel(6, 2), Sampling())
    run = generate(TableModel(6, 1), drafter, [0], max_new_tokens=20, K=K, coins=coins_of(1), top=3)
    run.to_json(tmp_path / "trace.json")
    again = Trace.from_json(tmp_path / "trace.json")
    assert again.new_tokens == run.new_tokens
    assert (again.tau, again.drafted, again.accepted) == (run.tau, run.drafted, run.accepted)
    for ours, theirs in zip(run.rounds, again.rounds, strict=True):
        assert [row.tokens for row in ours.top] == [row.tokens for row in theirs.top]
        assert replace(ours, tests=[], top=[]) == replace(theirs, tests=[], top=[])
        for a, b in zip(ours.tests, theirs.tests, strict=True):
            assert (a.token, a.accepted) == (b.token, b.accepted)
            assert (b.p, b.q, b.coin, b.alpha) == pytest.approx((a.p, a.q, a.coin, a.alpha), 1e-5)
