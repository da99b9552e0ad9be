"""Tell a learner *which* mistake was made, by the exact law of what the answer does.

An answer is run on a toy language and its law is compared with the law of every known
mistake (``theory/mistakes``). Equal laws, equal mistake: however the code looks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lessonlib.exercises.inputs import SAME
from lessonlib.theory.exactlaw import (
    Law,
    complete_law,
    round_law,
    target_law,
    total_variation,
)
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.toys import random_rows
from lessonlib.theory.verify import speculative_round

K, VOCAB = 2, 4

ADVICE = {
    "residual-not-clipped": "the residual uses |p - q|: clip p - q at 0 before normalising",
    "residual-not-renormalised": "the residual does not sum to 1: divide by its sum",
    "residual-from-p": "after a rejection the token is drawn from p: draw it from the residual",
    "residual-from-q": "after a rejection the token is drawn from q: draw it from the residual",
    "residual-reversed": "the residual uses q - p: it is p - q, clipped at 0",
    "residual-from-scalar-q": "the residual subtracts the number q[x]: subtract the whole vector q",
    "residual-only-drops-x": "the residual is p without the rejected token: subtract the vector q",
    "residual-from-next-position": "the residual uses p one row too late: use row j for token j",
    "residual-arg-max": "the replacement is the residual's largest entry: draw it instead",
    "ratio-inverted": "the ratio is upside down: accept with probability min(1, p/q)",
    "accept-iff-p-at-least-q": "it accepts if and only if p >= q: the probability is min(1, p/q)",
    "accept-with-p": "it accepts with probability p(x): divide by q(x)",
    "accept-with-min-of-p-and-q": "min(p, q) is the chance to draft x and keep it: divide by q(x)",
    "accept-everything": "it accepts every token: accept with probability min(1, p/q) only",
    "accept-leniently": "it accepts more often than min(1, p/q): that changes the law",
    "accept-on-one-coin": "one uniform decides every position: use u[j] for token j",
    "close-with-the-accept-coin": "the uniform that rejected a token also draws the next: use u[K]",
    "go-on-and-add-bonus": "it goes on after a rejection and adds a bonus: stop at a rejection",
    "replacement-missing": "a rejected token is not replaced: draw one from the residual",
    "accept-exact-match": "it keeps a token only if p draws the same one: use min(1, p/q)",
    "go-on-after-rejection": "it goes on after a rejection: stop there, the rest has no context",
    "bonus-from-draft": "the bonus token comes from q: draw it from p, row K",
    "bonus-from-stale-position": "the bonus token uses a stale row of p: use the last row, K",
    "bonus-arg-max": "the bonus token is the largest entry of p: draw it instead",
    "bonus-missing": "no bonus token: when all K are accepted, add one from p, row K",
}


def _languages(seed: int = 1):
    return random_rows(VOCAB, seed), random_rows(VOCAB, seed + 100)


@cache
def _known_laws() -> dict[str, Law]:
    p_of, q_of = _languages()
    return {name: round_law(wrong, p_of, q_of, K) for name, wrong in MISTAKES.items()}


def diagnose_round(round_of: Callable) -> str | None:
    """None if ``round_of`` has the right law, else one sentence about what it does.

    The right law is that of ``speculative_round``: both the tokens and how many.
    """
    p_of, q_of = _languages()
    law = round_law(round_of, p_of, q_of, K)
    if total_variation(law, round_law(speculative_round, p_of, q_of, K)) < SAME:
        return None
    for name, known in _known_laws().items():
        if total_variation(law, known) < SAME:
            return ADVICE[name]
    lengths = {len(tokens) for tokens in law}
    if not lengths <= set(range(1, K + 2)):
        return f"a round emits 1 to K + 1 tokens, yours emits {min(lengths)} to {max(lengths)}"
    off = total_variation(complete_law(law, p_of, K + 1), target_law(p_of, K + 1))
    if off < SAME:
        return "the output follows p, but it accepts at other moments than min(1, p/q) would"
    return f"the joint law of {K + 1} tokens is off by TV {off:.3f}, which no known mistake gives"
