# %% [markdown]
# # 07 The failure mode at temperature 1.5
#
# *Find out what really fails, and when a draft should keep silent.*
#
# There is a rumour: at temperature 1.5 speculative decoding breaks down, because the acceptance
# rate falls to one over the vocabulary. It is half true, which is the worst kind. Some ways to
# accept collapse; for another one α tends to 1 as it gets hot, and production systems use both.
#
# You will prove which is which, do the classic exercise to the letter (a technical code prompt at
# T = 1.5, measured against plain decoding), and build the gate that turns drafting off where it
# loses and on again where it pays. Plan two hours, one of them for the exercises.
#
# | symbol | meaning |
# |---|---|
# | T | temperature: the logits are divided by it, so a high T flattens |
# | p_T, q_T | target and draft at that temperature |
# | V | how many tokens the vocabulary has |
# | α | the chance that a drafted token passes; each rule below has its own |
# | c, v, K | as in lesson 02: a round costs c K + v target forwards |
# | break-even α | what α must reach for a round to pay its cost |
#
# The four rules, and one name for each:
#
# | rule | the drafted token | passes with |
# |---|---|---|
# | shared T | is drawn from q_T | min(1, p_T(x) / q_T(x)) |
# | greedy draft | is the draft's favourite | p_T(x): nothing was drawn, so q is one-hot |
# | exact match | is drawn from q_T, but its row is not handed over | p_T(x) |
# | draft left at T = 1 | is drawn from q, whatever T is | min(1, p_T(x) / q(x)) |
#
# And one that is the greedy draft's big sister, the **top-k tree**: for each node the draft's two
# favourites, and each passes like a greedy draft's.

# %% id="setup"
import math
from functools import partial

import numpy as np

from lessonlib.lab import recordings07
from lessonlib.lab.recordings import load_contexts
from lessonlib.theory import temperature
from lessonlib.theory.controller import Gate, Settings, measure_gain, simulate_gate
from lessonlib.theory.crossings import find_crossings
from lessonlib.theory.exactlaw import law_of, total_variation
from lessonlib.theory.rejection import draw
from lessonlib.theory.roofline import PRESETS, verify_cost
from lessonlib.theory.speedup import break_even_alpha, speedup
from lessonlib.theory.temperature import (
    RATES,
    chosen_rate,
    shared_gap,
    shared_rate,
    soften,
)
from lessonlib.theory.trees import CHOSEN, chain
from lessonlib.theory.verify import verify
from lessonlib.widgets.lesson07 import (
    map_of_K_and_temperature,
    plot_batches,
    plot_drift,
    plot_rates,
    temperature_on_both,
)
from lessonlib.widgets.quiz import ask
from lessonlib.widgets.timeline import controller_timeline, plot_timeline

# %% [markdown]
# ## Predict
#
# Commit to an answer before anything moves.

# %% id="predict-limit" tags=["hide-input"]
ask(
    "Target and draft both sample at temperature T, and the rejection rule of lesson 01 tests the "
    "draft. T grows without end. Where does α go?",
    ["to 0", "to 1 / V", "to 1"],
    right=2,
    why="Both distributions become flat, so they become the same one, and α is their overlap. The "
    "rumour is about other rules.",
)

# %% id="predict-common" tags=["hide-input"]
ask(
    "A greedy draft, a top-k tree (EAGLE's too) and a phrase copied from the prompt have one "
    "thing in common that hurts at T = 1.5. Which?",
    [
        "their models are small",
        "their tokens are chosen, not drawn",
        "they draft more than one token",
    ],
    right=1,
    why="A chosen token passes with p(x). Flatten p, and no single token has much of it left. A "
    "token that was drawn from an equally flat q is tested by a ratio, and ratios stay near 1.",
)

# %% id="predict-perfect" tags=["hide-input"]
ask(
    "A draft agrees with its target always: α = 1. It also costs as much as the target. Compared "
    "with plain decoding, what does it bring?",
    ["K + 1 tokens for the price of one", "nothing, it is exactly as fast", "a loss"],
    right=2,
    why="K draft forwards and a verification bring K + 1 tokens. Plain decoding needs K + 1 "
    "forwards for those, and verifying several tokens costs more than running one.",
)

# %% [markdown]
# ## Play
#
# **One context, all temperatures.** Slide T. The bars are p_T and q_T of the bundled pair after a
# real piece of text, and below them stand the four rates. First find the T at which the greedy
# draft drops under one half. Then look for a context in which shared T *falls* before it rises.

# %% id="play-temperature"
temperature_on_both()

# %% [markdown]
# **Where it was measured to win.** Speed against plain decoding for each K and T, recorded on the
# bundled pair, one map for each proposer; the thick line is where 1× is crossed. Compare the
# sampled draft with the greedy one: in which corner do their best cells lie?

# %% id="play-map"
map_of_K_and_temperature()

