"""Checks of exercise 5.4: which draft pays, and plausible wrong ways to choose it."""

from __future__ import annotations

from functools import partial
from operator import eq

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.named_mistakes import Slips, name_slip
from lessonlib.exercises.wrong_formulas import sum_powers
from lessonlib.lab.drafts import choose_draft
from lessonlib.theory.speedup import speedup


def gain_of(alpha: float, c: float, K: int, v: float) -> float:
    return sum_powers(alpha, 0, K) / (c * K + v)


def pick(drafts: dict, v: dict, gain=gain_of, fallback: bool = True) -> tuple[str | None, int]:
    """The (name, K) with the largest ``gain(alpha, c, K, v)``; (None, 0) if that is at most 1."""
    gains = {(n, K): gain(a, c, K, x) for n, (a, c) in drafts.items() for K, x in v.items()}
    best = max(gains, key=gains.get)
    return best if gains[best] > 1 or not fallback else (None, 0)


def pick_by(key, drafts: dict, v: dict) -> tuple[str | None, int]:
    """The draft with the largest ``key(alpha, c)``, at the K that suits it best."""
    name = max(drafts, key=lambda n: key(*drafts[n]))
    return pick({name: drafts[name]}, v)


# What ranks the drafts: (alpha, c) -> number
WRONG_KEYS: Slips = (
    ("it takes the draft with the largest alpha, whatever it costs", lambda a, c: a),
    ("it takes the cheapest draft, whatever its alpha", lambda a, c: -c),
    (
        "alpha / c is not the speedup: compare E / (c K + v)",
        lambda a, c: a / c if c else float("inf"),
    ),
    ("alpha - c is not the speedup: compare E / (c K + v)", lambda a, c: a - c),
)
# What is maximised over drafts and K: (alpha, c, K, v[K]) -> number
WRONG_GAINS: Slips = (
    ("v is not used: K drafted tokens cost v[K] to verify", lambda a, c, K, v: gain_of(a, c, K, 1)),
    ("drafting is free in it: add c K to the cost", lambda a, c, K, v: gain_of(a, 0, K, v)),
    (
        "c is paid for each of the K drafted tokens",
        lambda a, c, K, v: sum_powers(a, 0, K) / (c + v),
    ),
    (
        "that maximises the tokens of a round: divide by its cost",
        lambda a, c, K, v: sum_powers(a, 0, K),
    ),
    (
        "the token that closes the round is missing from E",
        lambda a, c, K, v: sum_powers(a, 1, K) / (c * K + v),
    ),
    (
        "v already is the target's forward: do not add another 1",
        lambda a, c, K, v: gain_of(a, c, K, v + 1),
    ),
)
WRONG_CHOICES: Slips = (
    (
        "it never chooses plain decoding: return (None, 0) where nothing gains",
        lambda drafts, v: pick(drafts, v, fallback=False),
    ),
    (
        "v[K + 1] is one row too dear: v[K] already is what K + 1 rows cost",
        lambda drafts, v: pick(drafts, {K: v.get(K + 1, cost) for K, cost in v.items()}),
    ),
    *((sentence, partial(pick_by, key)) for sentence, key in WRONG_KEYS),
    *((sentence, partial(pick, gain=gain)) for sentence, gain in WRONG_GAINS),
)

FLAT = {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 6: 1.0, 8: 1.0}
STEEP = {1: 1.2, 2: 1.4, 4: 1.9, 6: 2.4, 8: 3.0}
CLIFF = {1: 1.05, 2: 1.1, 3: 1.6, 4: 2.4, 5: 3.2}  # no gap between the K: v[K + 1] exists
TABLES = (
    ({"1 layer": (0.45, 0.08), "2 layers": (0.7, 0.16), "4 layers": (0.78, 0.36)}, FLAT),
    ({"1 layer": (0.55, 0.1), "2 layers": (0.7, 0.17), "4 layers": (0.85, 0.22)}, STEEP),
    ({"tiny": (0.3, 0.01), "small": (0.75, 0.1), "large": (0.9, 0.5)}, STEEP),
    ({"sharp": (0.5, 0.02), "slow": (0.9, 0.41)}, FLAT),
    ({"long": (0.9, 0.05), "short": (0.6, 0.02)}, dict.fromkeys(range(6, 32, 2), 1.0)),
    ({"a": (0.6, 0.05), "b": (0.8, 0.05), "c": (0.82, 0.3)}, {2: 1.1, 4: 1.2, 16: 1.4}),
    ({"perfect": (1.0, 0.3), "good": (0.7, 0.1)}, FLAT),
    ({"ngram": (0.35, 0.0), "head": (0.6, 0.06), "model": (0.8, 0.25)}, {1: 1.5, 3: 1.6, 5: 2.5}),
    ({"small": (0.6, 0.02), "large": (0.8, 0.05)}, CLIFF),
    ({"near": (0.6, 0.25), "far": (0.8, 0.5)}, {1: 1.32, 2: 1.6, 4: 2.1}),  # 1.02 is a gain
)
HOPELESS = (
    ({"dear": (0.6, 0.66), "poor": (0.05, 0.1)}, FLAT),
    ({"1 layer": (0.4, 0.2), "2 layers": (0.5, 0.35)}, {1: 1.6, 2: 2.1, 4: 3.0}),
)


def check_choices(answer) -> None:
    points = [*TABLES, *HOPELESS]
    yours = [_ask_choice(answer, *point) for point in points]
    if set(yours) == {(None, 0)}:
        raise Wrong("you always take plain decoding: v[K] is the price of all K + 1 rows together")
    if not all(_is_best(*point, choice) for point, choice in zip(points, yours, strict=True)):
        name_slip(yours, points, WRONG_CHOICES, eq)
    for (drafts, v), choice in zip(points, yours, strict=True):
        _compare_choice(drafts, v, choice)


def check_order_does_not_matter(answer) -> None:
    for drafts, v in TABLES:
        turned = (dict(reversed(table.items())) for table in (drafts, v))
        drafts, v = turned
        _compare_choice(drafts, v, _ask_choice(answer, drafts, v))


def _ask_choice(answer, drafts, v) -> tuple[str | None, int]:
    drafts, v = dict(drafts), dict(v)
    with inputs.unchanged(drafts=drafts, v=v):
        name, K = inputs.as_tuple(answer(drafts, v), "your answer", 2)
    if name is not None and (not isinstance(name, str) or name not in drafts):
        raise Wrong("your draft is not a name in the table: return (name, K)")
    K = inputs.as_int(K, "your K", low=0)
    if name is not None and K not in v:
        raise Wrong(f"your K is {K}: choose one of the keys of v")
    if name is None and K != 0:
        raise Wrong(f"no draft, but K = {K}: plain decoding is (None, 0)")
    return name, K


def _gain(drafts, v, choice) -> float:
    name, K = choice
    return 1.0 if name is None else speedup(drafts[name][0], K, drafts[name][1], v[K])


def _is_best(drafts, v, choice) -> bool:
    """Another choice of the same speedup is as good: on a tie nobody loses."""
    return _gain(drafts, v, choice) >= _gain(drafts, v, choose_draft(drafts, v)) - 1e-12


def _compare_choice(drafts, v, choice) -> None:
    best = choose_draft(drafts, v)
    if not _is_best(drafts, v, choice):
        raise Wrong(
            f"of {', '.join(drafts)} you take {_say(choice)} for {_gain(drafts, v, choice):.3f}x; "
            f"{_say(best)} gives {_gain(drafts, v, best):.3f}x"
        )


def _say(choice) -> str:
    name, K = choice
    return "plain decoding" if name is None else f"{name} with K = {K}"
