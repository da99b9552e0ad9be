"""Exercises of lesson 06, and the checks on tokens that were chosen and not drawn."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.growth_checks import (
    check_forwards,
    check_small_trees,
    check_ties,
    check_trees,
    grow_tree,
)
from lessonlib.exercises.named_mistakes import Slips, name_slip
from lessonlib.exercises.row_checks import (
    align_rows,
    check_input,
    check_last_row,
    check_rows,
    check_smallest_input,
    fuse_input,
)
from lessonlib.exercises.unroll_checks import (
    check_against_drafting,
    check_calls,
    check_first,
    check_second,
    unroll_twice,
)
from lessonlib.theory.exactlaw import law_of, total_variation
from lessonlib.theory.rejection import draw, one_hot, residual

SAME = 1e-6  # a right answer may compute in float32

# 6.4 accept_chosen


def accept_chosen(p: np.ndarray, q: np.ndarray, token: int) -> tuple[float, np.ndarray]:
    """The reference: (chance that ``token`` is kept, row of what takes its place)."""
    return float(p[token]), residual(p, one_hot(token, len(p)))


def _without(row: np.ndarray, token: int) -> np.ndarray:
    rest = np.where(np.arange(len(row)) == token, 0.0, row)
    return rest / rest.sum()


def _same(a, b) -> bool:
    return bool(np.allclose(a, b, atol=SAME))


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
    if not _same(yours, wanted):
        name_slip(yours, rows, WRONG_CHANCES, _same)
    inputs.close(yours, wanted, SAME, "the chance over several rows")


def check_rest(answer) -> None:
    rows = list(_list_rows())
    yours, wanted = ([_choose(f, *row)[1] for row in rows] for f in (answer, accept_chosen))
    if not all(map(_same, yours, wanted)):
        name_slip(yours, rows, WRONG_RESTS, _same)
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
    if not np.isfinite(np.asarray(rest, dtype=float)).all():
        raise Wrong("for p(x) = 1 nothing is left and the rest is 0/0: return p itself")
    chance, rest = _choose(answer, np.array([0.0, 0.4, 0.6]), q, 0)
    inputs.close(chance, 0, SAME, "the chance for p(x) = 0")
    inputs.close(rest, [0, 0.4, 0.6], SAME, "the rest for p(x) = 0")


EXERCISES = (
    Exercise(
        "6.1",
        "fuse_input",
        goal="give each row of the head the features and the token one step ahead",
        minutes=5,
        difficulty=1,
        hints=(
            "The last token of the text has no features yet, the first one is nobody's next token.",
            "Row t: features[t] side by side with embedding[tokens[t + 1]].",
            "embedding[tokens[1:]] picks all rows at once; np.hstack puts arrays side by side.",
        ),
        help={
            "row t holds token t": "the features at t know token t: tell the row what came after",
            "has shape": "n tokens give n - 1 rows, each twice as wide as the features",
            "only integer scalar arrays": "make the list an array: np.asarray(tokens)[1:]",
        },
        checks=(check_input, check_smallest_input),
        reference=fuse_input,
    ),
    Exercise(
        "6.2",
        "align_rows",
        goal="say which of the target's rows a row of the head must learn from",
        minutes=8,
        difficulty=2,
        hints=(
            "Write the rows down for n = 4 and k = 0, with the table above. How many are there?",
            "At k = 0, row s is told token s + 1, guesses the features at s + 1 and so drafts "
            "token s + 2. Each step further adds 1 to all three.",
            "The largest label is n - 1, so s runs from 0 to n - 2 - k: np.arange(n - 1 - k).",
        ),
        help={
            "is one row too long": "target row n does not exist: the text has rows 0 to n - 1",
            "is one row too short": "a label is a row of the target, not a token of the text",
            "it would learn to copy": "the label is what the row cannot see: the next features",
        },
        checks=(check_rows, check_last_row),
        reference=align_rows,
        points=2,
    ),
    Exercise(
        "6.3",
        "grow_tree",
        goal="grow EAGLE-2's tree: expand where the head is sure, then keep the best of all",
        minutes=20,
        difficulty=3,
        hints=(
            "Keep four lists for the proposed nodes: token, parent, path, confidence. A child's "
            "confidence is its parent's times q.",
            "Expand: sort the newest level by confidence, largest first; the first top_k of it get "
            "top_k children each. Do this depth - 1 times after the first level.",
            "Rerank: sort ALL nodes by confidence, keep the first `nodes`. sorted() leaves ties in "
            "their order, so a parent stays ahead of its child.",
            "Number anew: place = {-1: -1} plus each kept node's place; send parents through it.",
        ),
        help={
            "your code raised KeyError": "a kept node's parent is not kept: is its confidence the "
            "product along the path, and does a tie go to the node that came first?",
            "number the kept nodes anew": "parents count kept nodes, not proposed ones",
            "that was passed over counts too": "rank everything that was ever proposed",
            "the head is run on": "call q_of once for the text and once for each expanded node",
        },
        checks=(check_trees, check_small_trees, check_ties, check_forwards),
        reference=grow_tree,
        points=3,
    ),
    Exercise(
        "6.4",
        "accept_chosen",
        goal="keep the law when a token was chosen and not drawn",
        minutes=5,
        difficulty=1,
        hints=(
            "A token that is certain to be proposed was drawn from a one-hot row. Put that row "
            "into lesson 01's rule in the place of q.",
            "min(1, p(x) / 1) is p(x), and p minus the one-hot row is negative at x only.",
            "The rest is p with a 0 at x, divided by what is left. If nothing is, return p.",
        ),
        help={
            "nothing was drawn from q": "confidence chose the token; it is no chance of a draw",
            "the rest is 0/0": "test for p[token] == 1 first",
            "changed p in place": "rest = p.copy() before you set an entry to 0",
        },
        checks=(check_chance, check_rest, check_chosen_law, check_a_certain_target),
        reference=accept_chosen,
    ),
    Exercise(
        "6.5",
        "unroll_twice",
        goal="let a head practise on its own outputs, for all starts at once",
        minutes=15,
        difficulty=3,
        hints=(
            "first is one call: features, tokens[1:], and the causal mask np.tri(n, dtype=bool).",
            "For second, run 2n - 1 rows in one call: the n true ones, then first[:-1] as "
            "features with tokens[2:]. Return the last n - 1 outputs.",
            "The mask of step 1: over the true rows np.tri(n)[:-1] (row s sees 0 to s), over the "
            "rows of step 1 np.eye(n - 1) (itself). True rows see no row of step 1.",
            "np.block([[causal, zeros], [causal[:-1], eye]]), all boolean.",
        ),
        help={
            "which do not exist while drafting": "a chain from s has true features up to s only",
            "it sees the chains of earlier starts": "each start is a drafting run of its own",
            "the head ran": "no loop over starts: one mask holds all of them",
            "mask has shape": "for m rows the mask is boolean and (m, m)",
        },
        checks=(check_first, check_second, check_against_drafting, check_calls),
        reference=unroll_twice,
        points=3,
    ),
)
