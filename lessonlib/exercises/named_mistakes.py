"""Name a mistake by its result: an answer that gives what a known slip gives is told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lessonlib.exercises import Wrong

Slips = tuple[tuple[str, Callable], ...]  # (what to say, the wrong function)


def name_slip(
    yours: Sequence[Any],
    points: Sequence[tuple],
    slips: Slips,
    same: Callable[[Any, Any], bool],
) -> None:
    """Raise Wrong with the sentence of the first slip that gives ``yours`` at all points.

    >>> name_slip([1, 2], [(2,), (3,)], (("one too few", lambda x: x - 1),), int.__eq__)
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: one too few
    """
    for sentence, slip in slips:
        if all(same(mine, slip(*point)) for mine, point in zip(yours, points, strict=True)):
            raise Wrong(sentence)
