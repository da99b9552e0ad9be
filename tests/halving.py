"""A tiny exercise that tests of the check framework and of the build share."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Exercise, inputs


def half(n):
    return n // 2


def check_values(answer):
    p = np.array([4.0, 6.0])
    with inputs.unchanged(p=p):
        yours = inputs.as_vector(answer(p), "your half", 2)
    inputs.close(yours, [2, 3], 1e-12, "half of [4, 6]")


def check_small(answer):
    inputs.close(inputs.as_number(answer(2), "your half"), 1, 1e-12, "half of 2")


def make_exercise(**changes):
    """Return the exercise "98.1", with some fields changed."""
    fields = {
        "id": "98.1",
        "name": "half",
        "goal": "Halve a number",
        "minutes": 5,
        "difficulty": 1,
        "hints": ("Think of division", "Use //"),
        "help": {"you get <0.5>": "check | the operator"},
        "checks": (check_values, check_small),
        "reference": half,
    }
    return Exercise(**{**fields, **changes})
