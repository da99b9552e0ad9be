# %% [markdown]
# # 01 The Leviathan proof
#
# *Guess with q, correct with p, and nobody can tell.*
#
# A small **draft** model with distribution q proposes tokens. The large **target** model with
# distribution p accepts or replaces them. The claim that makes speculative decoding worth
# having: what comes out follows p **exactly**. Not nearly, not on average: exactly, for every
# p, every q and every draft length K.
#
# In about an hour you will see it, prove it line by line, program it, and measure it on a real
# model. Nothing here needs a network or a GPU.
#
# | symbol | meaning |
# |---|---|
# | p, q | next-token distributions of target and draft, after temperature, top-k and top-p |
# | K | drafted tokens per round |
# | law | the distribution of what comes out: of one token, or of several tokens jointly |
# | TV | total variation distance of two distributions, ½ Σ \|p − q\| |
# | α | acceptance rate, Σ min(p, q) |
# | residual | what p still lacks after acceptance: p − q, negative entries set to 0, normalised |
# | bonus | the extra token from p when all K are accepted |

# %% id="setup"
from fractions import Fraction

import numpy as np

from lessonlib.lab.recordings import load_contexts, load_round, pick_round
from lessonlib.theory.exactlaw import complete_law, round_law, target_law, total_variation
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.rejection import draw
from lessonlib.theory.toys import random_rows
from lessonlib.theory.verify import speculative_round as library_round
from lessonlib.widgets.lesson01 import drag_p_and_q, round_player, temperature_and_closeness
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Predict
#
# Before anything moves, commit to an answer. A wrong guess now is worth more than a right one
# later.

# %% id="predict-law" tags=["hide-input"]
ask(
    "The draft is poor: q is far from p. You accept token x with probability min(1, p(x)/q(x)) "
    "and otherwise draw from the residual. What distribution does the output have?",
    ["something between p and q", "p, exactly", "p, but only if q is close to p", "q, thinned out"],
    right=1,
    why="The rule repairs any q. A poor q costs speed, because less is accepted; it never costs "
    "correctness. The proof below shows why.",
)

# %% id="predict-alpha" tags=["hide-input"]
ask(
    "Raise the temperature of both models, from 1 to 10. What happens to the acceptance rate?",
    ["it falls towards 0", "it stays", "it rises towards 1"],
    right=2,
    why="Hot distributions are flat, and two flat distributions overlap. The second widget "
    "below shows it; lesson 07 shows which rules do collapse.",
)

# %% [markdown]
# ## Play
#
# **Drag p and q.** The overlap of the two is what gets accepted; what p has above q comes from
# the residual. Watch the last picture: whatever you drag, the two parts add up to the dots.
# Try *no overlap*: nothing is accepted, and the output is still p.

# %% id="play-drag"
drag_p_and_q()

# %% [markdown]
# **Real contexts.** These are the logits of the course's own model pair after four short
# texts. Slide the temperature, then move q towards p. α is computed over the whole vocabulary,
# also where only the likeliest tokens are drawn.

# %% id="play-temperature"
temperature_and_closeness(load_contexts())

# %% [markdown]
# **One round, step by step**, as the pair really played it: the draft proposes, the target looks
# at all positions in one forward, a coin decides each, and the first rejection ends the round.

# %% id="play-round"
round_player(load_round(), pick_round(load_round()))

# %% [markdown]
# ## Prove
#
# Take one position. The draft draws x from q; a uniform u decides. We compute the law of the
# token that comes out, one line at a time, and execute every line in exact rationals. Three
# tokens are enough to see every case: q too high, q too low, and q = p.

# %% id="prove-setup"
p = np.array([Fraction(1, 2), Fraction(1, 6), Fraction(1, 3)])
q = np.array([Fraction(1, 4), Fraction(5, 12), Fraction(1, 3)])


def show(name, row):
    print(f"{name:28}", "  ".join(f"{value!s:>5}" for value in row), "  sum", sum(row))


show("p", p)
show("q", q)

