"""Helpers for those who write checks: read an odd answer, or say in one sentence why not.

`as_...` accept whatever holds the right values harmlessly (a list or tuple where an array is
wanted, a 0-d array where a number is, NumPy scalars, any float width) and return a plain,
fresh, float64 / int / bool value. Everything else becomes `Wrong` with one sentence that names
the answer: None, strings, complex numbers, NaN and infinity, wrong shapes, ragged lists,
functions that were not called. `True` is not read as the number 1, nor 1 as `True`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lessonlib.exercises.outcomes import Wrong

Shape = tuple[int, ...]
SAME = 1e-6  # numbers this near are one: a right answer may compute in float32
LARGEST = 2**63 - 1  # the largest int that an array holds


def shape_of(value: Any) -> Shape | None:
    """Return the shape of `value` as an array, None where it has none: a ragged list has not.

    >>> shape_of([[1, 2], [3, 4]]), shape_of(0.5), shape_of([[1, 2], [3]])
    ((2, 2), (), None)
    """
    try:
        return tuple(np.shape(value))
    except Exception:  # what a learner returns may be anything, with a `shape` of any kind
        return None


def _describe(value: Any) -> str:
    """Name a value as a learner would: short, plain, never failing."""
    if value is None:
        return "None (is a return missing?)"
    if hasattr(value, "shape") and shape_of(value):
        return f"an array of shape {shape_of(value)}"
    if isinstance(value, str):
        return f"{value[:30]!r} (str)"
    if isinstance(value, int) and abs(value) > LARGEST:
        return "an int of more than 64 bits"
    if isinstance(value, bool | int | float | complex | np.generic):
        return f"{getattr(value, 'item', lambda: value)()} ({type(value).__name__})"
    if callable(value):
        return f"{_with_article(value)} that was not called"
    return _with_article(value)


def _with_article(value: Any) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0].lower() in "aeiou" else f"a {kind}"


def as_array(value: Any, name: str, shape: Shape | None = None) -> np.ndarray:
    """Return `value` as a fresh float64 array of finite numbers.

    `shape` fixes the shape; -1 in it stands for any length.

    >>> as_array([1, 2], "your row", (2,))
    array([1., 2.])
    >>> as_array(None, "your row", (2,))
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: your row is None (is a return missing?), wanted an array
    """
    array = _read_numbers(value, name, "an array")
    if shape is not None and not _fits(array.shape, shape):
        wanted = str(tuple("any" if n < 0 else n for n in shape)).replace("'", "")
        raise Wrong(f"{name} has shape {array.shape}, wanted {wanted}")
    if not np.isfinite(array).all():
        bad = "NaN" if np.isnan(array).any() else "infinity"
        raise Wrong(f"{name} holds {bad}; look for a division by zero")
    return array


def _fits(shape: Shape, wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(
        w < 0 or n == w for n, w in zip(shape, wanted, strict=True)
    )


def _read_numbers(value: Any, name: str, wanted: str) -> np.ndarray:
    if value is None or isinstance(value, str | bytes) or callable(value):
        raise Wrong(f"{name} is {_describe(value)}, wanted {wanted}")
    try:
        array = np.asarray(value)
        if array.dtype == object and any(part is None for part in array.flat):
            raise TypeError("None would become NaN")
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except Exception:  # ragged lists, dicts, tensors on another device, objects of any kind
        raise Wrong(f"{name} is {_describe(value)}, which cannot be read as {wanted}") from None
    if array.dtype.kind == "c":
        raise Wrong(f"{name} holds complex numbers, wanted real ones")
    raise Wrong(f"{name} does not hold numbers (its dtype is {array.dtype})")


def as_vector(value: Any, name: str, length: int = -1) -> np.ndarray:
    """Return `value` as a fresh 1-d float64 array, of `length` unless that is -1."""
    return as_array(value, name, (length,))


def as_probability(
    value: Any, name: str, shape: Shape | None = None, tol: float = 1e-9
) -> np.ndarray:
    """Return `value` as an array whose last axis holds distributions.

    >>> as_probability([0.5, 0.6], "your residual")
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: your residual sums to 1.1, wanted 1
    """
    array = as_array(value, name, shape)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise Wrong(f"{name} has shape {array.shape}, wanted one probability per token")
    if array.min() < -tol:
        raise Wrong(f"{name} holds {_digits(array.min())}; a probability is never negative")
    sums = array.sum(axis=-1).reshape(-1)
    worst = sums[np.argmax(np.abs(sums - 1))]
    if abs(worst - 1) > tol:
        where = "sums to" if sums.size == 1 else "has a row that sums to"
        raise Wrong(f"{name} {where} {_digits(worst, 1.0)}, wanted 1")
    return array


def as_number(
    value: Any, name: str, low: float = -np.inf, high: float = np.inf, tol: float = 1e-12
) -> float:
    """Return `value` as a float in [low, high], the ends widened by `tol`.

    >>> as_number(np.array(0.25), "your alpha", 0, 1)
    0.25
    """
    value = _unwrap(value)
    many = isinstance(value, list | tuple) or getattr(value, "shape", ()) != ()
    if many or isinstance(value, bool | np.bool_):
        raise Wrong(f"{name} is {_describe(value)}, wanted one number")
    number = float(_read_numbers(value, name, "one number"))
    if not np.isfinite(number):
        raise Wrong(f"{name} is {number:g}; look for a division by zero")
    if not low - tol <= number <= high + tol:
        raise Wrong(f"{name} is {_digits(number)}, wanted a number from {low:g} to {high:g}")
    return number


def as_int(value: Any, name: str, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]; 3.0 is not an int, a 0-d integer array is.

    >>> as_int(3.0, "the token")
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: the token is 3.0 (float), wanted an int
    """
    value = _unwrap(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise Wrong(f"{name} is {_describe(value)}, wanted an int")
    number = int(value)
    if abs(number) > LARGEST:
        raise Wrong(f"{name} is {_describe(number)}, wanted a smaller one")
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"at most {high}"
        bounds = f"from {low} to {high}" if None not in (low, high) else bounds
        raise Wrong(f"{name} is {number}, wanted an int {bounds}")
    return number


def as_bool(value: Any, name: str) -> bool:
    """Return `value` as a bool; np.bool_ and 0-d bool arrays count, 0 and 1 do not."""
    value = _unwrap(value)
    if not isinstance(value, bool | np.bool_):
        raise Wrong(f"{name} is {_describe(value)}, wanted True or False")
    return bool(value)


def _unwrap(value: Any) -> Any:
    """Return the element of a 0-d array or tensor, anything else as it is."""
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        return value.item()
    return value


def as_tuple(value: Any, name: str, length: int) -> tuple[Any, ...]:
    """Return `value`, a tuple, list or 1-d array of `length` parts, as a tuple of unread parts."""
    if getattr(value, "ndim", None) == 1:
        value = list(value)
    if not isinstance(value, tuple | list):
        raise Wrong(f"{name} is {_describe(value)}, wanted {length} values")
    if len(value) != length:
        raise Wrong(f"{name} holds {len(value)} values, wanted {length}")
    return tuple(value)


def as_tokens(
    value: Any, name: str, length: int | None = None, wanted: str = "token ids"
) -> list[int]:
    """Return `value`, a sequence or 1-d array of whole numbers from 0 up, as a list of ints.

    `wanted` says what they are, where that is not token ids.
    """
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)  # a deque is one
    if not listed and getattr(value, "ndim", None) != 1:
        raise Wrong(f"{name} is {_describe(value)}, wanted a list of {wanted}")
    parts = list(value)
    if length is not None and len(parts) != length:
        raise Wrong(f"{name} holds {len(parts)} tokens, wanted {length}")
    return [as_int(part, f"token {i} of {name}", low=0) for i, part in enumerate(parts)]