# %% [markdown]
# **A gate.** The workload is cold, then hot, then cold again; the gate is not told. It sees only
# how many tokens its rounds emit, averaged over a *window* of them. Below its threshold it decodes
# plainly; after so many plain rounds it drafts on trial, a *probe*, and such a trial must bring a
# little more than the threshold: that margin is the *hysteresis*. Make the window very short: what
# does it do to a healthy draft? Make it long: what does the change cost? What does hysteresis buy?
# And who pays for probes?

# %% id="play-gate"
controller_timeline()

# %% [markdown]
# ## Prove
#
# **Line 1: four rules, four rates.** Each rate follows from lesson 01 in one line. Draw x from q
# and keep it with min(1, p/q): Σ min(p, q). Choose x and keep it with p(x): p(argmax q). Draw x
# from q and keep it with p(x): Σ p q. Here each is held against the enumerated law of the real
# round, on a toy with a vocabulary you can count.

# %% id="prove-rates"
p_toy, q_toy, T = np.array([1.2, -0.3, 0.4, 2.0]), np.array([2.1, 0.2, -1.0, 0.9]), 1.5
p_T, q_T, q_1 = soften(p_toy, T), soften(q_toy, T), soften(q_toy, 1)


def play_round(rule, u):
    """One drafted token under a rule: (did it pass, which token came out)."""
    if rule == "greedy draft":
        token, row = int(q_1.argmax()), CHOSEN
    elif rule == "exact match":
        token, row = draw(q_T, u.random()), CHOSEN
    else:
        row = q_T if rule == "shared T" else q_1
        token = draw(row, u.random())
    verdict = verify(chain([token], [row]), [p_T, p_T], iter(u.random, None))
    return bool(verdict.path), token if verdict.path else verdict.token


print("rule                   formula   enumerated   TV of the text from p")
for rule, rate in zip(RATES, temperature.four_rates(p_toy, q_toy, T), strict=True):
    law = law_of(lambda u, rule=rule: play_round(rule, u))
    passed = sum(weight for (ok, _), weight in law.items() if ok)
    text = {x: sum(w for (_, y), w in law.items() if y == x) for x in range(4)}
    distance = total_variation(text, dict(enumerate(p_T)))
    print(f"{rule:22} {rate:.4f}    {passed:.4f}       {abs(round(distance, 12)):.4f}")
    assert abs(rate - passed) < 1e-12 > distance

# %% [markdown]
# Read the last column, too: **no rule is wrong about the text.** All four emit p_T exactly. What
# the temperature breaks is the speed, never the output, so nobody notices but the clock.
#
# **Line 2: the limits.** As T grows, p_T and q_T both tend to the flat distribution, 1/V for every
# token. So Σ min(p_T, q_T) tends to 1, while one token's share, and the chance that two draws
# agree, tend to 1/V. The draft left at T = 1 keeps its peaks: the overlap of a flat
# distribution with a peaked one stays somewhere between. Here are the recorded contexts of the
# first widget.

# %% id="prove-limits"
contexts = load_contexts()
p_logits, q_logits = (np.array([c[name] for c in contexts]) for name in ("p_logits", "q_logits"))
V = p_logits.shape[-1]
print(f"{'T':>6}  " + "  ".join(f"{rule:>19}" for rule in RATES))
for T in (0, 1, 1.5, 10, 100, math.inf):
    means = [rate.mean() for rate in temperature.four_rates(p_logits, q_logits, T)]
    print(f"{T:>6}  " + "  ".join(f"{mean:19.5f}" for mean in means))
print(f"1/V = {1 / V:.5f}")

# %% [markdown]
# **Line 3: how fast it heals.** For large T the softmax is a straight line in the logits,
# $p_T(x) \approx (1 + (z_x - \bar z)/T)/V$. Put it into TV, half the sum of |p_T − q_T|:
#
# $$1 - \alpha(T) \approx \frac{1}{T} \cdot \frac{1}{2} \cdot \operatorname{mean}_x |\Delta_x -
# \bar\Delta|$$
#
# where Δ is the difference of the two models' logits. Doubling T halves what is rejected.

# %% id="prove-gap"
gap = shared_gap(p_logits, q_logits)
print("    T   rejected   gap / T")
for T in (5, 10, 20, 40, 80):
    print(
        f"{T:5}   {np.mean(1 - shared_rate(p_logits, q_logits, T)):.4f}     {np.mean(gap / T):.4f}"
    )

# %% [markdown]
# **Line 4: but not every degree helps.** "Hotter is better for shared T" is a statement about the
# limit. Two models that agree on their favourite and on nothing else lose first:

# %% id="prove-dip"
p_dip, q_dip = np.array([3.0, 0.0, -1.0]), np.array([3.0, -1.0, 0.5])
for T in (0, 0.5, 1, 1.5, 3, 10, 100):
    print(f"T = {T:<4} alpha = {float(shared_rate(p_dip, q_dip, T)):.3f}")

