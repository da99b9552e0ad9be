"""Exercises of lesson 05, and the checks on what two teachers make of one draft."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Exercise, inputs
from lessonlib.exercises.draft_choices import check_choices, check_order_does_not_matter
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.logit_checks import (
    check_greedy_rates,
    check_kl_in_the_cold,
    check_kl_of_equal_laws,
    check_kl_values,
    check_rate_values,
    check_rates_in_the_cold,
)
from lessonlib.exercises.named_mistakes import name_slip
from lessonlib.exercises.wrong_losses import WRONG_TEACHERS
from lessonlib.lab.drafts import choose_draft
from lessonlib.theory import divergence

# 5.3 compare_teachers


def _contexts(seed: int, n: int, vocab: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target rows, rows of the text (sharper, and not the same), and weights."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(vocab, 0.8), size=n) * 0.99 + 0.01 / vocab
    r = rng.dirichlet(np.full(vocab, 0.4), size=n) * 0.99 + 0.01 / vocab
    return p, r, rng.dirichlet(np.ones(n))


def check_teachers(answer) -> None:
    points = [_contexts(seed, n, V) for seed, (n, V) in enumerate(((3, 5), (4, 6), (2, 4)))]
    yours = [_ask_teachers(answer, *point) for point in points]
    wanted = [divergence.compare_teachers(*point) for point in points]
    if not inputs.near(yours, wanted):
        name_slip(yours, points, WRONG_TEACHERS)
    _compare_pairs(yours, wanted, "")


def check_a_single_context(answer) -> None:
    """Nothing to merge: the target's own draft is perfect, the data's misses by TV(p, r)."""
    p, r, _ = _contexts(9, 1, 6)
    yours = _ask_teachers(answer, p, r, np.array([1.0]))
    _compare_pairs([yours], [divergence.compare_teachers(p, r, [1.0])], " with one context")


def _ask_teachers(answer, p, r, weights) -> tuple[float, float]:
    with inputs.unchanged(p=p, r=r, weights=weights):
        parts = inputs.as_tuple(answer(p, r, weights), "your answer", 2)
    names = ("your alpha from the data", "your alpha from the target")
    return tuple(inputs.as_number(part, n) for part, n in zip(parts, names, strict=True))


def _compare_pairs(yours, wanted, where: str) -> None:
    for mine, right in zip(yours, wanted, strict=True):
        inputs.close(mine[0], right[0], SAME, f"alpha from the data{where}")
        inputs.close(mine[1], right[1], SAME, f"alpha from the target{where}")


EXERCISES = (
    Exercise(
        "5.1",
        "kl_loss",
        goal="compute the loss that distils a draft, from logits, at any temperature",
        minutes=15,
        difficulty=2,
        hints=(
            "Divide both arrays by the temperature, turn each row into log-probabilities, and "
            "sum p (ln p - ln q) over the vocabulary.",
            "ln p = z - ln(sum of e^z). Take the row's largest z off first: nothing overflows.",
            "p = np.exp(log_p); (p * (log_p - log_q)).sum(axis=-1).mean()",
        ),
        help={
            "the softmax runs down the columns": "axis=-1 with keepdims=True keeps rows apart",
            "the loss is NaN or infinite": "never take np.log of a softmax: compute ln p directly",
            "that is KL(q || p)": "the expectation is over the target: p is the weight",
            "it adds the rows up": "sum over the vocabulary, mean over the rows",
        },
        checks=(check_kl_values, check_kl_of_equal_laws, check_kl_in_the_cold),
        reference=divergence.kl_loss,
        points=2,
    ),
    Exercise(
        "5.2",
        "acceptance_rates",
        goal="measure alpha without drawing a single token",
        minutes=10,
        difficulty=1,
        hints=(
            "Alpha at one position is what p and q have in common.",
            "Temper both rows, take the smaller entry of each token, sum over the vocabulary.",
            "T = 0 is a path of its own: compare target_logits.argmax(axis=-1) with the draft's.",
        ),
        help={
            "your alpha is one number": "leave the rows apart: .sum(axis=-1) and no .mean()",
            "T = 0 divides by zero": "test temperature == 0 before you divide",
            "sum p q": "that is how often two independent draws match: lesson 01's exact match",
        },
        checks=(check_rate_values, check_greedy_rates, check_rates_in_the_cold),
        reference=divergence.acceptance_rates,
    ),
    Exercise(
        "5.3",
        "compare_teachers",
        goal="show what a draft loses when it learns from the text and not from its target",
        minutes=15,
        difficulty=3,
        hints=(
            "Which single row q makes sum_i w_i KL(p_i || q) least? Set the derivative to zero, "
            "or recall that the mean is what minimises an expected -ln q.",
            "The data's draft ends at q = weights @ r, the target's at q = weights @ p.",
            "Both alphas are sum_i w_i sum min(p_i, q), with the target's rows p_i.",
        ),
        help={
            "alpha is measured against the target": "the data taught q, but the target tests it",
            "each context has a row of its own": "the draft cannot tell them apart: one q",
            "the two are swapped": "return (from the data, from the target)",
        },
        checks=(check_teachers, check_a_single_context),
        reference=divergence.compare_teachers,
        points=2,
    ),
    Exercise(
        "5.4",
        "choose_best",
        goal="choose the draft that pays from acceptance rates and costs",
        minutes=10,
        difficulty=2,
        hints=(
            "Compute E / (c K + v[K]) for every draft and every K in v.",
            "E is 1 + alpha + ... + alpha^K, as in lesson 02.",
            "Start with best = (None, 0) at a gain of 1, and replace it when something is larger.",
        ),
        help={
            "it never chooses plain decoding": "start the search with (None, 0) and a speedup of 1",
            "the largest alpha, whatever it costs": "a better draft is a dearer one: divide",
            "v is not used": "v[K] takes the place of the textbook's 1",
            "ZeroDivisionError": "at alpha = 1 the closed form of E is 0/0: add "
            "the powers up, or take K + 1 there",
            "KeyError": "look up v[K]: its value is what K + 1 rows cost",
        },
        checks=(check_choices, check_order_does_not_matter),
        reference=choose_draft,
        points=2,
    ),
)
