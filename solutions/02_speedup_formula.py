# %% [markdown]
# # 02 The speedup formula
#
# *What a round brings, divided by what it costs.*
#
# Lesson 01 proved that speculative decoding changes nothing about the text. This one asks what
# it changes about the clock. The answer is one fraction:
#
# $$\text{speedup} = \frac{E}{cK + v}, \qquad E = 1 + \alpha + \dots + \alpha^K
# = \frac{1 - \alpha^{K+1}}{1 - \alpha}$$
#
# Above the line stand the tokens that a round emits, below it what the round costs. In about an
# hour you will bend that fraction with sliders, prove it, program it, and hold its predictions
# against a clock.
#
# | symbol | meaning |
# |---|---|
# | K | drafted tokens per round |
# | α | acceptance rate: the chance that a drafted token passes |
# | E | expected tokens per round, and so per target forward |
# | c | t_draft(1) / t_target(1): one draft forward, in target forwards |
# | v(n) | t_target(n) / t_target(1): verifying n tokens at once; a round needs v = v(K + 1) |
# | K* | the draft length with the largest speedup |

# %% id="setup"
from fractions import Fraction

import numpy as np

from lessonlib.theory import speedup as theory
from lessonlib.theory.exactlaw import round_law
from lessonlib.theory.rejection import draw
from lessonlib.theory.roofline import PRESETS, largest_gaining_batch, verify_cost
from lessonlib.theory.verify import speculative_round
from lessonlib.widgets.batches import batch_on_the_roofline
from lessonlib.widgets.lesson02 import (
    map_of_K_and_alpha,
    mixed_contexts,
    plot_sweep,
    speedup_against_K,
)
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Predict
#
# Commit to an answer before anything moves.

# %% id="predict-longer" tags=["hide-input"]
ask(
    "A draft forward costs a twentieth of a target forward, and 8 of 10 drafted tokens pass. You "
    "raise K from 4 to 8, then to 16. What does the speedup do?",
    ["it rises both times", "it rises, then falls", "it falls both times"],
    right=1,
    why="Each further token is emitted only if all before it passed, so it brings less and less, "
    "while its price stays the same. Somewhere the two cross: that is K*.",
)

# %% id="predict-batch" tags=["hide-input"]
ask(
    "A server decodes hundreds of sequences in one batch. Compared with a single sequence, what "
    "does speculative decoding bring there?",
    ["more: every sequence gains", "the same", "less, down to a loss"],
    right=2,
    why="Verifying is cheap as long as the machine waits for its memory. A big batch keeps it "
    "busy with arithmetic already, and then every drafted token is paid in full. The third "
    "widget shows where.",
)

# %% id="predict-mean" tags=["hide-input"]
ask(
    "In half of the rounds α is 0.5, in the other half 0.9. You put the mean, 0.7, into the "
    "formula for E. Your estimate is",
    ["too low", "right", "too high"],
    right=0,
    why="E bends upwards: what good rounds gain outweighs what bad rounds lose. The proof below "
    "has a picture.",
)

# %% [markdown]
# ## Play
#
# **Where the speedup turns.** The dotted line is E, which rises for ever. The solid one is E
# divided by the cost. The axis doubles from line to line, so 2× lies as far above 1× as half
# speed lies below it. Slide c to 0: which line does the speedup follow now, and what became of
# K*?
#
# The last slider, s, is the price of verification: v(K + 1) = 1 + s K. Compare c = 0.1, s = 0
# with c = 0, s = 0.1. Why is it the same picture?

# %% id="play-speedup"
speedup_against_K()

# %% [markdown]
# **The whole landscape at one c.** Each row has its own best K, framed. Rows without a frame are
# hopeless: no K shown pays. Raise c and watch the frames move left, then vanish from the bottom
# up. In which rows are they gone?

# %% id="play-map"
map_of_K_and_alpha()

# %% [markdown]
# **Why verifying is cheap, and when not.** A forward reads every weight once, however many
# tokens it runs, and does two operations per weight and token. Few tokens: the machine waits
# for its memory, and more tokens cost nothing extra. Many tokens: arithmetic decides. Slide the
# batch until both dots have left the flat part of the roof, then change the machine.
#
# The figures are data-sheet peaks (their sources are in `lessonlib/theory/roofline.py`), so this
# is the best case. It leaves out the KV cache.

# %% id="play-roofline"
batch_on_the_roofline()

