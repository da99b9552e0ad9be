"""Checks of lesson 01: the rule, the residual, a whole round, and a test that is right."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.misconceptions import diagnose_round
from lessonlib.theory import empirical, rejection
from lessonlib.theory.exactlaw import round_law, total_variation
from lessonlib.theory.mistakes import build_round
from lessonlib.theory.verify import speculative_round


def _fresh_pairs(seed: int = 0, count: int = 20):
    """Random (p, q) over 2 to 6 tokens, p with some zeros."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        vocab = int(rng.integers(2, 7))
        p, q = rng.dirichlet(np.ones(vocab)), rng.dirichlet(np.ones(vocab))
        if vocab > 2:
            p[rng.integers(vocab)] = 0
        yield p / p.sum(), q


def _raise_diagnosis(round_of) -> None:
    """Raise Wrong with the name of the mistake, if the law of ``round_of`` is a known one."""
    sentence = diagnose_round(round_of)
    if sentence:
        raise Wrong(sentence)


# 1.1 acceptance_probability


def check_ratio_is_a_probability(answer) -> None:
    for p, q in _fresh_pairs():
        for x in range(len(p)):
            value = inputs.as_number(answer(p.copy(), q.copy(), x), "your probability", low=0)
            if value > 1 + 1e-12 and abs(value - p[x] / q[x]) < 1e-9:
                raise Wrong(f"p/q = {value:.3f} is above 1: cap it with min(1, ...)")


def check_ratio_law(answer) -> None:
    _raise_diagnosis(build_round(ratio=lambda p, q, x: answer(p.copy(), q.copy(), x)))


def check_ratio_values(answer) -> None:
    for p, q in _fresh_pairs(seed=1):
        for x in range(len(p)):
            with inputs.unchanged(p=p, q=q):
                yours = inputs.as_number(answer(p, q, x), "your probability", 0, 1)
            wanted = rejection.acceptance_probability(p, q, x)
            inputs.close(yours, wanted, SAME, f"min(1, p/q) at p={p[x]:.3f}, q={q[x]:.3f}")


def check_equal_rows_accept(answer) -> None:
    p = np.array([0.3, 0.7])
    if inputs.as_number(answer(p, p.copy(), 0), "your probability") < 1 - SAME:
        raise Wrong("where p equals q every token is accepted: the probability is 1")


# 1.2 residual


def check_residual_is_a_distribution(answer) -> None:
    for p, q in _fresh_pairs(seed=2):
        row = inputs.as_vector(answer(p.copy(), q.copy()), "your residual", len(p))
        if (row >= 0).all() and abs(row.sum() - 1) > SAME:
            check_residual_law(answer)  # names the mistake before "does not sum to 1" would
        inputs.as_probability(row, "your residual", p.shape, tol=SAME)


def check_residual_law(answer) -> None:
    def replacement(p_rows, q_rows, j, x):
        return inputs.as_vector(answer(p_rows[j].copy(), q_rows[j].copy()), "your residual")

    _raise_diagnosis(build_round(replacement=replacement))


def check_residual_values(answer) -> None:
    for p, q in _fresh_pairs(seed=3):
        with inputs.unchanged(p=p, q=q):
            yours = inputs.as_probability(answer(p, q), "your residual", p.shape, tol=SAME)
        inputs.close(yours, rejection.residual(p, q), SAME, "the residual")


def check_residual_of_equal_rows(answer) -> None:
    for p in (np.array([0.3, 0.7]), np.array([0.0, 1.0, 0.0])):
        try:
            yours = inputs.as_vector(answer(p.copy(), p.copy()), "your residual", p.size)
        except (Wrong, ZeroDivisionError):
            raise Wrong("p equal to q gives 0/0: return p itself in that case") from None
        inputs.close(yours, p, SAME, "the residual of p and p")


# 1.3 speculative_round


def _read_round(answer):
    """The learner's round with its output read as token ids, and its inputs guarded."""

    def run(p_rows, q_rows, drafted, u):
        with inputs.unchanged(p_rows=p_rows, q_rows=q_rows, drafted=drafted):
            emitted = answer(p_rows, q_rows, drafted, u)
        return inputs.as_tokens(emitted, "what your round returns")

    return run


def check_round_lengths(answer) -> None:
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    cases = (
        ([1, 1, 1], [0.9, 0.9, 0.9, 0.1], 4, "all three accepted, then the bonus"),
        ([0, 1, 1], [0.5, 0.9, 0.9, 0.9], 1, "the first rejected, so one token replaces it"),
        ([1, 0, 1], [0.9, 0.5, 0.9, 0.9], 2, "one accepted, then a replacement"),
        ([], [0.3], 1, "nothing drafted, so one token from p"),
    )
    for drafted, u, length, story in cases:
        K = len(drafted)
        run = _read_round(answer)
        emitted = run(np.array([p] * (K + 1)), np.array([q] * K).reshape(K, 2), drafted, u)
        if len(emitted) != length:
            raise Wrong(
                f"drafted {drafted} with u {u} emits {len(emitted)}, wanted {length}: {story}"
            )


def check_round_law(answer) -> None:
    _raise_diagnosis(_read_round(answer))


def check_round_on_another_language(answer) -> None:
    """K = 1 and three tokens: a round that fits only one shape is caught here."""
    rng = np.random.default_rng(5)
    p_rows, q_row = rng.dirichlet(np.ones(3), size=4), rng.dirichlet(np.ones(3))

    def p_of(context):
        return p_rows[context[-1] + 1 if context else 0]

    rounds = (_read_round(answer), speculative_round)
    yours, wanted = (round_law(run, p_of, lambda _: q_row, 1) for run in rounds)
    if total_variation(yours, wanted) > SAME:
        raise Wrong("right for K = 2 and 4 tokens, but not for K = 1 and 3: do not fix sizes")


