# %% [markdown]
# # 00 Start here
#
# *A small model guesses ahead, a large one checks, and the text is the large one's.*
#
# A language model writes one token per forward pass, and each pass reads all its weights.
# **Speculative decoding** lets a cheap **draft** model guess the next K tokens; the expensive
# **target** model looks at all of them in *one* forward and keeps those it agrees with. Done
# right, the text follows the target's distribution exactly. Done well, it is faster.
#
# One **round** is: the draft guesses K tokens, the target runs once, some guesses are kept, and
# the target itself adds one token. How many guesses are kept depends on how alike the models are:
# **α** is the chance that a *tested* guess is kept (those behind a failed one are never tested),
# and **τ** counts the tokens per target run.
#
# This lesson takes about 45 minutes. It checks your machine, introduces the two models you will
# use all course long, and shows how exercises are checked. You need no GPU and no network.

# %% id="setup"
from lessonlib.lab import doctor
from lessonlib.lab.recordings import load_runs
from lessonlib.widgets.lesson00 import recorded_runs
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Your machine
#
# Every line should start with `[OK]`; a `[FAIL]` says how to mend it.

# %% id="doctor" tags=["measured"]
doctor.show()

# %% [markdown]
# ## Predict

# %% id="predict-checking" tags=["hide-input"]
ask(
    "The draft guessed 4 tokens. How many forward passes does the target need to check them?",
    ["four, one for each token", "one", "none, the draft is trusted"],
    right=1,
    why="A causal model computes the next-token distribution at every position of its input at "
    "once. You will see this on the real model in a minute.",
)

# %% id="predict-worst" tags=["hide-input"]
ask(
    "The target rejects the very first guess. What did the round bring?",
    ["nothing, the forward was wasted", "one token, as plain decoding would", "two tokens"],
    right=1,
    why="The forward that rejects a token also says what should stand there. A round never "
    "brings less than one token; what it costs is the time spent drafting.",
)

# %% [markdown]
# ## Play
#
# These are recorded runs of the course's model pair: one prompt, one seed, every K and
# temperature. Each underline says where a token came from. **Drafted** tokens were guessed and
# accepted, a **recovered** token replaces a rejected guess, and a **bonus** token comes on top
# when all K guesses were right.
#
# Slide K. More guesses per round, but what happens to the share that is accepted?

# %% id="play-runs"
recorded_runs(load_runs())

# %% [markdown]
# ## Prove
#
# Everything rests on one fact: **one forward over n tokens gives the same answers as n forwards
# over one token each.** Here are both, on the real target. The first cell that loads a model
# takes a few seconds.

# %% id="prove-load"
from lessonlib.lab.pairs import load_pair

pair = load_pair("bundled")
for name, model in (("target", pair.target), ("draft", pair.draft)):
    print(f"{name:6}", model.shape)

# %% id="prove-one-forward"
tokens = pair.encode("def read_config(path):\n    with open(path) as file:\n")
at_once = pair.target.forward(tokens, pair.target.new_cache()).logits

cache = pair.target.new_cache()
one_by_one = [pair.target.forward([token], cache).logits[0] for token in tokens]

difference = max(float((a - b).abs().max()) for a, b in zip(at_once, one_by_one, strict=True))
print(len(tokens), "tokens; largest difference of any logit below 1e-3:", difference < 1e-3)

# %% [markdown]
# What is left is rounding: float32 adds up in another order. In float64 it all but vanishes, which
# is why the course uses float64 wherever two texts must be equal token by token.

# %% id="prove-float64"
exact = load_pair("bundled", dtype="float64").target
at_once = exact.forward(tokens, exact.new_cache()).logits
cache = exact.new_cache()
one_by_one = [exact.forward([token], cache).logits[0] for token in tokens]
difference = max(float((a - b).abs().max()) for a, b in zip(at_once, one_by_one, strict=True))
print("in float64, below 1e-10:", difference < 1e-10)

# %% [markdown]
# ## Program
#
# Exercises look like this: a heading, a function to finish, and a check. Replace the line
# `raise NotImplementedError(...)`, run the cell, then run the check. It prints one line: *ok*,
# *wrong* with the reason, *error*, or *not attempted*. Hints are folded away below each check.
# You can always run the whole notebook: later cells use the library's version, not yours.
#
# Stuck? `hint("0.1")` shows the next hint, and after one attempt `solution("0.1")` shows a worked
# solution (import both as `check` is imported below). In a terminal, `python course.py progress`
# lists what you have solved and `python course.py reset 0.1` gives you the empty exercise back.

