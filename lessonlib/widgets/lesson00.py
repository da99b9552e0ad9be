"""Widget of lesson 00: recorded runs of the bundled pair, by K and temperature."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from lessonlib.decoding.trace import Trace
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.controls import Panel, View, steps_slider
from lessonlib.widgets.marks import Axis, Bars, Rule
from lessonlib.widgets.style import INKS, MONO, ROLES, SHORT

# Where an emitted token came from: the role that colours it, and a second sign of it.
SIGNS = {
    "drafted": ("accepted", "solid"),
    "recovered": ("residual", "dashed"),
    "bonus": ("bonus", "double"),
}


def write_run(trace: Trace) -> str:
    """The text of a run as HTML: each token underlined by where it came from."""
    prompt = "".join(trace.pieces[token] for token in trace.prompt)
    spans = [
        f'<span style="border-bottom: 3px {SIGNS[kind][1]} {ROLES[SIGNS[kind][0]].colour}" '
        f'title="{kind}">{escape(trace.pieces[token])}</span>'
        for round in trace.rounds
        for token, kind in zip(round.emitted, round.kinds, strict=True)
    ]
    legend = "   ".join(
        f'<span style="border-bottom: 3px {dash} {ROLES[role].colour}">{kind}</span>'
        for kind, (role, dash) in SIGNS.items()
    )
    # A fixed height with its own scroll bar: the plot below stays where it is.
    style = (
        f"height: 210px; overflow: auto; padding: 8px; border-radius: 6px; margin: 0; "
        f"background: {INKS['box'][1]}; color: {INKS['ink'][1]}; "
        f"font: 13px/1.7 {MONO}; white-space: pre-wrap"
    )
    return f'<pre style="{style}">{legend}\n\n{escape(prompt)}{"".join(spans)}</pre>'


def view_run(trace: Trace, longest: int) -> View:
    """Tokens of each round, and the run's α and τ."""
    accepted = [float(round.accepted) for round in trace.rounds]
    count = max(longest, 1)
    padded = accepted + [0.0] * (count - len(accepted))
    closing = [1.0] * len(accepted) + [0.0] * (count - len(accepted))
    chart = Chart(
        "What each target forward emitted",
        f"{len(accepted)} rounds emitted {len(trace.new_tokens)} tokens: τ = {trace.tau:.2f}.",
        Axis("round (one target forward each)", 0, count, tuple(range(0, count + 1, 8))),
        Axis("tokens", 0, 9, (0, 1, 3, 5, 7, 9)),
        [
            Bars(padded, "accepted", "accepted draft tokens"),
            Bars(closing, "residual", "recovered or bonus token", base=padded),
            Rule(trace.tau, "target", "τ"),
        ],
        height=SHORT,
    )
    readout = (
        f"τ = {trace.tau:.2f} tokens per forward  ·  α = {trace.alpha:.2f}  ·  "
        f"drafted {trace.drafted}, accepted {trace.accepted}, rounds {len(trace.rounds)}"
    )
    return View([chart], readout, write_run(trace))


def recorded_runs(runs: Mapping[tuple[int, float], Trace]) -> Panel:
    """Slide K and the temperature over recorded runs of one prompt and one seed.

    ``runs`` maps (K, temperature) to a trace with ``pieces``; every combination of its
    K's and temperatures must be there.
    """
    lengths, temperatures = (sorted({key[i] for key in runs}) for i in (0, 1))
    longest = max(len(trace.rounds) for trace in runs.values())
    controls = {
        "K": steps_slider("K, drafted tokens", lengths, 4 if 4 in lengths else lengths[0]),
        "temperature": steps_slider("temperature T", temperatures, temperatures[0]),
    }

    def view(K: int, temperature: float) -> View:
        return view_run(runs[K, temperature], longest)

    return Panel(controls, view)