# %% [markdown]
# ## Prove
#
# **Line 1: who comes out?** Suppose each drafted token passes with the same chance α,
# independently. A round emits at least i + 1 tokens if and only if the first i drafts passed,
# which has probability $\alpha^i$, for i = 0, …, K. Here is the whole law of the count, in exact
# rationals.

# %% id="prove-law"
alpha, K = Fraction(4, 5), 4

exactly = {n: alpha ** (n - 1) * (1 - alpha) for n in range(1, K + 1)}  # stopped at draft n
exactly[K + 1] = alpha**K  # all passed, and the bonus token
at_least = {n: sum(exactly[m] for m in exactly if m >= n) for n in exactly}
for n in exactly:
    print(f"exactly {n}: {exactly[n]!s:>7}   at least {n}: {at_least[n]!s:>7}")
assert at_least == {n: alpha ** (n - 1) for n in exactly}
assert sum(exactly.values()) == 1

# %% [markdown]
# **Line 2: the mean.** A count's mean is the sum of its chances to be at least 1, at least 2,
# and so on. So $E = 1 + \alpha + \dots + \alpha^K$. Multiply by 1 − α and all but two terms
# cancel: $(1-\alpha)E = 1 - \alpha^{K+1}$.

# %% id="prove-sum"
mean = sum(n * weight for n, weight in exactly.items())
powers = sum(at_least.values())
closed = (1 - alpha ** (K + 1)) / (1 - alpha)
print("mean", mean, "  sum of powers", powers, "  closed form", closed, " =", float(closed))
assert mean == powers == closed

# %% [markdown]
# **Line 3: the real round.** So far α was a coin. Here is the round of lesson 01, accept and
# residual and bonus, on a language in which Σ min(p, q) = α in every context, enumerated in
# every possible world. Its mean length *equals* the formula.

# %% id="prove-round"


def constant_rows(alpha):
    """p and q over three tokens that overlap in alpha."""
    shared, rest = alpha / 3, 1 - alpha
    p = np.array([shared + rest, shared, shared])
    q = np.array([shared, shared + rest, shared])
    return p, q


p, q = constant_rows(Fraction(4, 5))
assert np.minimum(p, q).sum() == Fraction(4, 5)
for K in (1, 2, 3):
    law = round_law(speculative_round, lambda _: p, lambda _: q, K)
    mean = sum(len(tokens) * weight for tokens, weight in law.items())
    print(f"K = {K}: {len(law):3} outcomes, mean length {mean}")
    assert mean == theory.expected_tokens(Fraction(4, 5), K)

# %% [markdown]
# And sampled: rounds with real coins agree with the formula within the error that the sample
# itself states.

# %% id="prove-sampled"
rng = np.random.default_rng(0)
alpha, K, n = 0.8, 4, 2000
p, q = constant_rows(alpha)
lengths = []
for _ in range(n):
    drafted = [draw(q, u) for u in rng.random(K)]
    lengths.append(len(speculative_round([p] * (K + 1), [q] * K, drafted, rng.random(K + 1))))
error = np.std(lengths, ddof=1) / np.sqrt(n)
formula = theory.expected_tokens(alpha, K)
print(f"{n} rounds: {np.mean(lengths):.3f} ± {error:.3f} tokens, the formula says {formula:.3f}")
assert abs(np.mean(lengths) - formula) < 5 * error

# %% [markdown]
# **Line 4: the cost.** K draft forwards cost c K, and one target forward over K + 1 tokens costs
# v. Plain decoding gets one token for 1. Divide, and you have the speedup. The textbook sets
# v = 1.
#
# Now you can judge what is often copied. Each of these claims goes around; the formula disagrees.

# %% id="prove-claims"
for alpha, claim in ((0.6, 2.2), (0.9, 4.1)):
    E = theory.expected_tokens(alpha, 5)
    print(f"alpha {alpha}, 5 drafts: claimed {claim} tokens a round, it is {E:.2f}")
for alpha, c, claimed_K, claim in ((0.8, 0.05, "5-7", 3.2), (0.95, 0.02, "8-10", 5.0)):
    best = theory.best_draft_length(alpha, c)
    top = theory.speedup(alpha, best, c)
    print(
        f"alpha {alpha}, c {c}: claimed K {claimed_K} and {claim}x, it is K {best} and {top:.2f}x"
    )

