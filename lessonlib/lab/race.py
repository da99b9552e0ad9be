"""Proposers against plain decoding on one clock, and where each one's seconds go.

The prefill is left out, here as in τ: a speedup is about the tokens that are decoded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lessonlib.decoding.steps import Run
from lessonlib.decoding.trace import Trace

Clock = Callable[[], float]


@dataclass(frozen=True)
class Spent:
    """Seconds: the draft's forwards, the target's, and the rest, which samples and tests."""

    draft: float = 0.0
    target: float = 0.0
    rest: float = 0.0

    @property
    def total(self) -> float:
        return self.draft + self.target + self.rest

    def __add__(self, other: Spent) -> Spent:
        pairs = zip(self._parts(), other._parts(), strict=True)
        return Spent(*(mine + its for mine, its in pairs))

    def _parts(self) -> tuple[float, float, float]:
        return self.draft, self.target, self.rest


@dataclass(frozen=True)
class Lap:
    """What one entrant did: its traces, and the seconds of its median repeat."""

    traces: list[Trace]
    spent: Spent

    @property
    def tokens(self) -> int:
        return sum(len(trace.new_tokens) for trace in self.traces)

    @property
    def rounds(self) -> int:
        return sum(len(trace.rounds) for trace in self.traces)

    @property
    def tau(self) -> float:
        """τ over all runs: tokens per target forward."""
        return self.tokens / self.rounds

    @property
    def seconds_per_token(self) -> float:
        return self.spent.total / self.tokens


def race(
    target: Any,
    entrants: Mapping[str, Callable[[], Sequence[Run[Trace]]]],
    repeats: int = 5,
    clock: Clock = time.perf_counter,
    progress: Callable[[], object] = lambda: None,
    warm_up: bool = True,
) -> dict[str, Lap]:
    """Let each entrant play its runs, in turn, ``repeats`` times after a warm-up.

    An entrant makes fresh runs (``decoding.loop.decode``) at each call. In turn, so that a
    busy minute hits all alike. ``clock`` gives seconds; ``time.process_time``, with one
    thread, leaves other programs out. ``progress`` is called after every turn of an entrant.
    """
    repeats = int(os.environ.get("COURSE_REPEATS") or repeats)  # as in ``timing``
    laps: dict[str, list[Lap]] = {name: [] for name in entrants}
    for turn in range(0 if warm_up else 1, repeats + 1):
        for name, make_runs in entrants.items():
            timed = [run_timed(run, target, clock) for run in make_runs()]
            if turn > 0:
                spent = sum((seconds for _, seconds in timed), Spent())
                laps[name].append(Lap([trace for trace, _ in timed], spent))
            progress()
    return {name: _take_median(turns) for name, turns in laps.items()}


def _take_median(laps: list[Lap]) -> Lap:
    """The lap in the middle by time; of two, the faster one: neighbours only ever slow us down."""
    return sorted(laps, key=lambda lap: lap.spent.total)[(len(laps) - 1) // 2]


def run_timed(run: Run, target: Any, clock: Clock = time.perf_counter) -> tuple[Any, Spent]:
    """Drive one run alone, as ``steps.run_alone`` does; returns (its result, seconds spent).

    A forward over an empty cache is a prefill and counts nowhere (a prompt of one token has
    none, so give two or more). Meant for models on the CPU: a GPU works behind the clock's back.
    """
    spent, answer, last = {"draft": 0.0, "target": 0.0, "rest": 0.0, "prefill": 0.0}, None, clock()
    while True:
        try:
            step = run.send(answer)
        except StopIteration as end:
            spent["rest"] += clock() - last
            spent.pop("prefill")
            return end.value, Spent(**spent)
        began = clock()
        spent["rest"] += began - last
        kind = "target" if step.model is target else "draft"
        kind = "prefill" if step.cache.length == 0 else kind
        (answer,) = step.model.forward_rows([step])
        last = clock()
        spent[kind] += last - began
