"""How a test asks for the verdict on an answer: the one line that a learner reads."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import find_exercise, run_checks


def outcome(id, answer):
    """The line that the check cell of exercise ``id`` prints for ``answer``."""
    exercise = find_exercise(id)
    with np.errstate(all="ignore"):  # a wrong answer may divide by zero
        return run_checks(exercise, answer).line(exercise)


def cast_to_float32(given):
    """What an answer returns with every float in it cut to 32 bits, as torch would give it."""
    if isinstance(given, float | np.floating):
        return np.float32(given)
    if isinstance(given, np.ndarray) and given.dtype.kind == "f":
        return given.astype(np.float32)
    if type(given) in (list, tuple):
        return type(given)(map(cast_to_float32, given))
    return given