# %% [markdown]
# **Line 5: the gate needs no α.** A round of cost c K + v pays if and only if it emits more tokens
# than that on average: each token would have cost one forward. So the threshold of the gate *is*
# the cost. Whatever lowers the tokens, a temperature, a language, a user who pastes noise, the
# gate sees it. What it is worth on a made-up workload, over many seeds:

# %% id="prove-gate"
settings = Settings(window=12, threshold=2.0, hysteresis=0.3, probe=40)


def alpha_at(position):
    return 0.15 if 400 <= position < 1200 else 0.75


policies = {"gated": settings, "always drafting": Settings(threshold=0.0)}
for name, policy in policies.items():
    gains = []
    for seed in range(20):
        u = iter(np.random.default_rng(seed).random, None)
        gains.append(measure_gain(simulate_gate(policy, alpha_at, 1600, 4, 2.0, u)))
    print(f"{name:16} {np.mean(gains):.2f}x, from {min(gains):.2f}x to {max(gains):.2f}x")
print("never drafting   1.00x")

# %% [markdown]
# ## Program
#
# Four exercises. Logits come as arrays; `numpy` is imported as `np`.

# %% [markdown] exercise="7.1" role="intro"
# ### Exercise 7.1: the four acceptance rates
#
# Return the four rates of one context, in the order of the table at the top: shared T, greedy
# draft, exact match, draft left at T = 1. `p_logits` and `q_logits` are arrays (V,), and T > 0.
# Logits can be large: subtract the largest one before you call `np.exp`.


# %% exercise="7.1" role="answer" points=2
def four_rates(p_logits, q_logits, T):
    """(shared T, greedy draft, exact match, draft left at T = 1), four numbers."""

    ### BEGIN SOLUTION
    def softmax(logits):
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    p, q, left = softmax(p_logits / T), softmax(q_logits / T), softmax(q_logits)
    return np.minimum(p, q).sum(), p[q_logits.argmax()], p @ q, np.minimum(p, left).sum()
    ### END SOLUTION


# %% exercise="7.1" role="check"
from lessonlib.exercises import check

check("7.1", four_rates)

# %% [markdown] exercise="7.2" role="intro"
# ### Exercise 7.2: where the greedy draft breaks even
#
# `p_logits` and `q_logits` are arrays (n, V), a row for each context. The greedy draft's α at a
# temperature is the **mean over the rows** of p_T(argmax q). Return the T above which drafting K
# tokens at cost `c`, with verification `v`, no longer pays, to within 0.001. In every case you
# are given, α falls as T rises.
#
# * `break_even_alpha(K, c, v)` is imported above: the α that is needed, or None if none is enough.
# * Return `None` if it does not even pay at T = 0, and `math.inf` if it still pays at T = 100. Some
#   answers lie just below that.
# * `soften(logits, T)` is imported above, too. It takes any T from 0 on.


# %% exercise="7.2" role="answer" points=2
def break_even_temperature(p_logits, q_logits, K, c, v):
    """The T at which a greedy draft stops paying; None if it never pays, inf if always."""
    ### BEGIN SOLUTION
    needed = break_even_alpha(K, c, v)
    favourites = np.asarray(q_logits).argmax(axis=1)

    def pays(T):
        rows = soften(p_logits, T)
        return rows[np.arange(len(rows)), favourites].mean() >= needed

    if needed is None or not pays(0):
        return None
    if pays(100):
        return math.inf
    cold, hot = 0.0, 100.0
    for _ in range(40):
        middle = (cold + hot) / 2
        if pays(middle):
            cold = middle
        else:
            hot = middle
    return cold
    ### END SOLUTION


# %% exercise="7.2" role="check"
from lessonlib.exercises import check

check("7.2", break_even_temperature)

# %% [markdown] exercise="7.3" role="intro"
# ### Exercise 7.3: the controller
#
# A gate is three values, `Gate(mode, recent, waited)`. `mode` says what the next round does:
# `"draft"`, `"plain"` or `"probe"` (a draft on trial). `recent` holds the tokens of the drafted
# rounds in the window, the newest last; `waited` counts plain rounds. Return the gate after a
# round that emitted `tokens`. `settings` has `window`, `threshold`, `hysteresis` and `probe`.
#
# * **In mode "plain"** one more round was waited. Once `probe` rounds were waited, the next mode
#   is "probe", with an empty window and nothing waited.
# * **In the other modes** the round enters `recent`, of which only the last `window` rounds stay,
#   and `waited` is 0. As long as the window is not full, the mode stays.
# * **Once it is full**, its mean decides: at `threshold` or above the next mode is "draft", and the
#   window is kept; below it is "plain", with an empty window. A probe asks for more: `threshold`
#   plus `hysteresis`.


