"""Sliders with the traps taken out, and the panel that ties them to plots.

A lesson's widget is a pure function from the controls' values to a `View`; the panel
calls it when a control moves, redraws in place, and shows an exception under the
plots instead of losing it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as ipw

from lessonlib.widgets.chart import Chart
from lessonlib.widgets.plot import Plot, with_fallback
from lessonlib.widgets.style import GROWTH, WIDE

_WIDE = {"layout": {"width": "460px", "max_width": "98%"}, "style": {"description_width": "150px"}}


def int_slider(description: str, value: int, low: int, high: int, says: str = "") -> ipw.IntSlider:
    """A slider over whole numbers; ``says`` is the tooltip."""
    return ipw.IntSlider(
        value=value,
        min=low,
        max=high,
        description=description,
        tooltip=says or description,
        **_WIDE,
    )


def share_slider(description: str, value: float, says: str = "") -> ipw.FloatSlider:
    """A slider from 0 to 1 in steps of 0.01."""
    # The low end is 0 on purpose: with min=0.05 the browser nudges 0.5 to 0.5000000000000001.
    return ipw.FloatSlider(
        value=value, min=0.0, max=1.0, step=0.01, readout_format=".2f",
        description=description, tooltip=says or description, **_WIDE,
    )  # fmt: skip


def steps_slider(
    description: str, values: Sequence[float], value: float, says: str = ""
) -> ipw.SelectionSlider:
    """A slider over listed values, which need not be evenly spaced."""
    return ipw.SelectionSlider(
        options=[(f"{v:g}", v) for v in values], value=value,
        description=description, tooltip=says or description, **_WIDE,
    )  # fmt: skip


def chooser(description: str, options: Sequence[tuple[str, int]]) -> ipw.Dropdown:
    """A drop-down list of (words, value)."""
    return ipw.Dropdown(options=options, description=description, tooltip=description, **_WIDE)


@dataclass(frozen=True)
class View:
    """What a panel shows for one setting: its charts, one line of results, perhaps a text."""

    charts: Sequence[Chart]
    readout: str
    html: str = ""


class Panel(ipw.VBox):
    """Controls over plots: ``view(**values)`` is called with the value of each named control.

    ``on_drag(key, bar, value)`` is called first when a bar was dragged, ``on_pick(key, bar)``
    when something was clicked that can be picked. ``buttons`` maps words to actions
    without arguments. Each panel owns its widgets and callbacks, so running a cell again
    leaves the old panel without a listener on the new one.

    >>> panel = Panel({"K": int_slider("K", 4, 1, 8)}, lambda K: View([], f"K = {K}"))
    >>> panel.controls["K"].value = 6
    >>> panel.readout.value
    'K = 6'
    """

    def __init__(
        self,
        controls: Mapping[str, ipw.Widget],
        view: Callable[..., View],
        on_drag: Callable[[str, int, float], None] | None = None,
        buttons: Mapping[str, Callable[[], None]] | None = None,
        on_pick: Callable[[str, int], None] | None = None,
    ) -> None:
        self.controls, self.view = dict(controls), view
        self.on_drag, self.on_pick = on_drag, on_pick
        self.errors = ipw.Output()
        self.readout = ipw.Label(style={"font_size": "15px", "font_weight": "bold"})
        first = self._look()
        self.plots = [Plot(chart) for chart in first.charts]
        self.readout.value = first.readout
        self.page = ipw.HTML(first.html)
        self.buttons = [self._button(*item) for item in (buttons or {}).items()]
        self._listen()
        wrap = ipw.Layout(flex_flow="row wrap", max_width=f"{WIDE * GROWTH:.0f}px")
        rows = [
            *self.controls.values(),
            self.readout,
            *([self.page] if first.html else []),
            ipw.Box(self.plots, layout=wrap),
            self.errors,
        ]
        if self.buttons:
            rows.insert(0, ipw.Box(self.buttons, layout=wrap))
        super().__init__(rows)

    def _look(self) -> View:
        return self.view(**{name: control.value for name, control in self.controls.items()})

    def _listen(self) -> None:
        for control in self.controls.values():
            control.observe(lambda _: self._guard(lambda: None), names="value")
        for plot in self.plots:
            # A wide plot fills a row; narrow ones share it as long as they keep their size.
            plot.layout.flex = "1 1 100%" if plot.width == WIDE else f"1 1 {plot.width * 0.9:.0f}px"
            plot.observe(lambda change: self._guard(self._drag, change["new"]), names="dragged")
            plot.observe(lambda change: self._guard(self._pick, change["new"]), names="picked")

    def _button(self, words: str, action: Callable[[], None]) -> ipw.Button:
        button = ipw.Button(description=words, tooltip=words, layout={"width": "auto"})
        button.on_click(lambda _: self._guard(action))
        return button

    def _drag(self, dragged: dict) -> None:
        if self.on_drag is not None and dragged:
            self.on_drag(dragged["key"], dragged["bar"], dragged["value"])

    def _pick(self, picked: dict) -> None:
        if self.on_pick is not None and picked:
            self.on_pick(picked["key"], picked["bar"])

    def _guard(self, action: Callable, *arguments: object) -> None:
        """Act, then redraw; an exception is shown under the plots until the next success."""
        try:
            action(*arguments)
            self._redraw(self._look())
        except Exception as problem:
            self.errors.outputs = (_error_output(problem),)
        else:
            self.errors.outputs = ()

    def _redraw(self, view: View) -> None:
        for plot, chart in zip(self.plots, view.charts, strict=True):
            plot.show(chart)
        self.readout.value = view.readout
        self.page.value = view.html

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        charts = [plot.chart for plot in self.plots]
        return with_fallback(super()._repr_mimebundle_(**kwargs), charts, self.readout.value)


def _error_output(problem: Exception) -> dict:
    """An exception in the notebook format's own form, which JupyterLab draws as a traceback."""
    # Set as data: `with output:` would need the kernel to capture it, and hides it from tests.
    return {
        "output_type": "error",
        "ename": type(problem).__name__,
        "evalue": str(problem),
        "traceback": traceback.format_exception(problem),
    }
