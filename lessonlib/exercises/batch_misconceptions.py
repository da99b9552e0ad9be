"""Wrong ways to count the rows of a batch, each with the sentence that names it.

Each is the right bookkeeping of ``theory/kv`` with one line changed, so an answer that gives
the same numbers throughout has made that mistake.
"""

from __future__ import annotations

from collections.abc import Callable

from lessonlib.theory.kv import SequenceRound

Plans = list[list[int]]


def play(kind: type[SequenceRound], text_lengths, accepted, K):
    """A batch of rounds of some ``kind``, right or wrong, as an answer would return it."""
    columns = []
    for text, plan in zip(text_lengths, accepted, strict=True):
        target = draft = text - 1
        column = []
        for passed in plan:
            one = kind(text, target, draft, K, passed)
            target, draft, text = one.target_rows, one.draft_rows, text + one.emitted
            column.append((target, draft, len(one.target_fed), len(one.draft_fed)))
        columns.append(column)
    longest = max(map(len, columns))
    return [[c[r] if r < len(c) else None for c in columns] for r in range(longest)]


class KeepsRejected(SequenceRound):
    @property
    def target_rows(self):
        return min(super().target_rows + 1, self.text + self.K)


class NeverRollsBack(SequenceRound):
    @property
    def target_rows(self):
        return self.text + self.K


class DraftNeverRollsBack(SequenceRound):
    @property
    def draft_rows(self):
        return self.text + self.K - 1


class DraftLevel(SequenceRound):
    @property
    def draft_rows(self):
        return self.target_rows


class DraftRunsLast(SequenceRound):
    @property
    def draft_fed(self):
        return range(self.draft_before, self.text + self.K)

    @property
    def draft_rows(self):
        return self.target_rows


class ForgetsCatchUp(SequenceRound):
    @property
    def draft_fed(self):
        return range(self.text - 1, self.text + self.K - 1)


class NoClosingToken(SequenceRound):
    @property
    def emitted(self):
        return self.accepted


class RunsAllAgain(SequenceRound):
    @property
    def target_fed(self):
        return range(self.text + self.K)

    @property
    def draft_fed(self):
        return range(self.text + self.K - 1)


class WithoutNewest(SequenceRound):
    @property
    def target_fed(self):
        return range(self.text, self.text + self.K)


ONE_SEQUENCE: dict[str, type[SequenceRound]] = {
    "the target keeps the row of the rejected token: one row less stands": KeepsRejected,
    "the target's rejected rows are never rolled back": NeverRollsBack,
    "the draft's rejected rows are never rolled back": DraftNeverRollsBack,
    "after full acceptance the draft has no row for its last token, which it never ran": (
        DraftLevel
    ),
    "the draft runs its last token, too: it proposes K tokens and runs K - 1 of them": (
        DraftRunsLast
    ),
    "after full acceptance the draft lacks two tokens: it is fed both": ForgetsCatchUp,
    "the text grows by the accepted tokens only: add the one that closes the round": (
        NoClosingToken
    ),
    "the whole text is run again in every round: only what the cache lacks is fed": RunsAllAgain,
    "the target is not fed the newest token of the text, which has no row yet": WithoutNewest,
}


def _with_all(choose: Callable) -> Callable[[Plans], Plans]:
    """In every round each sequence accepts what ``choose`` makes of all that still run."""

    def change(plans: Plans) -> Plans:
        rounds = [[p[r] for p in plans if r < len(p)] for r in range(max(map(len, plans)))]
        return [[choose(rounds[r]) for r in range(len(plan))] for plan in plans]

    return change


def _stop_together(plans: Plans) -> Plans:
    return [plan[: min(map(len, plans))] for plan in plans]


WHOLE_BATCH: dict[str, Callable[[Plans], Plans]] = {
    "every sequence is cut to the shortest acceptance in the batch: each keeps its own": (
        _with_all(min)
    ),
    "every sequence keeps as many rows as the luckiest one: each keeps its own": _with_all(max),
    "all sequences stop with the first that stops: the others go on": _stop_together,
}
