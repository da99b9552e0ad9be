"""Tell a learner *which* mistake was made over siblings, by the exact law of the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lessonlib.exercises.inputs import SAME
from lessonlib.theory.exactlaw import Law, total_variation
from lessonlib.theory.sibling_mistakes import SIBLING_MISTAKES
from lessonlib.theory.siblings import RULES, accept_sibling, sibling_law, token_law
from lessonlib.theory.toys import random_rows

COUNT, VOCAB = 2, 4

SIBLING_ADVICE = {
    "p-never-replaced": "a rejected sibling leaves p as it was: replace p by its residual",
    "residual-only-at-the-end": "later siblings meet the old p: take the residual each time",
    "residual-of-the-first-p": "each residual starts from the first p: go on from what is left",
    "close-from-p": "the last draw uses the first p: draw from what is left of it",
    "only-drops-x": "a rejection only removes x from p: subtract the vector q (the residual)",
    "first-row-for-all": "every sibling is divided by q_rows[0]: use q_rows[i], its own row",
    "one-coin-for-all": "one uniform decides every sibling: use u[i] for sibling i",
    "close-with-an-accept-coin": "the uniform that rejected a sibling also draws: use the last u",
    "only-the-first-sibling": "only the first sibling is tested: go on to the next one",
    "ratio-inverted": "the ratio is upside down: accept with probability min(1, p/q)",
    "accept-everything": "the first sibling is always accepted: compare u[i] with p/q",
    "skip-twins": "a sibling with a token seen before is skipped: test it, it used up q too",
    "best-accepted": "the likeliest of the passed siblings wins: take the first one that passes",
    "own-target-samples": "each sibling gets a sample of p of its own: use min(1, p/q)",
    "one-target-sample": "it keeps a sibling only if p draws the same: use min(1, p/q)",
}


def _signature(choose: Callable) -> dict[str, Law]:
    p, q = random_rows(VOCAB, 1)(()), random_rows(VOCAB, 101)(())
    return {rule: sibling_law(choose, p, q, rule, COUNT) for rule in RULES}


def _apart(first: dict[str, Law], second: dict[str, Law]) -> float:
    return max(total_variation(first[rule], second[rule]) for rule in RULES)


@cache
def _known_laws() -> dict[str, dict[str, Law]]:
    return {name: _signature(wrong) for name, wrong in SIBLING_MISTAKES.items()}


def diagnose_siblings(choose: Callable) -> str | None:
    """None if ``choose`` has the right law under every rule, else one sentence about it."""
    laws, right = _signature(choose), _signature(accept_sibling)
    if _apart(laws, right) < SAME:
        return None
    for name, known in _known_laws().items():
        if _apart(laws, known) < SAME:
            return SIBLING_ADVICE[name]
    for rule in RULES:
        off = total_variation(token_law(laws[rule]), token_law(right[rule]))
        if off > SAME:
            return f"with siblings drawn {rule} the token's law is off by TV {off:.3f}"
    return "the token follows p, but siblings are accepted at other moments than min(1, p/q) would"
