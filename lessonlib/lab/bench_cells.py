"""A benchmark's cell: one text at one temperature, raced by everybody.

In each repeat everybody decodes the same prompt with the same seed; the next repeat has
another prompt, cut from the same text, and other coins, so the spread of the repeats also
tells how much the text matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lessonlib.lab.bench_rows import ASSISTED, TRANSFORMERS, describe_row
from lessonlib.lab.turns import Turn, summarize_ratios


@dataclass
class Cell:
    """One text at one temperature: everybody's turns, whole repeats only."""

    text: str
    T: float
    turns: dict[str, list[Turn]] = field(default_factory=dict)


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