@contextmanager
def unchanged(**inputs: Any) -> Iterator[None]:
    """Raise `Wrong` when the answer changed one of the named inputs in place.

    >>> p = np.array([0.5, 0.5])
    >>> with unchanged(p=p):
    ...     p[0] = 0
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: your code changed p in place; work on a copy
    """
    before = copy.deepcopy(inputs)
    yield
    for name, value in inputs.items():
        if not _same(before[name], value):
            raise Wrong(f"your code changed {name} in place; work on a copy")


def not_finite(value: Any) -> bool:
    """Whether `value` is made of numbers, and one of them is NaN or infinite.

    >>> not_finite([0.5, np.nan]), not_finite([0.5, 1]), not_finite("nan of numbers")
    (True, False, False)
    """
    try:
        return not np.isfinite(np.asarray(value, dtype=float)).all()
    except Exception:  # no numbers: the reading that follows says what it is
        return False


def near(a: Any, b: Any) -> bool:
    """Whether two arrays or numbers have one shape and agree to SAME, of b where that is above 1.

    >>> near([0.1, 30], np.float32([0.1, 30])), near(0.1, [0.1]), near(0.1, 0.1001)
    (True, False, False)
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return a.shape == b.shape and bool((np.abs(a - b) <= SAME * np.maximum(1, np.abs(b))).all())


def _same(before: Any, after: Any) -> bool:
    if hasattr(before, "shape"):
        before, after = np.asarray(before), np.asarray(after)
        return before.shape == after.shape and before.tobytes() == after.tobytes()
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_same, before, after))
    return bool(before == after)


def close(yours: Any, wanted: Any, tol: float, what: str) -> None:
    """Raise `Wrong`, with yours next to wanted, unless they agree to `tol` (absolute).

    Both are numbers or arrays already read by `as_...`.

    >>> close(np.array([0.3, 0.7]), np.array([0.2, 0.8]), 1e-9, "the residual")
    Traceback (most recent call last):
    lessonlib.exercises.outcomes.Wrong: the residual is [0.3, 0.7], wanted [0.2, 0.8]
    """
    a, b = np.asarray(yours, dtype=float), np.asarray(wanted, dtype=float)
    if a.shape != b.shape:
        raise Wrong(f"{what} has shape {a.shape}, wanted {b.shape}")
    if not np.all(np.abs(a - b) <= tol):
        raise Wrong(f"{what} is {_digits(a, b)}, wanted {_digits(b, a)}")


def _digits(value: Any, other: Any = None) -> str:
    """Write numbers with four digits, or as many as tell them from `other`."""
    for digits in (4, 7, 10, 17):
        text = _write(value, digits)
        if other is None or text != _write(other, digits):
            break
    return text


def _write(value: Any, digits: int) -> str:
    array = np.asarray(value, dtype=float)
    if array.ndim == 0:
        return f"{float(array):.{digits}g}"
    rows = [_write(part, digits) for part in array[:8]]
    return "[" + ", ".join(rows) + (", ..." if len(array) > 8 else "") + "]"
