"""What others measured, to hold your own table against: figures from print, with their source.

Same harness for all rows: Spec-Bench (Xia et al. 2024, arXiv 2401.07851), Vicuna-13B on one
A100, greedy decoding.
"""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    """A published row: speed over plain decoding, and τ, tokens per target forward."""

    method: str
    speedup: float
    tau: float


SPEC_BENCH = (
    Result("EAGLE-3", 3.02, 5.71),
    Result("EAGLE-2", 2.46, 4.43),
    Result("EAGLE-1", 2.16, 3.64),
    Result("Medusa", 1.80, 2.39),
    Result("prompt lookup", 1.56, 1.67),
    Result("small-model draft", 1.54, 2.19),
    Result("Lookahead", 1.30, 1.63),
)


def round_cost(result: Result) -> float:
    """What a round must have cost, in plain forwards: τ over the speedup.

    >>> round(round_cost(Result("x", speedup=2.0, tau=3.0)), 2)
    1.5
    """
    return result.tau / result.speedup
