"""Proposers against plain decoding on one clock, in turn, and where each one's seconds go.

The prefill is left out, here as in τ: a speedup is about the tokens that are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run
from lessonlib.decoding.trace import Trace
from lessonlib.lab.proposers import PLAIN, Proposer, Size, start_run
from lessonlib.lab.timing import Clock, read_clock
from lessonlib.lab.turns import Turn

Entrant = Callable[[Sequence[int], Sampling, int], Turn]  # (prompt, sampling, seed)


def race(
    entrants: Mapping[str, Entrant],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    progress: Callable[[], object] = lambda: None,
    turns: dict[str, list[Turn]] | None = None,
) -> dict[str, list[Turn]]:
    """One repeat for each prompt, in which every entrant decodes it with the repeat's seed.

    Each repeat is begun by another entrant than the one before, so nobody is always the
    first, or always behind the same neighbour. The turns go into ``turns``, whole repeats
    only: what Ctrl-C cuts short has no partners. ``progress`` is called after every turn.
    Raises ValueError if nobody races.
    """
    if not entrants:
        raise ValueError("entrants is empty: name at least one, such as those of list_entrants")
    names, turns = list(entrants), {} if turns is None else turns
    for repeat, prompt in enumerate(prompts):
        start, played = repeat % len(names), {}
        for name in [*names[start:], *names[:start]]:
            played[name] = entrants[name](prompt, sampling, repeat)
            progress()
        for name in names:
            turns.setdefault(name, []).append(played[name])
    return turns


def list_entrants(
    target,
    proposers: Mapping[str, Proposer],
    sizes: Mapping[str, Size],
    tokens: int,
    clock: Clock = read_clock,
) -> dict[str, Entrant]:
    """Plain decoding and every proposer at its size, by name; a turn is ``tokens`` tokens.

    Raises ValueError for more tokens than the target's context takes behind any prompt.
    """
    check_room(target, 1, tokens)

    def enter(proposer: Proposer | None, size: Size | None) -> Entrant:
        how = {"tokens": tokens, "clock": clock}
        return lambda prompt, sampling, seed: play_turn(
            target, proposer, size, prompt, sampling=sampling, seed=seed, **how
        )

    found = {name: enter(proposer, sizes[name]) for name, proposer in proposers.items()}
    return {PLAIN: enter(None, None), **found}


def play_turn(
    target, proposer: Proposer | None, size: Size | None, prompt: Sequence[int], *,
    tokens: int, sampling: Sampling, seed: int, clock: Clock = read_clock,
) -> Turn:  # fmt: skip
    """Decode ``tokens`` tokens behind ``prompt`` once, on the clock. No proposer: plain.

    An end of text does not stop it: all must emit equally many tokens. For the same reason
    it raises ValueError where the target's context has no room for them.
    """
    check_room(target, len(prompt), tokens)
    run = start_run(target, proposer, size, prompt, tokens=tokens, sampling=sampling, seed=seed)
    return time_run(run, target, clock)


def check_room(target, prompt: int, tokens: int, requests: int = 1) -> None:
    """Raise ValueError unless ``requests`` times ``tokens`` fit behind ``prompt`` tokens."""
    room = target.context - prompt
    if requests * tokens > room:
        times = f" in each of {requests} requests" if requests > 1 else ""
        raise ValueError(
            f"tokens is {tokens}: the target's context of {target.context} has room for at most "
            f"{max(0, room // requests)} behind a prompt of {prompt}{times}"
        )


def time_run(run: Run[Trace], target: Any, clock: Clock = read_clock) -> Turn:
    """Drive one run alone, as ``steps.run_alone`` does, and tell where its seconds went.

    Until the target has begun to verify, a forward over an empty cache is a prefill and
    counts nowhere. Later it is what a draft that kept silent pays to catch up, and counts.
    """
    spent = {"draft": 0.0, "target": 0.0, "rest": 0.0, "prefill": 0.0}
    answer, begun, last = None, False, clock()
    while True:
        try:
            step = run.send(answer)
        except StopIteration as end:
            spent["rest"] += clock() - last
            return _note_turn(end.value, **spent)
        began = clock()
        spent["rest"] += began - last
        kind = "target" if step.model is target else "draft"
        if step.cache.length == 0 and not begun:
            kind = "prefill"
        begun = begun or kind == "target"
        (answer,) = step.model.forward_rows([step])
        last = clock()
        spent[kind] += last - began


def _note_turn(trace: Trace, draft: float, target: float, rest: float, prefill: float) -> Turn:
    seconds = draft + target + rest
    return Turn(len(trace.new_tokens), len(trace.rounds), seconds, draft, target, trace)
