"""The widgets of lesson 04: every row they draw is held to what models really ran."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Round, Trace
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.recordings import load_runs
from lessonlib.theory.kv import Slot
from lessonlib.theory.verify import Test
from lessonlib.widgets import batch_frames, cache_frames, cache_marks, lesson04, svg
from lessonlib.widgets.cache_replay import list_moments, replay, strips_at
from lessonlib.widgets.controls import int_slider
from lessonlib.widgets.player import Step
from lessonlib.widgets.player_panel import PlayerPanel, Reel
from lessonlib.widgets.style import WIDE
from tests.toys import TableModel, coins_of

SVG = "{http://www.w3.org/2000/svg}"
RUNS = load_runs()
FULL, REJECTED = (4, 1.0), (4, 0.0)
FACTORIES = ("cache_player", "two_sequences")


class LoggingModel(TableModel):
    """Writes down each forward: whose, how many rows were there, which tokens it was fed."""

    def __init__(self, name, log, seed):
        super().__init__(4, seed)
        self.name, self.log = name, log

    def forward(self, tokens, cache, parents=None):
        self.log.append((self.name, cache.length, list(tokens)))
        return super().forward(tokens, cache, parents)


def logged_run(K: int, seed: int, prompt=(1, 2, 3), budget: int = 25) -> tuple[Trace, list]:
    log, sampling = [], Sampling(0.7)
    target, draft = LoggingModel("target", log, 1), LoggingModel("draft", log, 2)
    trace = generate(
        target, SmallModelDrafter(draft, sampling), list(prompt), max_new_tokens=budget, K=K,
        sampling=sampling, coins=coins_of(seed),
    )  # fmt: skip
    trace.pieces = {i: f" {i}" for i in range(4)}
    return trace, log


def shown_forwards(trace: Trace) -> list:
    """The forwards that the frames point at, as (whose, rows before it, tokens)."""
    forwards = []
    for number, round in enumerate(trace.rounds):
        before = replay(trace, number)
        for moment in list_moments(round):
            strips = strips_at(before, round, moment)
            for name, strip in zip(("text", "target", "draft"), strips, strict=True):
                if strip.fresh:
                    tokens = {slot.position: slot.token for slot in strip.slots}
                    fed = [tokens[row] for row in strip.fresh]
                    forwards.append((name, strip.fresh.start, fed))
    return forwards


# What lies where


@pytest.mark.parametrize("K", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(6))
def test_the_frames_point_at_the_very_forwards_that_were_run(K, seed):
    trace, log = logged_run(K, seed)
    assert log[0] == ("target", 0, [1, 2])  # the prefill comes before the first frame
    assert shown_forwards(trace) == log[1:]


@pytest.mark.parametrize("key", RUNS, ids=str)
def test_the_last_frame_of_a_round_holds_the_recorded_lengths_and_the_text(key):
    trace, text = RUNS[key], list(RUNS[key].prompt)
    for number, round in enumerate(trace.rounds):
        text += round.emitted
        shown, target, draft = strips_at(replay(trace, number), round, list_moments(round)[-1])
        assert (target.length, draft.length) == (round.target_rows, round.draft_rows)
        assert shown.length == len(text) == target.length + 1
        assert [slot.token for slot in shown.slots] == text
        for strip in (target, draft):
            rows = {slot.position: slot for slot in strip.slots}
            assert [rows[i].token for i in range(strip.length)] == text[: strip.length]


@pytest.mark.parametrize("key", RUNS, ids=str)
def test_at_every_moment_the_length_parts_the_rows_that_count_from_garbage(key):
    for number, round in enumerate(RUNS[key].rounds):
        before = replay(RUNS[key], number)
        for moment in list_moments(round):
            for strip in strips_at(before, round, moment)[1:]:
                garbage = {slot.position for slot in strip.slots if slot.state == "stale"}
                rows = {slot.position for slot in strip.slots} - garbage
                assert rows == set(range(strip.length))
                assert min(garbage, default=strip.length) == strip.length


@pytest.mark.parametrize("key", [FULL, REJECTED, (8, 0.0), (1, 0.5)])
def test_a_round_begins_where_the_last_one_ended(key):
    def what_lies(strips):
        return [({slot.position: slot.token for slot in s.slots}, s.length) for s in strips]

    trace = RUNS[key]
    ends = [
        what_lies(strips_at(replay(trace, i), round, list_moments(round)[-1]))
        for i, round in enumerate(trace.rounds)
    ]
    starts = [
        what_lies(strips_at(replay(trace, i), round, list_moments(round)[0]))
        for i, round in enumerate(trace.rounds)
    ]
    assert starts[1:] == ends[:-1]
    assert starts[0][1][1] == len(trace.prompt) - 1
    assert starts[0][2] == ({}, 0)


def states_of(trace, number, kind, column):
    round = trace.rounds[number]
    moment = next(m for m in list_moments(round) if m.kind == kind)
    strip = strips_at(replay(trace, number), round, moment)[column]
    return {slot.position - round.start: slot.state for slot in strip.slots}


def make_trace(accepted: int, K: int = 4) -> Trace:
    """One round behind the text [7, 8]: drafts 0 … K − 1, the closing token is 9."""
    kinds = ["drafted"] * accepted + ["bonus" if accepted == K else "recovered"]
    emitted = [*range(accepted), 9]
    rows, draft_rows = 2 + accepted, min(2 + accepted, 1 + K)
    tests = [Test(i, i, 0.4, 0.5, 0.8, 0.5, i < accepted, 0.9) for i in range(min(accepted + 1, K))]
    round = Round(2, list(range(K)), tests, emitted, kinds, rows, draft_rows)
    pieces = {i: f"\n  {i}" for i in range(10)}
    return Trace([7, 8], [round], pieces=pieces)


def test_each_state_is_where_it_belongs_after_a_rejection():
    trace = make_trace(2)
    drafted = dict.fromkeys(range(4), "drafted")
    assert states_of(trace, 0, "verify", 1) == {-2: "prefix", -1: "fed", **drafted}
    verdict = {0: "accepted", 1: "accepted", 2: "rejected", 3: "rejected"}
    assert states_of(trace, 0, "judge", 1) == {-2: "prefix", -1: "fed", **verdict}
    # The draft's cache never held the last drafted token.
    assert states_of(trace, 0, "judge", 2).keys() == {-2, -1, 0, 1, 2}
    after = {0: "accepted", 1: "accepted", 2: "stale", 3: "stale"}
    assert states_of(trace, 0, "rollback", 1) == {-2: "prefix", -1: "fed", **after}
    assert states_of(trace, 0, "rollback", 0) == {
        -2: "prefix", -1: "prefix", 0: "accepted", 1: "accepted", 2: "correction",
    }  # fmt: skip


def test_stale_rows_of_a_deeper_round_outlast_a_shorter_one():
    trace = make_trace(0)  # leaves the drafts 0 to 3 behind a text of [7, 8, 9]
    trace.rounds.append(Round(3, [5], [], [6], ["recovered"], 3, 3))
    trace.rounds.append(trace.rounds[-1])
    assert replay(trace, 2).target == [7, 8, 9, 5, 2, 3]
    assert replay(trace, 2).draft == [7, 8, 9, 1, 2]


def test_a_bonus_is_in_the_text_and_in_no_cache():
    trace = make_trace(4)
    assert states_of(trace, 0, "close", 0)[4] == "bonus"
    assert max(states_of(trace, 0, "rollback", 1)) == 3
    assert max(states_of(trace, 0, "rollback", 2)) == 2


def test_a_round_that_an_accepted_end_of_text_closes():
    trace = make_trace(2)
    cut = replace(trace.rounds[0], emitted=[0, 1], kinds=["drafted"] * 2, target_rows=3)
    trace.rounds[0] = replace(cut, draft_rows=3)
    assert states_of(trace, 0, "rollback", 0)[1] == "stop"
    steps = cache_frames.draw_caches(trace, 0)
    assert "ends the text" in steps[-2].caption
    assert "len(text) − 1 = 3; len(cache): target 3, draft 3" in steps[-1].caption


def test_plain_decoding_moves_the_target_alone():
    trace, _ = logged_run(0, 0)
    moments = list_moments(trace.rounds[1])
    assert [moment.kind for moment in moments] == ["start", "verify", "close", "rollback"]
    strips = strips_at(replay(trace, 1), trace.rounds[1], moments[-1])
    assert [strip.length for strip in strips] == [5, 4, 0]
    assert "Nothing is drafted" in cache_frames.draw_caches(trace, 1)[1].caption


def test_a_missing_round_and_a_tree_are_named():
    trace = make_trace(2)
    with pytest.raises(ValueError, match="number is 1, but the trace has 1 round"):
        cache_frames.draw_caches(trace, 1)
    trace.rounds[0] = replace(trace.rounds[0], parents=[-1, -1, 0, 1])
    with pytest.raises(ValueError, match="holds a tree"):
        cache_frames.draw_caches(trace, 0)


# What is drawn


REELS = [
    *(lesson04.show_round(RUNS[key], number) for key in (FULL, (8, 1.5)) for number in (0, 1, 2)),
    lesson04.show_round(RUNS[1, 0.0], len(RUNS[1, 0.0].rounds) - 1),
    lesson04.show_round(make_trace(1), 0),
    *(lesson04.show_pair(K, rejected) for K, rejected in ((4, 2), (1, 0), (5, 4))),
]


@pytest.mark.parametrize("reel", REELS, ids=lambda reel: reel.readout)
def test_all_frames_have_one_frame_and_say_what_happens(reel):
    roots = [ET.fromstring(step.svg) for step in reel.steps]
    assert [root.get("aria-label") for root in roots] == [step.caption for step in reel.steps]
    assert len({step.svg for step in reel.steps}) == len(reel.steps) == len(set(reel.names))
    # Two lines under the player, which keeps room for two: nothing jumps.
    assert max(len(step.caption) for step in reel.steps) < 190
    assert len(reel.readout) < 72  # the readout is one line, also in a narrow window
    for root in roots:
        axes = [tuple(sorted(line.attrib.items())) for line in root.findall(f"{SVG}line")]
        assert axes == [tuple(sorted(ln.attrib.items())) for ln in roots[0].findall(f"{SVG}line")]
        assert (root.get("width"), root.get("height")) == (
            str(WIDE), roots[0].get("height"),
        )  # fmt: skip
        words = list(root.iter(f"{SVG}text"))
        assert all(0 <= float(word.get("x")) <= WIDE for word in words)
        legend = [word.text for word in words if float(word.get("y")) < 66]
        assert {"drafted", "stale", "bonus", "length"} <= set(legend)
    assert sum(len(step.svg) for step in reel.steps) < 220_000


def cells_drawn(drawn: str) -> dict[str, list[str]]:
    root = ET.fromstring(drawn)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") == "sd-state"]
    return {g.get("data-state"): [t.text for t in g.iter(f"{SVG}text")] for g in groups}


def test_the_cells_in_the_picture_are_those_of_the_strips():
    trace = make_trace(2)
    last = cells_drawn(cache_frames.draw_caches(trace, 0)[-1].svg)
    assert last["accepted"] == ["⏎␣␣0 ✓", "⏎␣␣1 ✓"] * 3
    assert last["stale"] == ["⏎␣␣2", "⏎␣␣3", "⏎␣␣2"]  # the target's, then the draft's
    assert last["correction"] == ["⏎␣␣9 +"]
    assert last["bonus"] == last["drafted"] == last["rejected"] == []


@pytest.mark.parametrize("key", [(8, 1.5), (1, 0.0)])
def test_the_token_that_closes_a_round_is_always_in_the_picture(key):
    for number, round in enumerate(RUNS[key].rounds):
        cells = cells_drawn(cache_frames.draw_caches(RUNS[key], number)[-1].svg)
        state = {"recovered": "correction", "bonus": "bonus"}[round.kinds[-1]]
        newest = svg.show_token(RUNS[key].pieces[round.emitted[-1]])
        assert any(word[:4] == f"{newest} +"[:4] for word in cells[state])  # long ones are cut


def test_the_captions_say_what_each_forward_is_fed():
    captions = [step.caption for step in cache_frames.draw_caches(make_trace(2), 0)]
    assert captions[1].startswith("The draft runs the whole text of 2 tokens and proposes token 1")
    assert captions[2].startswith(
        "The draft runs its own “⏎␣␣0” and proposes token 2 of 4: “⏎␣␣1”."
    )
    assert captions[4].startswith("The draft runs its own “⏎␣␣2” and proposes token 4 of 4")
    assert "runs 5 tokens in one forward" in captions[5]
    assert captions[6].startswith("2 of 4 are accepted; “⏎␣␣2” is rejected, and what follows")
    number = next(i for i, r in enumerate(RUNS[FULL].rounds) if r.accepted == 4)
    captions = [step.caption for step in cache_frames.draw_caches(RUNS[FULL], number + 1)]
    assert captions[0].startswith("The target's cache lacks the newest token, the draft's 2 tokens")
    assert captions[1].startswith("The draft runs the 2 tokens it lacks, ")


def test_lengths_are_lines_under_the_last_row_that_counts():
    axis = replace(cache_marks.row_axis(0, 9), low=9.5, high=-0.5)
    chart_frame = cache_marks.Frame(cache_frames.COLUMNS, axis, 0, 300, 0, 100)
    strip = cache_marks.Strip(1, [Slot(i, 0, "prefix") for i in range(4)], 4, range(3, 4))
    drawn = ET.fromstring(cache_marks.Lengths([strip], 0.3).draw(chart_frame))
    assert float(drawn.find("line").get("y1")) == 40  # ten rows in 100 px: under row 3
    assert drawn.find("text").text == "len 4"
    fresh = cache_marks.FreshRows([strip], 0.3).draw(chart_frame)
    assert "M" in fresh
    assert " 35l" in fresh
    # A length above or below the picture stays at its edge, with its number.
    for length, y in ((0, 0), (40, 100)):
        drawn = ET.fromstring(
            cache_marks.Lengths([replace(strip, length=length)], 0.3).draw(chart_frame)
        )
        assert (float(drawn.find("line").get("y1")), drawn.find("text").text) == (
            y,
            f"len {length}",
        )


def test_only_the_last_rows_are_drawn_and_the_round_stands_at_one_height():
    trace, heights = RUNS[4, 1.0], set()
    for number in (3, 8, 12):
        root = ET.fromstring(cache_frames.draw_caches(trace, number)[0].svg)
        rows = [t for t in root.iter(f"{SVG}text") if (t.text or "").isdigit()]
        numbers = {int(row.text): float(row.get("y")) for row in rows}
        assert len(numbers) == cache_frames.SHOWN
        heights.add(numbers[trace.rounds[number].start])
    assert len(heights) == 1


def test_looks_differ_by_more_than_colour():
    looks = [(look.role != "", look.dash, look.sign, look.void) for look in
             cache_marks.LOOKS.values() if look.label not in ("bonus",)]  # fmt: skip
    assert len(set(looks)) == len(looks)  # correction and bonus: told apart by the caption


# Two sequences


def test_the_pair_is_that_of_the_exercise():
    pair = batch_frames.play_pair(4, 2)
    assert [(r.target_rows, r.draft_rows) for r in (pair["A"][0], pair["B"][0])] == [(9, 8), (7, 7)]


@pytest.mark.parametrize(("K", "rejected"), [(1, 0), (3, 0), (4, 2), (5, 4)])
def test_two_sequences_are_drawn_as_each_would_be_alone(K, rejected):
    pair = batch_frames.play_pair(K, rejected)
    alone = []
    for rounds, accepted in ((pair["A"], K), (pair["B"], rejected)):
        # By hand: a text of 5, K drafts, `accepted` of them kept, one token more.
        assert rounds[0].target_rows == 5 + accepted
        assert rounds[0].draft_rows == 5 + min(accepted, K - 1)
        assert rounds[1].text == 6 + accepted
        alone.append((6 + accepted, 5 + accepted, 5 + min(accepted, K - 1)))
    steps = batch_frames.draw_pair(K, rejected)
    root = ET.fromstring(steps[3].svg)
    (lengths,) = (g for g in root.iter(f"{SVG}g") if g.get("class") == "sd-lengths")
    assert [int(text.text) for text in lengths.iter(f"{SVG}text")] == [*alone[0], *alone[1]]
    places = [float(text.get("x")) for text in lengths.iter(f"{SVG}text")]
    assert places == sorted(set(places)), "B is drawn right of A"


def fresh_count(drawn: str) -> int:
    root = ET.fromstring(drawn)
    (group,) = (g for g in root.iter(f"{SVG}g") if g.get("class") == "sd-fresh")
    return len(list(group))


def test_what_is_fed_next_is_two_tokens_and_one_then_K_plus_1_each():
    steps = batch_frames.draw_pair(4, 2)
    assert [fresh_count(step.svg) for step in steps] == [0, 10, 0, 0, 3, 10]
    assert "of A 2 tokens, since d3 was never run, of B 1 token" in steps[4].caption
    assert "5 tokens of A from row 9 on and 5 of B from row 7 on" in steps[5].caption
    # B's garbage is written over, and nothing of A is run again.
    last = cells_drawn(steps[5].svg)
    assert last["stale"] == []
    assert last["fed"].count("new") == 4  # in both caches of both
    assert [word for word in last["fed"] if word != "new"] == ["d3"]


def test_a_pair_out_of_range_is_named():
    with pytest.raises(ValueError, match="rejected is 4 of K = 4"):
        batch_frames.play_pair(4, 4)
    with pytest.raises(ValueError, match="K up to 5"):
        batch_frames.play_pair(6, 2)


# The widgets


@pytest.mark.parametrize("factory", FACTORIES)
def test_each_control_redraws_and_each_call_gives_a_fresh_widget(factory):
    panel, other = getattr(lesson04, factory)(), getattr(lesson04, factory)()
    untouched = other.readout.value, other.player.frames
    panel.player.step = 2
    for control in panel.controls.values():
        before = panel.player.frames[2], panel.readout.value
        options = getattr(control, "options", None)
        control.value = options[-1][1] if options else control.max
        assert (panel.player.frames[2], panel.readout.value) != before, control.description
    assert (other.readout.value, other.player.frames) == untouched
    assert panel.errors.outputs == ()
    assert all(control.description and control.tooltip for control in panel.controls.values())


def test_the_player_stays_at_its_moment_while_a_slider_moves():
    panel = lesson04.cache_player()
    at = [moment.kind for moment in list_moments(RUNS[4, 0.0].rounds[0])].index("verify")
    panel.player.step = at
    panel.controls["round"].value = 5
    assert panel.player.captions[panel.player.step].startswith("The target runs")
    panel.player.step = len(panel.player.frames) - 1
    title = "rollback"
    for name, value in (("temperature", 1.5), ("K", 4), ("round", 2)):
        panel.controls[name].value = value
        assert title in panel.player.frames[panel.player.step]


def test_the_round_slider_ends_with_the_run_and_a_shorter_run_pulls_it_back():
    panel = lesson04.cache_player()
    slider = panel.controls["round"]
    panel.controls["K"].value = 1
    assert slider.max == len(RUNS[1, 0.0].rounds)
    slider.value = slider.max
    panel.controls["K"].value = 8
    count = len(RUNS[8, 0.0].rounds)
    assert (slider.max, slider.value) == (count, count)
    assert panel.readout.value.startswith(f"round {count} of {count}")
    assert panel.errors.outputs == ()


def test_B_cannot_reject_behind_the_last_draft():
    panel = lesson04.two_sequences()
    panel.controls["rejected"].value = 3
    panel.controls["K"].value = panel.controls["K"].min  # 2: the page needs max above min
    assert (panel.controls["rejected"].min, panel.controls["rejected"].max) == (0, 1)
    assert panel.readout.value.endswith("B: text 7, target 6, draft 6")
    assert panel.errors.outputs == ()


def test_an_exception_is_shown_until_the_next_success():
    def film(K):
        if K == 5:
            raise ZeroDivisionError("K must not be 5")
        return Reel([Step("<svg/>", f"K = {K}")], ["only"], f"K is {K}")

    panel = PlayerPanel({"K": int_slider("K", 4, 1, 8)}, film)
    panel.controls["K"].value = 5
    (shown,) = panel.errors.outputs
    assert shown["evalue"] == "K must not be 5"
    assert panel.children[-1] is panel.errors
    panel.controls["K"].value = 6
    assert panel.errors.outputs == ()
    assert (panel.player.captions, panel.readout.value) == (["K = 6"], "K is 6")


def test_runs_of_ones_own_are_played_and_none_is_an_error():
    trace, _ = logged_run(3, 0)
    panel = lesson04.cache_player({(3, 0.7): trace})
    assert panel.controls["round"].max == len(trace.rounds)
    slider = lesson04.cache_player({(4, 0.0): make_trace(2)}).controls["round"]
    slider.value = slider.max  # one round only, but the page cannot draw a slider of one stop
    assert (slider.min, slider.max) == (1, 2)
    with pytest.raises(ValueError, match="runs is empty"):
        lesson04.cache_player({})


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_widget_leaves_a_picture_and_words_for_static_viewers(factory):
    panel = getattr(lesson04, factory)()
    data, _ = panel._repr_mimebundle_()
    ET.fromstring(data["image/svg+xml"])
    assert data["text/plain"].startswith(panel.readout.value + "\n1. ")
    assert all(caption in data["text/plain"] for caption in panel.player.captions)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert len(data["image/svg+xml"]) < 30_000


def test_a_slider_redraws_within_100_ms():
    panel = lesson04.cache_player()
    panel.controls["K"].value = 8
    seconds = []
    for value in (2, 3, 4, 5, 6):
        start = time.process_time()
        panel.controls["round"].value = value
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1
