"""Racing: seconds go where they were spent, prefills go nowhere, and all get the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lessonlib.decoding.loop import decode, generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.gated import GatedDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.contest import list_contestants, shape_tree
from lessonlib.lab.kinds import list_kinds, read_rows
from lessonlib.lab.proposers import PLAIN
from lessonlib.lab.race import list_entrants, play_turn, race, time_run
from lessonlib.theory.controller import Gate, Settings
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
    turn = time_run(run, target, lambda: clock.now)
    assert turn.target == 10 * turn.rounds  # not one more for the prefill
    assert turn.rest == 0
    assert turn.draft == draft.forwards - 1  # its first forward ran the prompt
    assert turn.seconds == turn.target + turn.draft
    alone = generate(
        target, SmallModelDrafter(draft, Sampling(1.0)), [0, 1, 2], max_new_tokens=12, K=2,
        coins=coins_of(0),
    )  # fmt: skip
    assert turn.trace.new_tokens == alone.new_tokens


def test_a_draft_that_kept_silent_pays_for_catching_up():
    clock, target, draft = make_pair()
    plainly = Gate("plain", (), 0)
    settings = Settings(window=9, threshold=0.0, hysteresis=0.0, probe=3)
    drafter = GatedDrafter(SmallModelDrafter(draft, Sampling(1.0)), settings, plainly)
    run = decode(target, drafter, [0, 1, 2], max_new_tokens=12, K=2, coins=coins_of(0))
    turn = time_run(run, target, lambda: clock.now)
    assert turn.rounds > 3
    assert turn.draft == draft.forwards  # the first probe runs the whole text, on the clock


def test_every_contestant_decodes_and_plain_is_among_the_entrants():
    pair = make_toy_pair()
    contestants = list_contestants(pair)
    sizes = {name: one.size(3) for name, one in contestants.items()}
    entrants = list_entrants(pair.target, contestants, sizes, tokens=12)
    assert list(entrants) == [PLAIN, *contestants]
    for name, turns in race(entrants, [[0, 1, 2]] * 2, Sampling(1.5)).items():
        assert [turn.tokens for turn in turns] == [12, 12]
        assert turns[0].trace.new_tokens != turns[1].trace.new_tokens, "a repeat has its own seed"
        rounds = [round for turn in turns for round in turn.trace.rounds]
        deepest = max(len(set(r.parents)) or len(r.drafted) for r in rounds)
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


def test_a_turn_that_outgrows_the_context_is_refused_up_front():
    target = TableModel(3, seed=1, context=20)
    how = {"sampling": Sampling(1.0), "seed": 0}
    assert play_turn(target, None, None, [0, 1], tokens=18, **how).tokens == 18
    ran = target.forwards
    words = "tokens is 19: the target's context of 20 has room for at most 18 behind a prompt of 2"
    with pytest.raises(ValueError, match=words):
        play_turn(target, None, None, [0, 1], tokens=19, **how)
    with pytest.raises(ValueError, match="tokens is 20: the target's context of 20 has room for"):
        list_entrants(target, {}, {}, tokens=20)
    assert list(list_entrants(target, {}, {}, tokens=19)) == [PLAIN]
    assert target.forwards == ran


def test_a_race_without_entrants_is_refused():
    with pytest.raises(ValueError, match="entrants is empty: name at least one"):
        race({}, [[0]], Sampling(1.0))