# %% [markdown]
# **Line 5: when does any K pay?** At v = 1: if and only if **α > c**. If α > c, take K = 1: it
# gains, since 1 + α > 1 + c. If α ≤ c, every power $\alpha^i \le \alpha \le c$, so
# $E = 1 + \alpha + \dots + \alpha^K \le 1 + cK$, and no K gains. Longer drafts ask for more: this
# is the α at which a draft of K tokens just breaks even.

# %% id="prove-break-even"
print("   c    K = 1   K = 4   K = 8")
for c in (0.05, 0.1, 0.2, 0.35, 0.66):
    rates = [theory.break_even_alpha(K, c) for K in (1, 4, 8)]
    print(f"{c:.2f}  ", "   ".join(f"{rate:.3f}" for rate in rates))

# %% [markdown]
# The last two rows are GPT-2 drafting for GPT-2 medium, and distilGPT-2 for GPT-2, if time goes
# by the number of weights. The last draft is a fine model and much too dear.
#
# **Line 6: α is not one number.** Code is easy here and hard there, so rounds differ. E is a sum
# of powers of α, each of them convex: its curve bends upwards. The chord between two points of
# such a curve lies above it (Jensen), so the true mean of E lies above the E of the mean α.

# %% id="prove-jensen"
rates, shares = [Fraction(1, 2), Fraction(9, 10)], [Fraction(1, 2)] * 2
true = theory.expected_tokens_mixed(rates, shares, 4)
guess = theory.expected_tokens(sum(rates) / 2, 4)
print(f"true {float(true):.2f} tokens, from the mean alpha {float(guess):.2f}")
assert true > guess

# %% id="play-jensen"
mixed_contexts()

# %% [markdown]
# ## Program
#
# Four exercises. Use plain Python or NumPy; the functions you write are the ones a tuning tool
# needs.

# %% [markdown] exercise="2.1" role="intro"
# ### Exercise 2.1: tokens per round
#
# Return E for an acceptance rate `alpha` in [0, 1] and `K` ≥ 0 drafted tokens. Mind α = 1.


# %% exercise="2.1" role="answer"
def expected_tokens(alpha, K):
    """Mean number of tokens that one round emits."""
    ### BEGIN SOLUTION
    return sum(alpha**i for i in range(K + 1))
    ### END SOLUTION


# %% exercise="2.1" role="check"
from lessonlib.exercises import check

check("2.1", expected_tokens)

# %% [markdown] exercise="2.2" role="intro"
# ### Exercise 2.2: the best draft length
#
# Return K*, the whole number K ≥ 0 with the largest speedup at v = 1, for `alpha` in [0, 1). K = 0
# is plain decoding: return it when no draft pays.
#
# "What is the best K at α = 0.8?" has no answer. E alone grows with every further token; only a
# price makes an end of it. So `c` is an argument, and for `c = 0` your function returns `None`.


# %% exercise="2.2" role="answer" points=2
def best_draft_length(alpha, c):
    """The K with the largest speedup, or None if a draft costs nothing."""
    ### BEGIN SOLUTION
    if c == 0:
        return None
    last = int(alpha / ((1 - alpha) * c)) + 1  # E < 1 / (1 - alpha): beyond it nothing gains
    gains = [sum(alpha**i for i in range(K + 1)) / (c * K + 1) for K in range(last + 1)]
    return gains.index(max(gains))
    ### END SOLUTION


# %% exercise="2.2" role="check"
from lessonlib.exercises import check

check("2.2", best_draft_length)

# %% [markdown]
# The library's version, for three acceptance rates and several prices. Read down a column: the
# same α has a different best K for every c, and none at all for a free draft.

# %% id="demo-best-lengths"
print("    c   alpha 0.5         alpha 0.7         alpha 0.9")
for c in (0, 0.02, 0.05, 0.1, 0.2, 0.5):
    cells = []
    for alpha in (0.5, 0.7, 0.9):
        K = theory.best_draft_length(alpha, c)
        words = "none" if K is None else f"K* {K:2}, {theory.speedup(alpha, K, c):.2f}x"
        cells.append(f"{words:18}")
    print(f"{c:5}   " + "".join(cells).rstrip())

# %% [markdown] exercise="2.3" role="intro"
# ### Exercise 2.3: both curves
#
# For each N in `lengths`, compute E and the **time per token** in target forwards at v = 1: the
# cost of a round divided by its tokens. Return the two as arrays, E first.


