"""One recorded round as frames of its caches: draft, verify, judge, add a token, roll back."""

from __future__ import annotations

from collections.abc import Sequence

from lessonlib.decoding.trace import Round, Trace
from lessonlib.theory.kv import catch_up
from lessonlib.widgets import svg
from lessonlib.widgets.cache_marks import Strip, cell_marks, row_axis
from lessonlib.widgets.cache_replay import Before, Moment, list_moments, replay, strips_at
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.marks import Axis
from lessonlib.widgets.player import Step

SHOWN = 18  # positions in a frame: a long round takes 10, and some text before it is context
HEIGHT = 530
HALF_CELL = 0.31
COLUMNS = Axis(
    "a cell of a cache: the row of keys and values of that token",
    -0.4, 2.6, (0, 1, 2), ("the text", "target's cache", "draft's cache"),
)  # fmt: skip
TITLES = {
    "start": "before it begins",
    "draft": "the draft proposes",
    "verify": "the target verifies",
    "judge": "the verdict",
    "close": "one more token",
    "rollback": "rollback",
}


def draw_caches(trace: Trace, number: int) -> list[Step]:
    """All frames of round ``number`` (0 is the first) of a recorded trace with ``pieces``."""
    before, round = replay(trace, number), trace.rounds[number]
    deepest = max(len(round.drafted) for round in trace.rounds)
    last = max(len(before.text) + deepest, SHOWN - 1)  # the place of a bonus token
    rows = row_axis(last - SHOWN + 1, last)
    place, steps = f"Round {number + 1} of {len(trace.rounds)}", []
    for moment in list_moments(round):
        strips = strips_at(before, round, moment)
        caption = f"{describe_moment(trace, before, round, moment)} {_count(strips)}"
        marks = cell_marks(strips, trace.pieces, HALF_CELL)
        title = f"{place}: {TITLES[moment.kind]}"
        steps.append(
            Step(Chart(title, caption, COLUMNS, rows, marks, height=HEIGHT).svg(), caption)
        )
    return steps


def _count(strips: Sequence[Strip]) -> str:
    """The invariant in numbers, at every moment."""
    text, target, draft = (strip.length for strip in strips)
    return f"len(text) − 1 = {text - 1}; len(cache): target {target}, draft {draft}."


def describe_moment(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    """What happens at one moment, in a sentence or two."""
    say = {
        "start": _say_start, "draft": _say_draft, "verify": _say_verify, "judge": _say_verdict,
        "close": _say_closing, "rollback": _say_rollback,
    }[moment.kind]  # fmt: skip
    return say(trace, before, round, moment)


def _say_start(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    if not before.draft_rows:
        return "The target has run the prompt but for its newest token, the draft nothing yet."
    lacks = len(catch_up(before.text, before.draft_rows))
    if lacks == 1:
        return f"Both caches lack one token, the newest: {_piece(trace, before.text[-1])}."
    return f"The target's cache lacks the newest token, the draft's {lacks} tokens."


def _say_draft(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    i, K = moment.drafted, len(round.drafted)
    fed = catch_up(before.text, before.draft_rows) if i == 1 else [round.drafted[i - 2]]
    if i > 1:
        runs = f"its own {_piece(trace, fed[0])}"
    elif len(fed) == 1:
        runs = f"the newest token, {_piece(trace, fed[0])},"
    elif not before.draft_rows:
        runs = f"the whole text of {len(fed)} tokens"
    else:
        names = " and ".join(_piece(trace, token) for token in fed)
        runs = f"the {len(fed)} tokens it lacks, {names},"
    proposal = f"The draft runs {runs} and proposes token {i} of {K}: "
    return proposal + _piece(trace, round.drafted[i - 1]) + (", not run." if i == K else ".")


def _say_verify(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    K = len(round.drafted)
    if not K:
        return "Nothing is drafted: the target runs the newest token alone."
    return (
        f"The target runs {K + 1} tokens in one forward, the newest and the {K} drafted: "
        f"{K + 1} new rows."
    )


def _say_verdict(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    K, accepted = len(round.drafted), round.accepted
    if accepted == K:
        return f"All {K} drafted tokens are accepted."
    rejected = _piece(trace, round.drafted[accepted])
    void = ", and what follows it is void" if accepted < K - 1 else ""
    return (
        f"{accepted} of {K} are accepted; {rejected} is rejected{void}. The rows are still there."
    )


def _say_closing(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    token = _piece(trace, round.emitted[-1])
    source = {"recovered": "the correction,", "bonus": "the bonus,"}.get(round.kinds[-1])
    if source is None:
        return f"{token} ends the text: nothing behind it is kept."
    return f"The text gains {token}, {source} which no model has run: it has no row yet."


def _say_rollback(trace: Trace, before: Before, round: Round, moment: Moment) -> str:
    K = len(round.drafted)
    if not K:
        return "Nothing to roll back."
    if round.accepted == K:
        unrun = _piece(trace, round.drafted[-1])
        return (
            f"Nothing to roll back. The draft never ran {unrun}: it is one row behind, and is "
            "fed two tokens next."
        )
    return (
        "Both lengths are set back. The rows behind are stale: nobody reads them, and the "
        "next round overwrites them."
    )


def _piece(trace: Trace, token: int) -> str:
    return f"“{svg.show_token(trace.pieces[token])}”"
