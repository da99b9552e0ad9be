"""Checks of lesson 07: four rates, a break-even temperature, a controller, nine predictions."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.changes import CHANGES, predict_changes
from lessonlib.exercises.gate_checks import check_a_journey, check_steps
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.exercises.wrong_rates import WRONG_RATES, WRONG_TEMPERATURES, greedy_mean
from lessonlib.theory.controller import step_gate
from lessonlib.theory.crossings import break_even_temperature
from lessonlib.theory.speedup import break_even_alpha
from lessonlib.theory.temperature import RATES, four_rates

# 7.1 four_rates


def make_logits(rows: int = 0, vocab: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a target and of a draft that knows it a little; one context if ``rows`` is 0."""
    rng = np.random.default_rng([7, seed])
    shape = (rows, vocab) if rows else (vocab,)
    p = rng.normal(0, 2, shape)
    return p, p + rng.normal(0, 1.5, shape)


def read_rates(answer, p, q, T) -> tuple[float, ...]:
    """The learner's four numbers."""
    with inputs.unchanged(p_logits=p, q_logits=q):
        parts = inputs.as_tuple(answer(p, q, T), "your answer", 4)
    names = [f"your rate for {name}" for name in RATES]
    return tuple(inputs.as_number(x, name) for x, name in zip(parts, names, strict=True))


def check_rates(answer) -> None:
    points = [(*make_logits(seed=seed), T) for seed in range(4) for T in (0.4, 1.5, 4.0)]
    yours = np.array([read_rates(answer, p.copy(), q.copy(), T) for p, q, T in points])
    wanted = np.array([four_rates(*point) for point in points])
    for order in list(permutations(range(4)))[1:]:
        if inputs.near(yours[:, order], wanted):
            raise Wrong(
                f"these are the four rates, but in another order: wanted {', '.join(RATES)}"
            )
    for column, name in enumerate(RATES):
        if not inputs.near(yours[:, column], wanted[:, column]):
            slips = ((f"{name}: {words}", formula) for words, formula in WRONG_RATES[name])
            name_slip(yours[:, column], points, slips)
        for (_, _, T), mine, right in zip(points, yours, wanted, strict=True):
            inputs.close(mine[column], right[column], SAME, f"{name} at T={T}")


def check_rates_at_the_ends(answer) -> None:
    """A large logit over a small T overflows exp, unless the largest is taken off first.

    A thousandth is granted: in float32 logits of 3000 have no more than that to give.
    """
    for shift, T in ((0, 0.01), (3000.0, 0.5), (0, 1e6)):
        p, q = (logits + shift for logits in make_logits(seed=5))
        try:
            yours = read_rates(answer, p, q, T)
        except Wrong as wrong:
            if "NaN" in str(wrong) or "infinity" in str(wrong) or "nan" in str(wrong):
                raise Wrong("exp overflows: subtract the largest logit before it") from None
            raise
        for name, mine, right in zip(RATES, yours, four_rates(p, q, T), strict=True):
            inputs.close(mine, right, 1e-3, f"{name} at T={T:g}")


# 7.2 break_even_temperature

NEAR = 2e-3  # what a search may stop short of
LATE = 0.0173  # with K = 1 a cost that is too much from T = 195 on, behind the end at 100
# The last one ends near T = 93: a search that begins below 100 misses it.
COSTS = ((1, 0.4, 1.05), (2, 0.2, 1.1), (4, 0.1, 1.2), (3, 0.1, 1.6), (1, 0.018, 1.0))


def make_greedy_rows() -> tuple[np.ndarray, np.ndarray]:
    """Logits (8, 60) whose mean greedy α falls with T; in some the favourites differ."""
    p, q = make_logits(8, 60, seed=1)
    alike = np.random.default_rng(61).normal(0, 2, 60)  # the contexts have something in common
    p, q = 1.5 * p + alike, q + alike
    for row in range(6):
        top, other = p[row].argmax(), q[row].argmax()
        q[row, [top, other]] = q[row, [other, top]]  # here the draft's favourite is the target's
    return p, q


def read_temperature(answer, p, q, K, c, v) -> float | None:
    with inputs.unchanged(p_logits=p, q_logits=q):
        yours = answer(p, q, K, c, v)
    if yours is None:
        return None
    if inputs.shape_of(yours) == () and yours == math.inf:
        return math.inf
    return inputs.as_number(yours, "your T", low=0)


def same_temperature(mine: float | None, right: float | None) -> bool:
    """Whether two agree to within what a search may be off; None is None."""
    return mine == right or (None not in (mine, right) and abs(mine - right) <= NEAR)


def check_temperatures(answer) -> None:
    points = [(*make_greedy_rows(), *cost) for cost in COSTS]
    yours = [read_temperature(answer, p.copy(), q.copy(), *cost) for p, q, *cost in points]
    wanted = [break_even_temperature(*point) for point in points]
    levels = [break_even_alpha(*cost) for cost in COSTS]
    if all(map(same_temperature, yours, levels)):
        raise Wrong("that is the alpha that is needed: find the T at which it is reached")
    if not all(map(same_temperature, yours, wanted)) and set(yours) != {None}:
        name_slip(yours, points, WRONG_TEMPERATURES, same_temperature)
    for (p, q, K, c, v), mine, right in zip(points, yours, wanted, strict=True):
        if mine is None or mine == math.inf:
            said = "it never pays (None)" if mine is None else "it always pays (inf)"
            raise Wrong(f"at K={K}, c={c}, v={v} you say {said}, but the gain ends at some T")
        if not same_temperature(mine, right):
            have, need = greedy_mean(p, q, mine), break_even_alpha(K, c, v)
            close = "it is near, so search more finely: " if abs(mine - right) < 0.3 else ""
            raise Wrong(
                f"at K={K}, c={c}, v={v}: {close}at your T = {mine:.4g} alpha is {have:.4f}, "
                f"break-even is {need:.4f}"
            )


