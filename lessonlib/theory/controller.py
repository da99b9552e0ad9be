"""A gate that stops drafting while it loses, and comes back: a state machine, no model.

It watches the tokens that each drafted round emits. A round of cost c K + v target
forwards pays if and only if it emits more than that many tokens on average, so the
threshold is the cost itself: no α, and nothing to be assumed about it. The gate knows
nothing of temperatures: whatever makes drafting lose, it sees the loss.

Three modes. "draft": draft, and fall back to "plain" once the mean of the last
``window`` rounds is below the threshold. "plain": no drafting for ``probe`` rounds, then
"probe": draft for one window, and come back only if its mean is above the threshold by
the ``hysteresis``, so that luck around the threshold does not flip the gate all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

DRAFT, PLAIN, PROBE = "draft", "plain", "probe"


@dataclass(frozen=True)
class Settings:
    """How a gate decides; tokens are tokens per round, window and probe count rounds."""

    window: int = 12
    threshold: float = 2.0
    hysteresis: float = 0.2
    probe: int = 36

    def __post_init__(self) -> None:
        for name in ("window", "probe"):
            rounds = getattr(self, name)
            if not isinstance(rounds, Integral) or rounds < 1:
                raise ValueError(f"{name} is {rounds}: use a whole number of rounds, at least 1")
        for name in ("threshold", "hysteresis"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: use 0 or more tokens")


class Gate(NamedTuple):
    """The whole state: the mode, the tokens of the rounds in the window, plain rounds waited."""

    mode: str = DRAFT
    recent: tuple[int, ...] = ()
    waited: int = 0


def step_gate(gate: Gate, tokens: int, settings: Settings) -> Gate:
    """The gate after a round that emitted ``tokens``; its mode is that of the next round.

    >>> step_gate(Gate(DRAFT, (1,)), 1, Settings(window=2, threshold=1.5))
    Gate(mode='plain', recent=(), waited=0)
    >>> step_gate(Gate(PLAIN, (), 35), 1, Settings(probe=36))
    Gate(mode='probe', recent=(), waited=0)
    """
    mode, recent, waited = gate
    if mode == PLAIN:
        waited += 1
        return Gate(PROBE) if waited >= settings.probe else Gate(PLAIN, (), waited)
    recent = (*recent, tokens)[-settings.window :]
    if len(recent) < settings.window:
        return Gate(mode, recent)
    wanted = settings.threshold + (settings.hysteresis if mode == PROBE else 0)
    pays = sum(recent) / settings.window >= wanted
    return Gate(DRAFT, recent) if pays else Gate(PLAIN)


class Played(NamedTuple):
    """One simulated round: where it began, in which mode, what it emitted and cost."""

    start: int
    mode: str
    tokens: int
    cost: float


def simulate_gate(
    settings: Settings,
    alpha_at: Callable[[int], float],
    length: int,
    K: int,
    cost: float,
    uniforms: Iterator[float],
) -> list[Played]:
    """Decode ``length`` made-up tokens in which α depends on the position, under a gate.

    A drafted round emits 1 to K + 1 tokens by α at its start and costs ``cost`` target
    forwards; a plain one emits 1 for 1. A threshold of 0 never falls back.

    >>> rounds = simulate_gate(Settings(), lambda position: 0.0, 30, 4, 2.0, iter([0.5] * 99))
    >>> rounds[11].mode, rounds[12].mode, measure_gain(rounds)
    ('draft', 'plain', 0.7142857142857143)
    """
    gate, rounds, position = Gate(), [], 0
    while position < length:
        tokens, price = 1, 1.0
        if gate.mode != PLAIN:
            alpha, price = alpha_at(position), cost
            while tokens <= K and next(uniforms) < alpha:
                tokens += 1
        rounds.append(Played(position, gate.mode, tokens, price))
        gate = step_gate(gate, tokens, settings)
        position += tokens
    return rounds


def measure_gain(rounds: list[Played]) -> float:
    """Speed against plain decoding: tokens emitted per target forward paid.

    >>> measure_gain([Played(0, DRAFT, 3, 2.0), Played(3, PLAIN, 1, 1.0)])
    1.3333333333333333
    """
    if not rounds:
        raise ValueError("rounds is empty: play at least one")
    return sum(played.tokens for played in rounds) / sum(played.cost for played in rounds)
