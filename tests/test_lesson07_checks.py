"""The mutation tables of lesson 07: wrong answers fail with their own sentence."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path

import numpy as np

from lessonlib.exercises.changes import CHANGES, predict_changes
from lessonlib.exercises.gate_checks import list_situations
from lessonlib.exercises.lesson07 import COSTS, LATE, greedy_mean, make_greedy_rows
from lessonlib.exercises.wrong_gates import WRONG_GATES, slip
from lessonlib.exercises.wrong_rates import WRONG_RATES
from lessonlib.theory import controller, crossings, temperature
from lessonlib.theory.controller import Gate
from lessonlib.theory.speedup import break_even_alpha

SOURCE = Path(__file__).parents[1] / "solutions" / "07_temperature_failure.py"


# Right answers, written in another way than the library's


def right_rates(p_logits, q_logits, T):
    def law(logits, T):
        z = np.asarray(logits) / T
        return np.exp(z - np.logaddexp.reduce(z))

    p, q, one = law(p_logits, T), law(q_logits, T), law(q_logits, 1)
    return [
        1 - np.abs(p - q).sum() / 2,
        p[int(np.argmax(q))],
        float(np.dot(p, q)),
        1 - np.maximum(p - one, 0).sum(),
    ]


def float32_rates(p_logits, q_logits, T):
    return right_rates(np.float32(p_logits), np.float32(q_logits), np.float32(T))


def right_temperature(p_logits, q_logits, K, c, v):
    """A fine grid from the hot end; less elegant, as right."""
    needed = break_even_alpha(K, c, v)
    if needed is None:
        return None
    tops = np.argmax(q_logits, axis=1)
    behind = p_logits - np.take_along_axis(p_logits, tops[:, None], axis=1)

    def alpha(T):
        return np.mean(1 / np.exp(behind / T).sum(axis=1))

    if np.mean(np.argmax(p_logits, axis=1) == tops) < needed:
        return None
    if alpha(100) >= needed:
        return math.inf
    grid = np.arange(0.05, 100, 0.05)
    last = max((T for T in grid if alpha(T) >= needed), default=0.01)
    return max(T for T in last + np.arange(0, 0.0501, 0.001) if alpha(T) >= needed)


def right_gate(gate, tokens, settings):
    mode, recent, waited = gate
    if mode == "plain":
        due = waited + 1 == settings.probe
        return ("probe", [], 0) if due else ("plain", [], waited + 1)
    recent = [*recent, tokens]
    while len(recent) > settings.window:
        recent.pop(0)
    if len(recent) == settings.window:
        bar = settings.threshold + settings.hysteresis * (mode == "probe")
        return ("draft", recent, 0) if np.mean(recent) >= bar else ("plain", [], 0)
    return mode, recent, 0


RIGHT = {
    "7.1": [temperature.four_rates, right_rates, float32_rates],
    "7.2": [crossings.break_even_temperature, right_temperature],
    "7.3": [controller.step_gate, right_gate],
    "7.4": [predict_changes, lambda: {k: bool(v) for k, v in reversed(predict_changes().items())}],
}


# Wrong ones


def swap(column, formula):
    """The right rates with one of them computed by a wrong formula."""

    def answer(p, q, T):
        rates = right_rates(p, q, T)
        rates[column] = formula(p, q, T)
        return rates

    return answer


def naive(p, q, T):
    """No largest logit taken off: right until exp overflows."""
    a, b, one = np.exp(p / T), np.exp(q / T), np.exp(q)
    a, b, one = a / a.sum(), b / b.sum(), one / one.sum()
    return np.minimum(a, b).sum(), a[q.argmax()], a @ b, np.minimum(a, one).sum()


def change_in_place(p, q, T):
    answer = right_rates(p, q, T)
    p /= T
    return answer


def search(
    needed=break_even_alpha, alpha=greedy_mean, hopeless=None, always=math.inf, fine=40, end=100.0
):
    """The right search with one part swapped."""

    def answer(p, q, K, c, v):
        level = needed(K, c, v)
        if level is None or alpha(p, q, 0) < level:
            return hopeless
        if alpha(p, q, end) >= level:
            return always
        cold, hot = 0.0, end
        for _ in range(fine):
            middle = (cold + hot) / 2
            cold, hot = (middle, hot) if alpha(p, q, middle) >= level else (cold, middle)
        return cold

    return answer


def bisect_below(hot):
    """The right search, but it begins at ``hot``: what lies above is given as ``hot``."""

    def answer(*given):
        right = right_by_halving(*given)
        return right if right in (None, math.inf) else min(right, hot)

    return answer


right_by_halving = search()


def right_gate_of_deques(gate, tokens, settings):
    """The window is a deque, and its mean is a sum of shares."""
    mode, recent, waited = right_gate(gate, tokens, settings)
    if gate.mode == "plain":
        return mode, deque(recent), waited
    recent = deque((*gate.recent, tokens), maxlen=settings.window)
    if len(recent) < settings.window:
        return gate.mode, recent, 0
    bar = settings.threshold + settings.hysteresis * (gate.mode == "probe")
    pays = sum(x / settings.window for x in recent) >= bar
    return ("draft", recent, 0) if pays else ("plain", deque(), 0)


def flip(*letters):
    return lambda: {k: v != (k in letters) for k, v in predict_changes().items()}


WRONG = {
    "7.1": [
        *(
            (swap(column, formula), sentence)
            for column, (name, table) in enumerate(WRONG_RATES.items())
            for sentence, formula in table
        ),
        (lambda p, q, T: right_rates(p, q, T)[::-1], "but in another order"),
        (lambda p, q, T: [right_rates(p, q, T)[i] for i in (0, 2, 1, 3)], "but in another order"),
        (lambda p, q, T: np.round(right_rates(p, q, T), 3), "shared T at T=0.4 is"),
        (lambda p, q, T: right_rates(p, q, T)[0], "wanted 4 values"),
        (lambda p, q, T: right_rates(p, q, T)[:3], "holds 3 values, wanted 4"),
        (lambda p, q, T: None, "your answer is None"),
        (lambda p, q, T: [None, *right_rates(p, q, T)[1:]], "is a return missing?"),
        (naive, "exp overflows"),
        (change_in_place, "your code changed p_logits in place"),
    ],
    "7.2": [
        (search(lambda K, c, v: break_even_alpha(K, c)), "v is not used"),
        (search(lambda K, c, v: break_even_alpha(K, 0, v)), "drafting is free in it"),
        (search(lambda K, c, v: break_even_alpha(1, c, v)), "K is not used"),
        (search(alpha=lambda p, q, T: greedy_mean(p, p, T)), "that is where max p breaks even"),
        (search(alpha=lambda p, q, T: greedy_mean(q, q, T)), "q(argmax q) breaks even"),
        (search(alpha=lambda p, q, T: greedy_mean(p[:1], q[:1], T)), "only the first row is used"),
        (
            search(alpha=lambda p, q, T: greedy_mean(p.mean(0)[None], q.mean(0)[None], T)),
            "average the rates over the rows",
        ),
        (lambda p, q, K, c, v: break_even_alpha(K, c, v), "that is the alpha that is needed"),
        (search(fine=8), "it is near, so search more finely"),
        (lambda p, q, K, c, v: 1.0, "at your T = 1 alpha is"),
        (search(hopeless=0.0), "alpha at T = 0 is below break-even: return None"),
        (search(lambda K, c, v: break_even_alpha(K, c, v) + 0), "break_even_alpha returned None"),
        (
            search(lambda K, c, v: break_even_alpha(K, c, v) or 0.01),
            "the round costs more than K + 1",
        ),
        (search(end=1000.0), "alpha still is above break-even at T = 100, where the search ends"),
        (search(end=90.0), "you say it always pays (inf)"),
        *((bisect_below(hot), f"at your T = {hot:g} alpha is") for hot in (5, 10, 20, 90)),
        (search(always=100.0), "alpha stays above break-even at every T: inf, not 100"),
        (search(always=None), "alpha stays above break-even at every T: inf, not None"),
        (lambda p, q, K, c, v: None, "you say it never pays (None)"),
        (lambda p, q, K, c, v: math.inf, "you say it always pays (inf)"),
        (lambda p, q, K, c, v: (1.0, 2.0), "wanted one number"),
        (lambda p, q, K, c, v: -1.0, "your T is -1"),
    ],
    "7.3": [
        *((wrong, sentence) for sentence, wrong in WRONG_GATES),
        (slip(due=lambda waited, s: False), "no probe where one is due"),
        (lambda gate, tokens, settings: None, "your gate is None"),
        (lambda gate, tokens, settings: "draft", "wanted 3 values"),
        (lambda gate, tokens, settings: gate._replace(mode="off"), "your mode is 'off'"),
        (lambda gate, tokens, settings: gate, "('draft', (), 0) after"),
        (
            slip(mean=lambda recent, s: sorted(recent)[len(recent) // 2]),
            "wanted",
        ),
    ],
    "7.4": [
        (flip("b"), "1 of 9 goes the other way, the first is b: it falls from"),
        (flip("a", "f"), "2 of 9 go the other way, the first is a: it rises from"),
        (flip(*CHANGES), "9 of 9 go the other way"),
        (lambda: {**predict_changes(), "d": ...}, "d has no answer yet"),
        (lambda: {**predict_changes(), "c": "falls"}, "your c is"),
        (lambda: {**predict_changes(), "j": True}, "wanted a dict with one True or False"),
        (lambda: list(predict_changes().values()), "wanted a dict"),
        (lambda: None, "wanted a dict"),
    ],
}

RIGHT["7.2"].append(right_by_halving)
RIGHT["7.3"].append(right_gate_of_deques)


# What the checks rest on


def test_the_promise_of_7_2_is_kept():
    """Alpha falls with T in the rows that are handed out, so the answer is one number."""
    p, q = make_greedy_rows()
    rates = [greedy_mean(p, q, T) for T in (0, *np.geomspace(0.05, 100, 200))]
    assert (np.diff(rates) <= 1e-12).all()
    assert 0 < np.mean(p.argmax(1) != q.argmax(1)) < 0.5
    temperatures = [crossings.break_even_temperature(p, q, *cost) for cost in COSTS]
    assert all(0.1 < T < 10 for T in temperatures[:-1])
    assert 90 < temperatures[-1] < 99
    assert greedy_mean(p, q, 100) > LATE * 1.02 > LATE > greedy_mean(p, q, 1000) * 1.02
    assert len({round(T, 2) for T in temperatures}) == len(COSTS)


def test_the_situations_of_7_3_reach_every_branch():
    seen = {(gate.mode, controller.step_gate(gate, t, s).mode) for gate, t, s in list_situations()}
    modes = ("draft", "plain", "probe")
    impossible = {("draft", "probe"), ("plain", "draft")}
    assert seen == {(a, b) for a in modes for b in modes} - impossible
    assert all(isinstance(gate, Gate) for gate, _, _ in list_situations())


def test_the_changes_of_7_4_are_clear_cut_and_stand_in_the_lesson():
    rising = 0
    text = SOURCE.read_text(encoding="utf-8")
    for letter, change in CHANGES.items():
        before, after = change.measure()
        assert abs(after - before) > 0.05 * max(before, after), letter
        rising += after > before
        row = next(line for line in text.splitlines() if line.startswith(f"# | {letter} |"))
        words = row.replace("|", " ").replace("#", " ").split()[1:]
        assert [w.strip(",") for w in change.story.split()] == [w.strip(",") for w in words]
    assert 2 <= rising <= len(CHANGES) - 2, "always saying the same must not pay"
