"""One look for every widget: what each role is coloured, dashed and filled with.

Colours are Okabe and Ito's, told apart by colour-blind readers; a dash, a marker
or a hatch always says the same thing a second time. A picture is drawn in the light
theme with explicit colours, so it can be read anywhere; `theme_css` repaints the
same classes when JupyterLab or VS Code is dark.
"""

from __future__ import annotations

from dataclasses import dataclass

SANS = "system-ui, 'Segoe UI', Arial, sans-serif"
MONO = "ui-monospace, Consolas, monospace"
WIDE, HALF = 680, 340  # drawing widths in px: alone on a row, or two on a row
GROWTH = 1.15  # a picture may be shown this much larger than drawn
TALL, SHORT = 300, 240  # drawing heights in px


@dataclass(frozen=True)
class Look:
    """How one role is drawn: as a line (dash, marker) and as an area (fill)."""

    colour: str
    dash: str = ""
    marker: str = "circle"  # circle, square, triangle, diamond, cross
    fill: str = "solid"  # solid, hollow, rising (hatch /), falling (hatch \)


ROLES = {
    "target": Look("#0072B2"),
    "draft": Look("#E69F00", dash="7 4", marker="square", fill="hollow"),
    "accepted": Look("#009E73", dash="6 2", marker="triangle", fill="rising"),
    "residual": Look("#D55E00", dash="9 3 2 3", marker="diamond", fill="falling"),
    "bonus": Look("#CC79A7", dash="4 2", marker="cross"),
    "output": Look("#56B4E9", dash="12 4", marker="circle", fill="hollow"),
    "baseline": Look("#7F7F7F", dash="3 4", marker="cross", fill="hollow"),
}

# class name: (property, light, dark). The classes are the ones svg.py writes.
INKS = {
    "paper": ("fill", "#FFFFFF", "#1B1D21"),
    "ink": ("fill", "#1F2328", "#ECEDEE"),
    "muted": ("fill", "#57606A", "#B4BAC2"),
    "edge": ("stroke", "#57606A", "#B4BAC2"),
    "grid": ("stroke", "#E3E6EA", "#373B42"),
    "box": ("fill", "#F3F5F7", "#2A2E35"),
}
_DARK_PAGES = ('[data-jp-theme-light="false"]', 'body[data-vscode-theme-kind="vscode-dark"]')


def ink(name: str) -> str:
    """The SVG attributes of one ink: a class for the theme and the light colour itself.

    >>> ink("paper")
    'class="paper" fill="#FFFFFF"'
    """
    prop, light, _ = INKS[name]
    return f'class="{name}" {prop}="{light}"'


def theme_css() -> str:
    """The style sheet of every widget: its frame, its focus ring and its dark theme."""
    paper, words = INKS["paper"], INKS["muted"]
    rules = [_FRAME_CSS.format(sans=SANS, paper=paper[1], words=words[1])]
    for page in _DARK_PAGES:
        rules.append(f"{page} .sd-figure {{ background: {paper[2]}; color: {words[2]}; }}")
        rules += [
            f"{page} .sd-figure .{name} {{ {prop}: {dark}; }}"
            for name, (prop, _, dark) in INKS.items()
        ]
    return "\n".join(rules)


_FRAME_CSS = """\
.sd-figure {{
  margin: 0 0 6px; padding: 6px; box-sizing: border-box; border-radius: 6px;
  background: {paper}; color: {words}; font: 13px/1.4 {sans};
}}
.sd-figure svg {{ display: block; width: 100%; height: auto; }}
.sd-figure figcaption {{ padding: 4px 8px; }}
.sd-player figcaption {{ min-height: 2.8em; }}
.sd-drag {{ cursor: ns-resize; touch-action: none; outline: none; }}
.sd-drag .sd-grip {{ opacity: .65; }}
.sd-drag:hover .sd-grip, .sd-drag:focus .sd-grip {{ opacity: 1; }}
.sd-drag:focus-visible .sd-ring {{ stroke: #56B4E9; stroke-width: 2; }}
.sd-pick {{ cursor: pointer; outline: none; }}
.sd-pick:hover .sd-ring, .sd-pick:focus-visible .sd-ring {{ stroke: #56B4E9; stroke-width: 3; }}
.sd-buttons {{ display: flex; align-items: center; gap: 6px; padding: 2px 8px; }}
.sd-buttons button {{ min-width: 62px; height: 28px; font-size: 13px; cursor: pointer; }}
.sd-buttons button[aria-disabled="true"] {{ opacity: .4; }}
.sd-buttons input {{ flex: 1; min-width: 60px; accent-color: #0072B2; }}
.sd-buttons output {{ min-width: 76px; text-align: right; font-variant-numeric: tabular-nums; }}
"""