# %% exercise="7.3" role="answer" points=3
def step_gate(gate, tokens, settings):
    """The Gate after a round that emitted `tokens`; its mode is that of the next round."""
    ### BEGIN SOLUTION
    if gate.mode == "plain":
        if gate.waited + 1 == settings.probe:
            return Gate("probe", (), 0)
        return Gate("plain", (), gate.waited + 1)
    recent = (*gate.recent, tokens)[-settings.window :]
    if len(recent) < settings.window:
        return Gate(gate.mode, recent, 0)
    wanted = settings.threshold
    if gate.mode == "probe":
        wanted += settings.hysteresis
    if np.mean(recent) >= wanted:
        return Gate("draft", recent, 0)
    return Gate("plain", (), 0)
    ### END SOLUTION


# %% exercise="7.3" role="check"
from lessonlib.exercises import check

check("7.3", step_gate)

# %% [markdown] exercise="7.4" role="intro"
# ### Exercise 7.4: which way does it go?
#
# Before you measure: for each change say `True` if the number rises and `False` if it falls. The
# rates are those of the bundled pair on the code text, the speeds are the formula's.
#
# | | the number | the change |
# |---|---|---|
# | a | α of the rejection rule at shared T | from T = 1 to T = 3 |
# | b | α of the greedy draft | from T = 0.5 to T = 1.5 |
# | c | α of exact match | from T = 0.5 to T = 1.5 |
# | d | α of a draft left at T = 1 | while the target goes from T = 2 to T = 10 |
# | e | what a second guess adds to the α of a top-k tree | from T = 1 to T = 3 |
# | f | the best K of the sampled draft at shared T (c = 0.1, v = 1) | from T = 1 to T = 3 |
# | g | the speedup of the greedy draft at T = 1.5 (c = 0.1, v = 1) | from K = 1 to K = 6 |
# | h | the α that K = 4 needs to break even (v = 1) | from c = 0.1 to c = 0.3 |
# | i | the speedup at α = 0.8 and K = 4 on an H100 by the roofline | from batch 8 to batch 512 |


# %% exercise="7.4" role="answer"
def predict_changes():
    """{"a": True, "b": ...}: for each letter, whether the number rises."""
    ### BEGIN SOLUTION
    return {
        "a": True,
        "b": False,
        "c": False,
        "d": False,
        "e": False,
        "f": True,
        "g": False,
        "h": True,
        "i": False,
    }
    ### END SOLUTION


# %% exercise="7.4" role="check"
from lessonlib.exercises import check

check("7.4", predict_changes)

# %% [markdown]
# ## Profile
#
# Now the pair itself. This loads torch; give it a few seconds.

# %% id="profile-load"
from tqdm.auto import tqdm

from lessonlib.lab.contest import list_contestants
from lessonlib.lab.kinds import list_kinds, read_rows
from lessonlib.lab.pairs import load_pair
from lessonlib.lab.proposers import PLAIN
from lessonlib.lab.race import list_entrants, race
from lessonlib.lab.timing import count_repeats, measure_costs, time_interleaved
from lessonlib.lab.turns import measure_tau, split_round, summarize_ratios

pair = load_pair("bundled")
KINDS = list_kinds()
rows = {kind: read_rows(pair, text) for kind, text in KINDS.items()}
for kind, (p, _) in rows.items():
    print(f"{kind:6} {len(p)} contexts")

# %% [markdown]
# **What a round costs here**, and so what α must reach. Forwards of the two models, in turn.

# %% id="profile-costs" tags=["measured"]
costs = {K: measure_costs(pair.target, pair.draft, K) for K in tqdm((1, 2, 3, 4, 6))}
needed = {K: break_even_alpha(K, c, v) for K, (c, v) in costs.items()}
for K, (c, v) in costs.items():
    level = "no alpha is enough" if needed[K] is None else f"break-even alpha {needed[K]:.3f}"
    print(f"K = {K}: c = {c:.2f}, v = {v:.2f}, a round costs {c * K + v:.2f} forwards, {level}")

# %% [markdown]
# **α at fixed contexts.** The text stays the same for every temperature, only the rule's rows are
# softened: this is the effect of T on the rule and of nothing else. Code, prose (a docstring)
# and noise; the level lines are your break-even rates.

# %% id="profile-rates" tags=["measured"]
HEATS = (*(tenth / 10 for tenth in range(11)), 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10)
curves = {}
for kind, (p, q) in tqdm(rows.items()):
    found = np.array([[rate.mean() for rate in temperature.four_rates(p, q, T)] for T in HEATS]).T
    curves[kind] = dict(zip(RATES, found.tolist(), strict=True))
    curves[kind]["top-k tree"] = [chosen_rate(p, q, T, 2).mean() for T in HEATS]
print(f"{'':26}" + "".join(f"T = {T:<6}" for T in (0, 0.7, 1, 1.5, 2, 10)))
for kind, by_rule in curves.items():
    for rule, curve in by_rule.items():
        values = [curve[HEATS.index(T)] for T in (0, 0.7, 1, 1.5, 2, 10)]
        print(f"{kind:6}{rule:20}" + "".join(f"{value:<10.3f}" for value in values))
