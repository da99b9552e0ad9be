"""Checks of lesson 00: two short ones, to learn how checks work."""

from __future__ import annotations

from itertools import product

from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.theory import metrics


def check_every_mask(answer) -> None:
    for mask in (
        list(bits) for size in range(1, 6) for bits in product([True, False], repeat=size)
    ):
        with inputs.unchanged(passed=mask):
            yours = inputs.as_int(answer(mask), "your count", low=0)
        wanted = metrics.count_accepted(mask)
        if yours == sum(mask) != wanted:
            raise Wrong(f"{mask} gives {yours}, wanted {wanted}: nothing counts after a failure")
        if yours != wanted:
            raise Wrong(f"{mask} gives {yours}, wanted {wanted}")


def check_empty_mask(answer) -> None:
    if inputs.as_int(answer([]), "your count for no drafted token") != 0:
        raise Wrong("no drafted token means 0 accepted")


def check_tau_values(answer) -> None:
    for accepted in ([4, 0, 2], [0], [3], [1, 2, 3, 4], [0, 0, 0, 8]):
        with inputs.unchanged(accepted=accepted):
            yours = inputs.as_number(answer(accepted), f"your tau for {accepted}")
        wanted = metrics.tokens_per_forward(accepted)
        if abs(yours - (wanted - 1)) < 1e-9:
            raise Wrong(f"{accepted} gives {yours:g}, wanted {wanted:g}: each round adds one token")
        inputs.close(yours, wanted, 1e-9, f"tau for {accepted}")


EXERCISES = (
    Exercise(
        "0.1",
        "count_accepted",
        goal="count the drafted tokens that survive a round",
        minutes=5,
        difficulty=1,
        hints=(
            "What is a pass worth if the token before it was thrown away?",
            "Stop at the first False; what you counted so far is the answer.",
        ),
        help={
            "wanted is smaller than mine": "passes behind a failure do not count",
            "error: False is not in list": "list.index raises when nothing failed: all survive",
        },
        checks=(check_every_mask, check_empty_mask),
        reference=metrics.count_accepted,
    ),
    Exercise(
        "0.2",
        "tokens_per_forward",
        goal="compute tau, the tokens emitted per target forward",
        minutes=5,
        difficulty=1,
        hints=(
            "How many tokens does a round emit when it accepts none?",
            "Every round emits its accepted tokens plus one, and costs one target forward.",
        ),
        help={
            "tau is too small by 1": "the recovered or bonus token counts too",
            "tau for [0] should be 1": "a round that accepts nothing still emits one token",
        },
        checks=(check_tau_values,),
        reference=metrics.tokens_per_forward,
    ),
)
