"""Counting what a run was worth, so that α and τ mean the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence


def count_accepted(passed: Sequence[bool]) -> int:
    """How many drafted tokens survive: those before the first failed test.

    A pass behind a failure is worth nothing, because its context was thrown away.

    >>> count_accepted([True, False, True, True])
    1
    """
    passed = list(passed)
    return passed.index(False) if False in passed else len(passed)


def tokens_per_forward(accepted: Sequence[int]) -> float:
    """τ: tokens emitted per target forward, given how many each round accepted.

    Every round costs one target forward and emits its accepted tokens plus one:
    recovered or bonus. The prefill is not counted. Raises ValueError without rounds.

    >>> tokens_per_forward([4, 0, 2])
    3.0
    """
    if len(accepted) == 0:
        raise ValueError("accepted is empty: τ needs at least one round")
    return sum(count + 1 for count in accepted) / len(accepted)
