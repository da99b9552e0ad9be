"""What happened in a run of the loop, round by round: for players, tests and tables.

A trace is plain data: it can be stored as JSON and replayed where no model is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from lessonlib.theory.verify import Test


@dataclass(frozen=True)
class TopRow:
    """The likeliest tokens of one position, for pictures: p and q side by side.

    ``q`` is empty where nothing was drafted: at the bonus position.
    """

    tokens: list[int]
    p: list[float]
    q: list[float]


@dataclass(frozen=True)
class Round:
    """One round: the drafted tokens, the tests, what was emitted and why.

    ``kinds[i]`` says where ``emitted[i]`` came from: "drafted", "recovered" (from the
    residual) or "bonus" (from p after full acceptance). ``start`` is the number of
    tokens in the text before the round; ``target_rows`` and ``draft_rows`` are the
    cache lengths after it. ``parents`` is empty for a chain, else the parent of each
    drafted node. ``top`` has one row for each row of p, if asked for and a chain.
    """

    start: int
    drafted: list[int]
    tests: list[Test]
    emitted: list[int]
    kinds: list[str]
    target_rows: int
    draft_rows: int = 0
    top: list[TopRow] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """How many drafted tokens passed their test: the length of the accepted path."""
        return sum(test.accepted for test in self.tests)

    @property
    def reached(self) -> int:
        """How many depths had a drafted token tested: the accepted ones and a failed one."""
        return self.accepted + (self.kinds[-1] == "recovered")


@dataclass
class Trace:
    """A whole run: what came out and what it cost.

    ``rounds`` has one entry for each target forward; the prefill is in no count.
    ``stopped`` says why the run ended: "length", "eos" or "context".
    ``pieces[token]`` is the printable text of a token, filled in by whoever has a
    tokenizer.
    """

    prompt: list[int]
    rounds: list[Round] = field(default_factory=list)
    stopped: str = "length"
    pieces: dict[int, str] = field(default_factory=dict)

    @property
    def new_tokens(self) -> list[int]:
        return [token for round in self.rounds for token in round.emitted]

    @property
    def drafted(self) -> int:
        return sum(len(round.drafted) for round in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(round.accepted for round in self.rounds)

    @property
    def tau(self) -> float:
        """τ: tokens emitted for each target forward, the bonus included; NaN without any."""
        return len(self.new_tokens) / len(self.rounds) if self.rounds else float("nan")

    @property
    def alpha(self) -> float:
        """α: mean of Σ min(p, q) over every position that was tested; NaN if none was."""
        alphas = [test.alpha for round in self.rounds for test in round.tests]
        return float(np.mean(alphas)) if alphas else float("nan")

    def to_dict(self) -> dict:
        """Plain data for JSON, floats rounded to six digits: pictures need no more."""
        return _rounded(asdict(self))

    @classmethod
    def from_dict(cls, data: dict) -> Trace:
        """What ``to_dict`` gave, also after a trip through JSON."""
        rounds = [_read_round(row) for row in data["rounds"]]
        pieces = {int(token): piece for token, piece in data["pieces"].items()}
        return cls(**{**data, "rounds": rounds, "pieces": pieces})

    def to_json(self, path: Path) -> None:
        """Write the trace to ``path``."""
        text = json.dumps(self.to_dict(), separators=(",", ":"))
        path.write_text(text + "\n", encoding="ascii", newline="\n")

    @classmethod
    def from_json(cls, path: Path) -> Trace:
        """Read what ``to_json`` wrote."""
        return cls.from_dict(json.loads(path.read_text(encoding="ascii")))


def measure_paths(traces: Sequence[Trace]) -> tuple[float, float]:
    """(τ, α per path) of several runs: tokens per target forward, depths passed per depth reached.

    A depth passes if any of the siblings tested there is accepted, so for a chain this is
    the share of tests that pass, and for a tree it counts what a path gains, however many
    siblings it took. Raises ValueError without a round, and α is NaN if nothing was tested.
    """
    rounds = [round for trace in traces for round in trace.rounds]
    if not rounds:
        raise ValueError("traces hold no round: run at least one")
    tau = sum(len(round.emitted) for round in rounds) / len(rounds)
    reached = sum(round.reached for round in rounds)
    return tau, sum(round.accepted for round in rounds) / reached if reached else float("nan")


def _read_round(row: dict) -> Round:
    tests = [Test(**test) for test in row["tests"]]
    top = [TopRow(**entry) for entry in row["top"]]
    return Round(**{**row, "tests": tests, "top": top})


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
