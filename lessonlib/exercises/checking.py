"""Run an exercise's checks on an answer and say the outcome in one line.

Whatever the learner's code does (raise, exit, recurse, print, warn, draw), the outcome is one
of four objects. What it printed is kept for the rich view and stays out of the line.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

from lessonlib.exercises.hints import show_help
from lessonlib.exercises.outcomes import Error, NotAttempted, Ok, Outcome, Wrong, to_plain_line
from lessonlib.exercises.progress import record_attempt
from lessonlib.exercises.registry import Exercise, UnknownExercise, find_exercise

MAX_PRINTED = 2000


def check(exercise_id: str, answer: Any) -> None:
    """Print the outcome of an exercise as one plain line; never raises for a learner's fault.

    A wrong answer or an error also shows what helps, where the front end can draw it.
    """
    try:
        exercise = find_exercise(exercise_id)
    except UnknownExercise as unknown:
        print(unknown)
        return
    outcome = run_checks(exercise, answer)
    print(outcome.line(exercise))
    record_attempt(exercise.id, outcome.status)
    if isinstance(outcome, Wrong | Error):
        show_help(exercise, outcome)


def run_checks(exercise: Exercise, answer: Any) -> Outcome:
    """Return Ok, Wrong, NotAttempted or Error; only KeyboardInterrupt gets through.

    An answer that is None or `...` was never given: not attempted.
    """
    if answer is None or answer is Ellipsis:
        return NotAttempted()
    with _quiet() as printed:
        try:
            for run_check in exercise.checks:
                run_check(answer)
        except KeyboardInterrupt:
            raise
        except Wrong as wrong:
            return Wrong(wrong.sentence, printed.getvalue())
        except BaseException as error:
            return _judge_exception(error, exercise, answer, printed.getvalue())
    return Ok(len(exercise.checks))


def _judge_exception(
    error: BaseException, exercise: Exercise, answer: Any, printed: str
) -> NotAttempted | Error:
    """Tell a stub from a fault, and a fault in the answer from one in its use."""
    message = _read_message(error)
    if isinstance(error, NotImplementedError):
        if message == f"exercise {exercise.id}":
            return NotAttempted()
        if message.startswith("exercise "):
            return Error(f"your code calls {message}, which is not solved yet", printed)
    if isinstance(error, SystemExit):
        return Error("your code called exit; return a value instead", printed)
    what = to_plain_line(f"{type(error).__name__}: {message}".rstrip(": "), limit=160)
    line = _find_line(error, exercise, answer)
    if line is None:
        return Error(f"the check could not use your answer: {what}", printed)
    return Error(f"your code raised {what} (line {line} of its cell)", printed)


def _read_message(error: BaseException) -> str:
    try:
        return to_plain_line(error)
    except BaseException:  # an exception class whose __str__ fails, or exits
        return ""


def _find_line(error: BaseException, exercise: Exercise, answer: Any) -> int | None:
    """Return the deepest line of the answer's own cell in the traceback, None if not there."""
    parts = vars(answer).values() if isinstance(answer, type) else (answer,)
    files = {part.__code__.co_filename for part in parts if hasattr(part, "__code__")}
    ours = {getattr(run_check, "__code__", None) for run_check in exercise.checks}
    frames = traceback.walk_tb(error.__traceback__)
    lines = [
        line
        for frame, line in frames
        if frame.f_code.co_filename in files and frame.f_code not in ours
    ]
    return lines[-1] if lines else None


class _Capped(io.StringIO):
    """A sink that keeps the beginning: an answer may print without end."""

    def close(self) -> None:
        """Stay open, also when the answer closes its stdout: what it printed is still read."""

    def write(self, text: str) -> int:
        super().write(text[: max(0, MAX_PRINTED - self.tell())])
        return len(text)


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Keep prints, warnings and displayed objects of the answer out of the cell's output."""
    printed = _Capped()
    with (
        redirect_stdout(printed),
        redirect_stderr(printed),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        _no_display(),
    ):
        warnings.simplefilter("ignore")
        yield printed


@contextmanager
def _no_display() -> Iterator[None]:
    """Swallow IPython's `display` while the answer runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        yield
        return
    from IPython.core.displaypub import CapturingDisplayPublisher

    publisher = shell.display_pub
    shell.display_pub = CapturingDisplayPublisher()
    try:
        yield
    finally:
        shell.display_pub = publisher
