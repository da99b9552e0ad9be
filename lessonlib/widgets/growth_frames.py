"""EAGLE-2's tree as it grows, as frames: one for each level, the rerank, the verdict.

A level is a column. Drawn are the nodes that matter at some moment: those that are run,
and those that the largest budget keeps. The rest is counted below the column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from lessonlib.drafting.dynamic_tree import Growth, pick_best
from lessonlib.theory.treemask import find_depths
from lessonlib.theory.trees import ROOT
from lessonlib.widgets import svg
from lessonlib.widgets.growth_scene import (
    Scene,
    name_closing,
    say_level,
    say_percent,
    say_rerank,
    say_verdict,
)
from lessonlib.widgets.player import Step
from lessonlib.widgets.style import MONO, ROLES, WIDE, ink

HEIGHT, TOP, BOTTOM = 516, 96, 450  # of a frame, and of the room for its columns
FIRST, PITCH, WIDTH, GAP = 62, 103, 78, 24  # of the columns; GAP is from row to row at most
LONGEST = 7  # characters of a token in its box
LOOKS = {  # what became of a node: (role, stroke width, dash, fill opacity)
    "proposed": ("draft", 1.2, "", 0),
    "run": ("draft", 2.8, "", 0.22),
    "kept": ("target", 1.6, "", 0.22),
    "dropped": ("baseline", 1, "3 3", 0),
    "accepted": ("accepted", 2.8, "", 0.3),
}
LEGEND = {
    "proposed": "proposed", "run": "run by the head", "kept": "kept", "dropped": "dropped",
    "accepted": "accepted ✓",
}  # fmt: skip


def place_nodes(growth: Growth, wide: int, most: int) -> dict[int, tuple[float, float]]:
    """Left edge and middle of the box of each node that is drawn.

    That is the ``wide`` best of each level and the ``most`` best of all: the node budget
    moves nothing. Columns follow the order of the parents, so no two edges cross.
    """
    depths = find_depths(growth.parents)
    levels = [[i for i, d in enumerate(depths) if d == depth] for depth in range(max(depths) + 1)]
    drawn = set(pick_best(growth.scores, most))
    for level in levels:
        drawn.update(level[i] for i in pick_best([growth.scores[i] for i in level], wide))
    places: dict[int, tuple[float, float]] = {ROOT: (0, (TOP + BOTTOM) / 2)}
    for depth, level in enumerate(levels):
        shown = [node for node in level if node in drawn]
        shown.sort(key=lambda node: (places[growth.parents[node]][1], -growth.scores[node]))
        gap = min(GAP, (BOTTOM - TOP) / max(len(shown), 1))
        first = (TOP + BOTTOM) / 2 - gap * (len(shown) - 1) / 2
        for row, node in enumerate(shown):
            places[node] = FIRST + PITCH * depth, first + gap * row
    return places


def list_states(scene: Scene, moment: str, level: int) -> dict[int, str]:
    """What has become of each drawn node at a moment: "level" (number ``level``), ... ."""
    growth, path = scene.growth, set(scene.judged.path)
    depths, run, kept = find_depths(growth.parents), set(growth.expanded), set(growth.kept)
    states = {}
    for node in scene.places:
        if node == ROOT or depths[node] > level:
            continue
        if moment == "level":
            states[node] = "run" if node in run else "proposed"
        elif moment == "verdict" and node in path:
            states[node] = "accepted"
        else:
            states[node] = "kept" if node in kept else "dropped"
    return states


def draw_growth(scene: Scene) -> tuple[list[Step], list[str]]:
    """All frames and a name for each."""
    moments = [("level", level) for level in range(scene.depth)]
    moments += [("rerank", scene.depth), ("verdict", scene.depth)]
    steps = [_draw_moment(scene, moment, level) for moment, level in moments]
    return steps, [
        f"{moment} {level}" if moment == "level" else moment for moment, level in moments
    ]


def _draw_moment(scene: Scene, moment: str, level: int) -> Step:
    title, caption = {"level": say_level, "rerank": say_rerank, "verdict": say_verdict}[moment](
        scene, level
    )
    states = list_states(scene, moment, level)
    body = svg.text(10, 20, title, size=15, extra='font-weight="600"') + _draw_legend()
    body += svg.text(10, 66, f"…{svg.show_token(scene.text)}", mono=True, size=12, name="muted")
    body += svg.text(WIDE - 10, 66, "number: confidence in %", anchor="end", name="muted")
    body += _draw_edges(scene, states) + _draw_boxes(scene, states)
    body += _draw_feet(scene, states)
    body += _draw_outcome(scene) if moment == "verdict" else ""
    return Step(svg.picture(WIDE, HEIGHT, body, caption), caption)


def _box(x: float, y: float, state: str, height: float, width: float = WIDTH) -> str:
    role, stroke, dash, opacity = LOOKS[state]
    colour = ROLES[role].colour
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    paint = f'fill="{colour}" fill-opacity="{opacity}" stroke="{colour}" stroke-width="{stroke}"'
    return svg.rectangle(x, y - height / 2, width, height, f'rx="4" {paint}{dashes}')


def _draw_legend() -> str:
    x, drawn = 10.0, []
    for state, words in LEGEND.items():
        drawn += [_box(x + 1, 40, state, 12, 22), svg.text(x + 30, 44, words)]
        x += 30 + 7 * len(words) + 12
    return "".join(drawn)


def _draw_edges(scene: Scene, states: Mapping[int, str]) -> str:
    """A line to each node, as wide as the head is confident; the accepted ones on top."""
    drawn: dict[bool, list[str]] = {False: [], True: []}
    for node, state in states.items():
        parent = scene.growth.parents[node]
        x, y = scene.places[parent]
        x = 26 if parent == ROOT else x + WIDTH
        share = math.exp(scene.growth.scores[node])
        width = 1 if state == "dropped" else 1 + 8 * share
        paint = f'stroke="{ROLES[LOOKS[state][0]].colour}" stroke-width="{width:.1f}"'
        line = svg.segment(x, y, *scene.places[node], paint)
        drawn[state == "accepted"].append(line)
    root = svg.marker(20, scene.places[ROOT][1], "target", 6)
    faint = "".join(drawn[False])
    return f'<g stroke-opacity=".55">{faint}</g><g class="sd-path">{"".join(drawn[True])}</g>{root}'


def _draw_boxes(scene: Scene, states: Mapping[int, str]) -> str:
    """The boxes with token and confidence; fonts and inks are said once, for all."""
    boxes, words, shares = [], [], []
    for node, state in states.items():
        x, y = scene.places[node]
        boxes.append(f'<g class="sd-node" data-state="{state}">{_box(x, y, state, 15)}</g>')
        word = escape(svg.cut(scene.word(node), LONGEST))
        faint = ' opacity=".55"' if state == "dropped" else ""
        words.append(f'<text x="{svg.num(x + 5)}" y="{svg.num(y + 4)}"{faint}>{word}</text>')
        share = say_percent(scene.growth.scores[node]) + ("✓" if state == "accepted" else "")
        place = f'x="{svg.num(x + WIDTH - 4)}" y="{svg.num(y + 3.5)}"'
        shares.append(f"<text {place}>{escape(share)}</text>")
    return (
        f"<g>{''.join(boxes)}</g>"
        f'<g font-family="{MONO}" font-size="11" {ink("ink")}>{"".join(words)}</g>'
        f'<g font-size="10" text-anchor="end" {ink("muted")}>{"".join(shares)}</g>'
    )


def _draw_feet(scene: Scene, states: Mapping[int, str]) -> str:
    """Below each column its number, and how many of its nodes are not drawn."""
    depths, drawn = find_depths(scene.growth.parents).tolist(), []
    shown = [depths[node] for node in states]
    for depth in range(max(shown) + 1):
        hidden = depths.count(depth) - shown.count(depth)
        words = f"level {depth + 1}" + (f", +{hidden}" if hidden else "")
        x = FIRST + PITCH * depth + WIDTH / 2
        drawn.append(svg.text(x, BOTTOM + 20, words, size=12, anchor="middle", name="muted"))
    return "".join(drawn)


def _draw_outcome(scene: Scene) -> str:
    """The tokens that came out, in one row: the accepted ones and the target's own."""
    words = [(scene.word(node), "accepted") for node in scene.judged.path]
    words.append((name_closing(scene) or "other", "bonus"))
    x, y, drawn = 88.0, HEIGHT - 20, [svg.text(10, HEIGHT - 16, "comes out", name="muted")]
    for word, role in words:
        word = svg.cut(word, 9)
        width = 8 * len(word) + 12
        paint = f'rx="4" fill="{ROLES[role].colour}" fill-opacity=".3" '
        paint += f'stroke="{ROLES[role].colour}"' + (
            ' stroke-dasharray="4 2"' if role == "bonus" else ""
        )
        drawn.append(svg.rectangle(x, y - 10, width, 21, paint))
        drawn.append(svg.text(x + width / 2, y + 5, word, anchor="middle", mono=True))
        x += width + 6
    return f'<g class="sd-outcome">{"".join(drawn)}</g>'
