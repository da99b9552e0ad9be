"""A turn: one entrant decodes one prompt once. What several of them say, without model or clock.

In every repeat all entrants take a turn on the same prompt, so a turn has a partner: plain
decoding's turn of the same repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lessonlib.decoding.trace import Trace


@dataclass(frozen=True)
class Turn:
    """What one turn took. The prefill is in no count and in no second.

    ``draft`` and ``target`` are the seconds inside the two models' forwards, and ``trace``
    says what was drafted; all three are None for an entrant that cannot be looked into.
    """

    tokens: int
    rounds: int
    seconds: float
    draft: float | None = None
    target: float | None = None
    trace: Trace | None = None

    @property
    def per_token(self) -> float:
        return self.seconds / self.tokens

    @property
    def rest(self) -> float:
        """Seconds outside all forwards: to sample, to test, to keep the books."""
        return self.seconds - self.draft - self.target


def measure_tau(turns: Sequence[Turn]) -> float:
    """τ over all turns: tokens per target forward.

    >>> measure_tau([Turn(6, 2, 1.0), Turn(6, 4, 1.0)])
    2.0
    """
    return sum(turn.tokens for turn in turns) / sum(turn.rounds for turn in turns)


def summarize_ratios(base: Sequence[Turn], turns: Sequence[Turn]) -> dict[str, float]:
    """How many times faster than ``base``: the median over the repeats of the paired ratio.

    The ratio is taken inside each repeat, where both ran within seconds of each other on
    the same prompt: a busy minute slows both and cancels. A ratio of two medians would
    set a quiet turn of one against a busy turn of the other. ``low`` and ``high`` are the
    extreme repeats: of so few, no finer spread can be told.

    >>> quick, slow = Turn(10, 5, seconds=1.0), Turn(10, 5, seconds=4.0)
    >>> summarize_ratios([Turn(10, 10, 2.0), Turn(10, 10, 8.0)], [quick, slow])
    {'median': 2.0, 'low': 2.0, 'high': 2.0}
    """
    ratios = [a.per_token / b.per_token for a, b in zip(base, turns, strict=True)]
    middle = find_middle(base, turns)
    return {"median": ratios[middle], "low": min(ratios), "high": max(ratios)}


def find_middle(base: Sequence[Turn], turns: Sequence[Turn]) -> int:
    """Which repeat has the median ratio; of an even number the slower of the two in the middle.

    >>> find_middle([Turn(1, 1, 6.0)] * 3, [Turn(1, 1, 1.0), Turn(1, 1, 3.0), Turn(1, 1, 2.0)])
    2
    """
    ratios = [a.per_token / b.per_token for a, b in zip(base, turns, strict=True)]
    return sorted(range(len(ratios)), key=ratios.__getitem__)[(len(ratios) - 1) // 2]


def split_round(base: Sequence[Turn], turns: Sequence[Turn]) -> tuple[float, float, float]:
    """What a round cost in plain rounds: the draft's forwards, the target's, and the rest.

    τ over the sum of the three is the speed of all ``turns`` together over ``base``.

    >>> plain, other = Turn(8, 8, 8.0, 0.0, 7.0), Turn(8, 4, 6.0, 1.0, 4.5)
    >>> split_round([plain], [other])
    (0.25, 1.125, 0.125)
    """
    unit = sum(t.seconds for t in base) / sum(t.tokens for t in base)
    unit *= sum(turn.rounds for turn in turns)
    parts = ([t.draft for t in turns], [t.target for t in turns], [t.rest for t in turns])
    draft, target, rest = (sum(seconds) / unit for seconds in parts)
    return draft, target, rest
