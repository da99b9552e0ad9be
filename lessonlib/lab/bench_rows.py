"""From raw turns to a row of the benchmark's table: pure arithmetic, no model and no clock.

A *turn* is one entrant decoding one prompt once. In every repeat all entrants take a turn
on the same prompt, so a turn has a partner: plain decoding's turn of the same repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from lessonlib.decoding.trace import Trace
from lessonlib.theory.speedup import break_even_alpha

if TYPE_CHECKING:
    from lessonlib.lab.proposers import Size  # which loads torch; a README needs none

TRANSFORMERS, ASSISTED = "transformers", "transformers assisted"
# Its first round is off the clock, and may emit this many: the default draft and the bonus.
FIRST_ROUND = 21


@dataclass(frozen=True)
class Turn:
    """What one turn took. The prefill is in no count and in no second.

    ``draft`` and ``target`` are the seconds inside the two models' forwards, and ``trace``
    says what was drafted; all three are None for an entrant that cannot be looked into.
    """

    tokens: int
    rounds: int
    seconds: float
    draft: float | None = None
    target: float | None = None
    trace: Trace | None = None

    @property
    def per_token(self) -> float:
        return self.seconds / self.tokens


@dataclass(frozen=True)
class Costs:
    """A proposer as calibrated: the size of its rounds, and c and v(width) at that size."""

    size: Size
    c: float
    v: float


def summarize_ratios(base: Sequence[Turn], turns: Sequence[Turn]) -> dict[str, float]:
    """How many times faster than ``base``: the median over the repeats of the paired ratio.

    The ratio is taken inside each repeat, where both ran within seconds of each other on
    the same prompt: a busy minute slows both and cancels. A ratio of two medians would
    set a quiet turn of one against a busy turn of the other. ``low`` and ``high`` are the
    extreme repeats: of so few, no finer spread can be told.

    >>> quick, slow = Turn(10, 5, seconds=1.0), Turn(10, 5, seconds=4.0)
    >>> summarize_ratios([Turn(10, 10, 2.0), Turn(10, 10, 8.0)], [quick, slow])
    {'median': 2.0, 'low': 2.0, 'high': 2.0}
    """
    ratios = [a.per_token / b.per_token for a, b in zip(base, turns, strict=True)]
    return {"median": median(ratios), "low": min(ratios), "high": max(ratios)}


def count_depths(traces: Sequence[Trace]) -> tuple[list[int], list[int]]:
    """How many rounds had a token tested at depth 1, 2, ... and in how many one passed.

    passed / reached is the acceptance rate by draft position; siblings count as one try,
    because what a path gains is one token however many siblings it took.
    """
    rounds = [round for trace in traces for round in trace.rounds if round.tests]
    deepest = max((round.reached for round in rounds), default=0)
    reached = [sum(round.reached > depth for round in rounds) for depth in range(deepest)]
    passed = [sum(round.accepted > depth for round in rounds) for depth in range(deepest)]
    return reached, passed


def count_asked(trace: Trace, K: int) -> int:
    """How many depths all rounds together were asked to draft: K each, fewer near the end."""
    end = len(trace.prompt) + len(trace.new_tokens)
    return sum(min(K, end - round.start - 1) for round in trace.rounds)


def describe_row(
    name: str, plain: Sequence[Turn], turns: Sequence[Turn], costs: Costs | None = None
) -> dict:
    """One row as plain data, its raw turns included.

    Without ``costs`` it is plain decoding or an entrant of another library.
    """
    tokens, rounds = sum(t.tokens for t in turns), sum(t.rounds for t in turns)
    row = {
        "proposer": name,
        "tau": tokens / rounds,
        "ms_per_token": 1e3 * median(turn.per_token for turn in turns),
        "speedup": summarize_ratios(plain, turns),
        "loop": _share_of_loop(turns),
        "turns": [
            {"tokens": t.tokens, "rounds": t.rounds, "seconds": t.seconds}
            | ({} if t.target is None else {"draft": t.draft, "target": t.target})
            for t in turns
        ],
    }
    return row | (_describe_drafting(turns, costs, row["tau"]) if costs else {})


def _share_of_loop(turns: Sequence[Turn]) -> float | None:
    """The share of the seconds that neither model's forwards took: to sample, test, commit."""
    if any(turn.target is None for turn in turns):
        return None
    return 1 - sum(t.draft + t.target for t in turns) / sum(t.seconds for t in turns)


def _describe_drafting(turns: Sequence[Turn], costs: Costs, tau: float) -> dict:
    """What a proposer's row has on top: α, the counts, c, v and what they predict."""
    traces = [turn.trace for turn in turns]
    reached, passed = count_depths(traces)
    rounds = sum(len(trace.rounds) for trace in traces)
    depth = sum(count_asked(trace, costs.size.K) for trace in traces) / rounds
    alphas = [test.alpha for trace in traces for r in trace.rounds for test in r.tests]
    return {
        "K": costs.size.K,
        "nodes": costs.size.nodes,
        "alpha": float(np.mean(alphas)) if alphas else None,
        "alpha_path": sum(passed) / sum(reached) if reached else None,
        "reached": reached,
        "passed": passed,
        "rounds": rounds,
        "drafted": sum(trace.drafted for trace in traces),
        "accepted": sum(trace.accepted for trace in traces),
        "depth": depth,
        "c": costs.c,
        "v": costs.v,
        "predicted": tau / (costs.c * depth + costs.v),
    }


def is_slow(row: dict) -> bool:
    """Whether a row lost to plain decoding, in the two digits that are shown."""
    return round(row["speedup"]["median"], 2) < 1


def explain_slow(row: dict) -> str:
    """Why a row is slower than plain decoding, in one line; empty if it is not.

    A proposer loses because its rounds cost more than they bring (c, v, α), or, where
    that does not explain it, in the loop around the forwards.
    """
    speed = row["speedup"]["median"]
    if not is_slow(row):
        return ""
    verdict = f"{row['proposer']} {speed:.2f}x, slower: "
    if "c" not in row:
        return verdict + _explain_foreign(row)
    c, v, depth, alpha = row["c"], row["v"], row["depth"], row["alpha_path"]
    cost = c * depth + v
    text = (
        f"{verdict}a round brings {row['tau']:.2f} tokens and costs {cost:.2f} plain forwards "
        f"(c x K + v = {c:.2f} x {depth:.1f} + {v:.2f})"
    )
    if row["predicted"] >= 1:
        return f"{text}; the loop around them takes {row['loop']:.0%} of the time"
    needed = break_even_alpha(row["K"], c, v)
    if needed is None:
        return f"{text}; at this c and v no alpha pays"
    if (alpha or 0) >= needed:  # by the formula of one alpha it pays, and it does not
        return f"{text}; alpha {alpha:.2f} at every depth, and room for K to the end, would pay"
    return f"{text}; to pay, alpha along the path must be {needed:.2f}, it is {alpha or 0:.2f}"


def _explain_foreign(row: dict) -> str:
    if "own_speedup" in row:
        own = row["own_speedup"]["median"]
        return f"a round brings {row['tau']:.2f} tokens, {own:.2f}x its own plain decoding"
    return f"{row['ms_per_token']:.1f} ms a token, no draft: its forward and its loop take longer"