# %% [markdown]
# **Line 1.** Token x is drafted *and* kept with probability
# $q(x)\cdot\min\left(1, \frac{p(x)}{q(x)}\right) = \min(p(x), q(x))$.
# Multiply q into the minimum, and that is all.

# %% id="prove-line-1"
drafted_and_kept = np.array([q[x] * min(1, p[x] / q[x]) for x in range(3)])
show("q min(1, p/q)", drafted_and_kept)
show("min(p, q)", np.minimum(p, q))
assert (drafted_and_kept == np.minimum(p, q)).all()

# %% [markdown]
# **Line 2.** Some token is kept with probability
# $\alpha = \sum_x \min(p(x), q(x)) = 1 - \mathrm{TV}(p, q)$, where
# $\mathrm{TV}(p, q) = \frac12 \sum_x |p(x) - q(x)|$. A rejection happens with probability 1 − α.

# %% id="prove-line-2"
alpha = np.minimum(p, q).sum()
tv = abs(p - q).sum() / 2
print("alpha", alpha, "  TV", tv, "  alpha + TV", alpha + tv)
assert alpha + tv == 1

# %% [markdown]
# **Line 3.** After a rejection we draw from
# $r(x) = \frac{(p(x) - q(x))_+}{\sum_y (p(y) - q(y))_+}$, where $(\cdot)_+$ sets negative
# numbers to 0. The denominator is again 1 − α, because
# $(p - q)_+ = p - \min(p, q)$, and the sum of that is 1 − α.

# %% id="prove-line-3"
gap = np.maximum(p - q, 0)
show("(p - q)+", gap)
show("p - min(p, q)", p - np.minimum(p, q))
assert gap.sum() == 1 - alpha
residual_row = gap / gap.sum()
show("residual", residual_row)

# %% [markdown]
# **Line 4.** Add the two ways in which x can come out:
# $$P(x) = \underbrace{\min(p, q)}_{\text{kept}} + \underbrace{(1 - \alpha)}_{\text{rejected}}
# \cdot \frac{(p - q)_+}{1 - \alpha} = \min(p, q) + (p - q)_+ = p(x). \qquad\blacksquare$$
# q has cancelled. If p = q, a rejection has probability 0 and the residual, 0/0, is never
# needed.

# %% id="prove-line-4"
output = drafted_and_kept + (1 - alpha) * residual_row
show("output", output)
show("p", p)
assert (output == p).all()

# %% [markdown]
# **Line 5: K tokens and the bonus.** By line 4 the first token follows p. If it was a rejected
# one, the round ends, and the next round starts from the right context. If it was kept, the next
# position is the same situation, one token on, with p and q after the kept token. After K
# kept tokens the bonus is drawn from p itself. So by induction each token follows p *given the
# tokens before it*, and the **joint** law is the target's.
#
# An induction is a program. `round_law` runs a whole round in every possible world: each time
# the code compares a uniform with a threshold, the world splits in two, and the probabilities of
# all branches are added up. No sampling: with Fractions the two laws are *equal*, not close.

# %% id="prove-line-5"
K = 2
p_of, q_of = random_rows(4, seed=1, exact=True), random_rows(4, seed=2, exact=True)
law = complete_law(round_law(library_round, p_of, q_of, K), p_of, K + 1)
wanted = target_law(p_of, K + 1)
print("outcomes of", K + 1, "tokens:", len(wanted), "  laws equal:", law == wanted)
assert law == wanted

# %% [markdown]
# **Why joint?** Many wrong implementations get the *first* token right. Here is a zoo of them,
# with the exact distance (TV) from the target of the first token alone, and of K + 1 tokens
# jointly. The last line counts those that a test of one token lets through.

# %% id="prove-zoo"


def first_token(law):
    alone = {}
    for tokens, weight in law.items():
        alone[tokens[0]] = alone.get(tokens[0], 0) + weight
    return alone


