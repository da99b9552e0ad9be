"""Exercises of lesson 03, and the checks on siblings and on tree against chain."""

from __future__ import annotations

import numpy as np

from lessonlib.decoding.trace import Round, Trace, measure_paths
from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.sibling_misconceptions import diagnose_siblings
from lessonlib.exercises.tree_checks import (
    check_by_path,
    check_calls,
    check_in_one,
    check_mask_mistakes,
    check_mask_values,
    check_positions,
    score_both_ways,
)
from lessonlib.theory import siblings, treemask
from lessonlib.theory.exactlaw import total_variation
from lessonlib.theory.rejection import one_hot
from lessonlib.theory.verify import Test

# 3.4 accept_sibling


def _read_choice(answer):
    """The learner's rule with its output read, and its inputs guarded."""

    def choose(p, tokens, q_rows, u):
        rows = np.array(q_rows)
        with inputs.unchanged(p=p, tokens=tokens, q_rows=rows):
            child, token = inputs.as_tuple(answer(p, tokens, rows, u), "what you return", 2)
        token = inputs.as_int(token, "your token", low=0)
        if child is None:
            return None, token
        child = inputs.as_int(child, "your accepted sibling", low=0)
        if child >= len(tokens):
            raise Wrong(
                f"sibling {child} is accepted, but there are {len(tokens)}: return its index"
            )
        if tokens[child] != token:
            raise Wrong(f"sibling {child} is token {tokens[child]}, but you return token {token}")
        return child, token

    return choose


def check_sibling_law(answer) -> None:
    sentence = diagnose_siblings(_read_choice(answer))
    if sentence:
        raise Wrong(sentence)


def check_more_siblings(answer) -> None:
    """Three siblings and three tokens: an answer that fits only two is caught here."""
    rng = np.random.default_rng(5)
    p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    for rule in siblings.RULES:
        choices = (_read_choice(answer), siblings.accept_sibling)
        yours, wanted = (siblings.sibling_law(choose, p, q, rule, 3) for choose in choices)
        if total_variation(yours, wanted) > SAME:
            raise Wrong("right for 2 siblings of 4 tokens, but not for 3 of 3: do not fix sizes")


def check_no_siblings(answer) -> None:
    p = np.array([0.25, 0.75])
    given = inputs.as_tuple(answer(p, [], np.zeros((0, 2)), [0.5]), "what you return", 2)
    if given[0] is not None or inputs.as_int(given[1], "your token", low=0) != 1:
        raise Wrong("without siblings draw from p with the last uniform: (None, token)")
    chosen = _read_choice(answer)(p, [1], [one_hot(1, 2)], [0.8, 0.5])
    if chosen != (None, 0):
        raise Wrong("a chosen sibling (one-hot q) is accepted with p(x), else x is left out")


# 3.5 tau_and_alpha


def _make_round(flags: str, drafted: int, closed: str = "recovered") -> Round:
    """A round whose tests passed (1) or failed (0) as ``flags`` says, over a tree."""
    tests = [
        Test(i, i, 0.1, 0.2, 0.5, 0.4 if f == "1" else 0.6, f == "1", 0.7)
        for i, f in enumerate(flags)
    ]
    passed = flags.count("1")
    kinds = ["drafted"] * passed + [closed]
    return Round(1, [0] * drafted, tests, [0] * (passed + 1), kinds, 0)


def _path_traces():
    """Runs over [2, 2, 2]: siblings fail before others pass, and depths are not tests."""
    first = Trace([0], [_make_round("01011", 14, "bonus"), _make_round("00", 14)])
    second = Trace(
        [0], [_make_round("100", 14), _make_round("0100", 14), _make_round("1", 2, "bonus")]
    )
    yield [first]
    yield [second]
    yield [first, second]
    yield [Trace([0, 1], [_make_round("110", 4), _make_round("1111", 4, "bonus")])]


def _measure(answer, traces):
    parts = inputs.as_tuple(answer(traces), "your answer", 2)
    tau = inputs.as_number(parts[0], "your tau", low=0)
    return tau, inputs.as_number(parts[1], "your alpha", 0, 1)


def check_tau(answer) -> None:
    for traces in _path_traces():
        (tau, _), wanted = _measure(answer, traces), measure_paths(traces)[0]
        if abs(tau - (wanted - 1)) < SAME:
            raise Wrong(
                f"tau is {tau:.4f}, wanted {wanted:.4f}: each round also emits a last token"
            )
        each = np.mean([trace.tau for trace in traces])
        if len(traces) > 1 and abs(tau - each) < SAME and abs(wanted - each) > SAME:
            raise Wrong("tau is a mean of means: pool the runs, all tokens over all forwards")
        inputs.close(tau, wanted, SAME, "tau")


