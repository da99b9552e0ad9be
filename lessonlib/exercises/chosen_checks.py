"""Checks of exercise 6.4: a token that was chosen and not drawn, by its law."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import Slips, name_slip
from lessonlib.theory.exactlaw import law_of, total_variation
from lessonlib.theory.rejection import draw, one_hot, residual


def accept_chosen(p: np.ndarray, q: np.ndarray, token: int) -> tuple[float, np.ndarray]:
    """The reference: (chance that ``token`` is kept, row of what takes its place)."""
    return float(p[token]), residual(p, one_hot(token, len(p)))


def _without(row: np.ndarray, token: int) -> np.ndarray:
    rest = np.where(np.arange(len(row)) == token, 0.0, row)
    return rest / rest.sum()


WRONG_CHANCES: Slips = (
    (
        "nothing was drawn from q: the row it was chosen from is one-hot, so do not divide by q",
        lambda p, q, x: min(1.0, p[x] / q[x]),
    ),
    (
        "p(x) q(x) is the chance that two draws agree: the token was not drawn",
        lambda p, q, x: p[x] * q[x],
    ),
    ("that is the head's confidence: the target decides", lambda p, q, x: q[x]),
    ("it is turned round: p(x) is the chance to keep x", lambda p, q, x: 1 - p[x]),
    (
        "it keeps x only where x is p's favourite: that is right at temperature 0 only",
        lambda p, q, x: float(p.argmax() == x),
    ),
    (
        "sum min(p, q) is the rate of a token that was drawn from q",
        lambda p, q, x: np.minimum(p, q).sum(),
    ),
)
WRONG_RESTS: Slips = (
    (
        "the rest subtracts the head's row: subtract the one-hot row, which leaves x out",
        lambda p, q, x: residual(p, q),
    ),
    ("the rest still holds x, which has just been rejected", lambda p, q, x: p),
    (
        "the rest is the head's row: what takes the place of x comes from p",
        lambda p, q, x: _without(q, x),
    ),
    (
        "the rest takes the target's favourite: draw from all that is left of p",
        lambda p, q, x: one_hot(int(_without(p, x).argmax()), len(p)),
    ),
    (
        "the rest treats all other tokens alike: keep their shares of p",
        lambda p, q, x: _without(np.ones(len(p)), x),
    ),
)


def _list_rows():
    for seed, vocab in enumerate([3, 4, 6]):
        rng = np.random.default_rng([64, seed])
        p, q = rng.dirichlet(np.ones(vocab)), rng.dirichlet(np.ones(vocab))
        yield p, q, int(q.argmax())
        yield p, q, int(p.argmin())


def _choose(answer, p, q, token) -> tuple[float, np.ndarray]:
    given = p.copy(), q.copy()
    with inputs.unchanged(p=given[0], q=given[1]):
        parts = inputs.as_tuple(answer(*given, token), "what you return", 2)
    chance = inputs.as_number(parts[0], "the chance", 0, 1)
    return chance, inputs.as_probability(parts[1], "the rest", (len(p),), tol=SAME)


def check_chance(answer) -> None:
    rows = list(_list_rows())
    yours, wanted = ([_choose(f, *row)[0] for row in rows] for f in (answer, accept_chosen))
    if not inputs.near(yours, wanted):
        name_slip(yours, rows, WRONG_CHANCES)
    inputs.close(yours, wanted, SAME, "the chance over several rows")


def check_rest(answer) -> None:
    rows = list(_list_rows())
    yours, wanted = ([_choose(f, *row)[1] for row in rows] for f in (answer, accept_chosen))
    if not all(map(inputs.near, yours, wanted)):
        name_slip(yours, rows, WRONG_RESTS)
    for mine, right in zip(yours, wanted, strict=True):
        inputs.close(mine, right, SAME, "the rest")


def check_chosen_law(answer) -> None:
    """Every outcome of keeping or drawing anew, enumerated: the token must follow p."""
    for p, q, token in _list_rows():
        chance, rest = _choose(answer, p, q, token)

        def emit(coins, token=token, chance=chance, rest=rest):
            return token if coins.random() < chance else draw(rest, coins.random())

        off = total_variation(law_of(emit), dict(enumerate(p)))
        if off > SAME:
            raise Wrong(f"the token that comes out is off p by TV {off:.3f}")


def check_a_certain_target(answer) -> None:
    """p(x) = 1: the token is kept for certain, and the rest, 0/0, is never drawn from."""
    p, q = np.array([0.0, 1.0, 0.0]), np.array([0.2, 0.5, 0.3])
    with np.errstate(all="ignore"):
        chance, rest = inputs.as_tuple(answer(p.copy(), q, 1), "what you return", 2)
    inputs.close(inputs.as_number(chance, "the chance", 0, 1), 1, SAME, "the chance for p(x) = 1")
    if inputs.not_finite(rest):
        raise Wrong("for p(x) = 1 nothing is left and the rest is 0/0: return p itself")
    inputs.as_probability(rest, "the rest for p(x) = 1", (3,), tol=SAME)
    chance, rest = _choose(answer, np.array([0.0, 0.4, 0.6]), q, 0)
    inputs.close(chance, 0, SAME, "the chance for p(x) = 0")
    inputs.close(rest, [0, 0.4, 0.6], SAME, "the rest for p(x) = 0")
