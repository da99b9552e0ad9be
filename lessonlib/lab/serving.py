"""One text written in requests of different temperatures, under one gate that lives on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lessonlib.decoding.loop import decode
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.gated import GatedDrafter
from lessonlib.lab.proposers import Proposer
from lessonlib.lab.race import check_room, time_run
from lessonlib.lab.timing import Clock, read_clock
from lessonlib.lab.turns import Turn
from lessonlib.theory.controller import PLAIN, Gate, Played, Settings


@dataclass
class Served:
    """What a server did: its rounds, where each request began, and the turn of each."""

    rounds: list[Played] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """All requests together, without their prefills."""
        return sum(turn.seconds for turn in self.turns)


def serve(
    target,
    proposer: Proposer | None,
    temperatures: Sequence[float],
    settings: Settings,
    *,
    prompt: Sequence[int],
    tokens: int,
    K: int,
    cost: float = 1.0,
    seed: int = 0,
    clock: Clock = read_clock,
) -> Served:
    """Write ``tokens`` tokens at each temperature, every request going on from the last text.

    ``proposer`` drafts for each request anew, None decodes plainly. A threshold of 0 in
    ``settings`` drafts always. ``cost`` is what a drafted round is booked at in the timeline,
    in target forwards; the seconds are measured. Raises ValueError where the target's context
    has no room for all requests.
    """
    check_room(target, len(prompt), tokens, len(temperatures) or 1)
    served, text, gate = Served(), list(prompt), Gate()
    for request, temperature in enumerate(temperatures):
        sampling = Sampling(temperature)
        drafter = None
        if proposer:
            drafter = GatedDrafter(proposer.make(sampling, proposer.size(K)), settings, gate)
        coins = iter(np.random.default_rng([seed, request]).random, None)
        run = decode(
            target, drafter, text, max_new_tokens=tokens, K=K, sampling=sampling, coins=coins
        )
        turn = time_run(run, target, clock)
        served.starts.append(len(text) - len(prompt))
        served.turns.append(turn)
        _note_rounds(served, turn.trace, drafter.modes if drafter else [], len(prompt), cost)
        text += turn.trace.new_tokens
        gate = drafter.gate if drafter else gate
    return served


def _note_rounds(served: Served, trace, modes: Sequence[str], prompt: int, cost: float) -> None:
    for i, round in enumerate(trace.rounds):
        # A round without room to draft asks nobody, and a mode is noted only when asked.
        mode = modes[i] if round.drafted and i < len(modes) else PLAIN
        price = cost if round.drafted else 1.0
        served.rounds.append(Played(round.start - prompt, mode, len(round.emitted), price))
