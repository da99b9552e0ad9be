"""What a check can say about an answer: ok, wrong, not attempted, error.

Each outcome is its own class with a `status` and a `line(exercise)`: one plain ASCII line,
the same on every machine, which is also what grading compares. `Wrong` is an exception too,
because a check ends the moment it knows what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lessonlib.exercises.registry import Exercise

MAX_SENTENCE = 240


def to_plain_line(text: object, limit: int = MAX_SENTENCE) -> str:
    """Return `text` as one ASCII line of at most `limit` characters.

    >>> to_plain_line("α is 3\\n  but should be ≤ 1")
    '? is 3 but should be ? 1'
    """
    ascii_text = str(text).encode("ascii", "replace").decode("ascii")
    printable = "".join(c if c.isprintable() else " " for c in ascii_text)
    line = " ".join(printable.split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def _label(exercise: Exercise) -> str:
    return f"ex {exercise.id} {exercise.name}"


@dataclass(frozen=True)
class Ok:
    """Every check passed.

    >>> Ok(5).status
    'ok'
    """

    checks: int
    status = "ok"
    printed = ""

    def line(self, exercise: Exercise) -> str:
        plural = "" if self.checks == 1 else "s"
        return f"{_label(exercise)}: ok ({self.checks} check{plural})"


@dataclass(frozen=True)
class NotAttempted:
    """The answer is still the stub it was shipped as."""

    status = "not attempted"
    printed = ""

    def line(self, exercise: Exercise) -> str:
        return f"{_label(exercise)}: not attempted"


class Wrong(Exception):
    """The answer runs but is not right; raised by a check with one sentence for the learner.

    >>> Wrong("row 2 sums to 0.9, not 1").status
    'wrong'
    """

    status = "wrong"

    def __init__(self, sentence: str, printed: str = "") -> None:
        super().__init__(sentence)
        self.sentence = to_plain_line(sentence)
        self.printed = printed

    def line(self, exercise: Exercise) -> str:
        return f"{_label(exercise)}: wrong - {self.sentence}"


@dataclass(frozen=True)
class Error:
    """The answer stopped with an exception, or could not be used at all."""

    sentence: str
    printed: str = ""
    status = "error"

    def line(self, exercise: Exercise) -> str:
        return f"{_label(exercise)}: error - {to_plain_line(self.sentence)}"


Outcome = Ok | NotAttempted | Wrong | Error