unseen, K = 0, 2
print(f"{'mistake':30} first   joint of {K + 1}")
for name, wrong_round in MISTAKES.items():
    wrong = complete_law(round_law(wrong_round, p_of, q_of, K), p_of, K + 1)
    first = total_variation(first_token(wrong), first_token(wanted))
    joint = total_variation(wrong, wanted)
    unseen += first == 0 < joint
    print(f"{name:30} {float(first):.3f}   {float(joint):.3f}")
print("wrong, but right in the first token:", unseen)

# %% [markdown]
# Two of them have the right law: *accept-exact-match* and *bonus-missing* are lossless. They are
# wrong because they waste tokens, and the checks below notice that too: they compare what a
# round emits, not only what the text looks like in the end.
#
# ## Program
#
# Four exercises. Each check computes the exact law of *your* code, so it can often tell you
# which mistake you made.

# %% [markdown] exercise="1.1" role="intro"
# ### Exercise 1.1: acceptance probability
#
# `p` and `q` are rows of V probabilities, and token `x` was drawn from `q`. Return the
# probability of keeping it.


# %% exercise="1.1" role="answer"
def acceptance_probability(p, q, x):
    """Probability of keeping token x, a number in [0, 1]."""
    ### BEGIN SOLUTION
    return min(1.0, p[x] / q[x])
    ### END SOLUTION


# %% exercise="1.1" role="check"
from lessonlib.exercises import check

check("1.1", acceptance_probability)

# %% [markdown] exercise="1.2" role="intro"
# ### Exercise 1.2: residual
#
# Return the distribution (V,) that replaces a rejected token. If p equals q it is never
# needed; return p then, so that nothing divides by zero.


# %% exercise="1.2" role="answer" points=2
def residual(p, q):
    """The residual distribution, an array (V,) that sums to 1."""
    ### BEGIN SOLUTION
    missing = np.maximum(p - q, 0)
    if missing.sum() == 0:
        return p.copy()
    return missing / missing.sum()
    ### END SOLUTION


# %% exercise="1.2" role="check"
from lessonlib.exercises import check

check("1.2", residual)

# %% [markdown] exercise="1.3" role="intro"
# ### Exercise 1.3: one whole round
#
# `p_rows` (K + 1, V) and `q_rows` (K, V) are the rows of target and draft, `drafted` the K
# tokens drawn from `q_rows`, and `u` holds K + 1 uniforms: `u[j]` decides drafted token j.
# Return the list of emitted tokens: the accepted ones, then one more. That last token needs a
# uniform that has decided nothing yet; `u[K]` always is one.
#
# `draw(weights, uniform)` draws from a distribution and is imported above. The check hands you
# uniforms that have not been tossed yet, so compare them (`u[j] < ...`) or give them to `draw`.
# Use p and q themselves here (not your answers above), so that one slip does not cost two
# exercises.


# %% exercise="1.3" role="answer" points=3
def speculative_round(p_rows, q_rows, drafted, u):
    """The tokens of one round: 1 to K + 1 of them."""
    ### BEGIN SOLUTION
    emitted = []
    for j, x in enumerate(drafted):
        if u[j] >= p_rows[j][x] / q_rows[j][x]:
            missing = np.maximum(p_rows[j] - q_rows[j], 0)
            return [*emitted, draw(missing / missing.sum(), u[len(drafted)])]
        emitted.append(x)
    return [*emitted, draw(p_rows[len(drafted)], u[len(drafted)])]
    ### END SOLUTION


# %% exercise="1.3" role="check"
from lessonlib.exercises import check

check("1.3", speculative_round)

# %% [markdown] exercise="1.4" role="intro"
# ### Exercise 1.4: a test that is right
#
# Sooner or later you must judge a sampler you cannot enumerate. Popular tests go wrong twice:
# they ask for a distance that *no* sampler reaches with so few draws, or they compare with a
# second sample as if it were exact.
#
# Given `counts` of drawn tokens and the true `p` (all entries positive, every expected count at
# least 5), return three numbers:
#
# 1. the TV distance of the frequencies from p,
# 2. the **sampling floor**: the distance a *perfect* sampler has on average. For n draws the
#    expected |count/n − p| / 2 of one token is p (1 − p) · pmf(⌊np⌋; n − 1, p), with the
#    binomial pmf (de Moivre, 1730);
# 3. the p-value of the one-sample χ² test against n·p.

