"""Checks of exercise 7.3: one step of the controller in every situation, then a journey."""

from __future__ import annotations

from itertools import pairwise
from operator import eq

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.exercises.wrong_gates import WRONG_GATES
from lessonlib.theory.controller import DRAFT, PLAIN, PROBE, Gate, Settings, step_gate

# Windows of 1, 2 and 4 have exact means: a tie is a tie, whichever way they are computed.
TRIED = (Settings(4, 2.0, 0.5, 2), Settings(1, 1.5, 0.0, 1), Settings(2, 2.2, 0.4, 4))


def list_situations() -> list[tuple[Gate, int, Settings]]:
    """Every state that random rounds lead to, and the edges, with what the round emitted."""
    found = []
    for number, settings in enumerate(TRIED):
        rng, gate = np.random.default_rng([73, number]), Gate()
        for start in range(240):
            rich = start // 24 % 2 == 0  # stretches in which drafting pays, then none
            tokens = int(rng.integers(2, 6) if rich else rng.integers(1, 3))
            tokens = 1 if gate.mode == PLAIN else tokens
            found.append((gate, tokens, settings))
            gate = step_gate(gate, tokens, settings)
    for mode in (DRAFT, PROBE):  # means of exactly 2, the threshold, and of 2.5 beside it
        found.append((Gate(mode, (1, 3, 2)), 2, TRIED[0]))
        found.append((Gate(mode, (2,)), 3, Settings(2, 2.0, 0.5, 2)))
    return found


def read_gate(value) -> tuple:
    mode, recent, waited = inputs.as_tuple(value, "your gate", 3)
    if not isinstance(mode, str) or mode not in (DRAFT, PLAIN, PROBE):
        raise Wrong(f"your mode is {mode!r}, wanted 'draft', 'plain' or 'probe'")
    return mode, tuple(inputs.as_tokens(recent, "recent")), inputs.as_int(waited, "waited", low=0)


def check_steps(answer) -> None:
    situations = list_situations()
    yours = [read_gate(answer(*situation)) for situation in situations]
    wanted = [step_gate(*situation) for situation in situations]
    if yours != wanted:
        name_slip(yours, situations, WRONG_GATES, eq)
    for (gate, tokens, settings), mine, right in zip(situations, yours, wanted, strict=True):
        if mine != right:
            raise Wrong(
                f"{tuple(gate)} after {tokens} tokens, window {settings.window}, threshold "
                f"{settings.threshold}, hysteresis {settings.hysteresis}, probe {settings.probe}: "
                f"{mine}, wanted {tuple(right)}"
            )


def check_a_journey(answer) -> None:
    """From the start through a loss and back: what a run of 60 rounds does."""
    settings = Settings(4, 2.0, 0.5, 5)
    gate, modes = Gate(), []
    for start in range(60):
        modes.append(read_gate(gate)[0])
        tokens = 1 if modes[-1] == PLAIN or 10 <= start < 40 else 4
        gate = Gate(*read_gate(answer(gate, tokens, settings)))
    changes = [f"{a}-{b}" for a, b in pairwise(modes) if a != b]
    right = ["draft-plain", *["plain-probe", "probe-plain"] * 3, "plain-probe", "probe-draft"]
    if changes != right:
        raise Wrong(f"a run that loses for 30 rounds changes {', '.join(changes) or 'never'}")
