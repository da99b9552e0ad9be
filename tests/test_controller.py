"""The gate: its steps, what it is worth in a simulation, and live over toy models."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from lessonlib.theory.controller import (
    DRAFT,
    PLAIN,
    PROBE,
    Gate,
    Played,
    Settings,
    measure_gain,
    simulate_gate,
    step_gate,
)
from lessonlib.theory.speedup import expected_tokens, speedup

SETTINGS = Settings(window=3, threshold=2.0, hysteresis=0.5, probe=4)


def walk(tokens, settings=SETTINGS, gate=None):
    """The modes of successive rounds, given what a drafted round would emit."""
    gate, modes = gate or Gate(), []
    for drafted in tokens:
        modes.append(gate.mode)
        gate = step_gate(gate, 1 if gate.mode == PLAIN else drafted, settings)
    return modes


def test_a_window_must_be_full_before_it_is_judged():
    assert walk([1, 1, 1, 1]) == [DRAFT] * 3 + [PLAIN]


def test_a_mean_at_the_threshold_pays():
    assert walk([2] * 9) == [DRAFT] * 9
    assert walk([2, 2, 1, 1])[-1] == PLAIN


def test_the_window_forgets():
    assert walk([9, 9, 9, 1, 1, 1, 1]) == [DRAFT] * 6 + [PLAIN]


def test_falling_back_forgets_the_window():
    for mode in (DRAFT, PROBE):
        assert step_gate(Gate(mode, (1, 1)), 1, SETTINGS) == Gate(PLAIN, (), 0)


def test_it_probes_a_window_long_and_falls_back():
    losing = walk([1] * 14)
    assert losing == [DRAFT] * 3 + [PLAIN] * 4 + [PROBE] * 3 + [PLAIN] * 4


def test_coming_back_takes_more_than_staying():
    tired = Gate(PLAIN, (), 3)
    assert walk([0, 2, 2, 2, 0], gate=tired)[-1] == PLAIN  # 2.0 keeps a gate open, opens none
    assert walk([0, 3, 2, 3, 0], gate=tired)[-1] == DRAFT


def test_after_a_return_the_probe_s_rounds_still_count():
    gate = Gate(PROBE, (3, 3))
    gate = step_gate(gate, 3, SETTINGS)
    assert gate == Gate(DRAFT, (3, 3, 3))
    assert step_gate(gate, 1, SETTINGS).mode == DRAFT


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 0}, "window is 0"),
        ({"probe": 0}, "probe is 0"),
        ({"window": 1.5}, "window is 1.5: use a whole number of rounds, at least 1"),
        ({"probe": 2.0}, "probe is 2.0: use a whole number of rounds"),
        ({"threshold": -1.0}, "threshold is -1"),
        ({"hysteresis": float("nan")}, "hysteresis is nan"),
    ],
)
def test_bad_settings_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        Settings(**options)


# Simulated


def coins(seed=0):
    return iter(np.random.default_rng(seed).random, None)


def test_drafting_always_gains_what_the_formula_says():
    rounds = simulate_gate(Settings(threshold=0.0), lambda _: 0.7, 20_000, 4, 2.0, coins())
    assert {played.mode for played in rounds} == {DRAFT}
    assert measure_gain(rounds) == pytest.approx(expected_tokens(0.7, 4) / 2.0, rel=0.02)
    assert measure_gain(rounds) == pytest.approx(speedup(0.7, 4, 0.2, 1.2), rel=0.02)


def test_rounds_follow_each_other_and_cost_by_mode():
    rounds = simulate_gate(SETTINGS, lambda position: 0.8 * (position > 60), 400, 4, 2.0, coins())
    for first, second in itertools.pairwise(rounds):
        assert second.start == first.start + first.tokens
    for played in rounds:
        assert played.cost == (1.0 if played.mode == PLAIN else 2.0)
        assert 1 <= played.tokens <= (1 if played.mode == PLAIN else 5)


def test_when_the_workload_turns_hot_and_cold_the_gate_beats_both_fixed_policies():
    def alpha_at(position):
        return 0.1 if 400 <= position < 1200 else 0.85

    settings = Settings(window=10, threshold=2.0, hysteresis=0.3, probe=40)
    gains = []
    for seed in range(5):
        gated = simulate_gate(settings, alpha_at, 1600, 4, 2.0, coins(seed))
        always = simulate_gate(
            replace(settings, threshold=0.0), alpha_at, 1600, 4, 2.0, coins(seed)
        )
        gains.append((measure_gain(gated), measure_gain(always)))
        modes = {played.mode for played in gated if played.start >= 1450}
        assert modes == {DRAFT}, "it came back"
        hot = [played for played in gated if 450 <= played.start < 1200]
        assert sum(played.mode == PLAIN for played in hot) / len(hot) > 0.7, "it fell back"
    gated, always = np.mean(gains, axis=0)
    assert gated > max(always, 1.0) + 0.1


def test_a_gate_bounds_the_loss_where_drafting_never_pays():
    rounds = simulate_gate(SETTINGS, lambda _: 0.0, 2000, 4, 3.0, coins())
    assert measure_gain(rounds) > 1 / 3 + 0.1
    worst = (3 * 3.0 + 4) / 7  # a probe of 3 rounds at cost 3, then 4 plain ones
    assert measure_gain(rounds) == pytest.approx(1 / worst, rel=0.01)


def test_nothing_played_has_no_gain():
    with pytest.raises(ValueError, match="rounds is empty"):
        measure_gain([])
    assert measure_gain([Played(0, DRAFT, 4, 2.0)]) == 2.0