# %% exercise="1.4" role="answer" points=3
from scipy.stats import binom, chisquare


def one_sample_test(counts, p):
    """Return (TV distance, sampling floor, p-value)."""
    ### BEGIN SOLUTION
    n = counts.sum()
    distance = np.abs(counts / n - p).sum() / 2
    floor = (p * (1 - p) * binom.pmf(np.floor(n * p), n - 1, p)).sum()
    return distance, floor, chisquare(counts, n * p).pvalue
    ### END SOLUTION


# %% exercise="1.4" role="check"
from lessonlib.exercises import check

check("1.4", one_sample_test)

# %% [markdown]
# How near to p does a *perfect* sampler come? The floor answers without a single draw. For a
# vocabulary as large as GPT-2's, a test that demands TV < 0.01 fails everybody, even after a
# million draws.

# %% id="demo-floor"
from lessonlib.theory.empirical import sampling_floor

for vocab in (4, 32, 50_257):
    zipf = 1 / np.arange(1, vocab + 1)
    zipf /= zipf.sum()
    floors = [f"{n:>9,} draws: {sampling_floor(zipf, n):.4f}" for n in (10_000, 1_000_000)]
    print(f"vocabulary {vocab:>6,}   ", "   ".join(floors))

# %% [markdown]
# ## Profile
#
# Now the real pair, in float64, because we compare exact numbers first. This is the first cell
# that needs torch; give it a few seconds.

# %% id="profile-load"
from lessonlib.lab.pairs import load_pair

pair = load_pair("bundled", dtype="float64")
print(pair.target.shape)
print(pair.draft.shape)

# %% [markdown]
# **The proof on real rows.** At one context, over the whole vocabulary: accepted part plus
# residual part is p to rounding.

# %% id="profile-exact"
from lessonlib.decoding.sampling import Sampling
from lessonlib.theory.rejection import acceptance_rate
from lessonlib.theory.rejection import residual as library_residual

sampling = Sampling(temperature=1.0)
prompt = pair.encode("import os\n\n\ndef read_config(path):\n    with open(path")
p_real, q_real = (
    sampling.probabilities(model.forward(prompt, model.new_cache()).logit_rows()[-1])
    for model in (pair.target, pair.draft)
)
alpha_real = acceptance_rate(p_real, q_real)
output = np.minimum(p_real, q_real) + (1 - alpha_real) * library_residual(p_real, q_real)
print(f"{p_real.size} tokens, alpha {alpha_real:.2f}")
print("largest error below 1e-12:", bool(abs(output - p_real).max() < 1e-12))

# %% [markdown]
# **And sampled, with the right test.** Thousands of rounds at that context: draft, accept or
# replace. The distance is at the floor, and the test finds nothing. Below it, the draft alone.

# %% id="profile-sampled"
from lessonlib.theory.empirical import one_sample_test as library_test

rng = np.random.default_rng(0)
n = 5_000
drafted = [draw(q_real, u) for u in rng.random(n)]
p_rows, q_rows = np.array([p_real, p_real]), np.array([q_real])
emitted = [library_round(p_rows, q_rows, [x], rng.random(2))[0] for x in drafted]
for name, tokens in (("speculative", emitted), ("draft alone", drafted)):
    distance, floor, p_value = library_test(np.bincount(tokens, minlength=p_real.size), p_real)
    verdict = "cannot be told from p" if p_value > 1e-6 else "is not p"
    print(f"{name:12} TV {distance:.3f}   floor {floor:.3f}   {verdict}")

# %% [markdown]
# **What it buys.** Tokens per target forward (τ) and acceptance rate (α) on prompts from
# modules that neither model was trained on, for several K.

# %% id="profile-tau"
from lessonlib.decoding.loop import generate
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.corpus import cut_prompts

