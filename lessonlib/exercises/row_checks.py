"""Checks of exercises 6.1 and 6.2: what a row of EAGLE's head is made of, and its label."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import Slips, name_slip

# 6.1 fuse_input


def fuse_input(features: np.ndarray, embedding: np.ndarray, tokens) -> np.ndarray:
    """The reference: (n - 1, 2 width), row t = (features at t, embedding of token t + 1)."""
    return np.hstack([features, embedding[np.asarray(tokens)[1:]]])


def _fuse_shifted(shift: int, features, embedding, tokens) -> np.ndarray:
    """Row t with the embedding of token t + shift; it wraps where there is none."""
    return np.hstack([features, embedding[np.roll(tokens, -shift)[: len(features)]]])


WRONG_INPUTS: Slips = (
    (
        "row t holds token t, which its features know already: take token t + 1",
        lambda f, e, t: _fuse_shifted(0, f, e, t),
    ),
    (
        "the shift goes the wrong way: row t holds token t - 1, wanted t + 1",
        lambda f, e, t: _fuse_shifted(-1, f, e, t),
    ),
    (
        "row t holds token t + 2: one step ahead is t + 1",
        lambda f, e, t: _fuse_shifted(2, f, e, t),
    ),
    (
        "every row holds the newest token: row t takes token t + 1",
        lambda f, e, t: np.hstack([f, np.tile(e[t[-1]], (len(f), 1))]),
    ),
    (
        "the embeddings come first: put the features first",
        lambda f, e, t: np.hstack([e[np.asarray(t)[1:]], f]),
    ),
    (
        "the features have moved too: row t keeps the features at t",
        lambda f, e, t: np.hstack([np.roll(f, -1, axis=0), e[np.asarray(t)[1:]]]),
    ),
)


def _fuse_points():
    for seed, (n, width, vocab) in enumerate([(6, 3, 11), (4, 5, 7), (9, 2, 20)]):
        rng = np.random.default_rng([61, seed])
        tokens = rng.permutation(vocab)[:n].tolist()
        yield rng.normal(size=(n - 1, width)), rng.normal(size=(vocab, width)), tokens


def _read_input(answer, features, embedding, tokens) -> np.ndarray:
    given = {"features": features, "embedding": embedding, "tokens": list(tokens)}
    with inputs.unchanged(**given):
        rows = answer(*given.values())
    n, width = features.shape
    if inputs.shape_of(rows) == (n, width):
        raise Wrong("the two are added or mixed: put them side by side, (n - 1, 2 width)")
    if inputs.shape_of(rows) == (2 * n, width):
        raise Wrong("the two are stacked on top of each other: put them side by side")
    return inputs.as_array(rows, "your input", (n, 2 * width))


def check_input(answer) -> None:
    points = list(_fuse_points())
    yours = [_read_input(answer, *point) for point in points]
    wanted = [fuse_input(*point) for point in points]
    if not all(map(inputs.near, yours, wanted)):
        name_slip(yours, points, WRONG_INPUTS)
    for mine, right in zip(yours, wanted, strict=True):
        row = int(np.abs(mine - right).max(axis=1).argmax())
        inputs.close(mine[row], right[row], SAME, f"row {row} of your input")


def check_smallest_input(answer) -> None:
    """Two tokens, one row: nothing may depend on there being more."""
    point = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]), [0, 2]
    inputs.close(_read_input(answer, *point), [[1, 2, 7, 8]], SAME, "the input of a text of two")


# 6.2 align_rows


def align_rows(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The reference: (token each row is told, target row that is its label, token it drafts)."""
    start = np.arange(n - 1 - k)
    return start + k + 1, start + k + 1, start + k + 2


PARTS = ("told", "labels", "drafted")
# For each part: what a row holds instead, given its start s and step k.
WRONG_PLACES: dict[str, Slips] = {
    "told": (
        (
            "told: at step k the features stand at s + k, and the token one step further",
            lambda s, k: s + k,
        ),
        ("told: k is not used, but every step moves on by one token", lambda s, k: s + 1),
        (
            "told: s + k + 2 is the token to be drafted, which nobody knows yet",
            lambda s, k: s + k + 2,
        ),
    ),
    "labels": (
        (
            "labels: target row s + k is what the row was given, so it would learn to copy",
            lambda s, k: s + k,
        ),
        ("labels: k is not used, but every step moves on by one row", lambda s, k: s + 1),
        (
            "labels: target row s + k + 2 has read a token that the head has not been told",
            lambda s, k: s + k + 2,
        ),
    ),
    "drafted": (
        (
            "drafted: the token at s + k + 1 was told, the one behind it is drafted",
            lambda s, k: s + k + 1,
        ),
        ("drafted: k is not used, but every step moves on by one token", lambda s, k: s + 2),
        ("drafted: one place too far", lambda s, k: s + k + 3),
    ),
}
_SIZES = [(6, 0), (6, 1), (9, 3), (5, 2)]


def _read_rows(answer, n: int, k: int) -> list[np.ndarray]:
    given = answer(n, k)
    given = list(given) if getattr(given, "ndim", None) == 2 else given
    parts = inputs.as_tuple(given, "what you return", 3)
    parts = [list(part) if isinstance(part, range) else part for part in parts]
    return [
        np.array(inputs.as_tokens(part, name, wanted="places"))
        for part, name in zip(parts, PARTS, strict=True)
    ]


def _check_lengths(found, n: int, k: int) -> None:
    wanted = n - 1 - k
    for part, name in zip(found, PARTS, strict=True):
        if len(part) == wanted + 1:
            raise Wrong(f"{name} is one row too long for n = {n}, k = {k}: is there a label left?")
        if len(part) == wanted - 1:
            raise Wrong(
                f"{name} is one row too short for n = {n}, k = {k}: the last row has a label, "
                "though the text does not say what comes next"
            )
        if len(part) != wanted:
            raise Wrong(f"{name} has {len(part)} rows for n = {n}, k = {k}, wanted {wanted}")


def check_rows(answer) -> None:
    found = [_read_rows(answer, *size) for size in _SIZES]
    for parts, size in zip(found, _SIZES, strict=True):
        _check_lengths(parts, *size)
    for i, name in enumerate(PARTS):
        yours, wanted = [parts[i] for parts in found], [align_rows(*size)[i] for size in _SIZES]
        if not all(map(np.array_equal, yours, wanted)):
            points = [(np.arange(n - 1 - k), k) for n, k in _SIZES]
            name_slip(yours, points, WRONG_PLACES[name], np.array_equal)
        for mine, right, (n, k) in zip(yours, wanted, _SIZES, strict=True):
            inputs.close(mine, right, 0, f"{name} for n = {n}, k = {k}")


def check_last_row(answer) -> None:
    """The smallest text that has a row at all."""
    for n, k in ((2, 0), (5, 3)):
        found = _read_rows(answer, n, k)
        _check_lengths(found, n, k)
        for mine, right, name in zip(found, align_rows(n, k), PARTS, strict=True):
            inputs.close(mine, right, 0, f"{name} for n = {n}, k = {k}")
