"""A step-through player: it knows how to go from frame to frame, and nothing else.

What a frame shows is drawn elsewhere (`round_frames`, later KV rows and tree masks)
as `Step`s. All steps are sent at once, so stepping and playing need no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anywidget
import traitlets

from lessonlib.widgets.style import GROWTH, WIDE, theme_css


@dataclass(frozen=True)
class Step:
    """One frame: a whole SVG and the sentence that says what happens in it."""

    svg: str
    caption: str


class Player(anywidget.AnyWidget):
    """Play, pause, previous, next and a slider over steps of equal size.

    Left and right arrow keys step, Home and End jump. A saved notebook keeps the last
    frame as SVG and all captions as text. Raises ValueError without a step.

    >>> player = Player([Step("<svg/>", "first"), Step("<svg/>", "second")])
    >>> player.step, len(player.frames)
    (0, 2)
    """

    _esm = Path(__file__).with_name("player.js")
    _css = theme_css()
    frames = traitlets.List(traitlets.Unicode()).tag(sync=True)
    captions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    width = traitlets.Int(WIDE).tag(sync=True)
    growth = traitlets.Float(GROWTH).tag(sync=True)

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.show(steps)

    def show(self, steps: Sequence[Step]) -> None:
        """Replace all frames and go back to the first."""
        if not steps:
            raise ValueError("steps is empty: a player needs at least one frame")
        with self.hold_sync():
            self.step = 0
            self.frames = [step.svg for step in steps]
            self.captions = [step.caption for step in steps]

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        lines = [f"{i}. {caption}" for i, caption in enumerate(self.captions, 1)]
        still = {"text/plain": "\n".join(lines), "image/svg+xml": self.frames[-1]}
        return data | still, metadata
