"""Which rows a KV cache holds in each round, as plain bookkeeping without any model.

The newest token of a text has not been run, so between two rounds a cache that is up to
date holds ``len(text) - 1`` rows. A round of K drafted tokens moves both caches:

    target   runs the newest token and the K drafted ones, keeps those that stand
    draft    runs what its cache lacks and K - 1 drafted tokens: the last one it proposes only

Source: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1, which leaves the
cache to the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
STATES = ("prefix", "fed", "accepted", "rejected", "stale", "correction", "bonus", "stop")
WITHOUT_ROW = ("correction", "bonus", "stop")


def rows_to_keep(text_length: int, accepted: int) -> int:
    """Rows of the target's cache that stand after a round, for a text of ``text_length`` before it.

    The text grows by the ``accepted`` tokens and one that closes the round, and that one has
    not been run: the cache is one row shorter than the text again.

    >>> rows_to_keep(10, 2)  # the text is 13 tokens long now
    12
    """
    if text_length < 1 or accepted < 0:
        raise ValueError(
            f"text_length is {text_length} and accepted {accepted}: use at least 1 and 0"
        )
    return text_length + accepted


def draft_rows_to_keep(text_length: int, accepted: int, K: int) -> int:
    """The same for the draft's cache, after it drafted K ≥ 1 tokens.

    The draft never ran its last token, so after full acceptance it holds one row less.

    >>> draft_rows_to_keep(10, 2, K=4), draft_rows_to_keep(10, 4, K=4)
    (12, 13)
    """
    if not 0 <= accepted <= K or K < 1:
        raise ValueError(f"accepted is {accepted} of K = {K}: use K >= 1, and 0 to K of them")
    return min(rows_to_keep(text_length, accepted), text_length + K - 1)


def catch_up(text: Sequence[T], rows: int) -> list[T]:
    """The tokens of ``text`` that a cache of ``rows`` rows lacks: what the model is fed next.

    One token as a rule, the one that closed the last round. Two for a draft after full
    acceptance: the last drafted token, which it never ran, and the bonus. Raises ValueError
    unless at least the newest token is left to run.

    >>> catch_up("abcde", 4), catch_up("abcde", 3)
    (['e'], ['d', 'e'])
    """
    if not 0 <= rows < len(text):
        raise ValueError(
            f"rows is {rows} for a text of {len(text)} tokens: the newest token is never cached"
        )
    return list(text[rows:])


@dataclass(frozen=True)
class SequenceRound:
    """One sequence of a batch in one round: lengths before it, and how many drafts passed.

    ``text`` is the number of tokens before the round, ``target_before`` and ``draft_before``
    the rows of the two caches then. K is at least 1.
    """

    text: int
    target_before: int
    draft_before: int
    K: int
    accepted: int

    @property
    def emitted(self) -> int:
        """Tokens added to the text: the accepted ones and the one that closes the round."""
        return self.accepted + 1

    @property
    def closing(self) -> str:
        """How the last token came about: "correction" after a rejection, else "bonus"."""
        return "bonus" if self.accepted == self.K else "correction"

    @property
    def target_fed(self) -> range:
        """Positions the target runs in its one forward: what it lacks and K drafted tokens."""
        return range(self.target_before, self.text + self.K)

    @property
    def draft_fed(self) -> range:
        """Positions the draft runs, in K forwards; the first takes all it lacks."""
        return range(self.draft_before, self.text + self.K - 1)

    @property
    def draft_first_fed(self) -> int:
        """Tokens in the draft's first forward: 1, or 2 after full acceptance."""
        return self.text - self.draft_before

    @property
    def target_rows(self) -> int:
        """kv_length of the target after the round."""
        return rows_to_keep(self.text, self.accepted)

    @property
    def draft_rows(self) -> int:
        """kv_length of the draft after the round."""
        return draft_rows_to_keep(self.text, self.accepted, self.K)


