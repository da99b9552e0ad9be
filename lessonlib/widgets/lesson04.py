"""Widgets of lesson 04: play the cache rows of a recorded run, and compare two sequences.

The rows come from the recorded rounds and from `theory.kv`; here they are only drawn. The
two factories each return a fresh widget.
"""

from __future__ import annotations

from collections.abc import Mapping

from lessonlib.decoding.trace import Trace
from lessonlib.lab.recordings import load_runs
from lessonlib.widgets.batch_frames import MOST_DRAFTED, draw_pair, play_pair
from lessonlib.widgets.cache_frames import draw_caches
from lessonlib.widgets.cache_replay import list_moments
from lessonlib.widgets.controls import int_slider, steps_slider
from lessonlib.widgets.player_panel import PlayerPanel, Reel

# The cache player


def show_round(trace: Trace, number: int) -> Reel:
    """The frames of one round of a run, and what came of it."""
    steps, round = draw_caches(trace, number), trace.rounds[number]
    names = [f"{moment.kind} {moment.drafted}" for moment in list_moments(round)]
    closing = {"recovered": "a correction", "bonus": "a bonus"}.get(round.kinds[-1], "the end")
    # Short: a line of words does not wrap, and a narrow window would cut it.
    readout = (
        f"round {number + 1} of {len(trace.rounds)}: {round.accepted} of {len(round.drafted)} "
        f"accepted, then {closing}  ·  text {round.start} → {round.start + len(round.emitted)}"
    )
    return Reel(steps, names, readout)


def cache_player(runs: Mapping[tuple[int, float], Trace] | None = None) -> PlayerPanel:
    """Slide K, the temperature and the round of recorded runs; step through both caches.

    ``runs`` maps (K, temperature) to the trace of a run with a smaller model as its draft,
    with ``pieces``, for every combination of its K's and temperatures. Without it, the runs
    recorded with the bundled pair are played.

    >>> cache_player().controls["K"].value
    4
    """
    runs = load_runs() if runs is None else runs
    if not runs:
        raise ValueError("runs is empty: pass at least one recorded trace")
    lengths, temperatures = (sorted({key[i] for key in runs}) for i in (0, 1))
    controls = {
        "K": steps_slider("K, drafted tokens", lengths, 4 if 4 in lengths else lengths[0]),
        "temperature": steps_slider("temperature T", temperatures, temperatures[0]),
        "round": int_slider("round", 1, 1, 2, "which round of the run"),
    }

    def reel(K: int, temperature: float, round: int) -> Reel:
        trace = runs[K, temperature]
        count = len(trace.rounds)
        controls["round"].max = max(count, 2)  # the page cannot draw a slider of one stop
        return show_round(trace, min(round, count) - 1)

    return PlayerPanel(controls, reel)


# Two sequences


def show_pair(K: int, rejected: int) -> Reel:
    """The frames of A, which accepts all, beside B, which rejects at ``rejected``."""
    steps = draw_pair(K, rejected)
    lengths = "  ·  ".join(
        f"{name}: text {after.text}, target {now.target_rows}, draft {now.draft_rows}"
        for name, (now, after) in play_pair(K, rejected).items()
    )
    return Reel(steps, [str(i) for i in range(len(steps))], lengths)


def two_sequences() -> PlayerPanel:
    """Slide K and where B rejects; step through the caches of two sequences of one batch.

    >>> two_sequences().readout.value
    'A: text 10, target 9, draft 8  ·  B: text 8, target 7, draft 7'
    """
    controls = {
        "K": int_slider("K, drafted tokens", 4, 2, MOST_DRAFTED),
        "rejected": int_slider("B rejects at index", 2, 0, 3, "B accepts the drafts before it"),
    }

    def reel(K: int, rejected: int) -> Reel:
        controls["rejected"].max = K - 1
        return show_pair(K, min(rejected, K - 1))

    return PlayerPanel(controls, reel)
