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


def time_interleaved(
    contestants: dict[str, Callable[[], object]], repeats: int = 5
) -> dict[str, float]:
    """Median seconds of each contestant; all run in turn ``repeats`` times, after one warm-up.

    In turn, so that a busy minute hits them all alike. COURSE_REPEATS overrides ``repeats``:
    the test suite runs whole lessons without reading their seconds, and sets it to 1.
    """
    repeats = int(os.environ.get("COURSE_REPEATS") or repeats)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            _finish_gpu_work()
            if turn > 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}


def _finish_gpu_work() -> None:
    """CUDA runs behind our back: wait for it. Without torch there is nothing to wait for."""
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()


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
