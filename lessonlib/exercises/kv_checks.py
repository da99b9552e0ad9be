"""Checks of lesson 04 on bookkeeping: how many rows stand, for one sequence and for a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.batch_misconceptions import ONE_SEQUENCE, WHOLE_BATCH, Plans, play
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.theory import kv
from lessonlib.theory.kv import SequenceRound

# 4.1 rows_after_round


def rows_after_round(text_length: int, K: int, accepted: int) -> tuple[int, int]:
    """The reference: rows of the target's and the draft's cache that stand after a round."""
    return (
        kv.rows_to_keep(text_length, accepted),
        kv.draft_rows_to_keep(text_length, accepted, K),
    )


def _every_round() -> Iterator[tuple[int, int, int]]:
    return ((n, K, a) for n in (1, 2, 7, 30) for K in (1, 2, 5) for a in range(K + 1))


TARGET_ROWS: dict[str, Callable[[int, int, int], int]] = {
    "the target keeps one row too many, that of the rejected token": lambda n, K, a: n + a + 1,
    "the target keeps one row too few: the text's newest token was run in this round, too": (
        lambda n, K, a: n + a - 1
    ),
    "the target goes back to where it was before the round: accepted rows stand": (
        lambda n, K, a: n - 1
    ),
    "the target keeps every row of the round: those of rejected tokens must go": (
        lambda n, K, a: n + K
    ),
}
DRAFT_ROWS: dict[str, Callable[[int, int, int], int]] = {
    "the draft never ran its last token: after full acceptance it has no row for it": (
        lambda n, K, a: n + a
    ),
    "the draft keeps every row of the round: those of rejected tokens must go": (
        lambda n, K, a: n + K - 1
    ),
    "the draft keeps one row too many, that of the rejected token": (
        lambda n, K, a: min(n + a + 1, n + K - 1)
    ),
    "the draft loses a row after every rejection: only full acceptance leaves it behind": (
        lambda n, K, a: n + a - 1
    ),
    "the draft goes back to where it was before the round: accepted rows stand": (
        lambda n, K, a: n - 1
    ),
}


def _read_rows(answer, case) -> tuple[int, int]:
    target, draft = inputs.as_tuple(answer(*case), "what you return", 2)
    return inputs.as_int(target, "your target rows"), inputs.as_int(draft, "your draft rows")


def _check_rows(answer, which: int, model: str, known) -> None:
    yours = {case: _read_rows(answer, case)[which] for case in _every_round()}
    wanted = {case: rows_after_round(*case)[which] for case in _every_round()}
    if yours == wanted:
        return
    name_slip(yours.values(), yours, known.items(), eq)
    case = next(case for case in yours if yours[case] != wanted[case])
    raise Wrong(
        f"text_length={case[0]}, K={case[1]}, accepted={case[2]}: the {model} keeps "
        f"{yours[case]} rows, wanted {wanted[case]}"
    )


def check_target_rows(answer) -> None:
    _check_rows(answer, 0, "target", TARGET_ROWS)


def check_draft_rows(answer) -> None:
    _check_rows(answer, 1, "draft", DRAFT_ROWS)


# 4.3 simulate_batch


def simulate_batch(text_lengths: Sequence[int], accepted: Sequence[Sequence[int]], K: int):
    """The reference: per round, per sequence, (target rows, draft rows, target fed, draft fed)."""
    return play(SequenceRound, text_lengths, accepted, K)


def _batches() -> Iterator[tuple[list[int], Plans, int]]:
    """(text_lengths, accepted, K): A and B, B stopping early, lone ones, random ones."""
    yield [6, 6], [[4, 4], [2, 4]], 4
    yield [6, 9], [[4, 4, 2, 4], [2, 0]], 4
    yield [3, 8, 1], [[0, 2, 2], [2], [1, 1, 2, 0, 2]], 2
    rng = np.random.default_rng(0)
    for _ in range(20):
        K, count = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        plans = [rng.integers(0, K + 1, rng.integers(1, 6)).tolist() for _ in range(count)]
        yield rng.integers(1, 20, count).tolist(), plans, K


def _read_batch(answer, text_lengths, accepted, K):
    given = {"text_lengths": list(text_lengths), "accepted": [list(plan) for plan in accepted]}
    with inputs.unchanged(**given):
        rounds = answer(*given.values(), K)
    rounds = rounds.tolist() if hasattr(rounds, "tolist") else rounds
    if not isinstance(rounds, list | tuple):
        inputs.as_tuple(rounds, "what you return", max(map(len, accepted)))
    return [
        [_read_entry(entry, r, i) for i, entry in _list_entries(row, r, len(text_lengths))]
        for r, row in enumerate(rounds)
    ]


def _list_entries(row, r: int, count: int):
    return enumerate(inputs.as_tuple(row, f"round {r} of your answer", count))


def _read_entry(entry, r: int, i: int):
    if entry is None:
        return None
    name = f"the entry of sequence {i} in round {r}"
    parts = inputs.as_tuple(entry, name, 4)
    return tuple(inputs.as_int(part, f"a number in {name}") for part in parts)


def check_batch_mistakes(answer) -> None:
    """Two sequences, then more: named if the answer is a known wrong one throughout."""
    cases = list(_batches())
    yours = [_read_batch(answer, *case) for case in cases]
    if all(one == simulate_batch(*case) for one, case in zip(yours, cases, strict=True)):
        return
    slips = {words: partial(play, kind) for words, kind in ONE_SEQUENCE.items()}
    slips |= {words: partial(_play_changed, change) for words, change in WHOLE_BATCH.items()}
    name_slip(yours, cases, slips.items(), eq)


def _play_changed(change, text_lengths, accepted, K):
    return simulate_batch(text_lengths, change(accepted), K)


def check_batch_stops(answer) -> None:
    for lengths, plans, K in _batches():
        yours, longest = _read_batch(answer, lengths, plans, K), max(map(len, plans))
        for i, plan in enumerate(plans):
            late = [r for r, row in enumerate(yours) if r >= len(plan) and row[i] is not None]
            if late:
                raise Wrong(
                    f"sequence {i} stops after {len(plan)} rounds, but has an entry in round "
                    f"{late[0]}: None belongs there"
                )
        if len(yours) != longest:
            raise Wrong(f"{len(yours)} rounds, wanted {longest}: until the last sequence stops")


def check_batch_values(answer) -> None:
    names = ("target_rows", "draft_rows", "target_fed", "draft_fed")
    for case in _batches():
        yours, wanted = _read_batch(answer, *case), simulate_batch(*case)
        for r, (row, right) in enumerate(zip(yours, wanted, strict=True)):
            for i, (entry, good) in enumerate(zip(row, right, strict=True)):
                if entry is None and good is not None:
                    raise Wrong(f"sequence {i} has not stopped in round {r}: give its 4 numbers")
                for name, a, b in zip(names, entry or (), good or (), strict=False):
                    if a != b:
                        raise Wrong(f"round {r}, sequence {i}: {name} is {a}, wanted {b}")
