"""The mutation tables of lesson 05: wrong answers fail with their own sentence."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import draft_choices, find_exercise
from lessonlib.exercises.hints import find_symptom
from lessonlib.exercises.wrong_losses import WRONG_LOSSES, WRONG_RATES, WRONG_TEACHERS
from lessonlib.lab.drafts import choose_draft
from lessonlib.theory import divergence
from lessonlib.theory.speedup import expected_tokens, speedup
from tests.answers import outcome


def log_rows(logits, T=1.0, axis=-1):
    z = np.asarray(logits) / T
    z = z - z.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))


def rows(logits, T=1.0, axis=-1):
    return np.exp(log_rows(logits, T, axis))


def right_kl(target, draft, T):
    """Row by row, as cross-entropy minus entropy, in float32."""
    losses = []
    for a, b in zip(target.astype(np.float32), draft.astype(np.float32), strict=True):
        log_p, log_q = log_rows(a, T), log_rows(b, T)
        losses.append(np.sum(np.exp(log_p) * log_p) - np.sum(np.exp(log_p) * log_q))
    return sum(losses) / len(losses)


def right_kl_in_torch(target, draft, T):
    import torch

    log_p, log_q = (torch.from_numpy(x / T).log_softmax(-1) for x in (target, draft))
    return torch.nn.functional.kl_div(log_q, log_p, reduction="batchmean", log_target=True)


def right_rates(target, draft, T):
    """1 - TV, a list, with a path for T = 0."""
    if not T:
        return [np.argmax(a) == np.argmax(b) for a, b in zip(target, draft, strict=True)]
    return list(1 - abs(rows(target, T) - rows(draft, T)).sum(axis=1) / 2)


def right_teachers(p, r, weights):
    """By a search for the least loss, blind to the closed form."""
    return [alpha_of(p, descend(taught, weights), weights) for taught in (r, p)]


def descend(taught, weights):
    logits = np.zeros(taught.shape[1])
    for _ in range(4000):
        logits -= weights @ (rows(logits) - taught)
    return rows(logits)


def alpha_of(p, q, weights):
    return sum(w * np.minimum(row, q).sum() for w, row in zip(weights, p, strict=True))


def right_choice(drafts, v):
    """A loop that keeps the best; a later draft wins a tie."""
    best, most = (None, 0), 1.0
    for name in drafts:
        for K in v:
            gain = speedup(drafts[name][0], K, drafts[name][1], v[K])
            if gain > most or (gain == most and best[0]):
                best, most = (name, K), gain
    return best


RIGHT = {
    "5.1": [divergence.kl_loss, right_kl, right_kl_in_torch],
    "5.2": [divergence.acceptance_rates, right_rates],
    "5.3": [divergence.compare_teachers, right_teachers],
    "5.4": [choose_draft, right_choice],
}


def kl(p, q):
    return (p * np.log(p / q)).sum(axis=-1)


def kl_with(of_target, of_draft):
    return lambda a, b, T: kl(of_target(a, T), of_draft(b, T)).mean()


def cold(a, T):
    return rows(a)


def unsafe(a, T):
    powers = np.exp(a / T)
    return powers / powers.sum(axis=-1, keepdims=True)


def change_in_place(a, b, T):
    value = divergence.kl_loss(a, b, T)
    a /= T
    return value


def shared(p, q):
    return np.minimum(p, q).sum(axis=-1)


def rates(of_target=rows, of_draft=rows, join=shared):
    """Rates for T > 0, right at T = 0: only what is swapped is wrong."""

    def answer(a, b, T):
        if T == 0:
            return divergence.acceptance_rates(a, b, 0)
        return join(of_target(a, T), of_draft(b, T))

    return answer


def teachers(fit=lambda x, w: w @ x, rate=alpha_of):
    return lambda p, r, w: (rate(p, fit(r, w), w), rate(p, fit(p, w), w))


def geometric(x, w):
    mean = np.exp(w @ np.log(x))
    return mean / mean.sum()


def choose(gain=speedup, least=1.0, drafts_of=lambda drafts: drafts):
    def answer(drafts, v):
        drafts = drafts_of(drafts)
        found = {(n, K): gain(drafts[n][0], K, drafts[n][1], v[K]) for n in drafts for K in v}
        best = max(found, key=found.get)
        return best if found[best] > least else (None, 0)

    return answer


def ranked(key):
    return choose(drafts_of=lambda d: dict([max(d.items(), key=lambda item: key(*item[1]))]))


def raw_tokens(alpha, K, c, v):
    return expected_tokens(alpha, K)


WRONG = {
    "5.1": [
        (lambda a, b, T: divergence.kl_loss(b, a, T), "that is KL(q || p)"),
        (lambda a, b, T: divergence.kl_loss(a, b), "the temperature is not used"),
        (lambda a, b, T: divergence.kl_loss(a * T, b * T), "are multiplied by the temperature"),
        (kl_with(rows, cold), "only the target's logits are divided"),
        (kl_with(cold, rows), "only the draft's logits are divided"),
        (lambda a, b, T: T**2 * divergence.kl_loss(a, b, T), "that is T^2 times the KL"),
        (lambda a, b, T: kl(rows(a, T), rows(b, T)).sum(), "it adds the rows up"),
        (
            lambda a, b, T: (rows(a, T) * (log_rows(a, T) - log_rows(b, T))).mean(),
            "it also divides by the vocabulary",
        ),
        (lambda a, b, T: kl(rows(a, T, 0), rows(b, T, 0)).mean(), "runs down the columns"),
        (
            lambda a, b, T: kl(rows(a, T, None), rows(b, T, None)).mean(),
            "runs over all rows at once",
        ),
        (
            lambda a, b, T: -(rows(a, T) * log_rows(b, T)).sum(-1).mean(),
            "that is the cross-entropy",
        ),
        (lambda a, b, T: -divergence.kl_loss(a, b, T), "the sign is wrong"),
        (lambda a, b, T: divergence.kl_loss(a, b, T) / np.log(2), "that is in bits"),
        (lambda a, b, T: (rows(a, T) * (a - b) / T).sum(-1).mean(), "a logit is not ln p"),
        (lambda a, b, T: 1 - shared(rows(a, T), rows(b, T)).mean(), "that is TV, not KL"),
        (lambda a, b, T: np.mean((a - b) ** 2), "that compares logits"),
        (kl_with(rows, rows), "at T=0.02 your loss is NaN or infinite"),
        (kl_with(unsafe, unsafe), "at T=0.02 your loss is NaN or infinite"),
        (lambda a, b, T: kl(rows(a, T), rows(b, T)), "your loss holds 5 values: return their mean"),
        (lambda a, b, T: kl(rows(a, T) + 0.01, rows(b, T) + 0.01).mean(), "the loss of 5 rows at"),
        (
            lambda a, b, T: kl(rows(a, T) + 1e-300, rows(b, T) + 1e-300).mean(),
            "a small number added inside the log caps it",
        ),
        (lambda a, b, T: None, "is a return missing?"),
        (change_in_place, "your code changed target_logits in place"),
    ],
    "5.2": [
        (rates(join=lambda p, q: (p * q).sum(-1)), "sum p q is the chance that two draws match"),
        (lambda a, b, T: right_rates(a, b, T) if T else 10**400, "your alpha is one number"),
        (rates(cold, cold), "the temperature is not used"),
        (rates(lambda a, T: rows(a, 1 / T), lambda a, T: rows(a, 1 / T)), "are multiplied by"),
        (rates(of_draft=cold), "only the target's logits"),
        (rates(of_target=cold), "only the draft's logits"),
        (rates(join=lambda p, q: abs(p - q).sum(-1) / 2), "that is TV: alpha is 1 - TV"),
        (rates(join=lambda p, q: np.maximum(p, q).sum(-1)), "it sums the larger"),
        (rates(join=lambda p, q: 1 - abs(p - q).sum(-1)), "TV is half of sum |p - q|"),
        (rates(join=lambda p, q: np.minimum(p, q).mean(-1)), "it averages over the vocabulary"),
        (rates(join=lambda p, q: np.minimum(1, p / q).mean(-1)), "treats all tokens alike"),
        (rates(join=lambda p, q: (p * np.minimum(1, p / q)).sum(-1)), "weighs min(1, p/q) with p"),
        (rates(join=lambda p, q: (q * (p >= q)).sum(-1)), "it counts q where p >= q only"),
        (lambda a, b, T: a.argmax(-1) == b.argmax(-1), "is right at temperature 0 only"),
        (
            rates(lambda a, T: rows(a, T, 0), lambda a, T: rows(a, T, 0)),
            "runs down the columns",
        ),
        (
            rates(lambda a, T: rows(a, T, None), lambda a, T: rows(a, T, None)),
            "runs over all rows at once",
        ),
        (rates(join=lambda p, q: 1 - kl(p, q)), "1 - KL is no acceptance rate"),
        (rates(join=lambda p, q: np.exp(-kl(p, q))), "exp(-KL) is no acceptance rate"),
        (lambda a, b, T: shared(rows(a, T), rows(b, T)).mean(), "return one for each row"),
        (lambda a, b, T: np.minimum(rows(a, T), rows(b, T)), "has shape (5, 7), wanted (5,)"),
        (lambda a, b, T: shared(rows(a, T), rows(b, T)), "T = 0 divides by zero"),
        (lambda a, b, T: shared(rows(a, T or 1), rows(b, T or 1)), "your alpha at T=0 is"),
        (rates(unsafe, unsafe), "at T=0.02 a power overflows"),
        (rates(join=lambda p, q: shared(p, q).round(2)), "your alpha at T=0.5 is"),
        (lambda a, b, T: None, "is a return missing?"),
    ],
    "5.3": [
        (lambda p, r, w: right_teachers(p, r, w)[::-1], "the two are swapped"),
        (
            lambda p, r, w: (alpha_of(r, w @ r, w), alpha_of(p, w @ p, w)),
            "alpha is measured against the target p",
        ),
        (
            lambda p, r, w: (w @ shared(p, r), w @ shared(p, p)),
            "each context has a row of its own",
        ),
        (teachers(rate=lambda p, q, w: shared(w @ p, q)), "not with the mean row"),
        (
            teachers(lambda x, w: x.mean(0), lambda p, q, w: shared(p, q).mean()),
            "the weights are not used",
        ),
        (teachers(lambda x, w: x.mean(0)), "q leaves the weights out"),
        (teachers(rate=lambda p, q, w: shared(p, q).mean()), "alpha leaves the weights out"),
        (teachers(geometric), "a mean of ln p is what reverse KL wants"),
        (teachers(lambda x, w: np.eye(x.shape[1])[(w @ x).argmax()]), "its largest entry only"),
        (teachers(rate=lambda p, q, w: w @ (p @ q)), "sum p q is the chance"),
        (teachers(rate=lambda p, q, w: 1 - alpha_of(p, q, w)), "that is TV"),
        (teachers(lambda x, w: x[0]), "alpha from the data is"),
        (lambda p, r, w: right_teachers(p, r, w)[1], "wanted 2 values"),
        (lambda p, r, w: (shared(p, w @ r), shared(p, w @ p)), "your alpha from the data is"),
        (lambda p, r, w: None, "your answer is None"),
    ],
    "5.4": [
        (choose(least=0), "it never chooses plain decoding"),
        (ranked(lambda alpha, c: alpha), "the largest alpha, whatever it costs"),
        (ranked(lambda alpha, c: -c), "it takes the cheapest draft"),
        (ranked(lambda alpha, c: alpha / c if c else 1e9), "alpha / c is not the speedup"),
        (ranked(lambda alpha, c: alpha - c), "alpha - c is not the speedup"),
        (choose(lambda a, K, c, v: speedup(a, K, c)), "v is not used"),
        (choose(lambda a, K, c, v: speedup(a, K, 0, v)), "drafting is free in it"),
        (choose(lambda a, K, c, v: expected_tokens(a, K) / (c + v)), "c is paid for each"),
        (choose(raw_tokens), "that maximises the tokens of a round"),
        (
            choose(lambda a, K, c, v: (expected_tokens(a, K) - 1) / (c * K + v)),
            "the token that closes the round is missing",
        ),
        (
            choose(lambda a, K, c, v: expected_tokens(a, K) / (c * K + v * (K + 1))),
            "you always take plain decoding",
        ),
        (choose(lambda a, K, c, v: speedup(a, K, c, v + 1)), "do not add another 1"),
        (
            lambda d, v: choose_draft(d, {K: v.get(K + 1, v[K]) for K in v}),
            "v[K] already is what K + 1 rows cost",
        ),
        (choose(least=1.05), "you take plain decoding for 1.000x; near with K = 1 gives 1.019x"),
        (choose(lambda a, K, c, v: -speedup(a, K, c, v), -9), "you take "),
        (lambda d, v: (next(iter(d)), max(v)), "you take 1 layer with K = 8"),
        (lambda d, v: (None, 0), "you always take plain decoding"),
        (lambda d, v: right_choice(d, v) if "b" in d else (None, 0), "you take plain decoding for"),
        (lambda d, v: (0, 1), "your draft is not a name"),
        (lambda d, v: right_choice(d, v)[::-1], "your draft is not a name"),
        (lambda d, v: (right_choice(d, v)[0], min(v)), "no draft, but K = 1"),
        (lambda d, v: (min(d), min(v)), "you take 1 layer with K = 1 for "),
        (lambda d, v: (next(iter(d)), 5), "your K is 5: choose one of the keys of v"),
        (lambda d, v: (None, 4), "plain decoding is (None, 0)"),
        (lambda d, v: speedup(*next(iter(d.values()))[:1], 2, 0.1), "wanted 2 values"),
        (lambda d, v: None, "your answer is None"),
        (lambda d, v: (d.clear(), 0), "your code changed drafts in place"),
    ],
}


def test_every_named_mistake_has_a_row_in_the_tables():
    named = {
        "5.1": WRONG_LOSSES,
        "5.2": WRONG_RATES,
        "5.3": WRONG_TEACHERS,
        "5.4": draft_choices.WRONG_CHOICES,
    }
    for id, formulas in named.items():
        lines = [outcome(id, answer) for answer, _ in WRONG[id]]
        for sentence, _ in formulas:
            assert any(sentence in line for line in lines), (id, sentence)


def test_another_choice_of_the_same_speedup_passes():
    from lessonlib.exercises.draft_choices import _compare_choice

    drafts = {"one": (0.5, 0.1), "other": (0.5, 0.1)}
    for name in drafts:
        _compare_choice(drafts, {1: 1.0, 2: 1.0}, (name, 2))


def test_each_table_of_choices_has_a_clear_winner():
    """No check hangs on a rounding: the best is ahead of the rest by a thousandth."""
    for drafts, v in (*draft_choices.TABLES, *draft_choices.HOPELESS):
        gains = [1.0, *(speedup(a, K, c, v[K]) for a, c in drafts.values() for K in v)]
        first, second = sorted(gains)[-1:-3:-1]
        assert first - second > 1e-3


def test_errors_of_5_4_have_their_help():
    def closed_form(drafts, v):
        for alpha, _ in drafts.values():
            (1 - alpha**2) / (1 - alpha)
        return choose_draft(drafts, v)

    def next_row(drafts, v):
        return [v[K + 1] for K in v]

    for answer, error, advice in (
        (closed_form, "ZeroDivisionError", "at alpha = 1"),
        (next_row, "KeyError", "look up v[K]"),
    ):
        line = outcome("5.4", answer)
        assert f"your code raised {error}" in line
        assert find_symptom(find_exercise("5.4").help, line.split(" - ")[1])[1].startswith(advice)
    assert find_symptom(find_exercise("5.4").help, "your code raised NameError: K") is None
