"""Plausible wrong formulas of lesson 02, and what to tell whoever wrote them."""

from __future__ import annotations

from lessonlib.exercises.named_mistakes import Slips

WRONG_TOKENS: Slips = (
    (
        "that counts the accepted tokens only: each round adds one more",
        lambda a, K: sum_powers(a, 1, K),
    ),
    (
        "that is one term short: K drafted tokens give the powers 0 to K",
        lambda a, K: sum_powers(a, 0, K - 1),
    ),
    ("that is one term too many: the powers end at K", lambda a, K: sum_powers(a, 0, K + 1)),
    ("alpha K + 1 counts passes behind a rejection too", lambda a, K: a * K + 1),
    ("alpha (K + 1) counts passes behind a rejection too", lambda a, K: a * (K + 1)),
    ("1/(1 - alpha) is what K without end would give", lambda a, K: 1 / (1 - a)),
    ("divide by 1 - alpha", lambda a, K: 1 - a ** (K + 1)),
    ("K + 1 is the most a round can emit, not the mean", lambda a, K: K + 1),
    ("that is the chance that all K pass", lambda a, K: a**K),
)
WRONG_TIMES: Slips = (
    (
        "that is tokens per unit of time, the speedup: turn it over",
        lambda a, c, N: sum_powers(a, 0, N) / (c * N + 1),
    ),
    ("that is the cost of a round: divide by its tokens", lambda a, c, N: c * N + 1),
    ("the target's own forward is missing: c N + 1", lambda a, c, N: c * N / sum_powers(a, 0, N)),
    (
        "only N tokens are drafted: the cost is c N + 1",
        lambda a, c, N: (c * (N + 1) + 1) / sum_powers(a, 0, N),
    ),
    ("drafting is missing from the cost: c N + 1", lambda a, c, N: 1 / sum_powers(a, 0, N)),
    ("divide by the tokens of a round, not by N", lambda a, c, N: (c * N + 1) / N),
    ("divide by the tokens of a round, not by N + 1", lambda a, c, N: (c * N + 1) / (N + 1)),
)
WRONG_SPEEDUPS: Slips = (
    (
        "v is not used: verifying costs v, not 1",
        lambda a, K, c, v: sum_powers(a, 0, K) / (c * K + 1),
    ),
    ("drafting is free in it: add c K to the cost", lambda a, K, c, v: sum_powers(a, 0, K) / v),
    (
        "c is paid for each of the K drafted tokens",
        lambda a, K, c, v: sum_powers(a, 0, K) / (c + v),
    ),
    (
        "only K tokens are drafted: the cost is c K + v",
        lambda a, K, c, v: sum_powers(a, 0, K) / (c * (K + 1) + v),
    ),
    (
        "v is the cost of the whole verification, not of one token",
        lambda a, K, c, v: sum_powers(a, 0, K) / (c * K + v * (K + 1)),
    ),
    (
        "v already is the target's forward: do not add another 1",
        lambda a, K, c, v: sum_powers(a, 0, K) / (c * K + v + 1),
    ),
    ("it is upside down: tokens over cost", lambda a, K, c, v: (c * K + v) / sum_powers(a, 0, K)),
    ("that is tokens per round: divide by its cost", lambda a, K, c, v: sum_powers(a, 0, K)),
    (
        "the token that closes the round is missing",
        lambda a, K, c, v: sum_powers(a, 1, K) / (c * K + v),
    ),
    (
        "alpha K + 1 is not the tokens of a round: passes behind a rejection are void",
        lambda a, K, c, v: (a * K + 1) / (c * K + v),
    ),
)


def sum_powers(alpha: float, first: int, last: int) -> float:
    """alpha^first + ... + alpha^last."""
    return sum(alpha**i for i in range(first, last + 1))