def check_hopeless(answer) -> None:
    p, q = make_greedy_rows()
    for cost, story in (
        ((4, 0.7, 1.5), "alpha at T = 0 is below break-even"),
        ((2, 1.5, 1.5), "the round costs more than K + 1, so no alpha is enough"),
    ):
        try:
            yours = read_temperature(answer, p, q, *cost)
        except TypeError:
            raise Wrong("break_even_alpha returned None there: no alpha is enough") from None
        if yours is not None:
            raise Wrong(f"K={cost[0]}, c={cost[1]}, v={cost[2]}: {story}: return None")


def check_always(answer) -> None:
    p, q = make_greedy_rows()
    for c, story in (
        (0.01, "alpha stays above break-even at every T"),  # it tends to 1/60
        (LATE, "alpha still is above break-even at T = 100, where the search ends"),
    ):
        yours = read_temperature(answer, p, q, 1, c, 1.0)
        if yours != math.inf:
            said = "None" if yours is None else f"{yours:g}"
            raise Wrong(f"K=1, c={c}: {story}: inf, not {said}")


# 7.4 predict_changes


def check_changes(answer) -> None:
    yours = answer()
    if not isinstance(yours, dict) or set(yours) != set(CHANGES):
        letters = ", ".join(CHANGES)
        raise Wrong(f"wanted a dict with one True or False for each of {letters}")
    off = []
    for letter, change in CHANGES.items():
        mine = yours[letter]
        if mine is None or mine is Ellipsis:
            raise Wrong(f"{letter} has no answer yet: True if it rises, False if it falls")
        before, after = change.measure()
        if inputs.as_bool(mine, f"your {letter}") != (after > before):
            off.append((letter, before, after))
    if off:
        letter, before, after = off[0]
        verb = "rises" if after > before else "falls"
        raise Wrong(
            f"{len(off)} of {len(CHANGES)} {'go' if len(off) > 1 else 'goes'} the other way, "
            f"the first is {letter}: it {verb} "
            f"from {before:.2f} to {after:.2f} - {CHANGES[letter].why}"
        )


EXERCISES = (
    Exercise(
        "7.1",
        "four_rates",
        goal="compute what a temperature does to each way of accepting",
        minutes=15,
        difficulty=2,
        hints=(
            "First a function that turns logits into probabilities at any T; both models use it.",
            "Which token is tested, and with which chance does it pass? Sum over the draws.",
            "sum(min(p_T, q_T)); p_T[argmax q]; sum(p_T * q_T); sum(min(p_T, q_1)).",
        ),
        help={
            "your rate is nan": "subtract the largest logit before exp",
            "a factor 1/2 is missing": "alpha = 1 - TV and TV is half of the sum of |p - q|",
            "keep it with p(x)": "a token that was chosen has a one-hot q: the ratio is p(x) / 1",
        },
        checks=(check_rates, check_rates_at_the_ends),
        reference=four_rates,
        points=2,
    ),
    Exercise(
        "7.2",
        "break_even_temperature",
        goal="find the temperature at which a greedy draft stops to pay",
        minutes=15,
        difficulty=2,
        hints=(
            "Lesson 02 gives the alpha that is needed; the rate of exercise 7.1 gives the alpha "
            "you have at a T.",
            "alpha falls as T rises: keep a cold T that pays and a hot one that does not, and "
            "look at the middle.",
            "Before the search: level None or alpha(0) too low returns None, and if T = 100 "
            "still pays return math.inf.",
        ),
        help={
            "it is near, so search more finely": "halve the interval 40 times, it costs nothing",
            "return None": "ask whether T = 0 pays before you search",
            "average the rates": "a rate for each row first, then the mean of the rates",
            "break_even_alpha returned None": "no alpha is enough there: return None yourself",
            "where the search ends": "ask about T = 100 itself: from there on the answer is inf",
        },
        checks=(check_temperatures, check_hopeless, check_always),
        reference=break_even_temperature,
        points=2,
    ),
    Exercise(
        "7.3",
        "step_gate",
        goal="write the controller that stops drafting while it loses, and comes back",
        minutes=20,
        difficulty=3,
        hints=(
            "Treat mode plain first: count, and decide whether the probe is due.",
            "In the other two modes the new round enters the window, and the oldest may leave it: "
            "recent = (*recent, tokens)[-settings.window:].",
            "Not full: same mode. Full: mean >= threshold (+ hysteresis in a probe) gives draft, "
            "else plain with an empty window.",
        ),
        help={
            "the window never forgets": "keep recent[-window:]",
            "no probe where one is due": "the plain round just played counts: waited + 1 first",
            "there is no hysteresis": "a probe must reach threshold + hysteresis, draft must not",
            "your gate is None": "every branch returns a Gate(mode, recent, waited)",
        },
        checks=(check_steps, check_a_journey),
        reference=step_gate,
        points=3,
    ),
    Exercise(
        "7.4",
        "predict_changes",
        goal="say in which direction a number moves before you measure it",
        minutes=10,
        difficulty=1,
        hints=(
            "For each rule ask: what is left of it when p is spread over all tokens?",
            "For speeds: does the change touch E, above the line, or the cost, below it?",
        ),
        help={
            "wanted a dict": "keep the letters, replace each ... by True or False",
            "the other way": "the sentence says what was measured; find out why before you flip",
        },
        checks=(check_changes,),
        reference=predict_changes,
    ),
)
