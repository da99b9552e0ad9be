"""Marks for KV caches: columns of token cells, each in the look of its state, and their lengths.

A row of the picture is a position in the text, so the same token lies at the same height
in every column, and a row that holds another token than the text is seen at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from lessonlib.theory.kv import Slot
from lessonlib.widgets import svg
from lessonlib.widgets.marks import Axis, Frame, Mark
from lessonlib.widgets.style import MONO, ROLES, ink

LETTER = 7.3  # width of a monospaced letter at 12 px


@dataclass(frozen=True)
class CellLook:
    """How a state is drawn: its words in the legend, its role, a sign, and whether it is void.

    No role is a thin neutral edge. ``sign`` follows the token, so colour never speaks alone.
    """

    label: str
    role: str = ""
    dash: str = ""
    sign: str = ""
    void: bool = False


# The states of theory.kv and "drafted": proposed, and not decided yet.
LOOKS = {
    "prefix": CellLook("standing"),
    "fed": CellLook("run this round", "target"),
    "drafted": CellLook("drafted", "draft", dash="7 4"),
    "accepted": CellLook("accepted", "accepted", sign="✓"),
    "rejected": CellLook("rejected", "residual", dash="2 3", sign="✗", void=True),
    "stale": CellLook("stale", "baseline", dash="2 3", void=True),
    "correction": CellLook("correction", "residual", sign="+"),
    "bonus": CellLook("bonus", "bonus", sign="+"),
    "stop": CellLook("end of text", "baseline", sign="■"),
}
RARE = ("stop",)  # drawn, but not worth a place in the legend


@dataclass(frozen=True)
class Strip:
    """One column: its cells, the logical length, and the rows a forward writes at this moment."""

    column: float
    slots: Sequence[Slot]
    length: int
    fresh: range = range(0)


@dataclass(frozen=True)
class StateCells:
    """The cells of one state in all strips; ``half`` is half a cell's width on the x axis."""

    strips: Sequence[Strip]
    state: str
    pieces: Mapping[int, str]
    half: float
    label: str = ""

    def draw(self, frame: Frame) -> str:
        look, boxes, words = LOOKS[self.state], [], []
        height = 0.84 * abs(frame.py(1) - frame.py(0))
        width = frame.px(self.half) - frame.px(-self.half)
        for strip in self.strips:
            left, middle = frame.px(strip.column - self.half), frame.px(strip.column)
            for slot in strip.slots:
                if slot.state != self.state or not is_shown(slot.position, frame):
                    continue
                y = frame.py(slot.position)
                # The group below holds what these share: a frame has many cells.
                boxes.append(_box(left, y - height / 2, width, height))
                if look.void:
                    words.append(_strike(left, y, width, height))
                words.append(_write(middle, y + 4, self._word(slot.token, width)))
        return (
            f'<g class="sd-state" data-state="{self.state}">'
            f"<g {_edge(look)}>{''.join(boxes)}</g><g {_letters(look)}>{''.join(words)}</g></g>"
        )

    def _word(self, token: int, width: float) -> str:
        sign = LOOKS[self.state].sign
        room = int((width - 6) / LETTER) - 2 * bool(sign)
        return _name(self.pieces[token], room) + (f" {sign}" if sign else "")

    def swatch(self, x: float, y: float) -> str:
        look = LOOKS[self.state]
        box = _box(x + 2, y - 7, 22, 14)
        inside = _strike(x + 2, y, 22, 14) if look.void else _write(x + 13, y + 4, look.sign)
        return f"<g {_edge(look)}>{box}</g><g {_letters(look)}>{inside}</g>"


