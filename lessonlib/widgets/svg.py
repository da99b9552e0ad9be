"""The few SVG shapes every picture is made of, as strings.

One drawing code, in Python: the same string is the live picture, the fallback of a
static viewer and what the tests read. Nothing here needs ids, so pictures can be
nested and repeated on a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape

from lessonlib.widgets.style import MONO, ROLES, SANS, ink

SYMBOLS = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})
# What no XML may hold: control characters get their pictures (␛), halves of a character a box.
_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10, 13)}
_HALVES = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd")
_UNSHOWN = {**_CONTROLS, **_HALVES, 0x7F: "␡"}


def plain(words: str) -> str:
    """Words as SVG and HTML can hold them, whatever characters a model wrote.

    >>> plain("a < b\\x1b\\ud800")
    'a &lt; b␛\ufffd'
    """
    return escape(words.translate(_UNSHOWN))


def show_token(token: str) -> str:
    """A token as it can be seen: symbols for white space, five spaces or more counted.

    >>> show_token(" def"), show_token("\\n        return")
    ('␣def', '⏎␣×8return')
    """
    seen = token.translate(SYMBOLS).translate(_UNSHOWN) or "∅"
    return re.sub("␣{5,}", lambda run: f"␣×{len(run[0])}", seen)


def cut(words: str, longest: int) -> str:
    """``words`` in at most ``longest`` characters.

    >>> cut("return", 6), cut("returned", 6)
    ('return', 'retur…')
    """
    return words if len(words) <= longest else words[: max(longest - 1, 0)] + "…"


def num(value: float) -> str:
    """A coordinate with one decimal, as short as possible.

    >>> num(12.0), num(3.14159)
    ('12', '3.1')
    """
    return f"{round(value, 1) + 0.0:g}"


def text(
    x: float, y: float, words: str, *, size: int = 13, anchor: str = "start", name: str = "ink",
    mono: bool = False, extra: str = "",
) -> str:  # fmt: skip
    """One line of text at (x, y); ``name`` is the ink, ``extra`` raw attributes."""
    style = f' text-anchor="{anchor}"' if anchor != "start" else ""
    style += f' font-family="{MONO}"' if mono else ""
    style += f" {extra}" if extra else ""
    place = f'x="{num(x)}" y="{num(y)}" font-size="{size}"'
    return f"<text {place}{style} {ink(name)}>{plain(words)}</text>"


def segment(x1: float, y1: float, x2: float, y2: float, attributes: str) -> str:
    """A straight line with the given attributes."""
    ends = f'x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}"'
    return f"<line {ends} {attributes}/>"


def rectangle(x: float, y: float, width: float, height: float, attributes: str) -> str:
    """A rectangle with the given attributes."""
    size = f'width="{num(max(width, 0))}" height="{num(max(height, 0))}"'
    return f'<rect x="{num(x)}" y="{num(y)}" {size} {attributes}/>'


def block(x: float, y: float, width: float, height: float, role: str) -> str:
    """A filled area in the look of a role: solid, hollow, or hatched over a light fill."""
    look = ROLES[role]
    shade = ".65" if look.fill == "solid" else ".22"  # a hatch laid over a solid bar stays visible
    paint = f'fill="{look.colour}" fill-opacity="{shade}" stroke="{look.colour}" stroke-width="1.5"'
    area = rectangle(x, y, width, height, paint)
    if look.fill in ("solid", "hollow"):
        return area
    hatch = _hatch(x, y, width, height, rising=look.fill == "rising")
    return area + f'<path d="{hatch}" stroke="{look.colour}" stroke-width="1.6" fill="none"/>'


def _hatch(x: float, y: float, width: float, height: float, rising: bool) -> str:
    """Diagonals in a rectangle, counted from its bottom: they stand still as it grows."""
    strokes = []
    for c in range(6, int(width + height), 6):
        left, right = max(0.0, c - height), min(c, width)
        low, high = y + height - (c - left), y + height - (c - right)
        start, end = (x + width - left, x + width - right) if rising else (x + left, x + right)
        strokes.append(f"M{num(start)} {num(low)}L{num(end)} {num(high)}")
    return "".join(strokes)


def marker(x: float, y: float, role: str, size: float = 4) -> str:
    """The small symbol of a role, centred at (x, y)."""
    look = ROLES[role]
    paint = f'fill="{look.colour}" stroke="{look.colour}"'
    if look.marker == "circle":
        return f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(size)}" {paint}/>'
    if look.marker == "cross":
        arms = f"M{num(x - size)} {num(y - size)}l{num(2 * size)} {num(2 * size)}"
        arms += f"M{num(x - size)} {num(y + size)}l{num(2 * size)} {num(-2 * size)}"
        return f'<path d="{arms}" {paint} stroke-width="2"/>'
    sides, turn = {"square": (4, 45), "diamond": (4, 0), "triangle": (3, 0)}[look.marker]
    angles = [math.radians(turn - 90 + 360 * i / sides) for i in range(sides)]
    corners = " ".join(
        f"{num(x + 1.3 * size * math.cos(a))},{num(y + 1.3 * size * math.sin(a))}" for a in angles
    )
    return f'<polygon points="{corners}" {paint}/>'


def polyline(points: Iterable[tuple[float, float]], role: str, width: float = 2.4) -> str:
    """A line in the look of a role, broken where a coordinate is NaN."""
    look, path, pen = ROLES[role], [], "M"
    for x, y in points:
        missing = math.isnan(x) or math.isnan(y)
        if not missing:
            path.append(f"{pen}{num(x)} {num(y)}")
        pen = "M" if missing else "L"
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    paint = f'fill="none" stroke="{look.colour}" stroke-width="{width}"{dash}'
    return f'<path class="sd-line" data-role="{role}" d="{"".join(path)}" {paint}/>'


def picture(width: float, height: float, body: str, says: str, interactive: bool = False) -> str:
    """A whole SVG on its own paper; ``says`` is read out by a screen reader."""
    # An "img" hides its children from a screen reader, so bars that can be moved need a "group".
    role = "group" if interactive else "img"
    size = f'width="{num(width)}" height="{num(height)}" viewBox="0 0 {num(width)} {num(height)}"'
    paper = rectangle(0, 0, width, height, ink("paper"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="{role}" aria-label="{plain(says)}" '
        f'font-family="{SANS}">{paper}{body}</svg>'
    )