levels = {f"break-even, K = {K}": needed[K] for K in (1, 4) if needed[K]}
plot_rates(curves, HEATS, levels)

# %% [markdown]
# Read the pictures in three directions. *Down at the left:* at T = 0 three of the rules are one,
# and only the forgotten temperature hurts. *Along a line:* shared T climbs to 1, the rules that
# pass with p(x) sink, and the draft left at T = 1 has its best place somewhere around its own
# temperature. *Across the pictures:* noise leaves the draft little to agree on when it is cold,
# and makes hardly any difference when it is hot.
#
# **Where each rule pays**, for three draft lengths: between which temperatures its curve is above
# the break-even line. (Between the temperatures of the table the curves are joined by straight
# lines.)


# %% id="profile-crossings" tags=["measured"]
def find_spans(curve, level):
    """The ranges of T, as (from, to), in which the joined curve is at or above the level."""
    joined = partial(np.interp, xp=HEATS, fp=curve)
    edges = [0.0] * (curve[0] >= level)
    edges += [T for T, _ in find_crossings(joined, level, hottest=HEATS[-1])]
    edges += [math.inf] * (len(edges) % 2)
    return zip(edges[::2], edges[1::2], strict=True)


for kind, by_rule in curves.items():
    for rule in RATES:
        told = []
        for K in (1, 3, 6):
            spans = find_spans(by_rule[rule], needed[K]) if needed[K] else ()
            words = [
                f"{low:.2f} and hotter" if high == math.inf else f"{low:.2f} to {high:.2f}"
                for low, high in spans
            ]
            told.append(f"K = {K}: {' and '.join(words) or 'at no T'}")
        print(f"{kind:6}{rule:20} pays for", ";  ".join(told))

# %% [markdown]
# **What the text adds.** A hot target does not only flatten p; it also *writes* differently, and
# the draft must follow it onto strange ground. Keep the two apart: the same prompt, decoded
# plainly at each T, then both rates on the contexts of that text. Plain decoding is enough,
# because every rule writes text of the same law.

# %% id="profile-drift" tags=["measured"]
from lessonlib.decoding.loop import generate_batch
from lessonlib.decoding.sampling import Sampling

prompt = pair.encode(KINDS["code"])[-160:]
WARM = (0.5, 1, 1.5, 2, 3, 5)
own = {rule: [] for rule in RATES}
for T in tqdm(WARM):
    seeds = [np.random.default_rng([seed, int(10 * T)]) for seed in range(4)]
    traces = generate_batch(
        pair.target,
        [None] * 4,
        [prompt] * 4,
        coins=[iter(rng.random, None) for rng in seeds],
        max_new_tokens=28,
        sampling=Sampling(T),
    )
    found = []
    for trace in traces:
        text = prompt + trace.new_tokens
        p, q = (
            model.forward(text, model.new_cache()).logit_rows()[len(prompt) :]
            for model in (pair.target, pair.draft)
        )
        found.append([rate.mean() for rate in temperature.four_rates(p, q, T)])
    for rule, of_texts in zip(RATES, np.transpose(found), strict=True):
        own[rule].append(of_texts)
fixed = {rule: [curves["code"][rule][HEATS.index(T)] for T in WARM] for rule in RATES}
told = ("shared T", "greedy draft")
print("T     " + "".join(f"{rule + ': fixed / own text':36}" for rule in told))
for i, T in enumerate(WARM):
    cells = []
    for rule in told:
        mean, error = np.mean(own[rule][i]), np.std(own[rule][i], ddof=1) / len(seeds) ** 0.5
        cells.append(f"{fixed[rule][i]:.3f} / {mean:.3f} ± {error:.3f}")
    print(f"{T:<6}" + "".join(f"{cell:36}" for cell in cells))
plot_drift(
    WARM,
    {rule: fixed[rule] for rule in told},
    {rule: [np.mean(rates) for rates in own[rule]] for rule in told},
)

# %% [markdown]
# Behind ± stands the standard error over the four texts. The gap holds two things: the drift, and
# that a continuation of the prompt is another text than the prompt. So look at how the gap
# *changes* with T: where it is widest, the target is hot enough to leave the paths that both models
# learned, and not yet so hot that both are flat wherever they are.
#
# **The classic exercise, to the letter.** A technical code prompt, T = 1.5. Every proposer runs
# against plain decoding in five repeats, each with coins of its own. A stopwatch splits the rounds
# into the draft's forwards, the target's, and the rest (sampling, testing, keeping the books), all
# in units of a plain round. The speed is that of the median repeat; a verdict stands only where all
# repeats agree. K is 3 for everybody, so that the rules differ and nothing else. The last two lines
# are one and the same EAGLE-3 head of lesson 06: once its tokens are chosen for a tree, once they
# are drawn.

