"""Racing: seconds go where they were spent, prefills go nowhere, and the median is kept."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from lessonlib.decoding.loop import decode, generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.contest import PLAIN, list_contestants, make_entrants, shape_tree
from lessonlib.lab.kinds import list_kinds, read_rows
from lessonlib.lab.race import Spent, race, run_timed
from tests.toys import TableModel, coins_of


class Slow(TableModel):
    """A table model that moves a hand-wound clock by a fixed time for each forward."""

    def __init__(self, clock, seconds, **options):
        super().__init__(3, **options)
        self.clock, self.seconds = clock, seconds

    def forward_rows(self, steps):
        self.clock.now += self.seconds
        return super().forward_rows(steps)


def make_toy_pair():
    """A pair without EAGLE heads, which live in a folder of the pair's name."""
    models = {"target": TableModel(5, seed=1), "draft": TableModel(5, seed=2)}
    return SimpleNamespace(name="no/such/folder", **models)


def make_pair():
    clock = SimpleNamespace(now=0.0)
    return clock, Slow(clock, 10.0, seed=1), Slow(clock, 1.0, seed=2)


def test_seconds_are_told_apart_and_prefills_left_out():
    clock, target, draft = make_pair()
    drafter = SmallModelDrafter(draft, Sampling(1.0))
    run = decode(target, drafter, [0, 1, 2], max_new_tokens=12, K=2, coins=coins_of(0))
    trace, spent = run_timed(run, target, lambda: clock.now)
    assert spent.target == 10 * len(trace.rounds)  # not one more for the prefill
    assert spent.rest == 0
    assert spent.draft == draft.forwards - 1  # its first forward ran the prompt
    assert spent.total == spent.target + spent.draft
    alone = generate(
        target, SmallModelDrafter(draft, Sampling(1.0)), [0, 1, 2], max_new_tokens=12, K=2,
        coins=coins_of(0),
    )  # fmt: skip
    assert trace.new_tokens == alone.new_tokens


def test_a_race_keeps_the_median_after_a_warm_up(monkeypatch):
    monkeypatch.delenv("COURSE_REPEATS", raising=False)
    clock, target, _ = make_pair()
    times = itertools.chain([1000.0], [3.0, 1.0, 2.0], itertools.repeat(0.0))

    def runs():
        target.seconds = next(times)
        return [decode(target, None, [0, 1], max_new_tokens=2, coins=coins_of(s)) for s in (1, 2)]

    turns = []
    laps = race(target, {"plain": runs}, 3, lambda: clock.now, lambda: turns.append(1))
    assert laps["plain"].spent.target == 2.0 * 4
    assert (laps["plain"].tokens, laps["plain"].rounds, laps["plain"].tau) == (4, 4, 1.0)
    assert laps["plain"].seconds_per_token == 2.0
    assert len(turns) == 4


def test_the_suite_may_ask_for_one_repeat(monkeypatch):
    monkeypatch.setenv("COURSE_REPEATS", "1")
    clock, target, _ = make_pair()
    turns = []
    options = {"progress": lambda: turns.append(1), "warm_up": False}
    make = lambda: [decode(target, None, [0, 1], max_new_tokens=1, coins=coins_of(0))]  # noqa: E731
    race(target, {"plain": make}, 5, lambda: clock.now, **options)
    assert len(turns) == 1


def test_seconds_add_up():
    assert Spent(1, 2, 3) + Spent(4, 5, 6) == Spent(5, 7, 9)


def test_every_contestant_decodes_and_plain_is_among_the_entrants():
    pair = make_toy_pair()
    contestants = list_contestants(pair)
    entrants = make_entrants(pair.target, contestants, [0, 1, 2], 1.5, 3, 12, (1, 2))
    assert list(entrants) == [PLAIN, *contestants]
    for name, make_runs in entrants.items():
        traces = [run_timed(run, pair.target)[0] for run in make_runs()]
        assert [len(trace.new_tokens) for trace in traces] == [12, 12]
        deepest = max(len(set(r.parents)) or len(r.drafted) for t in traces for r in t.rounds)
        assert (deepest == 0) == (name == PLAIN)


@pytest.mark.parametrize("K", range(1, 7))
def test_a_tree_is_as_deep_as_asked(K):
    assert len(shape_tree(K)) == K


def test_the_kinds_are_fixed_texts_of_three_sorts():
    kinds = list_kinds()
    assert kinds == list_kinds()
    assert all(len(text) > 400 for text in kinds.values())
    assert "def " in kinds["code"]
    assert kinds["noise"].count(" ") < len(kinds["noise"]) / 8


def test_rows_are_the_logits_behind_each_token():
    pair = SimpleNamespace(
        target=TableModel(5, seed=1), draft=TableModel(5, seed=2),
        encode=lambda text: [int(letter) for letter in text],
    )  # fmt: skip
    p, q = read_rows(pair, "01234012", skip=3)
    assert p.shape == q.shape == (5, 5)
    np.testing.assert_allclose(np.exp(p[0]), pair.target.row_of((0, 1, 2, 3)))
    np.testing.assert_allclose(np.exp(q[-1]), pair.draft.row_of((0, 1, 2, 3, 4, 0, 1, 2)))
    with pytest.raises(ValueError, match="give more than 3"):
        read_rows(pair, "012", skip=3)