def simulate_batch(
    text_lengths: Sequence[int], accepted: Sequence[Sequence[int]], K: int
) -> list[list[SequenceRound | None]]:
    """Play a batch: in round r, sequence i accepts ``accepted[i][r]`` of its K drafted tokens.

    Returns one list for each round, with a SequenceRound for each sequence, or None where
    it has stopped: a sequence stops when its plan is used up, and the others go on. Before
    the first round both caches hold the prompt without its newest token. Every sequence has
    lengths of its own; none is run again because another one was rejected.

    >>> rounds = simulate_batch([5, 5], [[2, 2], [1]], K=2)
    >>> [(a.target_rows, a.draft_rows) for a in rounds[0]]
    [(7, 6), (6, 6)]
    >>> rounds[1][0].draft_first_fed, rounds[1][1]
    (2, None)
    """
    if len(text_lengths) != len(accepted):
        raise ValueError(
            f"{len(text_lengths)} text_lengths but {len(accepted)} plans in accepted: "
            "give one for each sequence"
        )
    pairs = zip(text_lengths, accepted, strict=True)
    plans = [_play_alone(length, plan, K) for length, plan in pairs]
    longest = max(map(len, plans), default=0)
    return [[plan[r] if r < len(plan) else None for plan in plans] for r in range(longest)]


def _play_alone(text: int, plan: Sequence[int], K: int) -> list[SequenceRound]:
    rounds: list[SequenceRound] = []
    target = draft = text - 1
    for passed in plan:
        round = SequenceRound(text, target, draft, K, passed)
        target, draft = round.target_rows, round.draft_rows
        text += round.emitted
        rounds.append(round)
    return rounds


@dataclass(frozen=True)
class Slot:
    """One place in the picture of a cache: its position, whose token, and what became of it.

    ``state`` is one of STATES: "prefix" was there before the round, "fed" is text that was run
    at its start, "accepted" and "rejected" are drafted tokens, "stale" is a rejected row
    behind the length, which nobody reads. "correction" and "bonus" are the token that closed
    the round, "stop" an accepted end-of-text: the newest token, in the text but without a
    row (``has_row`` is False).
    """

    position: int
    token: int
    state: str

    @property
    def has_row(self) -> bool:
        return self.state not in WITHOUT_ROW


def list_slots(
    text: Sequence[int],
    drafted: Sequence[int],
    emitted: Sequence[int],
    rows_before: int,
    *,
    draft: bool = False,
    rolled_back: bool = True,
) -> list[Slot]:
    """The rows of one cache after a round over a chain, in order, then the closing token.

    ``text`` is the text before the round, ``emitted`` what the round added: accepted tokens
    and one more. ``draft`` asks for the draft's cache, which lacks the last drafted token.
    With ``rolled_back=False`` the length has not been set yet, and rejected rows are
    "rejected" instead of "stale". The closing token stands at its position, beside the stale
    row of the token that it replaced.

    >>> slots = list_slots([7, 8], [1, 2, 3], [1, 9], rows_before=1)
    >>> [(slot.position, slot.token, slot.state) for slot in slots]  # doctest: +ELLIPSIS
    [(0, 7, 'prefix'), (1, 8, 'fed'), (2, 1, 'accepted'), (3, 2, 'stale'), (4, 3, 'stale'), ...
    >>> slots[-1]
    Slot(position=3, token=9, state='correction')
    """
    n, accepted = len(text), len(emitted) - 1
    catch_up(text, rows_before)  # refuses impossible lengths
    slots = [Slot(i, token, "prefix" if i < rows_before else "fed") for i, token in enumerate(text)]
    for i, token in enumerate(drafted[: len(drafted) - draft]):
        lost = "stale" if rolled_back else "rejected"
        slots.append(Slot(n + i, token, "accepted" if i < accepted else lost))
    return [*slots, Slot(n + accepted, emitted[-1], _name_closing(drafted, emitted))]


def _name_closing(drafted: Sequence[int], emitted: Sequence[int]) -> str:
    """A correction never equals the token it replaces: the residual gives that one nothing."""
    accepted = len(emitted) - 1
    if accepted == len(drafted):
        return "bonus"
    return "stop" if drafted[accepted] == emitted[-1] else "correction"
