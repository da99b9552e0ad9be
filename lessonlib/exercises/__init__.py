"""The exercises of the course: checks, hints, solutions, progress.

In a notebook::

    from lessonlib.exercises import check
    check("1.2", residual)     # prints one line: ex 1.2 residual: ok (5 checks)
    hint("1.2")                # the next hint
    solution("1.2")            # after one attempt

A lesson's checks, in `lessonlib/exercises/lesson01.py`::

    from lessonlib.exercises import Exercise, Wrong, inputs

    def check_values(answer):                       # takes the learner's function
        p, q = np.array([.2, .8]), np.array([.5, .5])   # fresh inputs in every check
        with inputs.unchanged(p=p, q=q):
            yours = inputs.as_probability(answer(p, q), "your residual", (2,))
        inputs.close(yours, [0, 1], 1e-12, "the residual of p=[0.2, 0.8], q=[0.5, 0.5]")
        if ...:
            raise Wrong("one sentence that says what is off")

    EXERCISES = (Exercise("1.2", "residual", goal=..., minutes=10, difficulty=2,
                 hints=("general", "specific"), help={"symptom": "advice"},
                 checks=(check_values,), reference=rejection.residual, points=2),)

`run_checks(exercise, answer)` returns the outcome (`.status`, `.line(exercise)`) for tests.
`register(*exercises)` makes a lesson outside lessonlib known to this process.
"""

from lessonlib.exercises import inputs
from lessonlib.exercises.checking import check, run_checks
from lessonlib.exercises.hints import hint, solution
from lessonlib.exercises.outcomes import Error, NotAttempted, Ok, Wrong
from lessonlib.exercises.registry import Exercise, UnknownExercise, find_exercise, register

__all__ = [
    "Error",
    "Exercise",
    "NotAttempted",
    "Ok",
    "UnknownExercise",
    "Wrong",
    "check",
    "find_exercise",
    "hint",
    "inputs",
    "register",
    "run_checks",
    "solution",
]
