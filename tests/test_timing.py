"""Timing with a clock of our own: turns, warm-up, medians, and the cost ratios c and v."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lessonlib.lab import timing
from lessonlib.lab.timing import measure_costs, time_interleaved
from tests.toys import TableModel


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a test moves it: ``clock.now += seconds``."""
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(perf_counter=lambda: clock.now)
    monkeypatch.setattr(timing, "time", fake)
    return clock


def test_contestants_run_in_turn_with_one_warm_up():
    order = []
    seconds = time_interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4
    assert list(seconds) == ["a", "b"]
    assert all(0 <= value < 1 for value in seconds.values())


@pytest.mark.parametrize("text", ["x", "0", "-1", "1.5", "²"])
def test_repeats_that_are_no_number_are_refused_by_name(monkeypatch, text):
    monkeypatch.setenv("COURSE_REPEATS", text)
    with pytest.raises(ValueError, match=f"COURSE_REPEATS={text}: use a whole number above 0"):
        time_interleaved({"a": lambda: None})


def test_repeats_come_from_the_environment(monkeypatch):
    for text, wanted in (("2", 2), ("", 7)):
        monkeypatch.setenv("COURSE_REPEATS", text)
        assert timing.count_repeats(7) == wanted


def test_the_warm_up_does_not_count_and_one_outlier_moves_nothing(clock):
    needs = {"a": iter([900, 1, 1, 1, 70, 2]), "b": iter([0, 5, 3, 3, 4, 4])}

    def run(name):
        clock.now += next(needs[name])

    seconds = time_interleaved({name: lambda name=name: run(name) for name in needs})
    assert seconds == {"a": 1, "b": 4}


class SlowModel(TableModel):
    """Takes ``first`` seconds for a token and ``more`` for each further one."""

    def __init__(self, clock, first, more, context=1000):
        super().__init__(4, seed=1, context=context)
        self.clock, self.first, self.more = clock, first, more
        self.caches, self.calls = [], []

    def new_cache(self):
        self.caches.append(super().new_cache())
        return self.caches[-1]

    def forward(self, tokens, cache):
        self.calls.append((cache.length, len(tokens)))
        self.clock.now += self.first + self.more * (len(tokens) - 1)
        return super().forward(tokens, cache)


@pytest.mark.parametrize("K", [0, 1, 4])
def test_costs_are_in_plain_target_forwards(clock, K):
    target, draft = SlowModel(clock, 2.0, 0.3), SlowModel(clock, 0.5, 0.1)
    c, v = measure_costs(target, draft, K, rows=10, repeats=3)
    assert c == pytest.approx(0.25)
    assert v == pytest.approx((2.0 + 0.3 * K) / 2.0)
    # Each forward was timed behind the same ten rows, which are all that is left.
    assert target.calls == [(0, 10)] * 2 + [(10, 1), (10, K + 1)] * 4
    assert draft.calls == [(0, 10)] + [(10, 1)] * 4
    assert [cache.length for cache in target.caches + draft.caches] == [10, 10, 10]


def test_rows_make_room_in_a_short_context(clock):
    target, draft = SlowModel(clock, 1, 1, context=12), SlowModel(clock, 1, 1, context=8)
    assert measure_costs(target, draft, 7, repeats=1) == (1, 8)
    assert target.calls[-1] == (4, 8)
    assert measure_costs(target, draft, 11, repeats=1) == (1, 12)
    assert target.calls[-1] == (0, 12)
    with pytest.raises(ValueError, match="K is 12: use less than the target's context of 12"):
        measure_costs(target, draft, 12, repeats=1)


def test_the_real_clock_gives_positive_ratios():
    costs = measure_costs(TableModel(4, 1), TableModel(4, 2), 4, rows=5, repeats=3)
    assert np.isfinite(costs).all()
    assert min(costs) > 0


def test_the_clock_waits_for_a_gpu_only(monkeypatch):
    import torch

    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert timing.read_clock() <= timing.read_clock()
    assert waited == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    timing.read_clock()
    assert waited == [1]