pair = load_pair("bundled")  # in float32 now, as one would run it
prompts = [pair.encode(text)[-200:] for text in cut_prompts(6)]


def run(prompt, K, drafted=True):
    drafter = SmallModelDrafter(pair.draft, sampling) if drafted else None
    coins = iter(np.random.default_rng(7).random, None)
    return generate(
        pair.target, drafter, prompt, max_new_tokens=48, K=K, sampling=sampling, coins=coins
    )


# %% id="profile-tau-table" tags=["measured"]
print(" K   alpha    tau   drafted   accepted   rounds")
for K in (1, 2, 4, 8):
    traces = [run(prompt, K) for prompt in prompts]
    drafted, accepted = sum(t.drafted for t in traces), sum(t.accepted for t in traces)
    rounds, alpha = sum(len(t.rounds) for t in traces), np.mean([t.alpha for t in traces])
    tau = sum(len(t.new_tokens) for t in traces) / rounds
    print(f"{K:2}   {alpha:.3f}  {tau:5.2f}   {drafted:7}   {accepted:8}   {rounds:6}")

# %% [markdown]
# **In seconds, on your machine**, against plain decoding of the same target by the same code,
# taken in turn. More tokens per forward is not yet speed. A draft forward costs c target
# forwards, and checking K + 1 tokens at once costs v of them; where c K + v is above τ, speculative
# decoding *loses*. Lesson 02 has the whole formula.

# %% id="profile-seconds" tags=["measured"]
from lessonlib.lab.timing import measure_costs, time_interleaved

contestants = {"plain": lambda: run(prompts[0], 0, drafted=False)}
contestants |= {f"K = {K}": lambda K=K: run(prompts[0], K) for K in (2, 4, 8)}
seconds = time_interleaved(contestants)
for name, value in seconds.items():
    print(f"{name:6}  {value:.3f} s   {seconds['plain'] / value:.2f}x")
for K in (2, 4, 8):
    c, v = measure_costs(pair.target, pair.draft, K)
    tau = run(prompts[0], K).tau
    print(f"K = {K}: tau {tau:.2f} against c K + v = {c:.2f} x {K} + {v:.2f} = {c * K + v:.2f}")

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | lossless | "the quality stays about the same" | the joint law of the output *is* the target's |
# | acceptance rate α | "how often the draft is right" | Σ min(p, q) = 1 − TV(p, q) at one context |
# | residual | "sample again from the target" | draw from (p − q)₊ normalised, never from p |
# | bonus token | "a free token" | drawn from p, row K: the target looked there anyway |
# | rejection | "the draft was wrong" | a coin came up; the token may have been likely under p |

# %% id="recap-1" tags=["hide-input"]
ask(
    "After a rejection, why not draw the replacement from p itself?",
    [
        "it would be slower",
        "tokens that q hardly ever proposes would come out too rarely",
        "it would be fine, p is the target after all",
    ],
    right=1,
    why="Kept tokens already deliver min(p, q). Adding a share of p gives tokens with p below q "
    "more than p in total, so others get less. Only (p - q)+ closes the gap exactly.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "A colleague's test draws 10 000 tokens from a 50 257-token vocabulary and demands TV < 0.01.",
    ["reasonable", "too lax", "no sampler can pass it"],
    right=2,
    why="The sampling floor computed above is far larger. Compute the floor first, then choose n.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "An implementation reuses one uniform for all K acceptance tests. Which test sees it?",
    ["the law of the first token", "the joint law of K + 1 tokens", "none, uniforms are uniform"],
    right=1,
    why="The first token is right. From the second on the coin is no longer fair: the first test "
    "has already looked at it. See accept-on-one-coin above.",
)

# %% [markdown]
# **Go further (open).** Sun et al. 2024 (*Block Verification*, arXiv 2403.10444) accept drafted
# tokens *jointly* and emit at least as many per forward, still losslessly. Write
# it as a `round(p_rows, q_rows, drafted, u)`, give it to `round_law`, and see the joint law agree
# while the emitted lengths differ.
#
# Next: **02, the speedup formula**: when does all this make text faster?
