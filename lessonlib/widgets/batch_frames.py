"""Two sequences of one batch as frames: one round, its rollback, and what is fed next.

How long each cache is comes from `theory.kv`; the tokens are only names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lessonlib.decoding.trace import Round
from lessonlib.theory.kv import SequenceRound, simulate_batch
from lessonlib.widgets.cache_marks import Strip, cell_marks, row_axis
from lessonlib.widgets.cache_replay import Before, Moment, play_round, strips_at
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.marks import Axis
from lessonlib.widgets.player import Step

PROMPT, MOST_DRAFTED = 5, 5
ROWS = row_axis(0, PROMPT + 2 * MOST_DRAFTED)  # the longest text and the drafts after it
HEIGHT = 480
HALF_CELL, STRIDE = 0.3, 3.3  # from a column of A to the same of B
COLUMNS = Axis(
    "t: the prompt, d: drafted, e: drafted in the next round",
    -0.45, 5.85, (0, 1, 2, 3.3, 4.3, 5.3),
    ("A text", "A target", "A draft", "B text", "B target", "B draft"),
)  # fmt: skip
LETTERS = ("d", "e")  # of the drafted tokens in the first and the second round
CLOSING = 99
PIECES = {
    **{i: f"t{i}" for i in range(PROMPT)},
    **{10 * (r + 1) + i: f"{LETTERS[r]}{i}" for r in range(2) for i in range(MOST_DRAFTED)},
    CLOSING: "new",
}
Pair = tuple[SequenceRound, SequenceRound]


def play_pair(K: int, rejected: int) -> dict[str, Pair]:
    """Two rounds each of A, which accepts all, and of B, which rejects index ``rejected`` first.

    >>> [round.draft_first_fed for round in play_pair(4, 2)["A"]]
    [1, 2]
    """
    if not 0 <= rejected < K <= MOST_DRAFTED:
        raise ValueError(
            f"rejected is {rejected} of K = {K}: use an index below K, and K up to {MOST_DRAFTED}"
        )
    first, second = simulate_batch([PROMPT, PROMPT], [[K, K], [rejected, K]], K)
    return {"A": (first[0], second[0]), "B": (first[1], second[1])}


def draw_pair(K: int, rejected: int) -> list[Step]:
    """The frames: before, verified, the verdict, rolled back, and the next round's two forwards."""
    pair = play_pair(K, rejected)
    moments = [
        (0, Moment("start", 0)),
        *((0, Moment(m, K)) for m in ("verify", "judge", "rollback")),
    ]
    moments += [(1, Moment("draft", 1)), (1, Moment("verify", K))]
    return [
        _draw(title, caption, _place_strips(pair, r, moment))
        for (title, caption), (r, moment) in zip(_say(pair, K), moments, strict=True)
    ]


def _draw(title: str, caption: str, strips: Sequence[Strip]) -> Step:
    marks = cell_marks(strips, PIECES, HALF_CELL, unit="")
    return Step(Chart(title, caption, COLUMNS, ROWS, marks, height=HEIGHT).svg(), caption)


def _place_strips(pair: dict[str, Pair], r: int, moment: Moment) -> list[Strip]:
    """The three strips of A and, further right, those of B."""
    placed = []
    for i, rounds in enumerate(pair.values()):
        strips = strips_at(*_reach(rounds, r), moment)
        placed += [replace(strip, column=strip.column + i * STRIDE) for strip in strips]
    return placed


def _reach(rounds: Pair, r: int) -> tuple[Before, Round]:
    """What round ``r`` of a sequence finds, and that round with tokens to look at."""
    text = list(range(PROMPT))
    start = rounds[0]
    before = Before(
        text, "prefix", text[: start.target_before], start.target_before,
        text[: start.draft_before], start.draft_before,
    )  # fmt: skip
    for i in range(r):
        before = play_round(before, _write_round(rounds[i], i))
    return before, _write_round(rounds[r], r)


def _write_round(plan: SequenceRound, r: int) -> Round:
    drafted = [10 * (r + 1) + i for i in range(plan.K)]
    closing = {"correction": "recovered"}.get(plan.closing, plan.closing)
    return Round(
        start=plan.text,
        drafted=drafted,
        tests=[],
        emitted=[*drafted[: plan.accepted], CLOSING],
        kinds=["drafted"] * plan.accepted + [closing],
        target_rows=plan.target_rows,
        draft_rows=plan.draft_rows,
    )


def _say(pair: dict[str, Pair], K: int) -> list[tuple[str, str]]:
    """Title and caption of each frame."""
    (a, next_a), (b, next_b) = pair["A"], pair["B"]
    void = ", and what follows it is void" if b.accepted < K - 1 else ""
    return [
        (
            "Before the round",
            f"Two texts of {PROMPT} tokens; each cache holds {a.target_before} rows: all but the "
            "newest token.",
        ),
        (
            "Verify: one forward for both",
            f"The target runs {len(a.target_fed)} tokens of A and {len(b.target_fed)} of B in one "
            f"forward, each in the rows of its own cache. The draft has run all but d{K - 1}.",
        ),
        (
            "The verdict",
            f"B accepts {b.accepted} of {K} and rejects d{b.accepted}{void}. "
            "A accepts all. No length has changed yet.",
        ),
        (
            "Rollback: each its own length",
            f"A keeps {a.target_rows} rows in the target and {a.draft_rows} in the draft, B "
            f"{b.target_rows} and {b.draft_rows}. Each text gained a token that has no row.",
        ),
        (
            "Next round: the draft catches up",
            f"The draft is fed what each cache lacks: of A {_count(next_a.draft_first_fed)}, since "
            f"d{K - 1} was never run, of B {_count(next_b.draft_first_fed)}.",
        ),
        (
            "Next round: verify",
            f"The target runs {len(next_a.target_fed)} tokens of A from row {next_a.target_before} "
            f"on and {len(next_b.target_fed)} of B from row {next_b.target_before} on: no padding, "
            "and nothing is run again.",
        ),
    ]


def _count(tokens: int) -> str:
    return f"{tokens} token{'s' * (tokens != 1)}"
