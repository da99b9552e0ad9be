"""Forwards as requests: a run asks for them, and whoever drives it may answer many at once.

A *run* is a generator. It yields a ``Step`` for each forward it wants, is sent that
step's ``Output``, and returns its result. So one round of decoding is written once, as
the straight line it is, and serves a single sequence and a batch alike: the driver of a
batch collects what all rows ask of one model and answers with one forward.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")
Run = Generator["Step", Any, Result]  # yields steps, is sent their outputs, returns a Result


@dataclass(frozen=True)
class Step:
    """A forward that a run wants: ``tokens`` behind those that ``cache`` holds.

    ``parents`` makes them a tree. ``model`` answers through ``forward_rows``; a model that
    needs more than tokens (EAGLE's head reads features, too) has a step class of its own.
    """

    model: Any
    tokens: Sequence[int]
    cache: Any
    parents: Sequence[int] | None = None


def run_alone(run: Run[Result]) -> Result:
    """Answer every step of ``run`` by itself, to the end; returns its result.

    >>> class Doubler:
    ...     def forward_rows(self, steps):
    ...         return [2 * step.tokens[0] for step in steps]
    >>> def quadruple(x):
    ...     y = yield Step(Doubler(), [x], None)
    ...     return (yield Step(Doubler(), [y], None))
    >>> run_alone(quadruple(3))
    12
    """
    answer = None
    try:
        while True:
            step = run.send(answer)
            (answer,) = step.model.forward_rows([step])
    except StopIteration as end:
        return end.value


def run_together(runs: Sequence[Run[Result]], last: Any) -> list[Result]:
    """Drive all ``runs``, answering what they ask of one model in one forward.

    ``last`` is the model that is answered only when nothing else is asked for: the
    target, so that rows which draft fewer tokens wait for the others and all are verified
    together. Results come in the order of ``runs``.
    """
    results: list[Any] = [None] * len(runs)
    waiting: dict[int, Step] = {}

    def advance(row: int, answer: Any) -> None:
        try:
            waiting[row] = runs[row].send(answer)
        except StopIteration as end:
            waiting.pop(row, None)
            results[row] = end.value

    for row in range(len(runs)):
        advance(row, None)
    while waiting:
        model = next((s.model for s in waiting.values() if s.model is not last), last)
        rows = [row for row, step in waiting.items() if step.model is model]
        for row, answer in zip(rows, model.forward_rows([waiting[r] for r in rows]), strict=True):
            advance(row, answer)
    return results
