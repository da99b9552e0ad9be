"""Sliders over a player: they choose which recorded frames it steps through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as ipw

from lessonlib.widgets.controls import Panel, View
from lessonlib.widgets.player import Player, Step


@dataclass(frozen=True)
class Reel:
    """Frames to step through, a name for each, and one line of results.

    Frames of two reels that have the same name show the same moment.
    """

    steps: Sequence[Step]
    names: Sequence[str]
    readout: str


class PlayerPanel(Panel):
    """Controls over a player: ``reel(**values)`` is called with the value of each control.

    When a control moves, the player stays at the moment it showed, so that two runs can be
    compared there. An exception is shown under the player until the next success.

    >>> from lessonlib.widgets.controls import int_slider
    >>> film = lambda K: Reel([Step("<svg/>", f"K = {K}")], ["start"], "one frame")
    >>> panel = PlayerPanel({"K": int_slider("K", 4, 1, 8)}, film)
    >>> panel.controls["K"].value = 6
    >>> panel.player.captions
    ['K = 6']
    """

    def __init__(self, controls: Mapping[str, ipw.Widget], reel: Callable[..., Reel]) -> None:
        self._reel = reel
        super().__init__(controls, self._view)
        self.player = Player(self._now.steps)
        self._names = self._now.names
        self.children = (*self.children[:-1], self.player, self.errors)

    def _view(self, **values: object) -> View:
        self._now = self._reel(**values)
        return View([], self._now.readout)

    def _redraw(self, view: View) -> None:
        super()._redraw(view)
        moment = self._names[min(self.player.step, len(self._names) - 1)]
        self._names = self._now.names
        with self.player.hold_sync():  # one message: the page draws once
            self.player.show(self._now.steps)
            self.player.step = self._names.index(moment) if moment in self._names else 0

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        still, _ = self.player._repr_mimebundle_(**kwargs)
        words = f"{data['text/plain']}\n{still['text/plain']}"
        return data | {"text/plain": words, "image/svg+xml": still["image/svg+xml"]}, metadata