# 1.4 one_sample_test


def _read_test(answer, counts, p):
    with inputs.unchanged(counts=counts, p=p):
        parts = inputs.as_tuple(answer(counts, p), "your answer", 3)
    names = ("your TV distance", "your floor", "your p-value")
    return [inputs.as_number(v, name, 0, 1) for v, name in zip(parts, names, strict=True)]


def _samples(seed: int, n: int, count: int):
    rng = np.random.default_rng(seed)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    for _ in range(count):
        yield rng.multinomial(n, p), p


def check_distance(answer) -> None:
    for counts, p in _samples(0, 1000, 5):
        tv, wanted = _read_test(answer, counts, p)[0], empirical.one_sample_test(counts, p)[0]
        if abs(tv - 2 * wanted) < 1e-9:
            raise Wrong(f"your TV distance is {tv:.4f}, wanted {wanted:.4f}: it is half the sum")
        inputs.close(tv, wanted, 1e-9, "the TV distance")


def check_floor(answer) -> None:
    for counts, p in _samples(1, 503, 3):  # n p is no whole number: it must be rounded down
        floor, wanted = _read_test(answer, counts, p)[1], empirical.one_sample_test(counts, p)[1]
        inputs.close(floor, wanted, 1e-9, "the sampling floor for 503 draws")


def check_p_value(answer) -> None:
    for counts, p in _samples(2, 1000, 5):
        value, wanted = _read_test(answer, counts, p)[2], empirical.one_sample_test(counts, p)[2]
        inputs.close(value, wanted, 1e-6, "the p-value")


def check_rejection_rate(answer) -> None:
    """A perfect sampler is rejected at 1 % about once in a hundred, not every other time.

    100 samples: a right test rejects more than 10 with probability below 1e-8.
    """
    values = [_read_test(answer, counts, p)[2] for counts, p in _samples(3, 1000, 100)]
    rejected = sum(value < 0.01 for value in values)
    if rejected > 10:
        raise Wrong(f"it rejects a perfect sampler in {rejected} of 100 runs at the 1 % level")


def check_power(answer) -> None:
    counts = np.array([2500, 2500, 2500, 2500])
    if _read_test(answer, counts, np.array([0.4, 0.3, 0.2, 0.1]))[2] > 1e-6:
        raise Wrong("it does not notice 10 000 uniform draws where p is far from uniform")


EXERCISES = (
    Exercise(
        "1.1",
        "acceptance_probability",
        goal="write the probability of keeping a drafted token",
        minutes=5,
        difficulty=1,
        hints=(
            "Where the target likes the token at least as much as the draft, keep it always.",
            "Elsewhere keep it in the proportion p(x) / q(x).",
        ),
        help={
            "the ratio is upside down": "a token q over-proposes (q > p) must be thinned out",
            "p/q is above 1": "a probability ends at 1: wrap it in min(1, ...)",
        },
        checks=(
            check_ratio_is_a_probability,
            check_ratio_law,
            check_ratio_values,
            check_equal_rows_accept,
        ),
        reference=rejection.acceptance_probability,
    ),
    Exercise(
        "1.2",
        "residual",
        goal="write the distribution that replaces a rejected token",
        minutes=10,
        difficulty=2,
        hints=(
            "Accepted tokens already deliver min(p, q). What does p still lack, token by token?",
            "np.maximum(p - q, 0), divided by its sum.",
            "When p equals q that sum is 0. It is never needed then: return a copy of p.",
        ),
        help={
            "the residual uses |p - q|": "negative gaps are tokens delivered already: clip them",
            "subtract the whole vector q": "acceptances used up a share of every token",
            "p equal to q gives 0/0": "test the sum before dividing",
        },
        checks=(
            check_residual_is_a_distribution,
            check_residual_law,
            check_residual_values,
            check_residual_of_equal_rows,
        ),
        reference=rejection.residual,
        points=2,
    ),
    Exercise(
        "1.3",
        "speculative_round",
        goal="put it together: accept, replace, stop, or add the bonus token",
        minutes=15,
        difficulty=2,
        hints=(
            "Walk through the drafted tokens; return as soon as one is rejected.",
            "u[j] decides token j. A rejection at j draws from residual(p_rows[j], q_rows[j]).",
            "If the loop ends, all K are accepted: draw one more from p_rows[K] with u[K].",
        ),
        help={
            "it goes on after a rejection": "return inside the loop",
            "no bonus token": "a full acceptance emits K + 1 tokens",
            "one uniform decides every position": "index u with the position",
            "a uniform can only be compared": "the check counts every outcome exactly, so u[j] is "
            "not a float: write u[j] < threshold, and draw(weights, u[...])",
        },
        checks=(check_round_law, check_round_lengths, check_round_on_another_language),
        reference=speculative_round,
        points=3,
    ),
    Exercise(
        "1.4",
        "one_sample_test",
        goal="test a sampler so that a right one passes and a wrong one does not",
        minutes=15,
        difficulty=3,
        hints=(
            "TV is half the sum of |counts/n - p|.",
            "The floor is the sum of p (1 - p) binom.pmf(floor(n p), n - 1, p), both from scipy.",
            "scipy.stats.chisquare(counts, n * p).pvalue compares with p itself, not a sample.",
        ),
        help={
            "it rejects a perfect sampler": "compare with n * p, never with a second sample",
            "it is half the sum": "each misplaced draw is counted where it is and where it lacks",
        },
        checks=(check_distance, check_floor, check_rejection_rate, check_power, check_p_value),
        reference=empirical.one_sample_test,
        points=3,
    ),
)
