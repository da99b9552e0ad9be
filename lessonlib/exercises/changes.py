"""Exercise 7.4: nine changes whose direction is to be predicted, and what they come to.

Rates are those measured on the bundled pair (``lab/recordings07``), speeds are the formula's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lessonlib.lab.recordings07 import TEMPERATURES, TREE, load_recording
from lessonlib.theory.roofline import PRESETS, verify_cost
from lessonlib.theory.speedup import best_draft_length, break_even_alpha, speedup

C = 0.1  # the draft's cost in the speeds below, with v = 1


@dataclass(frozen=True)
class Change:
    """``story`` says what is changed, ``measure()`` gives the number before and after."""

    story: str
    measure: Callable[[], tuple[float, float]]
    why: str


def read_alpha(rule: str, temperature: float) -> float:
    """A recorded mean α on the code text.

    >>> 0 < read_alpha("shared T", 1.0) < 1
    True
    """
    return load_recording()["alpha"]["code"][rule][TEMPERATURES.index(temperature)]


def _rates(rule: str, cold: float, hot: float) -> Callable[[], tuple[float, float]]:
    return lambda: (read_alpha(rule, cold), read_alpha(rule, hot))


def _second_guess(temperature: float) -> float:
    return read_alpha(TREE, temperature) - read_alpha("greedy draft", temperature)


def _best(temperature: float) -> int:
    return best_draft_length(read_alpha("shared T", temperature), C)


def _greedy_speed(K: int) -> float:
    return speedup(read_alpha("greedy draft", 1.5), K, C)


def _batch_speed(batch: int) -> float:
    return speedup(0.8, 4, PRESETS["H100"].c, verify_cost(PRESETS["H100"], 5, batch))


CHANGES = {
    "a": Change(
        "α of the rejection rule at shared T, from T = 1 to T = 3",
        _rates("shared T", 1.0, 3.0),
        "both distributions flatten, and two flat ones overlap",
    ),
    "b": Change(
        "α of the greedy draft, from T = 0.5 to T = 1.5",
        _rates("greedy draft", 0.5, 1.5),
        "one token's share of a flattening p shrinks",
    ),
    "c": Change(
        "α of exact match, from T = 0.5 to T = 1.5",
        _rates("exact match", 0.5, 1.5),
        "two flat distributions seldom draw the same token",
    ),
    "d": Change(
        "α of a draft left at T = 1, while the target goes from T = 2 to T = 10",
        _rates("draft left at T = 1", 2.0, 10.0),
        "q keeps its peaks where p has none any more",
    ),
    "e": Change(
        "what a second guess adds to the α of a top-k tree, from T = 1 to T = 3",
        lambda: (_second_guess(1.0), _second_guess(3.0)),
        "a second guess is one more token of a flattening p",
    ),
    "f": Change(
        "the best K of the sampled draft at shared T (c = 0.1, v = 1), from T = 1 to T = 3",
        lambda: (_best(1.0), _best(3.0)),
        "a higher alpha pays for longer drafts",
    ),
    "g": Change(
        "the speedup of the greedy draft at T = 1.5 (c = 0.1, v = 1), from K = 1 to K = 6",
        lambda: (_greedy_speed(1), _greedy_speed(6)),
        "at a low alpha each further token is paid for and seldom reached",
    ),
    "h": Change(
        "the α that K = 4 needs to break even (v = 1), from c = 0.1 to c = 0.3",
        lambda: (break_even_alpha(4, 0.1), break_even_alpha(4, 0.3)),
        "a dearer draft must be better",
    ),
    "i": Change(
        "the speedup at α = 0.8 and K = 4 on an H100 by the roofline, from batch 8 to batch 512",
        lambda: (_batch_speed(8), _batch_speed(512)),
        "a full batch has no idle arithmetic left for drafted tokens",
    ),
}


def predict_changes() -> dict[str, bool]:
    """True where the number rises.

    >>> predict_changes()["h"]
    True
    """
    return {
        letter: after > before
        for letter, change in CHANGES.items()
        for before, after in [change.measure()]
    }