# %% [markdown] exercise="0.1" role="intro"
# ### Exercise 0.1: how many guesses survive?
#
# `passed` says for each drafted token whether its test passed. A token behind a failed one
# stands in a text that no longer exists, so it is worth nothing. Return how many survive.


# %% exercise="0.1" role="answer"
def count_accepted(passed):
    """How many drafted tokens survive: [True, False, True, True] gives 1."""
    ### BEGIN SOLUTION
    survivors = 0
    for ok in passed:
        if not ok:
            break
        survivors += 1
    return survivors
    ### END SOLUTION


# %% exercise="0.1" role="check"
from lessonlib.exercises import check

check("0.1", count_accepted)

# %% [markdown] exercise="0.2" role="intro"
# ### Exercise 0.2: τ, the tokens per forward
#
# `accepted` holds the number of accepted guesses of each round. Every round costs one target
# forward. Return τ: tokens emitted per target forward. Mind the token that closes each round.


# %% exercise="0.2" role="answer"
def tokens_per_forward(accepted):
    """τ of a run, given the accepted guesses of each round."""
    ### BEGIN SOLUTION
    emitted = sum(accepted) + len(accepted)
    return emitted / len(accepted)
    ### END SOLUTION


# %% exercise="0.2" role="check"
from lessonlib.exercises import check

check("0.2", tokens_per_forward)

# %% [markdown]
# ## Profile
#
# A live run, two ways. The texts differ, because the random draws do; the distribution they come
# from is the same. Plain decoding (K = 0) needs one target forward per token. Count the forwards
# first; seconds come after.

# %% id="profile-run"
import numpy as np

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter

sampling = Sampling(temperature=0.8)
prompt = pair.encode("def read_config(path):\n")


def run(K):
    drafter = SmallModelDrafter(pair.draft, sampling) if K else None
    coins = iter(np.random.default_rng(1).random, None)
    return generate(
        pair.target, drafter, prompt, max_new_tokens=64, K=K, sampling=sampling, coins=coins
    )


# %% id="profile-forwards" tags=["measured"]
for K in (0, 4):
    trace = run(K)
    print(f"K = {K}: {len(trace.new_tokens)} tokens, {len(trace.rounds)} target forwards")
    print(pair.decode(trace.new_tokens), "\n")

# %% [markdown]
# And in seconds, taken in turn on your machine. If speculative decoding loses here, believe it:
# this target is small, so a forward saved is little time saved. Whether it wins depends on α, on
# K and on how much cheaper the draft is. That arithmetic is lesson 02.

# %% id="profile-seconds" tags=["measured"]
from lessonlib.lab.timing import time_interleaved

seconds = time_interleaved({f"K = {K}": lambda K=K: run(K) for K in (0, 2, 4)})
for name, value in seconds.items():
    print(f"{name}: {value:.3f} s   {seconds['K = 0'] / value:.2f}x")

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | target | "the big model" | the model whose distribution p the output must follow |
# | draft | "the small model" | anything that proposes tokens, with the q they were drawn from |
# | round | "a step" | draft K, one target forward, accept some, emit one more |
# | τ | "the speedup" | tokens per target forward; it ignores what drafting costs |
# | recovered, bonus | "the extra token" | what closes a round, after a failed guess or none |

# %% id="recap-1" tags=["hide-input"]
ask(
    "Tests passed: [True, True, False, True]. How many tokens does the round emit?",
    ["2", "3", "4"],
    right=1,
    why="Two survive, and a recovered token replaces the third. The fourth is void.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "Can a run with τ = 2 be slower than plain decoding?",
    ["yes", "no"],
    right=0,
    why="Drafting costs time, and checking K + 1 tokens may cost more than one token.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "Why does the course compare tokens in float64?",
    [
        "float64 is faster",
        "in float32 two right computations may round to different tokens",
        "GPT-2 was trained in float64",
    ],
    right=1,
    why="Where two logits nearly tie, the order of additions decides. In float64 such ties "
    "are rare enough to be ignored.",
)

# %% [markdown]
# **Go further (open).** In a terminal, `python course.py demo --prompt "class Reader:" --K 6`
# runs the pair on any prompt. Find a prompt on which τ is above 3, and one on which it stays
# near 1. What tells them apart?
#
# Next: **01, the Leviathan proof**: why the text is the target's, exactly.
