"""Name a mistake by its result: an answer that gives what a known slip gives is told so.

However its code looks: only what it returns is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lessonlib.exercises import Wrong
from lessonlib.exercises.inputs import near

Slips = tuple[tuple[str, Callable], ...]  # (what to say, the wrong function)


def name_slip(
    yours: Iterable[Any],
    points: Iterable[tuple],
    slips: Iterable[tuple[str, Callable]],
    same: Callable[[Any, Any], bool] = near,
) -> None:
    """Raise Wrong with the sentence of the first slip that gives ``yours`` at all points.

    >>> name_slip([1, 2], [(2,), (3,)], (("one too few", lambda x: x - 1),))
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: one too few
    """
    for sentence, slip in slips:
        if all(same(mine, slip(*point)) for mine, point in zip(yours, points, strict=True)):
            raise Wrong(sentence)
