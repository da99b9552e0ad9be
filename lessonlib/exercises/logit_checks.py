"""Checks of exercises 5.1 and 5.2: the KL loss and acceptance rates, from logits."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.exercises.wrong_losses import WRONG_LOSSES, WRONG_RATES
from lessonlib.theory import divergence

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
    if not inputs.near(yours, wanted):
        name_slip(yours, points, WRONG_LOSSES)
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
        if inputs.not_finite(value):
            raise Wrong(
                "at T=0.02 your loss is NaN or infinite: powers overflow, and the log of a softmax "
                "meets 0; write ln p as z - max - ln(sum of e^(z - max))"
            )
        yours = _read_loss(value, 2)
        wanted = divergence.kl_loss(target, draft, 0.02)
        if 0 < yours < 0.9 * wanted:
            raise Wrong(
                f"at T=0.02 your loss is {yours:.2f}, wanted {wanted:.2f}: a small number added "
                "inside the log caps it; compute ln p directly"
            )
        inputs.close(yours, wanted, SAME * max(1, wanted), "the loss at T=0.02")


# 5.2 acceptance_rates


def check_rate_values(answer) -> None:
    points = _cases()
    yours = [_read_rates(_ask(answer, *point), len(point[0])) for point in points]
    wanted = [divergence.acceptance_rates(*point) for point in points]
    if not all(map(inputs.near, yours, wanted)):
        name_slip(yours, points, WRONG_RATES)
    for (_, _, T), mine, right in zip(points, yours, wanted, strict=True):
        inputs.close(mine, right, SAME, f"your alpha at T={T:g}")


def _read_rates(value, rows: int) -> np.ndarray:
    if inputs.shape_of(value) == () and hasattr(value, "__float__"):
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
        if inputs.not_finite(value):
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
    if inputs.not_finite(value):
        raise Wrong("at T=0.02 a power overflows: take each row's largest logit off first")
    inputs.close(_read_rates(value, 3), wanted, 1e-3, "your alpha at T=0.02")
