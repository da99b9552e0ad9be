"""A benchmark's cell: one text at one temperature, played by everybody in turn.

In each repeat everybody decodes the same prompt with the same seed; the next repeat has
another prompt, cut from the same text, and other coins, so the spread of the repeats also
tells how much the text matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lessonlib.decoding.sampling import Sampling
from lessonlib.lab.bench_rows import ASSISTED, TRANSFORMERS, Turn, describe_row, summarize_ratios
from lessonlib.lab.calibration import play_turn
from lessonlib.lab.proposers import PLAIN
from lessonlib.lab.race import Clock

Entrant = Callable[[Sequence[int], Sampling, int], Turn]  # (prompt, sampling, seed)


@dataclass
class Cell:
    """One text at one temperature: everybody's turns, whole repeats only."""

    text: str
    T: float
    turns: dict[str, list[Turn]] = field(default_factory=dict)

    def play(
        self, prompts: Sequence[Sequence[int]], entrants: Mapping[str, Entrant],
        progress: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """One repeat for each prompt, each begun by another entrant than the one before.

        So nobody is always the first, or always behind the same neighbour.
        """
        names = list(entrants)
        for repeat, prompt in enumerate(prompts):
            start, played = repeat % len(names), {}
            for name in [*names[start:], *names[:start]]:
                played[name] = entrants[name](prompt, Sampling(self.T), repeat)
                progress()
            for name in names:  # only now: what Ctrl-C cuts short has no partners
                self.turns.setdefault(name, []).append(played[name])


def describe_cell(cell: Cell, costs: Mapping) -> dict:
    """A played cell as plain data; plain decoding comes first, as the measure of all."""
    plain = next(iter(cell.turns.values()))
    rows = [describe_row(name, plain, turns, costs.get(name)) for name, turns in cell.turns.items()]
    for row in rows:
        if row["proposer"] == ASSISTED:
            row["own_speedup"] = summarize_ratios(cell.turns[TRANSFORMERS], cell.turns[ASSISTED])
    return {"text": cell.text, "T": cell.T, "repeats": len(plain), "rows": rows}


def cut_prompts(tokens: Sequence[int], count: int, most: int) -> list[list[int]]:
    """``count`` prompts that end at evenly spread places in the second half of ``tokens``.

    Each has the last ``most`` tokens before its end. Raises ValueError for too few tokens.

    >>> cut_prompts([0, 1, 2, 3, 4, 5, 6, 7], count=3, most=2)
    [[2, 3], [4, 5], [6, 7]]
    """
    if len(tokens) < 2 * count or most < 1:
        raise ValueError(
            f"{count} prompts of at most {most} tokens cannot be cut from a text of "
            f"{len(tokens)}: ask for fewer repeats or fewer tokens"
        )
    half = len(tokens) / 2
    ends = [round(half + half * i / max(1, count - 1)) for i in range(count)]
    return [list(tokens[max(0, end - most) : end]) for end in ends]


def list_entrants(
    target, proposers: Mapping, costs: Mapping, rivals: Mapping, tokens: int, clock: Clock
) -> dict[str, Entrant]:
    """Everybody by name, plain decoding first; each turn is ``tokens`` tokens on ``clock``."""

    def enter(proposer, size) -> Entrant:
        return lambda prompt, sampling, seed: play_turn(
            target, proposer, size, prompt,
            tokens=tokens, sampling=sampling, seed=seed, clock=clock,
        )  # fmt: skip

    def enter_rival(rival) -> Entrant:
        return lambda prompt, sampling, seed: rival(prompt, tokens, sampling, seed, clock)

    entrants = {PLAIN: enter(None, None)}
    entrants |= {name: enter(p, costs[name].size) for name, p in proposers.items()}
    return entrants | {name: enter_rival(rival) for name, rival in rivals.items()}


def make_clock(model) -> Clock:
    """Seconds, once the GPU has finished what it was given; on the CPU nothing waits."""
    if model.device.type != "cuda":
        return time.perf_counter
    import torch

    def read() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return read
