"""The recorded trainings of lesson 06: what each EAGLE head reached, and each of its ablations.

``data/lesson06_heads.json`` is written when the heads are trained; reading it imports
neither torch nor NumPy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HEADS = ("eagle1", "eagle1-unshifted", "eagle3", "eagle3-one-step", "eagle3-top")
RECORD = Path(__file__).parents[1] / "data" / "lesson06_heads.json"


@dataclass(frozen=True)
class HeadRecord:
    """One head on held-out text: α by temperature, and by position in the drafted chain.

    ``by_position[T][k]`` is α of a draft that stands on k of the head's own outputs. A row
    of the ``log`` holds ``tokens``, ``seconds``, ``loss``, ``alpha`` and ``by_position``.
    """

    kind: str
    alpha: dict[float, float]
    by_position: dict[float, list[float]]
    log: tuple[dict, ...] = ()
    parameters: int | None = None


@cache
def load_heads(path: Path = RECORD) -> dict[str, HeadRecord]:
    """The recorded heads by kind, those of HEADS that are there, in that order.

    Raises FileNotFoundError with one sentence if there is no record.

    >>> list(load_heads()) == [kind for kind in HEADS if kind in load_heads()]
    True
    """
    if not path.exists():
        raise FileNotFoundError(f"no record in {path}: train the heads first (course.py train)")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {kind: _read_head(kind, rows[kind]) for kind in HEADS if kind in rows}


def _read_head(kind: str, row: dict) -> HeadRecord:
    log = tuple({**step, **_read_rates(step)} for step in row.get("log", ()))
    return HeadRecord(kind, **_read_rates(row), log=log, parameters=row.get("parameters"))


def _read_rates(row: dict) -> dict[str, dict]:
    """JSON keys are text: read the temperatures back as numbers."""
    return {
        name: {float(temperature): rate for temperature, rate in row[name].items()}
        for name in ("alpha", "by_position")
    }