def check_alpha(answer) -> None:
    for traces in _path_traces():
        (_, alpha), wanted = _measure(answer, traces), measure_paths(traces)[1]
        if abs(alpha - wanted) < SAME:
            continue
        rounds = [round for trace in traces for round in trace.rounds]
        passed = sum(round.accepted for round in rounds)
        known = {
            "alpha counts every sibling's test: count depths, which any sibling can pass": (
                passed / sum(len(round.tests) for round in rounds)
            ),
            "alpha divides by all drafted nodes: divide by the depths that were reached": (
                passed / sum(len(round.drafted) for round in rounds)
            ),
            "alpha divides by emitted tokens: a round that ends in a bonus failed nowhere": (
                passed / sum(len(round.emitted) for round in rounds)
            ),
            "alpha is the mean of test.alpha: count depths passed and depths reached": (
                float(np.mean([test.alpha for round in rounds for test in round.tests]))
            ),
        }
        for words, wrong in known.items():
            if abs(alpha - wrong) < SAME:
                raise Wrong(words)
        inputs.close(alpha, wanted, SAME, "alpha per path")


EXERCISES = (
    Exercise(
        "3.1",
        "build_mask",
        goal="write the mask with which one forward sees a whole tree",
        minutes=10,
        difficulty=2,
        hints=(
            "Start with zeros of shape (n, prefix + n) and set the first prefix columns to True.",
            "Parents come before children: the row of a node is its parent's row plus itself.",
            "Node i is column prefix + i, not column i.",
        ),
        help={
            "that is a chain's mask": "earlier is not enough: siblings are rival guesses",
            "it is transposed": "mask[i, j] answers: may i look at j?",
            "has shape (n, n)": "the prefix needs columns too, in front",
        },
        checks=(check_mask_mistakes, check_mask_values),
        reference=treemask.build_mask,
        points=2,
    ),
    Exercise(
        "3.2",
        "find_positions",
        goal="give every node the position it has in its own text",
        minutes=5,
        difficulty=1,
        hints=(
            "A node's text is the prefix and its ancestors. How many tokens stand before it?",
            "A child of the text stands at prefix, any other node one behind its parent.",
        ),
        help={
            "positions count nodes": "two siblings are both the next token: same position",
            "one too high": "positions count from 0, so the first one behind the prefix is prefix",
        },
        checks=(check_positions,),
        reference=treemask.find_positions,
    ),
    Exercise(
        "3.3",
        "score_both_ways",
        goal="score a tree in one forward, and prove it by one path at a time",
        minutes=15,
        difficulty=3,
        hints=(
            "A chain is a tree: let the text be one, with the drafted tree below its last token.",
            "The parents of all: range(-1, n - 1) for the n text tokens, then each parent + n, "
            "where -1 + n is the last text token.",
            "by_path: run text + path under a lower triangular mask at positions 0, 1, ...; keep "
            "the last row.",
        ),
        help={
            "index as position": "pass treemask.find_positions, not range",
            "rows of the text too": "the first len(text) rows are not asked for",
            "mask has shape": "the model wants (m, m): text rows need a mask as well",
        },
        checks=(check_in_one, check_by_path, check_calls),
        reference=score_both_ways,
        points=3,
    ),
    Exercise(
        "3.4",
        "accept_sibling",
        goal="accept one of several guesses so that the token still follows p",
        minutes=15,
        difficulty=3,
        hints=(
            "Test the siblings in order; the first that passes is accepted.",
            "After a rejection p becomes residual(p, q_rows[i]); the next sibling meets that p.",
            "If none passes, draw from what is left of p with the last uniform.",
        ),
        help={
            "leaves p as it was": "what a rejected sibling was drawn from used up a share of p",
            "its own row": "a sibling drawn without replacement has a row of its own",
            "a uniform can only be compared": "write u[i] < threshold, and draw(weights, u[...])",
            "the likeliest of the passed": "choosing among passes favours likely tokens twice",
        },
        checks=(check_sibling_law, check_more_siblings, check_no_siblings),
        reference=siblings.accept_sibling,
        points=3,
    ),
    Exercise(
        "3.5",
        "tau_and_alpha",
        goal="measure what a tree gains over a chain of equal compute",
        minutes=10,
        difficulty=2,
        hints=(
            "trace.rounds holds the rounds; each cost one target forward and has .emitted.",
            "A round passed .accepted depths. If it closed with 'recovered', one more was reached.",
            "round.kinds[-1] is 'recovered' or 'bonus'. Sum over all rounds of all traces first.",
        ),
        help={
            "counts every sibling's test": "two failed siblings at one depth are one failed depth",
            "a mean of means": "long runs weigh more: add up first, divide once",
        },
        checks=(check_tau, check_alpha),
        reference=measure_paths,
        points=2,
    ),
)
