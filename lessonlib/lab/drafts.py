"""The recorded trainings of lesson 05: what each way to make a draft reached; which one pays.

``data/lesson05_drafts.json`` is written when the drafts are trained; reading it imports
no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lessonlib.theory.speedup import speedup

SIZES = {1: "forward-kl 1 layer", 2: "forward-kl", 4: "forward-kl 4 layers"}  # by layers
RECORD = Path(__file__).parents[1] / "data" / "lesson05_drafts.json"


@dataclass(frozen=True)
class Draft:
    """One draft: α on held-out text by temperature, and the log of its training.

    A ``log`` row holds ``tokens``, ``seconds``, ``loss`` and ``alpha``, by temperature. A
    draft that was not trained has no log, and no count of parameters if none was recorded.
    """

    name: str
    alpha: dict[float, float]
    log: tuple[dict, ...] = ()
    parameters: int | None = None


@cache
def load_drafts(path: Path = RECORD) -> dict[str, Draft]:
    """The recorded drafts by name: "untrained", the four losses, and the sizes of one loss.

    Raises FileNotFoundError with one sentence if there is no record.

    >>> {"untrained", "data", "forward-kl", "reverse-kl", "tv"} <= set(load_drafts())
    True
    """
    if not path.exists():
        raise FileNotFoundError(f"no record in {path}: train the drafts first (course.py train)")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {name: _read_draft(name, row) for name, row in rows.items()}


def _read_draft(name: str, row: dict) -> Draft:
    log = tuple({**step, "alpha": _read_alpha(step["alpha"])} for step in row.get("log", ()))
    return Draft(name, _read_alpha(row["alpha"]), log, row.get("parameters"))


def _read_alpha(by_words: dict[str, float]) -> dict[float, float]:
    """JSON keys are text: read the temperatures back as numbers."""
    return {float(temperature): alpha for temperature, alpha in by_words.items()}


def choose_draft(
    drafts: Mapping[str, tuple[float, float]], v: Mapping[int, float]
) -> tuple[str | None, int]:
    """The draft and K with the largest predicted speedup; (None, 0) where none is above 1.

    ``drafts`` holds (α, c) by name, ``v`` what verifying costs by K: v[K] is v(K + 1), in
    target forwards over one token. On a tie the first one listed stays.

    >>> choose_draft({"small": (0.5, 0.1), "large": (0.8, 0.4)}, {1: 1.0, 2: 1.0, 4: 1.0})
    ('small', 2)
    >>> choose_draft({"dear": (0.5, 0.9)}, {1: 1.0, 2: 1.0})
    (None, 0)
    """
    gains = {
        (name, K): speedup(alpha, K, c, cost)
        for name, (alpha, c) in drafts.items()
        for K, cost in v.items()
    }
    best = max(gains, key=gains.get, default=None)
    return best if best is not None and gains[best] > 1 else (None, 0)