# %% id="profile-classic" tags=["measured"]
CONTESTANTS = list_contestants(pair)  # by name; yours is one more line
K, REPEATS = 3, count_repeats(5)
sizes = {name: one.size(K) for name, one in CONTESTANTS.items()}
entrants = list_entrants(pair.target, CONTESTANTS, sizes, tokens=24)


def judge(speed):
    """What all repeats agree on."""
    if speed["high"] < 1:
        return "slower"
    return "faster" if speed["low"] > 1 else "not clear"


with tqdm(total=REPEATS * len(entrants)) as bar:
    turns = {1.5: race(entrants, [prompt] * REPEATS, Sampling(1.5), bar.update)}
plain = turns[1.5][PLAIN]
print(f"{f'T = 1.5, K = {K}':20}  alpha   tau    draft + target + rest = cost   speed (low, high)")
for name in CONTESTANTS:
    played = turns[1.5][name]
    parts, speed = split_round(plain, played), summarize_ratios(plain, played)
    alpha = np.mean([turn.trace.alpha for turn in played])
    print(
        f"{name:20}  {alpha:.3f}   {measure_tau(played):.2f}   {parts[0]:5.2f} + {parts[1]:6.2f} + "
        f"{parts[2]:4.2f} = {sum(parts):4.2f}   {speed['median']:.2f}x ({speed['low']:.2f}, "
        f"{speed['high']:.2f})  {judge(speed)}"
    )

# %% [markdown]
# The speed of every line is its tau divided by its cost. In words:

# %% id="profile-why" tags=["measured"]
for name in CONTESTANTS:
    played = turns[1.5][name]
    (draft, target, rest), tau = split_round(plain, played), measure_tau(played)
    cost = draft + target + rest
    print(f"{name}: {tau:.2f} tokens for {cost:.2f} plain rounds,", end=" ")
    if tau < cost:
        dearest = max((draft, "drafting"), (target - 1, "verifying"), (rest, "the loop"))[1]
        print(f"{cost - tau:.2f} tokens short; {dearest} is what costs most on top")
    else:
        print(f"{tau - cost:.2f} tokens over")

# %% [markdown]
# A line can lose for two reasons. If its tau is close to 1, the rule failed: it drafts and
# verifies for nothing. If its tau is fine and it loses all the same, the costs are to blame, and a
# cheaper draft or a shorter one would help. Do not mix them up: the cures differ. (For a tree,
# α is the mean over single siblings; what counts is its tau.)
#
# **At which T does each proposer cross 1×?** Everyone at many temperatures takes minutes, so that
# race was recorded: it is the map of Play, at K = 3, five repeats each. A star means that all five
# agree on the side of 1×. At T = 0 the first three proposers are one and the same algorithm: how
# far their speeds differ there is the error of this table. The last two columns are your machine's.

# %% id="profile-heats" tags=["measured"]
from itertools import pairwise

RACED = recordings07.TEMPERATURES
with tqdm(total=REPEATS * len(entrants)) as bar:
    turns[0] = race(entrants, [prompt] * REPEATS, Sampling(0), bar.update)
grids = {
    name: [
        recordings07.look_up(name, field)[:, recordings07.LENGTHS.index(K)]
        for field in ("speedup", "low", "high")
    ]
    for name in CONTESTANTS
}
speeds = {
    name: [{"median": m, "low": low, "high": high} for m, low, high in zip(*grid, strict=True)]
    for name, grid in grids.items()
}


def find_crossings_of(row):
    """Where the clear verdicts change sides."""
    sides = [(T, judge(speed)) for T, speed in zip(RACED, row, strict=True)]
    clear = [(T, side) for T, side in sides if side != "not clear"]
    return [
        f"{'up' if later == 'faster' else 'down'} between {cold:g} and {hot:g}"
        for (cold, before), (hot, later) in pairwise(clear)
        if before != later
    ]


heads = "".join(f"{f'T = {T:g}':9}" for T in RACED)
print(f"{f'recorded, K = {K}':22}{heads}{'crosses 1x':26}here: T = 0   T = 1.5")
for name, row in speeds.items():
    cells = [f"{speed['median']:.2f}{' *'[judge(speed) != 'not clear']}" for speed in row]
    here = [summarize_ratios(turns[T][PLAIN], turns[T][name])["median"] for T in (0, 1.5)]
    crossed = ", ".join(find_crossings_of(row)) or "nowhere that is clear"
    cells = "".join(f"{cell:9}" for cell in cells)
    print(f"{name:22}{cells}{crossed:26}      {here[0]:.2f}    {here[1]:.2f}")

# %% [markdown]
# ### Two more ways to lose
#
# **A large batch.** Verification is cheap while the machine waits for its memory. Fill it with
# other people's sequences, and every drafted token is paid in full. The roofline of lesson 02
# predicts, `generate_batch` measures: rows in lockstep, one forward for all.

