"""A zoo of wrong speculative rounds. Each is a mistake people really make.

Every entry has the signature of ``verify.speculative_round`` and is wrong in one
place. Their exact laws are how a check tells a learner *which* mistake was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lessonlib.theory.rejection import draw, residual

Round = Callable[[Sequence, Sequence, Sequence[int], Sequence], list[int]]


def _ratio(p, q, x):
    return p[x] / q[x]


def _right_residual(p_rows, q_rows, j, x):
    return residual(p_rows[j], q_rows[j])


def _own_coin(j, K):
    return j


def _last_coin(j, K):
    return K


def _right_bonus(p_rows, q_rows, u):
    return [draw(p_rows[-1], u)]


def build_round(
    ratio=_ratio,
    replacement=_right_residual,
    bonus=_right_bonus,
    accept_coin=_own_coin,
    close_coin=_last_coin,
) -> Round:
    """The right round with one part swapped: what it divides, draws from, or tosses."""

    def run(p_rows, q_rows, drafted, u):
        K = len(drafted)
        for j, x in enumerate(drafted):
            if not u[accept_coin(j, K)] < ratio(p_rows[j], q_rows[j], x):
                row = replacement(p_rows, q_rows, j, x)
                return [*drafted[:j], draw_raw(row, u[close_coin(j, K)])]
        return [*drafted, *bonus(p_rows, q_rows, u[close_coin(K, K)])]

    return run


def draw_raw(row, u) -> int:
    """Draw from weights that may not add up to 1, as careless code does: the rest goes last."""
    token = int(np.searchsorted(np.cumsum(row), u, side="right"))
    return min(token, len(row) - 1)


def _normalised(row):
    total = row.sum()
    return row / total if total > 0 else row + 1 / len(row)


def _clipped(p, q):
    return np.maximum(p - q, 0 * p)


def _without(p, x):
    row = p.copy()
    row[x] = 0 * row[x]
    return _normalised(row)


def _arg_max_row(row):
    return (np.arange(len(row)) == np.argmax(row)) * (0 * row[0] + 1)


def _go_on_after_rejection(p_rows, q_rows, drafted, u):
    """A rejection replaces the token, and the tokens behind it are still tested and kept."""
    out, K = [], len(drafted)
    for j, x in enumerate(drafted):
        accepted = u[j] < p_rows[j][x] / q_rows[j][x]
        out.append(x if accepted else draw(residual(p_rows[j], q_rows[j]), u[K]))
    return out


def _go_on_and_add_bonus(p_rows, q_rows, drafted, u):
    """The same, with one more token from the last row whatever happened before it."""
    return [
        *_go_on_after_rejection(p_rows, q_rows, drafted, u),
        *_right_bonus(p_rows, q_rows, u[-1]),
    ]


def _stop_without_replacement(p_rows, q_rows, drafted, u):
    """A rejection ends the round, and nothing takes the rejected token's place."""
    out = build_round()(p_rows, q_rows, drafted, u)
    return out if len(out) > len(drafted) else out[:-1]


def _exact_match(p_rows, q_rows, drafted, u):
    """Lossless, but it keeps a draft token only if the target would have drawn the same."""
    for j, x in enumerate(drafted):
        wanted = draw(p_rows[j], u[j])
        if wanted != x:
            return [*drafted[:j], wanted]
    return [*drafted, draw(p_rows[-1], u[len(drafted)])]


MISTAKES: dict[str, Round] = {
    "residual-not-clipped": build_round(
        replacement=lambda p, q, j, x: _normalised(abs(p[j] - q[j]))
    ),
    "residual-not-renormalised": build_round(replacement=lambda p, q, j, x: _clipped(p[j], q[j])),
    "residual-from-p": build_round(replacement=lambda p, q, j, x: p[j]),
    "residual-from-q": build_round(replacement=lambda p, q, j, x: q[j]),
    "residual-reversed": build_round(replacement=lambda p, q, j, x: residual(q[j], p[j])),
    "residual-from-scalar-q": build_round(
        replacement=lambda p, q, j, x: _normalised(_clipped(p[j], q[j][x]))
    ),
    "residual-only-drops-x": build_round(replacement=lambda p, q, j, x: _without(p[j], x)),
    "residual-from-next-position": build_round(
        replacement=lambda p, q, j, x: residual(p[j + 1], q[j])
    ),
    "residual-arg-max": build_round(
        replacement=lambda p, q, j, x: _arg_max_row(residual(p[j], q[j]))
    ),
    "ratio-inverted": build_round(ratio=lambda p, q, x: q[x] / p[x] if p[x] > 0 else 1 + 0 * q[x]),
    "accept-iff-p-at-least-q": build_round(ratio=lambda p, q, x: 1 * (p[x] >= q[x])),
    "accept-with-p": build_round(ratio=lambda p, q, x: p[x]),
    "accept-with-min-of-p-and-q": build_round(ratio=lambda p, q, x: min(p[x], q[x])),
    "accept-everything": build_round(ratio=lambda p, q, x: 1),
    "accept-leniently": build_round(ratio=lambda p, q, x: 2 * p[x] / q[x]),
    "accept-on-one-coin": build_round(accept_coin=lambda j, K: 0),
    "close-with-the-accept-coin": build_round(close_coin=lambda j, K: j),
    "accept-exact-match": _exact_match,
    "go-on-after-rejection": _go_on_after_rejection,
    "go-on-and-add-bonus": _go_on_and_add_bonus,
    "replacement-missing": _stop_without_replacement,
    "bonus-from-draft": build_round(bonus=lambda p, q, u: [draw(q[-1], u)]),
    "bonus-from-stale-position": build_round(bonus=lambda p, q, u: [draw(p[-2], u)]),
    "bonus-arg-max": build_round(bonus=lambda p, q, u: [int(np.argmax(p[-1]))]),
    "bonus-missing": build_round(bonus=lambda p, q, u: []),
}
