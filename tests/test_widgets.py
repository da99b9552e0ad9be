"""The widgets without a browser: what they compute, draw, say and leave behind."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessonlib.decoding.sampling import warp
from lessonlib.decoding.trace import Round, TopRow, Trace
from lessonlib.theory.rejection import acceptance_rate, residual
from lessonlib.theory.verify import Test
from lessonlib.widgets import chart, lesson01, marks, round_frames, style, svg
from lessonlib.widgets.controls import Panel, View, int_slider, share_slider
from lessonlib.widgets.player import Player, Step
from lessonlib.widgets.plot import Plot

P, Q = (np.array(row) for row in lesson01.STARTS["start"])
TOKENS = lesson01.TOKENS


def make_context(seed: int = 0, size: int = 200, kept: int = 12) -> dict:
    rng = np.random.default_rng(seed)
    p_logits = rng.normal(size=size) * 2
    return {
        "text": "def f(x):\n    return",
        "tokens": [f" t{i}" for i in range(kept)],
        "p_logits": p_logits,
        "q_logits": p_logits + rng.normal(size=size) + 3.0,
    }


def make_trace(passes: tuple[bool, ...]) -> Trace:
    """A trace of one round whose tests end as ``passes`` says; token i is drafted at i."""
    K = 3
    p, q = [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]
    tests = [
        Test(i, i, p[i], q[i], min(1, p[i] / q[i]), 0.05 if ok else 0.95, ok, 0.6)
        for i, ok in enumerate(passes)
    ]
    accepted = sum(passes)
    kinds = ["drafted"] * accepted + ["bonus" if accepted == K else "recovered"]
    top = [TopRow([0, 1, 2, 3], p, q)] * K + [TopRow([0, 1, 2, 3], p, [])]
    round_ = Round(1, [0, 1, 2], tests, [*range(accepted), 3], kinds, 2 + accepted, 2, top)
    pieces = {0: "\n    ", 1: " <b>", 2: "&", 3: " end", 9: "def"}
    return Trace([9], [round_], pieces=pieces)


def bars_of(picture: chart.Chart, role: str) -> np.ndarray:
    return np.asarray(next(m.heights for m in picture.marks if getattr(m, "role", "") == role))


# What is computed


@given(
    st.lists(st.floats(0.001, 1), min_size=2, max_size=6), st.integers(0, 5), st.floats(-0.5, 1.5)
)
@settings(max_examples=100, deadline=None)
def test_a_dragged_bar_stays_at_the_pointer_and_the_sum_stays_1(weights, bar, height):
    before = np.array(weights) / sum(weights)
    bar %= before.size
    after = lesson01.drag_bar(before, bar, height)
    assert after[bar] == min(max(height, 0), 1)
    assert after.sum() == pytest.approx(1, abs=1e-12)
    assert (after >= 0).all()
    others = np.arange(before.size) != bar
    np.testing.assert_allclose(
        after[others] * before[others].sum(), before[others] * after[others].sum(), atol=1e-12
    )


def test_a_bar_dragged_down_from_1_shares_its_loss_evenly():
    np.testing.assert_allclose(lesson01.drag_bar([0, 1, 0], 1, 0.4), [0.3, 0.4, 0.3])


@pytest.mark.parametrize("start", lesson01.STARTS)
def test_the_view_shows_what_the_theory_says(start):
    p, q = (np.array(row) for row in lesson01.STARTS[start])
    both, missing, output = lesson01.view_rejection(TOKENS, p, q).charts
    assert bars_of(both, "accepted").sum() == pytest.approx(acceptance_rate(p, q))
    np.testing.assert_allclose(bars_of(missing, "residual"), residual(p, q))
    law = bars_of(output, "accepted") + bars_of(output, "residual")
    np.testing.assert_allclose(law, p, atol=1e-12)


def test_the_readout_names_alpha_and_the_distance():
    words = lesson01.view_rejection(TOKENS, P, Q).readout
    assert "= 0.70" in words
    assert "TV(p, q) = 1 − α = 0.30" in words


def test_closeness_0_is_the_recorded_draft_and_1_the_target():
    context = make_context()
    p, q = lesson01.bring_closer(context, 0.7, 0.0)
    np.testing.assert_allclose(p, warp(context["p_logits"], 0.7))
    np.testing.assert_allclose(q, warp(context["q_logits"], 0.7))
    p, q = lesson01.bring_closer(context, 0.7, 1.0)
    np.testing.assert_allclose(p, q, atol=1e-12)


def test_temperature_0_is_greedy_and_a_high_one_brings_alpha_to_1():
    context = make_context()
    p, _ = lesson01.bring_closer(context, 0, 0.0)
    assert p.max() == 1
    assert acceptance_rate(*lesson01.bring_closer(context, 1000, 0.0)) > 0.99


def test_alpha_counts_the_tokens_that_are_drawn_as_one_bar():
    context = make_context(size=200, kept=12)
    bars = lesson01.view_temperature(context, 1.0, 0.0).charts[0]
    p, q = lesson01.bring_closer(context, 1.0, 0.0)
    assert len(bars.x_axis.names) == 13
    assert bars_of(bars, "target").sum() == pytest.approx(1)
    assert bars_of(bars, "accepted").sum() == pytest.approx(acceptance_rate(p, q))
    # The lump holds less than min of the lumped p and q: that would overstate alpha.
    assert bars_of(bars, "accepted")[-1] < min(p[12:].sum(), q[12:].sum()) - 0.01


def test_no_rest_bar_where_every_token_is_named():
    context = make_context(size=5, kept=5)
    names = lesson01.view_temperature(context, 1.0, 0.0).charts[0].x_axis.names
    assert len(names) == 5


# What is drawn


@pytest.mark.parametrize(
    "picture",
    [
        *lesson01.view_rejection(TOKENS, P, Q).charts,
        *lesson01.view_temperature(make_context(), 1.5, 0.3).charts,
    ],
    ids=lambda c: c.title,
)
def test_a_chart_is_valid_svg_that_says_what_it_shows(picture):
    root = ET.fromstring(picture.svg())
    assert root.get("aria-label") == picture.caption
    assert root.get("role") in ("img", "group")
    assert len(picture.title) * 8.5 < picture.width, "the title is clipped"
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert picture.x_axis.label in words
    assert picture.caption not in words
    static = "".join(ET.fromstring(picture.svg(with_caption=True)).itertext())
    assert picture.caption.split()[-1] in static


def test_the_frame_does_not_move_with_the_values():
    def frame_lines(p):
        root = ET.fromstring(lesson01.view_rejection(TOKENS, p, Q).charts[0].svg())
        lines = root.iter("{http://www.w3.org/2000/svg}line")
        return [tuple(sorted(line.attrib.items())) for line in lines]

    assert frame_lines(P) == frame_lines(lesson01.drag_bar(P, 0, 0.99))


def test_every_bar_can_be_focused_and_is_named():
    root = ET.fromstring(lesson01.view_rejection(TOKENS, P, Q).charts[0].svg())
    bars = [node for node in root.iter() if node.get("role") == "slider"]
    assert [bar.get("aria-label") for bar in bars][:2] == ["p of ␣mat", "p of ␣sofa"]
    assert len(bars) == 10
    assert all(bar.get("tabindex") == "0" for bar in bars)
    assert float(bars[0].get("aria-valuenow")) == 0.4


def test_a_bar_is_as_tall_as_its_value():
    axis = marks.token_axis("t", ["a", "b"])
    frame = marks.Frame(axis, marks.Axis("y", 0, 1), 0, 100, 0, 200)
    drawn = ET.fromstring(marks.Bars([0.25, 0.0], "target").draw(frame))
    assert [float(rect.get("height")) for rect in drawn] == [50.0]


def test_a_line_is_broken_at_nan():
    path = svg.polyline([(0, 0), (1, 1), (2, float("nan")), (3, 3)], "target")
    assert 'd="M0 0L1 1M3 3"' in path


def test_roles_differ_by_more_than_colour():
    lines = {(look.dash, look.marker) for look in style.ROLES.values()}
    assert len(lines) == len(style.ROLES)
    assert len({look.colour for look in style.ROLES.values()}) == len(style.ROLES)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("theme", [1, 2], ids=["light", "dark"])
def test_words_can_be_read_in_both_themes(theme):
    paper = luminance(style.INKS["paper"][theme])
    for name in ("ink", "muted"):
        words = luminance(style.INKS[name][theme])
        contrast = (max(words, paper) + 0.05) / (min(words, paper) + 0.05)
        assert contrast >= 4.5, f"{name} has a contrast of only {contrast:.1f}"


# Widgets


def test_a_panel_leaves_a_picture_and_words_for_static_viewers():
    data, _ = lesson01.drag_p_and_q()._repr_mimebundle_()
    ET.fromstring(data["image/svg+xml"])
    assert "overlap sums to α = 0.70" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert len(data["image/svg+xml"]) < 40_000


def test_a_plot_leaves_a_picture_too():
    picture = lesson01.view_rejection(TOKENS, P, Q).charts[1]
    data, _ = Plot(picture)._repr_mimebundle_()
    assert "object at 0x" not in data["text/plain"]
    ET.fromstring(data["image/svg+xml"])


def test_a_panel_without_a_plot_leaves_its_readout():
    data, _ = Panel({}, lambda: View([], "K = 4"))._repr_mimebundle_()
    assert data["text/plain"] == "K = 4"


def test_each_call_returns_a_fresh_widget_with_a_state_of_its_own():
    first, second = lesson01.drag_p_and_q(), lesson01.drag_p_and_q()
    first.plots[0].dragged = {"key": "p", "bar": 0, "value": 0.9}
    assert first.readout.value != second.readout.value
    assert "0.70" in second.readout.value


def test_ten_runs_of_a_cell_leave_one_callback():
    calls = []

    def view(K):
        calls.append(K)
        return View([], f"K = {K}")

    for _ in range(10):
        panel = Panel({"K": int_slider("K", 4, 1, 8)}, view)
    calls.clear()
    panel.controls["K"].value = 5
    assert calls == [5]


def test_a_dragged_bar_moves_every_plot_of_its_panel():
    panel = lesson01.drag_p_and_q()
    before = [plot.svg for plot in panel.plots]
    panel.plots[0].dragged = {"key": "q", "bar": 1, "value": 0.9}
    assert all(old != plot.svg for old, plot in zip(before, panel.plots, strict=True))
    assert "p = q" in [button.description for button in panel.buttons]
    panel.buttons[1].click()
    assert "α = Σ min(p, q) = 1.00" in panel.readout.value


def test_a_slider_moves_every_plot_of_its_panel():
    panel = lesson01.temperature_and_closeness([make_context(0), make_context(1)])
    for name, value in (("temperature", 0.5), ("closeness", 0.5), ("context", 1)):
        before = [plot.svg for plot in panel.plots]
        panel.controls[name].value = value
        assert all(old != plot.svg for old, plot in zip(before, panel.plots, strict=True)), name
    panel.controls["temperature"].value = 0
    assert panel.errors.outputs == ()


def test_an_exception_is_shown_under_the_widget_until_the_next_success():
    def view(K):
        if K == 5:
            raise ZeroDivisionError("K must not be 5")
        return View([], f"K = {K}")

    panel = Panel({"K": int_slider("K", 4, 1, 8)}, view)
    panel.controls["K"].value = 5
    (shown,) = panel.errors.outputs
    assert (shown["ename"], shown["evalue"]) == ("ZeroDivisionError", "K must not be 5")
    assert panel.children[-1] is panel.errors
    panel.controls["K"].value = 6
    assert panel.errors.outputs == ()
    assert panel.readout.value == "K = 6"


def test_sliders_are_described_and_start_at_0():
    slider = share_slider("closeness", 0.5)
    assert (slider.min, slider.value, slider.description) == (0, 0.5, "closeness")
    assert slider.tooltip == "closeness"


def test_a_widget_without_contexts_says_what_is_missing():
    with pytest.raises(ValueError, match="contexts is empty"):
        lesson01.temperature_and_closeness([])


# The player


@pytest.mark.parametrize(
    ("passes", "kinds"),
    [
        ((True, True, True), "draft draft draft score test test test bonus end"),
        ((True, False), "draft draft draft score test test residual end"),
        ((False,), "draft draft draft score test residual end"),
    ],
)
def test_the_moments_follow_the_round(passes, kinds):
    round_ = make_trace(passes).rounds[0]
    assert [m.kind for m in round_frames.list_moments(round_)] == kinds.split()


def test_a_round_of_plain_decoding_is_one_forward_and_one_token():
    round_ = Round(1, [], [], [0], ["bonus"], 1, 0, [TopRow([0], [1.0], [])])
    steps = round_frames.draw_round(Trace([9], [round_], pieces={0: "a", 9: "b"}), 0)
    assert len(steps) == 3
    assert steps[-1].caption == "1 token from one forward of the target."


def test_a_round_cut_short_by_the_end_of_text_has_no_closing_token():
    whole = make_trace((True, True, True)).rounds[0]
    cut = Round(1, whole.drafted, whole.tests[:1], [0], ["drafted"], 1, 1, whole.top)
    assert [m.kind for m in round_frames.list_moments(cut)][-2:] == ["test", "end"]


@pytest.mark.parametrize("passes", [(True, True, True), (True, False), (False,)])
def test_all_frames_have_one_size_and_say_what_happens(passes):
    steps = round_frames.draw_round(make_trace(passes), 0)
    roots = [ET.fromstring(step.svg) for step in steps]
    assert len({(root.get("width"), root.get("height")) for root in roots}) == 1
    assert [root.get("aria-label") for root in roots] == [step.caption for step in steps]
    assert len({step.svg for step in steps}) == len(steps), "two frames look the same"
    assert sum(len(step.svg) for step in steps) < 150_000


def test_frames_tell_only_what_has_happened():
    steps = round_frames.draw_round(make_trace((True, False)), 0)
    words = ["".join(ET.fromstring(step.svg).itertext()) for step in steps]
    assert "target p" not in words[2]  # still drafting
    assert "0.10" not in words[2]  # p of the first token
    assert "target p" in words[3]
    assert "0.10" in words[3]
    assert "✓" not in words[3]
    assert "✓" in words[4]
    assert "✗" not in words[4]
    assert "✗" in words[5]
    assert "residual" not in words[5]
    assert "residual" in words[6]


def test_white_space_is_seen_and_markup_is_not_obeyed():
    frame = round_frames.draw_round(make_trace((True, True, True)), 0)[-1]
    words = "".join(ET.fromstring(frame.svg).itertext())
    assert "⏎␣␣␣␣" in words
    assert "␣<b>" in words


def test_the_residual_in_the_frame_is_that_of_the_theory():
    trace = make_trace((False,))
    row, test = trace.rounds[0].top[0], trace.rounds[0].tests[0]
    bars = round_frames._bars(
        round_frames.Moment("residual", 0, 3, 1, scored=True, closed=True), row.p, row.q, test.alpha
    )
    np.testing.assert_allclose(bars[2].heights, residual(row.p, row.q))


def test_a_missing_round_is_named():
    with pytest.raises(ValueError, match="number is 1, but the trace has 1 round"):
        lesson01.round_player(make_trace((False,)), 1)


def test_the_player_leaves_its_last_frame_and_all_captions():
    player = Player([Step("<svg>a</svg>", "first"), Step("<svg>b</svg>", "second")])
    data, _ = player._repr_mimebundle_()
    assert data["image/svg+xml"] == "<svg>b</svg>"
    assert data["text/plain"] == "1. first\n2. second"


def test_a_player_needs_a_frame():
    with pytest.raises(ValueError, match="steps is empty"):
        Player([])


def test_a_small_chance_and_an_unlisted_draft_are_shown():
    test = Test(0, 7, 0.0012, 0.005, 0.24, 0.9, False, 0.6)
    round_ = Round(1, [7], [test], [0], ["recovered"], 1, 1, [TopRow([0], [0.9], [0.8])])
    trace = Trace([9], [round_], pieces={0: "a", 7: "rare", 9: "b"})
    frame = round_frames.draw_round(trace, 0)[2]
    assert "min(1, 0.0012/0.005) = 0.24" in frame.caption
    labels = [node.text for node in ET.fromstring(frame.svg).iter() if node.text == "rare"]
    assert len(labels) == 2  # in the table and in the chart
