"""A zoo of wrong ways to accept one of several siblings. Each is a mistake people make.

Every entry has the signature of ``siblings.accept_sibling``. Their exact laws tell a
learner which mistake was made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lessonlib.theory.rejection import draw, residual


def _ratio(p, q, x):
    return p[x] / q[x]


def _own_row(q_rows, i):
    return q_rows[i]


def _own_coin(u, i):
    return u[i]


def _lack_of(first, p, q, x):
    return residual(p, q)


def build_chooser(
    ratio=_ratio, row=_own_row, coin=_own_coin, left=_lack_of, close=lambda first, p: p, tries=None
) -> Callable:
    """The right rule with one part swapped.

    ``left(first, p, q, x)`` is what stays of p after a rejection, ``close(first, p)`` what
    the last draw uses, ``tries`` how many siblings are tested at all.
    """

    def choose(p, tokens, q_rows, u):
        first = p
        for i, x in enumerate(tokens[:tries]):
            q = row(q_rows, i)
            if q[x] > 0 and coin(u, i) < ratio(p, q, x):
                return i, x
            p = left(first, p, q, x)
        return None, draw(close(first, p), u[-1])

    return choose


def _without(first, p, q, x):
    rest = p * (np.arange(len(p)) != x)
    return rest / rest.sum() if rest.sum() > 0 else p


def best_accepted(p, tokens, q_rows, u):
    """The popular rule: test every sibling against p, keep the likeliest of those that pass."""
    passed = [i for i, x in enumerate(tokens) if u[i] < p[x] / q_rows[i][x]]
    if not passed:
        return None, draw(residual(p, q_rows[0]), u[-1])
    best = max(passed, key=lambda i: (p[tokens[i]], -tokens[i]))
    return best, tokens[best]


def own_target_samples(p, tokens, q_rows, u):
    """Each candidate row asks the target for a sample of its own; the first match wins."""
    for i, x in enumerate(tokens):
        if draw(p, u[i]) == x:
            return i, x
    return None, draw(p, u[-1])


def _one_target_sample(p, tokens, q_rows, u):
    """Lossless, but it keeps a sibling only if the target happened to draw it."""
    wanted = draw(p, u[-1])
    return (tokens.index(wanted), wanted) if wanted in tokens else (None, wanted)


def _skip_twins(p, tokens, q_rows, u):
    """A sibling with a token that was tested before is dropped without a word."""
    for i, x in enumerate(tokens):
        if x in tokens[:i]:
            continue
        if u[i] < p[x] / q_rows[i][x]:
            return i, x
        p = residual(p, q_rows[i])
    return None, draw(p, u[-1])


SIBLING_MISTAKES: dict[str, Callable] = {
    "p-never-replaced": build_chooser(
        left=lambda first, p, q, x: first, close=lambda first, p: first
    ),
    "residual-only-at-the-end": lambda p, tokens, q_rows, u: build_chooser(
        left=lambda first, p, q, x: first, close=lambda first, p: residual(first, q_rows[-1])
    )(p, tokens, q_rows, u),
    "residual-of-the-first-p": build_chooser(left=lambda first, p, q, x: residual(first, q)),
    "close-from-p": build_chooser(close=lambda first, p: first),
    "only-drops-x": build_chooser(left=_without),
    "first-row-for-all": build_chooser(row=lambda q_rows, i: q_rows[0]),
    "one-coin-for-all": build_chooser(coin=lambda u, i: u[0]),
    "close-with-an-accept-coin": lambda p, tokens, q_rows, u: build_chooser()(
        p, tokens, q_rows, [*u[:-1], u[-2]]
    ),
    "only-the-first-sibling": build_chooser(tries=1),
    "ratio-inverted": build_chooser(ratio=lambda p, q, x: q[x] / p[x] if p[x] > 0 else 0),
    "accept-everything": build_chooser(ratio=lambda p, q, x: 1),
    "skip-twins": _skip_twins,
    "best-accepted": best_accepted,
    "own-target-samples": own_target_samples,
    "one-target-sample": _one_target_sample,
}
