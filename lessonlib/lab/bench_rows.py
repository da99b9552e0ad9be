"""From raw turns to a row of the benchmark's table: pure arithmetic, no model and no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from lessonlib.decoding.trace import Trace
from lessonlib.lab.turns import Turn, find_middle, measure_tau, split_round, summarize_ratios
from lessonlib.theory.speedup import break_even_alpha

if TYPE_CHECKING:
    from lessonlib.lab.proposers import Size  # which loads torch; a README needs none

TRANSFORMERS, ASSISTED = "transformers", "transformers assisted"
# Its first round is off the clock, and may emit this many: the default draft and the bonus.
FIRST_ROUND = 21


@dataclass(frozen=True)
class Costs:
    """A proposer as calibrated: the size of its rounds, and c and v(width) at that size."""

    size: Size
    c: float
    v: float


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
    row = {
        "proposer": name,
        "tau": measure_tau(turns),
        "ms_per_token": 1e3 * median(turn.per_token for turn in turns),
        "speedup": summarize_ratios(plain, turns),
        "loop": _share_of_loop(turns),
        "turns": [
            {"tokens": t.tokens, "rounds": t.rounds, "seconds": t.seconds}
            | ({} if t.target is None else {"draft": t.draft, "target": t.target})
            for t in turns
        ],
    }
    if costs is None:
        return row
    middle = find_middle(plain, turns)
    return {
        **row,
        **_describe_drafting(turns, costs),
        "middle": _describe_middle(plain[middle], turns[middle], costs),
    }


def _share_of_loop(turns: Sequence[Turn]) -> float | None:
    """The share of the seconds that neither model's forwards took: to sample, test, commit."""
    if any(turn.target is None for turn in turns):
        return None
    return sum(turn.rest for turn in turns) / sum(turn.seconds for turn in turns)


def _describe_drafting(turns: Sequence[Turn], costs: Costs) -> dict:
    """What a proposer's row has on top: the size of its rounds, c, v, α and the counts."""
    traces = [turn.trace for turn in turns]
    reached, passed = count_depths(traces)
    alphas = [test.alpha for trace in traces for r in trace.rounds for test in r.tests]
    return {
        "K": costs.size.K,
        "nodes": costs.size.nodes,
        "c": costs.c,
        "v": costs.v,
        "alpha": float(np.mean(alphas)) if alphas else None,
        "alpha_path": sum(passed) / sum(reached) if reached else None,
        "reached": reached,
        "passed": passed,
        "rounds": sum(turn.rounds for turn in turns),
        "drafted": sum(trace.drafted for trace in traces),
        "accepted": sum(trace.accepted for trace in traces),
    }


def _describe_middle(plain: Turn, turn: Turn, costs: Costs) -> dict:
    """The repeat with the median ratio: what the formula says of it, and what a round took.

    Prompts differ in how easy they are, so prediction and measurement must be of one turn.
    """
    depth = count_asked(turn.trace, costs.size.K) / turn.rounds
    tau = measure_tau([turn])
    draft, target, rest = split_round([plain], [turn])
    return {
        "tau": tau,
        "predicted": tau / (costs.c * depth + costs.v),
        "draft": draft,
        "target": target,
        "rest": rest,
    }


def is_slow(row: dict) -> bool:
    """Whether a row lost to plain decoding, in the two digits that are shown."""
    return round(row["speedup"]["median"], 2) < 1


def explain_slow(row: dict) -> str:
    """Why a row is slower than plain decoding, in one line; empty if it is not.

    The speed is the tokens of a round over its cost, both of the repeat that is the median.
    """
    speed = row["speedup"]["median"]
    if not is_slow(row):
        return ""
    verdict = f"{row['proposer']} {speed:.2f}x, slower: "
    if "c" not in row:
        return verdict + _explain_foreign(row)
    middle = row["middle"]
    cost = middle["draft"] + middle["target"] + middle["rest"]
    text = (
        f"{verdict}a round brought {middle['tau']:.2f} tokens and took {cost:.2f} plain rounds "
        f"(drafting {middle['draft']:.2f}, verifying {middle['target']:.2f}, the loop "
        f"{middle['rest']:.2f})"
    )
    alpha, needed = row["alpha_path"] or 0, break_even_alpha(row["K"], row["c"], row["v"])
    if needed is None:
        return f"{text}; at this c and v no alpha pays"
    if alpha < needed:
        return f"{text}; to pay, alpha along the path must be {needed:.2f}, it was {alpha:.2f}"
    return text


def _explain_foreign(row: dict) -> str:
    if "own_speedup" in row:
        own = row["own_speedup"]["median"]
        return f"a round brings {row['tau']:.2f} tokens, {own:.2f}x its own plain decoding"
    return f"{row['ms_per_token']:.1f} ms a token, no draft: its forward and its loop take longer"
