"""Measuring speed so that it means something: paired, interleaved, medians."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lessonlib.decoding.gpt2 import GPT2

Clock = Callable[[], float]  # gives seconds


def time_interleaved(
    contestants: dict[str, Callable[[], object]], repeats: int = 5
) -> dict[str, float]:
    """Median seconds of each contestant; all run in turn ``repeats`` times, after one warm-up.

    In turn, so that a busy minute hits them all alike. COURSE_REPEATS overrides ``repeats``.
    """
    repeats = count_repeats(repeats)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            began = read_clock()
            run()
            if turn > 0:
                seconds[name].append(read_clock() - began)
    return {name: median(values) for name, values in seconds.items()}


def count_repeats(wanted: int) -> int:
    """How often to measure: ``wanted``, or what COURSE_REPEATS says.

    The test suite runs whole lessons without reading their seconds, and sets it to 1. Raises
    ValueError if it is no whole number above 0.
    """
    text = os.environ.get("COURSE_REPEATS")
    if not text:
        return wanted
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"COURSE_REPEATS={text}: use a whole number above 0, or unset it")
    return int(text)


def read_clock() -> float:
    """Seconds, once the GPU, which works behind our back, has finished what it was given.

    Without torch, or on the CPU, there is nothing to wait for.
    """
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def measure_costs(
    target: GPT2, draft: GPT2, K: int, *, rows: int = 128, repeats: int = 15
) -> tuple[float, float]:
    """Measure (c, v): draft forward and (K + 1)-token verification, in plain target forwards.

    c = t_draft(1) / t_target(1) and v(K + 1) = t_target(K + 1) / t_target(1), with
    ``rows`` tokens in the cache, or as many as leave room for the K + 1. Raises
    ValueError where the context has no room for those.
    """
    rows = min(rows, target.context - K - 1, draft.context - 1)
    if rows < 0:
        raise ValueError(f"K is {K}: use less than the target's context of {target.context}")

    def forward(model, n):
        cache = model.new_cache()
        if rows:
            model.forward([0] * rows, cache)

        def run():
            model.forward([0] * n, cache)
            cache.rollback(rows)

        return run

    contestants = {
        "one": forward(target, 1),
        "draft": forward(draft, 1),
        "verify": forward(target, K + 1),
    }
    seconds = time_interleaved(contestants, repeats)
    return seconds["draft"] / seconds["one"], seconds["verify"] / seconds["one"]