@dataclass(frozen=True)
class Lengths:
    """A line under the last row that counts in each strip, with ``unit`` and length beside it."""

    strips: Sequence[Strip]
    half: float
    label: str = ""
    unit: str = "len "

    def draw(self, frame: Frame) -> str:
        first, last = sorted((frame.y_axis.low, frame.y_axis.high))
        drawn = []
        for strip in self.strips:
            y = frame.py(min(max(strip.length - 0.5, first), last))
            left, right = (frame.px(strip.column + side * self.half) for side in (-1, 1))
            words = svg.text(right + 9, y + 4, f"{self.unit}{strip.length}", size=12)
            drawn.append(_rule(left - 6, right + 6, y) + words)
        return f'<g class="sd-lengths">{"".join(drawn)}</g>'

    def swatch(self, x: float, y: float) -> str:
        return _rule(x, x + 24, y)


@dataclass(frozen=True)
class FreshRows:
    """A pointer at each row that a forward writes at this moment."""

    strips: Sequence[Strip]
    half: float
    label: str = ""

    def draw(self, frame: Frame) -> str:
        drawn = [
            _point(frame.px(strip.column - self.half) - 4, frame.py(row))
            for strip in self.strips
            for row in strip.fresh
            if is_shown(row, frame)
        ]
        return f'<g class="sd-fresh">{"".join(drawn)}</g>'

    def swatch(self, x: float, y: float) -> str:
        return _point(x + 18, y)


def cell_marks(
    strips: Sequence[Strip], pieces: Mapping[int, str], half: float, unit: str = "len "
) -> list[Mark]:
    """All marks of a picture of caches; the legend is the same whatever the cells are."""
    labels = {state: look.label for state, look in LOOKS.items() if state not in RARE}
    cells = [StateCells(strips, state, pieces, half, labels.get(state, "")) for state in LOOKS]
    return [*cells, FreshRows(strips, half, "written now"), Lengths(strips, half, "length", unit)]


def row_axis(first: int, last: int) -> Axis:
    """Positions from the top down, each with its number."""
    rows = tuple(range(first, last + 1))
    ends = last + 0.75, first - 0.75  # room for a length at either end
    return Axis("position in the text", *ends, rows, tuple(map(str, rows)))


def is_shown(position: int, frame: Frame) -> bool:
    """Whether a position lies in the picture."""
    first, last = sorted((frame.y_axis.low, frame.y_axis.high))
    return first < position < last


def _edge(look: CellLook) -> str:
    """Attributes of a group of cells: filled like paper, so that a word on it can be read."""
    if not look.role:
        return f'{ink("box")} stroke="{ROLES["baseline"].colour}" stroke-width="1"'
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    return f'{ink("box")} stroke="{ROLES[look.role].colour}" stroke-width="2"{dash}'


def _letters(look: CellLook) -> str:
    colour = ink("muted" if look.void else "ink")
    return f'{colour} font-family="{MONO}" font-size="12" text-anchor="middle"'


# Cached: the frames of a round have nearly all of their cells in common.
@lru_cache(maxsize=4096)
def _name(piece: str, room: int) -> str:
    return svg.cut(svg.show_token(piece), room)


@lru_cache(maxsize=4096)
def _box(x: float, y: float, width: float, height: float) -> str:
    return svg.rectangle(x, y, width, height, 'rx="3"')


@lru_cache(maxsize=4096)
def _write(x: float, y: float, words: str) -> str:
    return f'<text x="{svg.num(x)}" y="{svg.num(y)}">{escape(words)}</text>'


@lru_cache(maxsize=4096)
def _strike(left: float, y: float, width: float, height: float) -> str:
    pen = f'stroke="{ROLES["residual"].colour}" stroke-width="1.5" stroke-opacity=".7"'
    return svg.segment(left + 3, y + height / 3, left + width - 3, y - height / 3, pen)


def _rule(left: float, right: float, y: float) -> str:
    return svg.segment(left, y, right, y, f'stroke="{ROLES["output"].colour}" stroke-width="3.5"')


def _point(x: float, y: float) -> str:
    tip = f"M{svg.num(x)} {svg.num(y)}l-9 -5v10z"
    return f'<path d="{tip}" {ink("ink")}/>'
