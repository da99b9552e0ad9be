"""Plausible wrong controllers of lesson 07, and what to tell whoever wrote them.

Each is one step, as ``controller.step_gate``; all are the right one with a single slip.
"""

from __future__ import annotations

from collections.abc import Callable

from lessonlib.theory.controller import DRAFT, PLAIN, PROBE, Gate, Settings

Step = Callable[[Gate, int, Settings], tuple]


def slip(
    *,
    full: Callable = lambda recent, s: len(recent) >= s.window,
    cut: Callable = lambda recent, s: recent[-s.window :],
    mean: Callable = lambda recent, s: sum(recent) / len(recent),
    pays: Callable = lambda mean, wanted: mean >= wanted,
    margin: Callable = lambda mode, s: s.hysteresis * (mode == PROBE),
    due: Callable = lambda waited, s: waited >= s.probe,
    woken: Callable = lambda gate: Gate(PROBE),
    rested: Callable = lambda waited, tokens: Gate(PLAIN, (), waited),
    fallen: Callable = lambda mode, recent: Gate(PLAIN),
    back: Callable = lambda mode, recent: Gate(DRAFT, recent),
) -> Step:
    """The right step with some of its parts swapped."""

    def step(gate: Gate, tokens: int, settings: Settings) -> Gate:
        mode, recent, waited = gate
        if mode == PLAIN:
            if due(waited + 1, settings):
                return woken(gate)
            return rested(waited + 1, tokens)
        recent = cut((*recent, tokens), settings)
        if not full(recent, settings):
            return Gate(mode, recent)
        wanted = settings.threshold + margin(mode, settings)
        if pays(mean(recent, settings), wanted):
            return back(mode, recent)
        return fallen(mode, recent)

    return step


WRONG_GATES: tuple[tuple[str, Step], ...] = (
    (
        "it judges before the window is full: with fewer rounds, keep the mode",
        slip(full=lambda recent, s: True),
    ),
    (
        "the window never forgets: keep the last `window` rounds only",
        slip(cut=lambda recent, s: recent),
    ),
    (
        "the window keeps its oldest rounds: drop those, not the newest",
        slip(cut=lambda recent, s: recent[: s.window]),
    ),
    (
        "it compares the sum of the window: the threshold is tokens per round",
        slip(mean=lambda recent, s: sum(recent)),
    ),
    (
        "it looks at the last round only: take the mean of the window",
        slip(mean=lambda recent, s: recent[-1]),
    ),
    (
        "there is no hysteresis: a probe must reach threshold + hysteresis",
        slip(margin=lambda mode, s: 0),
    ),
    (
        "hysteresis is asked of mode draft too: there the threshold alone counts",
        slip(margin=lambda mode, s: s.hysteresis),
    ),
    (
        "hysteresis is on the wrong side: ask it of a probe, not of mode draft",
        slip(margin=lambda mode, s: s.hysteresis * (mode == DRAFT)),
    ),
    (
        "hysteresis makes coming back easier: it must be added, not subtracted",
        slip(margin=lambda mode, s: -s.hysteresis * (mode == PROBE)),
    ),
    (
        "a mean that equals what is asked for pays: use >=",
        slip(pays=lambda mean, wanted: mean > wanted),
    ),
    (
        "it is upside down: fall back when the mean is below the threshold",
        slip(pays=lambda mean, wanted: mean < wanted),
    ),
    (
        "no probe where one is due: the plain round just played counts as waited",
        slip(due=lambda waited, s: waited > s.probe),
    ),
    (
        "after waiting it drafts as if it had never lost: the next mode is probe",
        slip(woken=lambda gate: Gate(DRAFT)),
    ),
    (
        "waited is not set back to 0 when a probe begins",
        slip(woken=lambda gate: Gate(PROBE, (), gate.waited + 1)),
    ),
    (
        "plain rounds are not evidence: keep their tokens out of the window",
        slip(rested=lambda waited, tokens: Gate(PLAIN, (tokens,), waited)),
    ),
    (
        "the plain rounds are not counted",
        slip(rested=lambda waited, tokens: Gate(PLAIN, (), waited - 1)),
    ),
    (
        "falling back must empty the window, or old rounds decide the next probe",
        slip(fallen=lambda mode, recent: Gate(PLAIN, recent)),
    ),
    (
        "a probe that fails must fall back to plain",
        slip(fallen=lambda mode, recent: Gate(PLAIN) if mode == DRAFT else Gate(PROBE, recent)),
    ),
    (
        "a probe that succeeds must end in mode draft",
        slip(back=lambda mode, recent: Gate(mode, recent)),
    ),
    (
        "coming back must keep the window: its rounds are the newest evidence",
        slip(back=lambda mode, recent: Gate(DRAFT, recent if mode == DRAFT else ())),
    ),
    (
        "it never falls back to plain",
        slip(fallen=lambda mode, recent: Gate(mode, recent)),
    ),
)
