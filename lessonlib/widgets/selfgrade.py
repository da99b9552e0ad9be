"""A question with an answer in your own words, and a checklist to hold it against.

Nobody reads the answer but its author: what counts is to have written one before looking.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as ipw

from lessonlib.widgets.style import SANS


class Checklist(ipw.VBox):
    """A button, and behind it one box to tick for each point that an answer should make."""

    def __init__(self, points: Sequence[str], model: str) -> None:
        if not points:
            raise ValueError("points is empty: say what a good answer holds")
        self.points, self._model = list(points), model
        self.opener = ipw.Button(description="I have written mine: show the checklist")
        self.opener.layout.width = "auto"
        self.boxes = [
            ipw.Checkbox(description=point, indent=False, layout={"width": "auto"})
            for point in points
        ]
        self.verdict = ipw.HTML()
        for box in self.boxes:
            box.observe(self._count, names="value")
        self.opener.on_click(self._open)
        super().__init__([self.opener])

    def _open(self, _: object) -> None:
        self._count()
        self.children = [*self.boxes, self.verdict]

    def _count(self, *_: object) -> None:
        made = sum(box.value for box in self.boxes)
        text = f"<b>{made} of {len(self.boxes)} points.</b> {escape(self._model)}"
        self.verdict.value = f'<p style="font: 14px/1.5 {SANS}; margin: 4px 0">{text}</p>'

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        """Add the checklist as text, for viewers that run nothing."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        lines = ["Write first, then compare:", *(f"  [ ] {point}" for point in self.points)]
        return {**data, "text/plain": "\n".join(lines)}, metadata


def grade_yourself(points: Sequence[str], model: str) -> Checklist:
    """A fresh checklist; ``points`` are what an answer should say, ``model`` says them at once.

    >>> checklist = grade_yourself(["names the cause", "names the cure"], "Both, in one line.")
    >>> checklist.opener.click()
    >>> checklist.boxes[0].value = True
    >>> "1 of 2 points" in checklist.verdict.value
    True
    """
    return Checklist(points, model)
