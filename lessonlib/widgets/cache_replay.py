"""One recorded round, moment by moment: what lies in the text and in both caches.

`list_moments` says how a round goes on, `replay` what it finds, and `strips_at` what lies
where at one moment, the rows of rejected tokens included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lessonlib.decoding.trace import Round, Trace
from lessonlib.theory.kv import Slot, catch_up, list_slots
from lessonlib.widgets.cache_marks import Strip

CLOSINGS = {"recovered": "correction", "bonus": "bonus"}


@dataclass(frozen=True)
class Moment:
    """How far a round has come, and how many tokens are drafted by then.

    ``kind`` is start, draft, verify, judge (the verdict), close (the token that closes the
    round joins the text) or rollback.
    """

    kind: str
    drafted: int


@dataclass(frozen=True)
class Before:
    """What a round finds: the text, and of each cache the buffer and how many rows count.

    A buffer is the tokens whose rows lie there, in order; those past the count are left
    over from rejected tokens. ``newest`` is the state of the last token of the text.
    """

    text: list[int]
    newest: str
    target: list[int]
    target_rows: int
    draft: list[int]
    draft_rows: int


def list_moments(round: Round) -> list[Moment]:
    """The moments of one round, in order; without a draft there is no verdict.

    >>> round = Round(5, [1, 2], [], [3], ["recovered"], 5)
    >>> [moment.kind for moment in list_moments(round)]
    ['start', 'draft', 'draft', 'verify', 'judge', 'close', 'rollback']
    """
    K = len(round.drafted)
    drafts = [Moment("draft", i + 1) for i in range(K)]
    rest = ["verify", *(["judge"] if K else []), "close", "rollback"]
    return [Moment("start", 0), *drafts, *(Moment(kind, K) for kind in rest)]


def replay(trace: Trace, number: int) -> Before:
    """What round ``number`` (0 is the first) finds, after all rounds before it.

    At first the target has run the prompt but for its newest token, and the draft nothing.
    Raises ValueError for a round that is not there, and for a tree.
    """
    if not 0 <= number < len(trace.rounds):
        raise ValueError(f"number is {number}, but the trace has {len(trace.rounds)} rounds")
    if any(round.parents for round in trace.rounds):
        raise ValueError("the trace holds a tree: this picture is for drafted chains")
    now = Before(list(trace.prompt), "prefix", trace.prompt[:-1], len(trace.prompt) - 1, [], 0)
    for round in trace.rounds[:number]:
        now = play_round(now, round)
    return now


def play_round(now: Before, round: Round) -> Before:
    """What the next round finds."""
    draft_ran = [*now.text[now.draft_rows :], *round.drafted[:-1]] if round.drafted else []
    target_ran = [*now.text[now.target_rows :], *round.drafted]
    return Before(
        now.text + round.emitted,
        CLOSINGS.get(round.kinds[-1], "stop"),
        _overwrite(now.target, now.target_rows, target_ran),
        round.target_rows,
        _overwrite(now.draft, now.draft_rows, draft_ran),
        round.draft_rows,
    )


def _overwrite(buffer: list[int], start: int, tokens: Sequence[int]) -> list[int]:
    """The buffer with ``tokens`` from ``start`` on; what lies behind them stays.

    >>> _overwrite([1, 2, 3, 4], 1, [9])
    [1, 9, 3, 4]
    """
    return [*buffer[:start], *tokens, *buffer[start + len(tokens) :]]


def strips_at(before: Before, round: Round, moment: Moment) -> list[Strip]:
    """Text, target's cache and draft's cache at one moment."""
    return [
        _text_strip(before, round, moment),
        _target_strip(before, round, moment),
        _draft_strip(before, round, moment),
    ]


def _text_strip(before: Before, round: Round, moment: Moment) -> Strip:
    """The text, then what is drafted; once the round is closed, only what stands."""
    n = len(before.text)
    slots = [Slot(i, token, "prefix") for i, token in enumerate(before.text)]
    slots[-1] = Slot(n - 1, before.text[-1], before.newest)
    proposed = [Slot(n + i, t, "drafted") for i, t in enumerate(round.drafted[: moment.drafted])]
    if moment.kind in ("start", "draft", "verify"):
        return Strip(0, slots + proposed, n)
    after = list_slots(before.text, round.drafted, round.emitted, n - 1, rolled_back=False)[n:]
    if moment.kind == "judge":
        return Strip(0, slots + after[:-1], n)
    standing = [slot for slot in after if slot.state != "rejected"]
    return Strip(0, slots + standing, n + len(round.emitted))


def _target_strip(before: Before, round: Round, moment: Moment) -> Strip:
    rows, n = before.target_rows, len(before.text)
    old = _buffer_slots(before.target, rows)
    if moment.kind in ("start", "draft"):
        return Strip(1, old, rows)
    written = range(rows, n + len(round.drafted))
    if moment.kind == "verify":
        return Strip(
            1, _merge(old, _running(before.text, rows, round.drafted)), written.stop, written
        )
    rolled_back = moment.kind == "rollback"
    new = list_slots(before.text, round.drafted, round.emitted, rows, rolled_back=rolled_back)
    length = round.target_rows if rolled_back else written.stop
    return Strip(1, _merge(old, (slot for slot in new if slot.has_row)), length)


def _draft_strip(before: Before, round: Round, moment: Moment) -> Strip:
    rows, n, count = before.draft_rows, len(before.text), moment.drafted
    old = _buffer_slots(before.draft, rows)
    if moment.kind == "start" or not round.drafted:
        return Strip(2, old, rows)
    if moment.kind in ("draft", "verify"):
        length = n + count - 1  # the last drafted token has not been run
        first = rows if count == 1 else length - 1
        fresh = range(first, length) if moment.kind == "draft" else range(0)
        new = _running(before.text, rows, round.drafted[: count - 1])
        return Strip(2, _merge(old, new), length, fresh)
    rolled_back = moment.kind == "rollback"
    new = list_slots(
        before.text, round.drafted, round.emitted, rows, draft=True, rolled_back=rolled_back
    )
    length = round.draft_rows if rolled_back else n + len(round.drafted) - 1
    return Strip(2, _merge(old, (slot for slot in new if slot.has_row)), length)


def _buffer_slots(buffer: Sequence[int], rows: int) -> list[Slot]:
    return [Slot(i, t, "prefix" if i < rows else "stale") for i, t in enumerate(buffer)]


def _running(text: Sequence[int], rows: int, drafted: Sequence[int]) -> list[Slot]:
    """Rows written since the round began, before the verdict."""
    fed = [Slot(rows + i, token, "fed") for i, token in enumerate(catch_up(text, rows))]
    return fed + [Slot(len(text) + i, token, "drafted") for i, token in enumerate(drafted)]


def _merge(old: Iterable[Slot], new: Iterable[Slot]) -> list[Slot]:
    """One slot for each position: a row that is written again replaces the old one."""
    return list({slot.position: slot for slot in (*old, *new)}.values())