# %% exercise="2.3" role="answer"
def sweep_lengths(alpha, c, lengths):
    """(E, time per token), two arrays with one value for each N in lengths."""
    ### BEGIN SOLUTION
    tokens = np.array([sum(alpha**i for i in range(N + 1)) for N in lengths])
    times = np.array([c * N + 1 for N in lengths]) / tokens
    return tokens, times
    ### END SOLUTION


# %% exercise="2.3" role="check"
from lessonlib.exercises import check

check("2.3", sweep_lengths)

# %% [markdown]
# The sweep for α = 0.9 and c = 0.04, from N = 1 to N = 10, computed by the library.

# %% id="demo-sweep"
lengths = range(1, 11)
tokens, times = theory.sweep_lengths(0.9, 0.04, lengths)
print(" N  tokens  time per token")
for N, E, time in zip(lengths, tokens, times, strict=True):
    print(f"{N:2}  {E:6.3f}  {time:.4f}")
plot_sweep(lengths, tokens, times)

# %% id="demo-explain" tags=["hide-input"]
ask(
    "Explain the right curve. At N = 10 the time per token is",
    [
        "at its minimum: more drafts no longer help",
        "still falling, and will fall for ever",
        "still falling, and will turn later",
    ],
    right=2,
    why="The last step still lowers it. But E cannot pass 1 / (1 - alpha), while the cost grows by "
    "c with each draft: it must turn. The next cell says where.",
)

# %% id="demo-turn"
best = theory.best_draft_length(0.9, 0.04)
_, times = theory.sweep_lengths(0.9, 0.04, [10, best, 2 * best])
print(f"best N {best}; time per token at 10, {best} and {2 * best}:", times.round(4))

# %% [markdown] exercise="2.4" role="intro"
# ### Exercise 2.4: predict a real speedup
#
# On a real machine v is not 1. Return the predicted speedup from four numbers you can measure:
# the acceptance rate, the draft length, `c`, and `v`, the cost of verifying all K + 1 tokens in
# one forward.


# %% exercise="2.4" role="answer" points=2
def predict_speedup(alpha, K, c, v):
    """Predicted speed relative to plain decoding, above 1 if drafting pays."""
    ### BEGIN SOLUTION
    emitted = sum(alpha**i for i in range(K + 1))
    return emitted / (c * K + v)
    ### END SOLUTION


# %% exercise="2.4" role="check"
from lessonlib.exercises import check

check("2.4", predict_speedup)

# %% [markdown]
# ## Profile
#
# Now predict, then measure, on the course's own pair. This loads torch; give it a few seconds.

# %% id="profile-load"
from lessonlib.lab.pairs import load_pair

pair = load_pair("bundled")
print(pair.target.shape)
print(pair.draft.shape)

# %% [markdown]
# **c and v on your machine.** Forwards of draft and target, taken in turn, medians. Beside them
# stands what the laptop's roofline says v should be. It is a bound for a machine at its peak;
# few rows of a small model do not reach that, and what is left over is yours to measure.

# %% id="profile-costs" tags=["measured"]
from tqdm.auto import tqdm

from lessonlib.lab.timing import measure_costs

LENGTHS = (1, 2, 4, 8)
costs = {K: measure_costs(pair.target, pair.draft, K) for K in tqdm(LENGTHS)}
print("K     c      v(K + 1)   v by the roofline")
for K, (c, v) in costs.items():
    print(f"{K}   {c:.3f}     {v:.2f}       {verify_cost(PRESETS['laptop'], K + 1):.2f}")

# %% [markdown]
# **α and τ.** The same prompts for each K, from modules that neither model was trained on. α is
# Σ min(p, q), averaged over the tested positions; τ counts tokens per target forward. And the
# clock: plain decoding and each K, taken in turn.

# %% id="profile-run" tags=["measured"]
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.corpus import cut_prompts
from lessonlib.lab.timing import time_interleaved

sampling = Sampling(temperature=1.0)
prompts = [pair.encode(text)[-200:] for text in cut_prompts(2)]
traces = {}
progress = tqdm(total=6 * (1 + len(LENGTHS)))  # a warm-up and five repeats


def decode_one(prompt, K):
    drafter = SmallModelDrafter(pair.draft, sampling) if K else None
    coins = iter(np.random.default_rng(7).random, None)
    return generate(
        pair.target, drafter, prompt, max_new_tokens=40, K=K, sampling=sampling, coins=coins
    )


def decode(K):
    traces[K] = [decode_one(prompt, K) for prompt in prompts]
    progress.update()


