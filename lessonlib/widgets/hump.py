"""A draft too small for its target: one hump has to stand in for two.

The draft can place and widen one bell over 12 tokens; the target has two. What it gives up
depends on the divergence it is fitted by, which is the choice that lesson 05 is about.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, steps_slider
from lessonlib.widgets.marks import Axis, Bars

TOKENS = tuple("abcdefghijkl")
CENTRES = tuple(i / 2 for i in range(2, 2 * len(TOKENS) - 3))
WIDTHS = (0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
FITS = {"forward KL": 0, "reverse KL": 1, "TV": 2}


def bell(centre: float, width: float) -> np.ndarray:
    """One hump over the tokens, (V,): a Gaussian read at their places, normalised.

    >>> bell(2.0, 0.8)[:5].round(2).tolist()
    [0.02, 0.23, 0.5, 0.23, 0.02]
    """
    heights = np.exp(-((np.arange(len(TOKENS)) - centre) ** 2) / (2 * width**2)) + 1e-4
    return heights / heights.sum()


TARGET = 0.65 * bell(2.5, 0.9) + 0.35 * bell(8.5, 0.8)


def measure(q: np.ndarray) -> tuple[float, float, float]:
    """(forward KL, reverse KL, TV) of a draft row against the target's.

    >>> measure(TARGET)
    (0.0, 0.0, 0.0)
    """
    p = TARGET
    ratio = np.log(p / q)
    return float(p @ ratio), float(-q @ ratio), float(abs(p - q).sum() / 2)


@cache
def best_fit(divergence: str) -> tuple[float, float]:
    """(centre, width) on the sliders' grid that makes one of ``FITS`` least."""
    which = FITS[divergence]
    grid = [(centre, width) for centre in CENTRES for width in WIDTHS]
    return min(grid, key=lambda place: measure(bell(*place))[which])


def view_hump(centre: float, width: float) -> View:
    """Target and draft as bars, what they share, and the three divergences."""
    q = bell(centre, width)
    forward, backward, tv = measure(q)
    chart = Chart(
        "One hump for two",
        f"The draft's hump at {centre:g}, width {width:g}, shares {1 - tv:.2f} with the target.",
        Axis("next token", -0.5, len(TOKENS) - 0.5, tuple(range(len(TOKENS))), TOKENS),
        Axis("probability", 0, 0.55),
        [
            Bars(TARGET, "target", "target p", 0, 3),
            Bars(q, "draft", "draft q", 1, 3),
            Bars(np.minimum(TARGET, q), "accepted", "min(p, q)", 2, 3),
        ],
    )
    words = f"α = {1 - tv:.3f}  ·  KL(p‖q) {forward:.2f}, KL(q‖p) {backward:.2f}, TV {tv:.2f}"
    return View([chart], words)


def one_hump() -> Panel:
    """Move and widen the draft's hump, or let a divergence choose its place.

    >>> one_hump().readout.value.split(" ")[0]
    'α'
    """
    controls = {
        "centre": steps_slider("centre of q", CENTRES, 5.5, "where the draft's hump stands"),
        "width": steps_slider("width of q", WIDTHS, 1.5, "how wide the draft's hump is"),
    }

    def fit(divergence: str) -> None:
        controls["centre"].value, controls["width"].value = best_fit(divergence)

    buttons = {f"fit by {name}": lambda name=name: fit(name) for name in FITS}
    return Panel(controls, view_hump, buttons=buttons)