# %% id="profile-batch" tags=["measured"]
SIZES = (1, 2, 4, 8, 16, 32)
BEST = "EAGLE-3, drawn" if "EAGLE-3, drawn" in CONTESTANTS else "sampled, shared T"
sampling, starts = Sampling(1.5), pair.encode(KINDS["code"])


def decode_batch(size, name):
    """Every row starts somewhere else in the code text and decodes a few tokens."""
    proposer = CONTESTANTS.get(name)
    make = (lambda: proposer.make(sampling, sizes[name])) if proposer else lambda: None
    generate_batch(
        pair.target,
        [make() for _ in range(size)],
        [starts[8 * i : 8 * i + 2] for i in range(size)],  # short: a prefill is timed with it
        coins=[iter(np.random.default_rng(i).random, None) for i in range(size)],
        max_new_tokens=8,
        K=K,
        sampling=sampling,
    )


batched = {BEST: [], "greedy draft": []}
for size in tqdm(SIZES):
    runs = {name: partial(decode_batch, size, name) for name in (PLAIN, *batched)}
    seconds = time_interleaved(runs, repeats=2)
    for name, gains in batched.items():
        gains.append(seconds[PLAIN] / seconds[name])
best = turns[1.5][BEST]
alpha, c = np.mean([turn.trace.alpha for turn in best]), split_round(plain, best)[0] / K
print(f"batch   {BEST}   greedy draft   roofline of a laptop at alpha {alpha:.2f}, c {c:.2f}")
for i, size in enumerate(SIZES):
    roof = speedup(alpha, K, c, verify_cost(PRESETS["laptop"], K + 1, size))
    drawn, greedy = (gains[i] for gains in batched.values())
    print(f"{size:5}   {drawn:{len(BEST) - 1}.2f}x   {greedy:11.2f}x   {roof:.2f}x")
plot_batches(SIZES, batched)

# %% [markdown]
# The roofline is the machine at its peak and leaves out all that is not a matrix product; the
# measurement has everything in it. Compare the *shape* of the first column with that of the last.
#
# **A target too small for its draft.** Cut layers off the target. It gets cheaper, so the same
# draft gets dearer: c rises. α falls, too, because the draft was distilled from the whole target,
# so look at the column "perfect": what α = 1 would bring at these costs. In the last line the
# target drafts for itself: there α *is* 1, and c should be 1, so its distance from 1 is the error
# of c.

# %% id="profile-small" tags=["measured"]
from lessonlib.drafting.distill import keep_layers
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.proposers import Proposer

TRIES = {f"{n} layers": (keep_layers(pair.target, n), pair.draft) for n in (12, 6, 3, 2)}
TRIES["drafts for itself"] = (pair.target, pair.target)
told = []
for name, (target, draft) in tqdm(TRIES.items()):
    c, v = measure_costs(target, draft, K, repeats=7)
    sampled = Proposer(lambda sampling, _, draft=draft: SmallModelDrafter(draft, sampling))
    players = list_entrants(target, {name: sampled}, {name: sampled.size(K)}, tokens=16)
    done = race(players, [prompt] * REPEATS, Sampling(1.5))
    alpha = np.mean([turn.trace.alpha for turn in done[name]])
    measured = summarize_ratios(done[PLAIN], done[name])["median"]
    told.append(
        f"{name:20} {alpha:.3f}   {c:.2f}   {v:.2f}   {speedup(alpha, K, c, v):5.2f}x      "
        f"{(K + 1) / (c * K + v):5.2f}x    {measured:5.2f}x"
    )
print("target               alpha    c      v     predicted   perfect   measured")
print("\n".join(told))

# %% [markdown]
# ### What to do about it
#
# **Draw, do not choose.** Compare EAGLE-3's two lines above. One head, one price for a forward: the
# tree is for cold text, and the chain that hands over the rows it drew from is for hot text.
#
# **Draft less.** The best K depends on α, and so on T, as far as the costs leave it a choice. From
# your measured costs and the fixed contexts of the code text, the best K and what it gains (0
# means: do not draft):

# %% id="fix-shorter" tags=["measured"]
print(f"{'best K at':14}" + "".join(f"{f'T = {T:g}':11}" for T in RACED))
for rule in ("shared T", "greedy draft"):
    row = []
    for T in RACED:
        alpha = curves["code"][rule][HEATS.index(T)]
        gains = {0: 1.0} | {K: speedup(alpha, K, c, v) for K, (c, v) in costs.items()}
        best = max(gains, key=gains.get)
        row.append(f"{best}, {gains[best]:.2f}x")
    print(f"{rule:14}" + "".join(f"{cell:11}" for cell in row))

# %% [markdown]
# **Gate by temperature.** The request says its T. Look the best proposer up in the recorded race,
# and decode plainly where none of them is clearly faster:

