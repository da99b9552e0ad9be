"""A question to answer before anything moves: choose, then see whether and why."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as ipw

from lessonlib.widgets.style import ROLES, SANS


class Question(ipw.VBox):
    """One multiple-choice question; the feedback appears once an option is chosen."""

    def __init__(self, question: str, options: Sequence[str], right: int, why: str) -> None:
        if not 0 <= right < len(options):
            raise ValueError(f"right is {right}, but there are {len(options)} options")
        if len(set(options)) < len(options):  # the choice comes back as its words
            raise ValueError(f"two options are equal in {list(options)}: make each its own")
        self.question, self._right, self._why = question, options[right], why
        self.choices = ipw.RadioButtons(
            options=list(options),
            value=None,
            description="",
            tooltip=question,
            layout={"width": "auto"},
        )
        self.feedback = ipw.HTML(layout={"min_height": "3.2em"})  # room kept: nothing jumps
        self.choices.observe(self._answer, names="value")
        title = f'<p style="font: 600 14px/1.5 {SANS}; margin: 0">{escape(question)}</p>'
        super().__init__([ipw.HTML(title), self.choices, self.feedback])

    def _answer(self, change: dict) -> None:
        if change["new"] is None:
            return
        hit = change["new"] == self._right
        colour = ROLES["accepted" if hit else "residual"].colour
        verdict = "✓ Yes." if hit else "✗ Not quite."
        self.feedback.value = (
            f'<p style="font: 14px/1.5 {SANS}; margin: 0; padding-left: 8px; '
            f'border-left: 4px solid {colour}"><b>{verdict}</b> {escape(self._why)}</p>'
        )

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        """Add the question as text, for viewers that run nothing."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        lines = [self.question, *(f"  ( ) {option}" for option in self.choices.options)]
        return {**data, "text/plain": "\n".join(lines)}, metadata


def ask(question: str, options: Sequence[str], right: int, why: str) -> Question:
    """A fresh question; ``right`` is the index of the right option, ``why`` explains it.

    >>> question = ask("1 + 1?", ["1", "2"], right=1, why="Count.")
    >>> question.choices.value = "2"
    >>> "Yes" in question.feedback.value
    True
    """
    return Question(question, options, right, why)
