"""What an exercise is, and how its id leads to it.

`lessonlib/exercises/lessonNN.py` exposes `EXERCISES: tuple[Exercise, ...]`. Looking up "1.2"
imports lesson01 and nothing else, so a check in lesson 01 never pays for a later lesson.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Check = Callable[[Any], None]
_ID = re.compile(r"(\d{1,2})\.(\d{1,2})")
_registered: dict[str, tuple[Exercise, ...]] = {}


class UnknownExercise(LookupError):
    """No exercise has this id; the message lists the ids there are."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: what the card shows, what the check does, what the library answers.

    `hints` go from general to specific. `help` pairs a symptom the learner sees with advice
    (a dict is accepted). Each of `checks` takes the answer and returns or raises `Wrong`; it
    builds its inputs afresh, so no answer can spoil the next check. `reference` is the
    library's version and passes every check.

    >>> from lessonlib.exercises.outcomes import Wrong
    >>> def check_half(answer):
    ...     if answer(4) != 2:
    ...         raise Wrong("half of 4 is 2")
    >>> halve = Exercise("1.2", "halve", "Halve a number", minutes=5, difficulty=1,
    ...     hints=("Which operator divides?", "Use //"), help={"you get 2.0": "/ gives floats"},
    ...     checks=(check_half,), reference=lambda x: x // 2)
    >>> halve.lesson, halve.help
    ('01', (('you get 2.0', '/ gives floats'),))
    """

    id: str
    name: str
    goal: str
    minutes: int
    difficulty: int
    hints: tuple[str, ...]
    help: Mapping[str, str] | tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    reference: Any
    points: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "help", tuple(dict(self.help).items()))
        if not _ID.fullmatch(self.id) or self.id != normalise(self.id):
            raise ValueError(f'exercise id {self.id!r}: write lesson.number, such as "1.2"')
        if not self.name.isidentifier():
            raise ValueError(f"exercise {self.id}: name {self.name!r} must be what learners define")
        if not all(isinstance(field, tuple) for field in (self.hints, self.checks)):
            raise ValueError(f"exercise {self.id}: hints and checks must be tuples")
        if len(self.hints) < 2:
            raise ValueError(f"exercise {self.id}: give at least two hints")
        if not self.checks:
            raise ValueError(f"exercise {self.id}: give at least one check")
        if self.difficulty not in (1, 2, 3):
            raise ValueError(f"exercise {self.id}: difficulty must be 1, 2 or 3")
        if self.minutes < 1 or self.points < 0:
            raise ValueError(f"exercise {self.id}: minutes must be positive, points not negative")

    @property
    def lesson(self) -> str:
        """The two digits that name the lesson's files."""
        return lesson_of(self.id)


def normalise(exercise_id: str) -> str:
    """Return an exercise id as the course writes it.

    >>> normalise("01.02")
    '1.2'
    """
    match = _ID.fullmatch(exercise_id) if isinstance(exercise_id, str) else None
    if match is None:
        raise UnknownExercise(
            f'{exercise_id!r} is not an exercise id; write lesson.number, such as "1.2"'
        )
    return f"{int(match[1])}.{int(match[2])}"


def lesson_of(exercise_id: str) -> str:
    """Return the lesson of an exercise id.

    >>> lesson_of("1.2")
    '01'
    """
    return normalise(exercise_id).partition(".")[0].zfill(2)


def register(*exercises: Exercise) -> None:
    """Make exercises of a lesson that lives outside lessonlib known to this process.

    They replace whatever the process knew of that lesson.
    """
    lessons = {exercise.lesson for exercise in exercises}
    for lesson in lessons:
        _registered[lesson] = tuple(e for e in exercises if e.lesson == lesson)


def load_lesson(lesson: str) -> tuple[Exercise, ...]:
    """Return the exercises of lesson "01"; an empty tuple when it has no module."""
    if lesson in _registered:
        return _registered[lesson]
    name = f"lessonlib.exercises.lesson{lesson}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        return ()
    ids = [exercise.id for exercise in module.EXERCISES]
    if len(set(ids)) < len(ids) or any(lesson_of(i) != lesson for i in ids):
        raise ValueError(f"{name}: ids must be unique and start with {int(lesson)}., got {ids}")
    return module.EXERCISES


def find_exercise(exercise_id: str) -> Exercise:
    """Return the exercise with this id.

    Raises `UnknownExercise`, with the lesson's ids in its message, when there is none.
    """
    exercise_id = normalise(exercise_id)
    lesson = lesson_of(exercise_id)
    exercises = load_lesson(lesson)
    for exercise in exercises:
        if exercise.id == exercise_id:
            return exercise
    if not exercises:
        raise UnknownExercise(f"there is no exercise {exercise_id}: lesson {lesson} has none")
    known = ", ".join(exercise.id for exercise in exercises)
    raise UnknownExercise(f"there is no exercise {exercise_id}; lesson {lesson} has {known}")


def list_lessons() -> list[str]:
    """Return the lessons that have a module of checks, in order."""
    modules = Path(__file__).parent.glob("lesson[0-9][0-9].py")
    return sorted({path.stem.removeprefix("lesson") for path in modules} | set(_registered))
