"""Checks of exercises 5.1 and 5.2: the KL loss and acceptance rates, from logits."""

from __future__ import annotations

from functools import partial

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.wrong_formulas import name_mistake
from lessonlib.exercises.wrong_losses import WRONG_LOSSES, WRONG_RATES
from lessonlib.theory import divergence

SAME = 1e-6  # a right answer may compute in float32
CASES = ((5, 7, 0.5), (3, 4, 2.0), (6, 3, 1.3))  # rows, vocabulary, temperature


def _logits(seed: int, rows: int, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, vocab)) * 2, rng.normal(size=(rows, vocab)) * 2


def _cases() -> list[tuple[np.ndarray, np.ndarray, float]]:
    return [(*_logits(seed, n, V), T) for seed, (n, V, T) in enumerate(CASES)]


def _ask(answer, target: np.ndarray, draft: np.ndarray, temperature: float):
    with inputs.unchanged(target_logits=target, draft_logits=draft):
        return answer(target, draft, temperature)


# 5.1 kl_loss


def check_kl_values(answer) -> None:
    points = _cases()
    yours = [_read_loss(_ask(answer, *point), len(point[0])) for point in points]
    wanted = [divergence.kl_loss(*point) for point in points]
    if not np.allclose(yours, wanted, rtol=0, atol=SAME):
        name_mistake(yours, points, WRONG_LOSSES)
    for (a, _, T), mine, right in zip(points, yours, wanted, strict=True):
        inputs.close(mine, right, SAME, f"the loss of {len(a)} rows at T={T:g}")


def _read_loss(value, rows: int) -> float:
    if getattr(value, "shape", None) == (rows,):
        raise Wrong(f"your loss holds {rows} values: return their mean")
    return inputs.as_number(value, "your loss")


def check_kl_of_equal_laws(answer) -> None:
    target, _ = _logits(7, 4, 6)
    yours = inputs.as_number(_ask(answer, target, target + 3.0, 0.7), "your loss")
    inputs.close(yours, 0, SAME, "the loss where the draft's logits are the target's plus 3")


def check_kl_in_the_cold(answer) -> None:
    """Temperature 0.02: p and q underflow, their logarithms do not."""
    warm = np.array([[20.0, 1.0, -8.0], [2.0, 3.0, -1.0]])
    turned, colder = warm[:, ::-1].copy(), warm + np.array([0.0, 0.1, -15.0])
    for target, draft in ((warm, turned), (warm, colder)):
        value = _ask(answer, target, draft, 0.02)
        if _overflows(value):
            raise Wrong(
                "at T=0.02 your loss is NaN or infinite: powers overflow, and the log of a softmax "
                "meets 0; write ln p as z - max - ln(sum of e^(z - max))"
            )
        yours = _read_loss(value, 2)
        wanted = divergence.kl_loss(target, draft, 0.02)
        inputs.close(yours, wanted, SAME * max(1, wanted), "the loss at T=0.02")


# 5.2 acceptance_rates


def check_rate_values(answer) -> None:
    points = _cases()
    yours = [_read_rates(_ask(answer, *point), len(point[0])) for point in points]
    wanted = [divergence.acceptance_rates(*point) for point in points]
    if not np.allclose(np.concatenate(yours), np.concatenate(wanted), rtol=0, atol=SAME):
        joined = tuple((sentence, partial(_join, formula)) for sentence, formula in WRONG_RATES)
        name_mistake([np.concatenate(yours)], [(points,)], joined)
    for (_, _, T), mine, right in zip(points, yours, wanted, strict=True):
        inputs.close(mine, right, SAME, f"your alpha at T={T:g}")


def _join(formula, points) -> np.ndarray:
    """The rates of all points laid end to end, because their numbers of rows differ."""
    return np.concatenate([formula(*point) for point in points])


def _read_rates(value, rows: int) -> np.ndarray:
    if np.ndim(value) == 0 and not callable(value) and value is not None:
        raise Wrong("your alpha is one number: return one for each row, do not average")
    return inputs.as_vector(value, "your alpha", rows)


def check_greedy_rates(answer) -> None:
    target, draft = _logits(11, 8, 5)
    draft[::2] = target[::2] + 0.1 * draft[::2]  # every other row agrees on the first place
    wanted = divergence.acceptance_rates(target, draft, 0)
    for zero in (0, 0.0):
        try:
            value = _ask(answer, target, draft, zero)
        except ZeroDivisionError:
            value = np.nan
        if _overflows(value):
            raise Wrong(
                "T = 0 divides by zero: there, alpha is 1 where both rows have the same largest "
                "entry, else 0"
            )
        yours = _read_rates(value, 8)
        inputs.close(yours, wanted, SAME, "your alpha at T=0")


def check_rates_in_the_cold(answer) -> None:
    target = np.array([[20.0, 1.0, -8.0], [2.0, 2.01, -1.0], [40.0, 39.99, 0.0]])
    draft = np.array([[20.0, 19.99, -8.0], [2.0, 1.99, -1.0], [40.0, 40.0, 0.0]])
    wanted = divergence.acceptance_rates(target, draft, 0.02)
    value = _ask(answer, target, draft, 0.02)
    if _overflows(value):
        raise Wrong("at T=0.02 a power overflows: take each row's largest logit off first")
    inputs.close(_read_rates(value, 3), wanted, 1e-3, "your alpha at T=0.02")


def _overflows(value) -> bool:
    """Whether an answer is made of numbers, and one of them is NaN or infinite."""
    try:
        return not np.isfinite(np.asarray(value, dtype=float)).all()
    except (TypeError, ValueError):  # no numbers: the reading that follows says what it is
        return False