# %% id="fix-gate-by-heat" tags=["measured"]
for i, T in enumerate(RACED):
    sure = {name: row[i] for name, row in speeds.items() if judge(row[i]) == "faster"}
    best = max(sure, key=lambda name: sure[name]["median"], default=PLAIN)
    print(f"T = {T:<4g} {best}" + (f", {sure[best]['median']:.2f}x" if sure else ""))

# %% [markdown]
# **Or watch the tokens.** The controller of exercise 7.3 knows neither T nor α. One text, three
# requests: T = 0, then T = 1.5, then T = 0 again. EAGLE-3's tree proposes (the greedy draft, if
# your pair has no such head), the gate lives on from request to request, and its threshold is the
# cost of a round as the race measured it.

# %% id="fix-controller" tags=["measured"]
from lessonlib.lab.serving import serve

PROPOSER = "EAGLE-3 tree" if "EAGLE-3 tree" in CONTESTANTS else "greedy draft"
REQUESTS = (0, 1.5, 0)
cost = float(np.median([sum(split_round(turns[T][PLAIN], turns[T][PROPOSER])) for T in (0, 1.5)]))
gate = Settings(window=8, threshold=cost, hysteresis=0.2, probe=16)
policies = {
    "gated": (CONTESTANTS[PROPOSER], gate),
    "always drafting": (CONTESTANTS[PROPOSER], Settings(threshold=0.0)),
    "never": (None, gate),
}
served = {name: [] for name in policies}
with tqdm(total=2 * len(policies)) as bar:
    for _ in range(2):
        for name, (proposer, settings) in policies.items():
            options = {"prompt": prompt, "tokens": 64, "K": K, "cost": cost, "seed": 2}
            served[name].append(serve(pair.target, proposer, REQUESTS, settings, **options))
            bar.update()
quick = {name: min(runs, key=lambda run: run.seconds) for name, runs in served.items()}
print(f"{PROPOSER}: a drafted round costs {cost:.2f} plain ones, that is the threshold")
print("policy             rounds drafted, by request   seconds")
for name, run in quick.items():
    shares = []
    for start, end in zip(run.starts, [*run.starts[1:], math.inf], strict=True):
        inside = [played for played in run.rounds if start <= played.start < end]
        shares.append(f"{np.mean([played.mode != 'plain' for played in inside]):.0%}")
    print(f"{name:18} {'   '.join(f'{share:>5}' for share in shares):28} {run.seconds:.3f}")
plot_timeline(
    quick["gated"].rounds, quick["always drafting"].rounds, gate, quick["gated"].starts, K
)

# %% [markdown]
# (A request's last token leaves no room for a draft, so "always" is a little less than all.)
#
# If your machine makes the proposer too dear even at T = 0, the gate says so: it stays shut, and
# its probes are all that it costs. That, too, is the right answer. And where one request is too
# short for a window, no gate can help: count how many rounds yours needed to notice.
#
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | shared T | "hot sampling kills speculation" | α is 1 − TV(p_T, q_T), and it tends to 1 |
# | deterministic draft | "the same as a sampled one" | passes with p_T(x): tends to 1/V |
# | exact match | "accept if it is the same token" | Σ p q: the row was lost, and α with it |
# | draft left at T = 1 | "temperature is the target's business" | warp both sides, or pay |
# | break-even α | "α is high enough" | high enough for this K, this c and this v |
# | drift | "hot text is hard" | an effect of the contexts, apart from the rule's |
# | hysteresis | "debouncing" | coming back takes more than staying |

# %% id="recap-1" tags=["hide-input"]
ask(
    '"We moved to T = 1.5 and acceptance fell to almost nothing." What do you ask first?',
    ["which draft model", "whether the draft's tokens are drawn, and at which T", "how long K is"],
    right=1,
    why="Chosen tokens and lost rows collapse. Drawn at the same T and tested with their row, they "
    "would not. A draft left at T = 1 loses little at first, and much where it gets really hot.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "A draft left at T = 1 serves a target at T = 1.5. What happens to the text?",
    ["it is drawn at T = 1", "something in between", "nothing, it follows p at T = 1.5"],
    right=2,
    why="It hands over the row it drew from, so the rule corrects for it. Only speed is lost; see "
    "the last column under line 1.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "Why does the gate draft again now and then, although it lost the last time?",
    ["to keep the draft's cache warm", "it cannot see that things changed while it is silent"],
    right=1,
    why="A plain round says nothing about drafting. Probes are the price of coming back, and "
    "hysteresis keeps a lucky probe from opening the gate.",
)

# %% [markdown]
# **Go further (open).** Give the gate a third answer besides all or nothing: let it choose K. Keep
# a window for each K, decode with the one that emits most tokens per cost, and probe the others
# now and then. What you have then is a bandit problem; *BanditSpec* (arXiv 2505.15141) works it
# out.
#
# Next (to follow): **08, other drafts**: proposers that need no draft model. Most of them choose.
