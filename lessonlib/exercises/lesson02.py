"""Checks of lesson 02: tokens per round, the best draft length, a sweep, a prediction."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.exercises.wrong_formulas import (
    WRONG_SPEEDUPS,
    WRONG_TIMES,
    WRONG_TOKENS,
    sum_powers,
)
from lessonlib.theory import speedup
from lessonlib.theory.exactlaw import round_law
from lessonlib.theory.speedup import expected_tokens
from lessonlib.theory.verify import speculative_round

# 2.1 expected_tokens


def check_tokens_against_the_law(answer) -> None:
    """The mean of the enumerated round, on languages with one acceptance rate everywhere."""
    points = [(a, K) for a in (0.25, 0.5, 0.75) for K in (1, 2, 3)]
    yours = [inputs.as_number(answer(*point), "your E") for point in points]
    wanted = [_mean_length(*point) for point in points]
    if not inputs.near(yours, wanted):
        name_slip(yours, points, WRONG_TOKENS)
    for (alpha, K), mine, right in zip(points, yours, wanted, strict=True):
        inputs.close(mine, right, SAME, f"E at alpha={alpha}, K={K}")


def _mean_length(alpha: float, K: int) -> float:
    p, q = np.array([1.0, 0.0]), np.array([alpha, 1 - alpha])
    law = round_law(speculative_round, lambda _: p, lambda _: q, K)
    return sum(len(tokens) * weight for tokens, weight in law.items())


def check_tokens_values(answer) -> None:
    for alpha in np.linspace(0, 0.99, 12):
        for K in (0, 1, 5, 16, 40):
            tol = SAME * (K + 1)  # the largest E there is
            yours = inputs.as_number(answer(float(alpha), K), "your E", 1, K + 1, tol=tol)
            inputs.close(yours, expected_tokens(alpha, K), tol, f"E at alpha={alpha:.2f}, K={K}")


def check_tokens_of_a_perfect_draft(answer) -> None:
    for alpha in (1, 1.0):
        try:
            yours = inputs.as_number(answer(alpha, 4), "your E")
        except (Wrong, ZeroDivisionError):
            raise Wrong("alpha = 1 gives 0/0 there: all K pass, so E is K + 1") from None
        inputs.close(yours, 5, SAME, "E at alpha=1, K=4")


# 2.2 best_draft_length

PRICES = ((0.8, 0.05), (0.5, 0.05), (0.5, 0.1), (0.7, 0.1), (0.9, 0.1), (0.9, 0.05))


def check_best_lengths(answer) -> None:
    """Six of the usual rates and costs; a longer search than "1 to 10" is needed for two."""
    yours = [_read_length(answer, *point) for point in PRICES]
    wanted = [speedup.best_draft_length(*point) for point in PRICES]
    if yours == [K + 1 for K in wanted]:
        raise Wrong("each is 1 too long: K counts drafted tokens, so it may not be an index + 1")
    if yours == [K - 1 for K in wanted]:
        raise Wrong("each is 1 too short: does your list of K start where you think it does?")
    if len(set(yours)) == 1:
        raise Wrong(f"it is {yours[0]} for every alpha and c: maximise E / (c K + 1), E as in 2.1")
    if yours == [_best_without_bonus(*point) for point in PRICES]:
        raise Wrong("the token that closes each round is missing from your E")
    for (alpha, c), K in zip(PRICES, yours, strict=True):
        _compare_lengths(alpha, c, K)


def _read_length(answer, alpha: float, c: float) -> int:
    """The learner's K; its speedup is a sum of K + 1 powers, so there must be an end to them."""
    return inputs.as_int(answer(alpha, c), "your K", 0, 10_000)


def _best_without_bonus(alpha: float, c: float) -> int:
    return max(range(1, 101), key=lambda K: sum_powers(alpha, 1, K) / (c * K + 1))


def _compare_lengths(alpha: float, c: float, yours: int) -> None:
    """Another K of the same speedup is as good: on a tie nobody loses."""
    best = speedup.best_draft_length(alpha, c)
    mine, most = speedup.speedup(alpha, yours, c), speedup.speedup(alpha, best, c)
    if mine < most - 1e-12:
        raise Wrong(
            f"alpha={alpha}, c={c}: your K = {yours} gives {mine:.4f}x, K = {best} {most:.4f}x"
        )


def check_long_drafts(answer) -> None:
    for alpha, c in ((0.95, 0.02), (0.98, 0.01), (0.99, 0.01)):
        K = _read_length(answer, alpha, c)
        best = speedup.best_draft_length(alpha, c)
        if best > K and speedup.speedup(alpha, K + 1, c) > speedup.speedup(alpha, K, c):
            raise Wrong(f"alpha={alpha}, c={c}: the speedup still rises at your K = {K}: go on")
        _compare_lengths(alpha, c, K)


def check_hopeless_drafts(answer) -> None:
    for alpha, c in ((0.3, 0.5), (0.6, 0.66), (0.0, 0.1), (0.2, 1.5)):
        if _read_length(answer, alpha, c) != 0:
            raise Wrong(f"alpha={alpha}, c={c}: every draft makes it slower, so the best K is 0")


def check_free_draft(answer) -> None:
    try:
        yours = answer(0.8, 0)
    except ZeroDivisionError:
        raise Wrong("c = 0 divides by zero: longer is always better then, return None") from None
    if yours is not None:
        raise Wrong(f"with c = 0 your K is {yours}, but K + 1 is better still: return None")


# 2.3 sweep_lengths


def check_the_sweep(answer) -> None:
    _compare_sweeps(answer, 0.9, 0.04, range(1, 11))


def check_other_sweeps(answer) -> None:
    _compare_sweeps(answer, 0.6, 0.2, range(1, 6))
    _compare_sweeps(answer, 0.8, 0.05, np.array([2, 4, 8]))


