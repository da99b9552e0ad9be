"""How a test asks for the verdict on an answer: the one line that a learner reads."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import find_exercise, run_checks


def outcome(id, answer):
    """The line that the check cell of exercise ``id`` prints for ``answer``."""
    exercise = find_exercise(id)
    with np.errstate(all="ignore"):  # a wrong answer may divide by zero
        return run_checks(exercise, answer).line(exercise)
