"""Checks of exercise 6.5: two steps of training-time test, for all starts in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.named_mistakes import Slips, name_slip
from lessonlib.theory.tinyhead import TinyHead


def unroll_twice(head, features: np.ndarray, tokens: Sequence[int]):
    """The reference: outputs (n, width) on true features, and (n - 1, width) on these outputs."""
    n = len(features)
    causal = np.tri(n, dtype=bool)
    first = head(features, tokens[1:], causal)
    own = np.eye(n - 1, dtype=bool)
    return first, _run_second(head, features, tokens, causal[:-1], own, 2, first[:-1])


def _run_second(head, features, tokens, true, own, shift, fed) -> np.ndarray:
    """Step 1 of every start, from ``fed`` (n - 1, width) and the token ``shift`` places on.

    ``true`` (n - 1, n) and ``own`` (n - 1, n - 1) say who it sees.
    """
    n, causal = len(features), np.tri(len(features), dtype=bool)
    mask = np.block([[causal, np.zeros((n, n - 1), dtype=bool)], [true, own]])
    told = np.roll(tokens, -shift)[: n - 1].tolist()
    return head(np.vstack([features, fed]), [*tokens[1:], *told], mask)[n:]


def _slip(
    *,
    true=lambda n: np.tri(n - 1, n, dtype=bool),
    own=lambda n: np.eye(n - 1, dtype=bool),
    shift=2,
    fed=lambda first, features: first[:-1],
):
    """The right second step with some of its parts swapped."""

    def second(head, features, tokens):
        n = len(features)
        given = fed(head(features, tokens[1:], np.tri(n, dtype=bool)), features)
        return _run_second(head, features, tokens, true(n), own(n), shift, given)

    return second


WRONG_FIRST: Slips = (
    (
        "first: row t holds token t, wanted token t + 1",
        lambda head, f, t: head(f, t[:-1], np.tri(len(f), dtype=bool)),
    ),
    (
        "first: rows see what comes behind them: the mask is causal",
        lambda head, f, t: head(f, t[1:], np.ones((len(f), len(f)), dtype=bool)),
    ),
    (
        "first: a row sees only itself: it sees all rows before it, too",
        lambda head, f, t: head(f, t[1:], np.eye(len(f), dtype=bool)),
    ),
    (
        "first: rows see later ones and not earlier ones: the mask is transposed",
        lambda head, f, t: head(f, t[1:], np.tri(len(f), dtype=bool).T),
    ),
)
WRONG_SECOND: Slips = (
    (
        "second: it sees the true rows behind its start, which do not exist while drafting",
        _slip(true=lambda n: np.ones((n - 1, n), dtype=bool)),
    ),
    (
        "second: it sees true row s + 1, whose features it stands in for",
        _slip(true=lambda n: np.tri(n - 1, n, 1, dtype=bool)),
    ),
    (
        "second: it does not see true row s, where its chain starts",
        _slip(true=lambda n: np.tri(n - 1, n, -1, dtype=bool)),
    ),
    (
        "second: it does not see the true rows: they are 0 to s",
        _slip(true=lambda n: np.zeros((n - 1, n), dtype=bool)),
    ),
    (
        "second: it sees the chains of earlier starts: each chain sees its own row only",
        _slip(own=lambda n: np.tri(n - 1, dtype=bool)),
    ),
    (
        "second: it sees all chains: each chain sees its own row only",
        _slip(own=lambda n: np.ones((n - 1, n - 1), dtype=bool)),
    ),
    (
        "second: it does not see itself",
        _slip(own=lambda n: np.zeros((n - 1, n - 1), dtype=bool)),
    ),
    (
        "second: it is told token s + 1 again: each step moves on, wanted token s + 2",
        _slip(shift=1),
    ),
    (
        "second: it is fed the true features at s + 1: that is step 0, feed it first[s]",
        _slip(fed=lambda first, features: features[1:]),
    ),
    (
        "second: it is fed the true features at s once more: feed it first[s]",
        _slip(fed=lambda first, features: features[:-1]),
    ),
    (
        "second: it is fed the output of the row behind: the chain of s goes on from first[s]",
        _slip(fed=lambda first, features: first[1:]),
    ),
)


def _list_texts():
    for seed, (n, width, vocab) in enumerate([(5, 4, 9), (7, 3, 12), (3, 6, 8)]):
        rng = np.random.default_rng([65, seed])
        tokens = rng.permutation(vocab)[: n + 1].tolist()
        yield TinyHead(vocab, width, seed), rng.normal(size=(n, width)), tokens


def _run(answer, head, features, tokens) -> tuple[np.ndarray, np.ndarray]:
    given = list(tokens)
    with inputs.unchanged(features=features, tokens=given):
        parts = inputs.as_tuple(answer(head, features, given), "what you return", 2)
    n, width = features.shape
    shape = inputs.shape_of(parts[1])
    if shape == (2 * n - 1, width):
        raise Wrong("second holds the true rows too: return those of step 1 only")
    if shape == (n, width):
        raise Wrong(
            f"second has {n} rows for {n} features: the last start has no step 1, because nobody "
            "knows the token behind the text"
        )
    return (
        inputs.as_array(parts[0], "first", (n, width)),
        inputs.as_array(parts[1], "second", (n - 1, width)),
    )


def check_first(answer) -> None:
    _check_part(answer, 0, "first", WRONG_FIRST)


def check_second(answer) -> None:
    _check_part(answer, 1, "second", WRONG_SECOND)


def _check_part(answer, part: int, name: str, slips: Slips) -> None:
    texts = list(_list_texts())
    yours = [_run(answer, *text)[part] for text in texts]
    wanted = [unroll_twice(*text)[part] for text in texts]
    if not all(map(inputs.near, yours, wanted)):
        name_slip(yours, texts, slips)
    for mine, right in zip(yours, wanted, strict=True):
        row = int(np.abs(mine - right).max(axis=1).argmax())
        inputs.close(mine[row], right[row], SAME, f"row {row} of {name}")


def check_against_drafting(answer) -> None:
    """What the cache holds while drafting: rows 0..s, then one row of the head's own."""
    for head, features, tokens in _list_texts():
        _, second = _run(answer, head, features, tokens)
        for s in range(len(features) - 1):
            true = features[: s + 1]
            output = head(true, tokens[1 : s + 2], np.tri(s + 1, dtype=bool))[-1]
            chain = head(np.vstack([true, output]), tokens[1 : s + 3], np.tri(s + 2, dtype=bool))
            inputs.close(second[s], chain[-1], SAME, f"row {s} of second, drafted step by step,")


def check_calls(answer) -> None:
    for head, features, tokens in _list_texts():
        _run(answer, head, features, tokens)
        if len(head.calls) > 2:
            raise Wrong(
                f"the head ran {len(head.calls)} times for {len(features)} features: two calls do, "
                "one mask keeps all chains apart"
            )