def _compare_sweeps(answer, alpha: float, c: float, lengths) -> None:
    with inputs.unchanged(lengths=lengths):
        parts = inputs.as_tuple(answer(alpha, c, lengths), "your answer", 2)
    names = ("your E", "your time per token")
    tokens, times = (
        inputs.as_vector(part, name, len(lengths)) for part, name in zip(parts, names, strict=True)
    )
    right_tokens, right_times = speedup.sweep_lengths(alpha, c, lengths)
    if np.allclose(tokens, right_times) and np.allclose(times, right_tokens):
        raise Wrong("the two curves are swapped: E first, then the time per token")
    points = [(alpha, int(K)) for K in lengths]
    name_slip(tokens, points, WRONG_TOKENS)
    inputs.close(tokens, right_tokens, SAME, "E")
    name_slip(times, [(alpha, c, K) for _, K in points], WRONG_TIMES)
    inputs.close(times, right_times, SAME, "the time per token")


# 2.4 predict_speedup


def check_predictions(answer) -> None:
    points = [(0.8, 4, 0.05, 1.3), (0.6, 2, 0.35, 2.0), (0.9, 8, 0.1, 1.0), (0.5, 6, 0.2, 3.0)]
    yours = [inputs.as_number(answer(*point), "your prediction") for point in points]
    wanted = [speedup.speedup(*point) for point in points]
    if not inputs.near(yours, wanted):
        name_slip(yours, points, WRONG_SPEEDUPS)
    for (alpha, K, c, v), mine, right in zip(points, yours, wanted, strict=True):
        inputs.close(mine, right, SAME, f"the speedup at alpha={alpha}, K={K}, c={c}, v={v}")


def check_predictions_at_the_ends(answer) -> None:
    for point, story in (
        ((0.7, 0, 0.1, 1.0), "K = 0 is plain decoding"),
        ((1.0, 4, 0.0, 1.0), "alpha = 1 and a free draft give K + 1"),
        ((0.0, 4, 0.1, 1.0), "alpha = 0 gives one token a round"),
    ):
        try:
            yours = inputs.as_number(answer(*point), "your prediction")
        except (Wrong, ZeroDivisionError):
            raise Wrong(f"your prediction divides by zero at an end: {story}") from None
        inputs.close(yours, speedup.speedup(*point), SAME, f"your prediction ({story})")


EXERCISES = (
    Exercise(
        "2.1",
        "expected_tokens",
        goal="turn an acceptance rate into tokens per round",
        minutes=10,
        difficulty=1,
        hints=(
            "With which chance does a round emit at least i + 1 tokens? Only if i drafts passed.",
            "The mean of a count is the sum of these chances, for i = 0 to K.",
            "sum(alpha**i for i in range(K + 1)) needs no special case at alpha = 1.",
        ),
        help={
            "E is too small by 1": "the recovered or bonus token counts too",
            "it is one term short": "K drafted tokens, but K + 1 powers: 0 to K",
            "alpha = 1 gives 0/0": "add the powers up instead of dividing by 1 - alpha",
        },
        checks=(
            check_tokens_against_the_law,
            check_tokens_values,
            check_tokens_of_a_perfect_draft,
        ),
        reference=speedup.expected_tokens,
    ),
    Exercise(
        "2.2",
        "best_draft_length",
        goal="find the draft length that pays best, given what drafting costs",
        minutes=15,
        difficulty=2,
        hints=(
            "Try K = 0, 1, 2, ... and keep the one with the largest E / (c K + 1).",
            "When to stop? E is below 1 / (1 - alpha), so a K above alpha / ((1 - alpha) c) loses.",
            "c = 0 first: return None. Otherwise max(range(last + 1), key=...) returns the "
            "smallest of the best.",
        ),
        help={
            "your K is the same for every alpha": "maximise the speedup, not E",
            "the speedup still rises at your K": "let the end of the search depend on alpha and c",
            "your K is 3.09 (float)": "return K itself, not its speedup",
            "the best K is 0": "start the search at K = 0, plain decoding, with a speedup of 1",
        },
        checks=(check_best_lengths, check_long_drafts, check_hopeless_drafts, check_free_draft),
        reference=speedup.best_draft_length,
        points=2,
    ),
    Exercise(
        "2.3",
        "sweep_lengths",
        goal="compute both curves behind the choice of K",
        minutes=10,
        difficulty=1,
        hints=(
            "E is exercise 2.1, for each length in turn.",
            "A round over N drafted tokens takes c N + 1 target forwards and emits E tokens.",
            "np.array([... for N in lengths]) makes an array of each curve.",
        ),
        help={
            "that is the speedup: turn it over": "time per token is cost divided by tokens",
            "your E has shape ()": "one value for each length: loop over lengths",
            "the two curves are swapped": "E comes first, then the time per token",
        },
        checks=(check_the_sweep, check_other_sweeps),
        reference=speedup.sweep_lengths,
    ),
    Exercise(
        "2.4",
        "predict_speedup",
        goal="predict the speedup of a real pair from what you can measure",
        minutes=10,
        difficulty=2,
        hints=(
            "Plain decoding emits one token for one target forward. What does a round emit, "
            "and what does it cost, in the same unit?",
            "K draft forwards cost c each, one verification costs v.",
            "E / (c K + v).",
        ),
        help={
            "v is not used": "v replaces the 1 of the textbook formula",
            "v is the cost of the whole verification": "add v once; it covers all K + 1 tokens",
            "it divides by zero at an end": "sum the powers of alpha as in exercise 2.1",
        },
        checks=(check_predictions, check_predictions_at_the_ends),
        reference=speedup.speedup,
        points=2,
    ),
)