seconds = time_interleaved({K: lambda K=K: decode(K) for K in (0, *LENGTHS)})
progress.close()
for K in LENGTHS:
    drafted, accepted = sum(t.drafted for t in traces[K]), sum(t.accepted for t in traces[K])
    rounds = sum(len(t.rounds) for t in traces[K])
    print(f"K = {K}: drafted {drafted:3}, accepted {accepted:3}, rounds {rounds:3}")

# %% [markdown]
# **Predicted against measured.**

# %% id="profile-compare" tags=["measured"]
print("K    alpha  E(alpha)   tau    c K + v   predicted   measured")
predicted, measured = {0: 1.0}, {0: 1.0}  # K = 0 is plain decoding
for K, (c, v) in costs.items():
    tests = [test.alpha for trace in traces[K] for round in trace.rounds for test in round.tests]
    alpha, E = np.mean(tests), theory.expected_tokens(np.mean(tests), K)
    rounds = sum(len(trace.rounds) for trace in traces[K])
    tau = sum(len(trace.new_tokens) for trace in traces[K]) / rounds
    predicted[K], measured[K] = theory.speedup(alpha, K, c, v), seconds[0] / seconds[K]
    print(
        f"{K}    {alpha:.3f}    {E:.2f}     {tau:.2f}    {c * K + v:5.2f}      "
        f"{predicted[K]:.2f}x       {measured[K]:.2f}x"
    )
print("best K: predicted", max(predicted, key=predicted.get), end=", ")
print("measured", max(measured, key=measured.get))

# %% [markdown]
# Read the two halves apart. **E(α) against τ** tests the formula's upper half. They differ by the
# luck of a short run, and because α is not one number: rounds differ (line 6 lifts τ above E),
# and good rounds test more positions, so this mean counts them more (which lifts E).
#
# **Predicted against measured** also tests the lower half: c and v know the two forwards, and
# nothing of the loop around them, which samples, compares and keeps the books. A small model
# leaves that share large; a big one drowns it. And if a column stays below 1×, believe it, and
# look for the reason in c, in v or in α.
#
# **And in a batch?** You do not need a server to know where the gain ends on the roofline.

# %% id="profile-batches"
print("machine  c     K = 2   K = 4   K = 8    (the gain ends at this batch, at alpha 0.8)")
for name, preset in PRESETS.items():
    ends = [largest_gaining_batch(preset, 0.8, K) for K in (2, 4, 8)]
    print(f"{name:7}  {preset.c:.2f} ", "  ".join(f"{end:6.1f}" for end in ends))

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | E, τ | "the speedup" | tokens per target forward; E is predicted, τ is counted |
# | c | "the draft is free" | one draft forward in target forwards; without it there is no K* |
# | v(K + 1) | "verification is free" | near 1 while memory is the limit, up to K + 1 in a batch |
# | K* | "use 5" | the largest E / (c K + v); depends on α, c and v |
# | break-even α | "the draft must be good" | at v = 1 some K pays if and only if α > c |
# | mean α | "the acceptance rate" | one number for many contexts: over rounds, its E is too low |

# %% id="recap-1" tags=["hide-input"]
ask(
    '"Our draft has α = 0.9, so the best draft length is 10." What is missing?',
    ["nothing", "the costs c and v", "the temperature"],
    right=1,
    why="See the table of K*: the same α has another best K for every price, and none for c = 0.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "A run has τ = 3. How much faster than plain decoding is it?",
    ["3 times", "3 / (c K + v) times", "it depends on α"],
    right=1,
    why="τ is what a round brings, α included. What is left is what the round costs.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "distilGPT-2 has about two thirds of GPT-2's weights. When does it pay as a draft, at v = 1?",
    [
        "whenever it agrees with GPT-2 now and then",
        "only if α is above about two thirds, and more for K > 1",
        "never",
    ],
    right=1,
    why="Some K pays if and only if α > c. The last row of the break-even table has the numbers "
    "for longer drafts.",
)

# %% [markdown]
# **Go further (open).** The roofline here forgets the KV cache. At long contexts each sequence
# reads its own cache, in plain decoding and in verification alike, and that cost does not shrink
# with the batch. Add it to `forward_seconds` (bytes per cached token times context times batch)
# and find the context from which an H100 gains at *every* batch. *MagicDec* (arXiv 2408.11049)
# says why.
#
# Next: **03, tree masks**: more than one guess for the same position.
