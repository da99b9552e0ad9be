# %% [markdown]
# # 03 Tree masks
#
# *Ask for several futures, pay for one look.*
#
# A chain of guesses dies with its first rejection, and everything behind it was drafted for
# nothing. So draft **several guesses** for the next token, and several below each of those: a
# **tree**. The target still runs once. A mask tells every drafted token which text it belongs
# to, and the accepted path is one way down the tree. The output law is still p, exactly, if the
# rejection rule is taught about siblings.
#
# In about an hour you will build the mask, check one forward against many, find the acceptance
# rule that keeps the law (and see a popular one that does not), and measure a tree against a
# chain on a real model. Nothing here needs a network or a GPU.
#
# | symbol | meaning |
# |---|---|
# | node | a drafted token; its **parent** is another node, or −1: the text |
# | siblings | nodes with one parent: rival guesses for the same place |
# | depth | 0 right below the text, one more at each step down |
# | prefix | how many tokens are in the cache before the tree |
# | [2, 2, 2] | two guesses for the next token, two below each, two below each of those |

# %% id="setup"
from fractions import Fraction

import numpy as np

from lessonlib.theory import treemask
from lessonlib.theory.exactlaw import total_variation
from lessonlib.theory.rejection import draw, residual
from lessonlib.theory.sibling_mistakes import SIBLING_MISTAKES, best_accepted, own_target_samples
from lessonlib.theory.siblings import RULES, sibling_law, token_law
from lessonlib.theory.siblings import accept_sibling as library_accept
from lessonlib.theory.toys import random_rows
from lessonlib.widgets.lesson03 import accepted_paths, tree_against_chain, tree_builder
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Predict
#
# Commit to an answer first.

# %% id="predict-position" tags=["hide-input"]
ask(
    "Two siblings are verified in one forward, in rows 5 and 6 behind a text of 5 tokens. Which "
    "position does the second sibling get?",
    ["6, it is in row 6", "5, the same as its sibling", "it needs none"],
    right=1,
    why="Each sibling is a guess for the *same* place, the sixth token, and positions count "
    "from 0. The row in the batch is bookkeeping; the position is part of the text.",
)

# %% id="predict-best" tags=["hide-input"]
ask(
    "Two siblings both pass their acceptance test. You keep the one the target likes better. "
    "What does that do to the output?",
    [
        "nothing, both were accepted",
        "it follows p a little better",
        "it no longer follows p",
    ],
    right=2,
    why="Each test is fair only if nobody chooses among the results. Preferring the likelier "
    "one makes likely tokens come out too often. You will see by how much, exactly.",
)

# %% [markdown]
# ## Play
#
# **Build a tree.** Slide its shape, then click a node. Its row of the mask lights up: the whole
# prefix, its ancestors, itself, and nothing else. Set branching to 1: what does the mask of a
# chain look like?

# %% id="play-builder"
tree_builder()

# %% [markdown]
# **Which path is accepted?** A made-up pair of models drafts the tree [2, 2, 2] for 100 rounds.
# Slide the temperature and choose how siblings are drawn. Two things to look for: how much the
# second guess brings, and which way of drawing suffers when the temperature rises.

# %% id="play-paths"
accepted_paths()

# %% [markdown]
# **Tree or chain?** The target looks at 14 drafted tokens either way. A chain goes deep, a tree
# goes wide. Slide how often a first guess passes. Where do the curves cross?

# %% id="play-shapes"
tree_against_chain()

# %% [markdown]
# ## Prove
#
# **One forward is enough.** A causal transformer computes the row of a token from what it may
# look at, and from positions. Give a node exactly the tokens of its own text, at the positions
# they have there, and its row is the one it would get alone. The mask does the first, positions
# by depth the second. Here both are, for the smallest tree that shows everything:
#
#     t t t ─┬─ 0 ─┬─ 2
#            │     └─ 3
#            └─ 1 ─── 4

# %% id="prove-mask"
parents, prefix = (-1, -1, 0, 0, 1), 3
print("depths   ", treemask.find_depths(parents))
print("positions", treemask.find_positions(parents, prefix))
print(treemask.build_mask(parents, prefix).astype(int))

# %% [markdown]
# **Several guesses, one law.** Siblings are tested one after another. The first is lesson 01:
# kept with probability min(1, p/q). If it is rejected, the token must come from the residual
# $p_1 = (p - q)_+ / \lVert (p - q)_+ \rVert$. In lesson 01 we drew from $p_1$ at once. But
# drawing from $p_1$ is again a task for speculative decoding: take the next sibling as a
# draft *for $p_1$*, keep it with probability min(1, p₁/q), and so on. Each step follows the
# distribution that the step before asked for, so by induction the token follows p. $\blacksquare$
#
# Nothing in this says how the siblings were drawn, as long as each is divided by **the row it was
# really drawn from**:
#
# | siblings | row of the next sibling |
# |---|---|
# | independent | q again; a twin of a rejected token is rejected for certain |
# | without replacement | q without the tokens before it, renormalised |
# | top-k, not drawn at all | one-hot: kept with probability p(x), else x is struck out |
#
# The exact law of the rule, under all three, as in lesson 01: every outcome is enumerated.

# %% id="prove-rules"
p, q = random_rows(4, seed=1)(()), random_rows(4, seed=2)(())
wanted = dict(enumerate(p))
print("siblings               TV from p   accepted")
for rule in RULES:
    for count in (1, 2):
        law = sibling_law(library_accept, p, q, rule, count)
        accepted = sum(weight for (child, _), weight in law.items() if child is not None)
        tv = total_variation(token_law(law), wanted)
        print(f"{count} {rule:20} {abs(round(tv, 12)):.3f}       {accepted:.3f}")
        assert tv < 1e-12

# %% [markdown]
# The second sibling never costs correctness. What it brings depends on the rule.
#
# **A popular rule that is wrong:** test all siblings, then keep the *best* accepted path. Take
# a perfect draft, p = q, two equally likely tokens, two independent siblings. Every test passes,
# so the rule picks token 0 whenever it was drafted at all.

# %% id="prove-best"
half = np.array([Fraction(1, 2), Fraction(1, 2)])
law = token_law(sibling_law(best_accepted, half, half, "independent", 2))
print("best accepted:", {x: str(w) for x, w in sorted(law.items())})
print("TV from p:", total_variation(law, dict(enumerate(half))))

# %% [markdown]
# **Another one:** give every candidate row a target sample of its own, and accept the row that
# matches. One node has one next token; several samples are several chances for what was drafted.

# %% id="prove-own-samples"
p_rare = np.array([Fraction(7, 20), Fraction(13, 20)])
always_0 = np.array([Fraction(1), Fraction(0)])
law = token_law(sibling_law(own_target_samples, p_rare, always_0, "independent", 2))
print(f"p(0) = {float(p_rare[0]):.2f}, but token 0 comes out with probability {float(law[0]):.4f}")

# %% [markdown]
# **The whole zoo**, each mistake under the rule that shows it worst. A distance of 0 means the
# law is right and only acceptances are wasted.

# %% id="prove-zoo"
print(f"{'mistake':28} TV     shown by siblings drawn")
for name, wrong in SIBLING_MISTAKES.items():
    distances = {
        rule: total_variation(token_law(sibling_law(wrong, p, q, rule, 2)), wanted)
        for rule in RULES
    }
    worst = max(distances, key=distances.get)
    seen = distances[worst] > 1e-12
    print(f"{name:28} {distances[worst] * seen:.3f}  {worst if seen else '-'}")

# %% [markdown]
# ## Program
#
# Five exercises. A tree comes as `parents`: one number for each node, −1 for the text, and
# parents come before their children.

# %% [markdown] exercise="3.1" role="intro"
# ### Exercise 3.1: the mask
#
# Return the mask of n nodes behind `prefix` cached tokens: a boolean array (n, prefix + n),
# True where a node may look. Row i is node i. The first `prefix` columns are the cached tokens,
# then comes one column for each node.


# %% exercise="3.1" role="answer" points=2
def build_mask(parents, prefix):
    """Who may look at whom, a boolean array (n, prefix + n)."""
    ### BEGIN SOLUTION
    n = len(parents)
    visible = np.hstack([np.ones((n, prefix), dtype=bool), np.eye(n, dtype=bool)])
    for node, above in enumerate(parents):
        if above >= 0:
            visible[node] |= visible[above]
    return visible
    ### END SOLUTION


# %% exercise="3.1" role="check"
from lessonlib.exercises import check

check("3.1", build_mask)

# %% [markdown] exercise="3.2" role="intro"
# ### Exercise 3.2: positions
#
# Return the position of every node: n whole numbers. Positions count from 0, so the `prefix`
# cached tokens stand at 0 to prefix − 1.


# %% exercise="3.2" role="answer"
def find_positions(parents, prefix):
    """The position of each node in its own text, an array (n,) or a list."""
    ### BEGIN SOLUTION
    places = []
    for above in parents:
        places.append(prefix if above < 0 else places[above] + 1)
    return places
    ### END SOLUTION


# %% exercise="3.2" role="check"
from lessonlib.exercises import check

check("3.2", find_positions)

# %% [markdown] exercise="3.3" role="intro"
# ### Exercise 3.3: one forward, and the proof that it is right
#
# `model(tokens, mask, positions)` runs m tokens at once, without a cache: a boolean mask (m, m),
# m positions, and out come logits (m, V). `text` is a list of tokens, `tokens` and `parents` are
# the drafted tree below the last of them. Return two arrays (n, V), a row for each node:
#
# 1. `in_one`, from **one** call that runs text and tree together;
# 2. `by_path`, from calls that run the text of one node or path each.
#
# Use `treemask.build_mask` and `treemask.find_positions` (not your answers above, so that one
# slip does not cost two exercises); `treemask.trace_path(parents, node)` lists the nodes from
# the text down to `node`. Without a cache the text needs rows of the mask too. The slogan of
# this course helps: a chain is a tree. To try your function, take
# `TinyTransformer(vocab=11, seed=0)` from `lessonlib.theory.tinyformer` as the model.


# %% exercise="3.3" role="answer" points=3
def score_both_ways(model, text, tokens, parents):
    """Logits of every node, (in_one, by_path): from one forward, and from one path at a time."""
    ### BEGIN SOLUTION
    n = len(text)
    everything = [*range(-1, n - 1), *(n + above if above >= 0 else n - 1 for above in parents)]
    seen = treemask.build_mask(everything, 0)
    at = treemask.find_positions(everything, 0)
    in_one = model([*text, *tokens], seen, at)[n:]
    by_path = []
    for node in range(len(tokens)):
        alone = [*text, *(tokens[i] for i in treemask.trace_path(parents, node))]
        causal = np.tri(len(alone), dtype=bool)
        by_path.append(model(alone, causal, range(len(alone)))[-1])
    return in_one, np.array(by_path)
    ### END SOLUTION


# %% exercise="3.3" role="check"
from lessonlib.exercises import check

check("3.3", score_both_ways)

# %% [markdown] exercise="3.4" role="intro"
# ### Exercise 3.4: accept over siblings
#
# `p` (V,) is the target's row at this place, `tokens` are the siblings in the order in which
# they were drafted, `q_rows[i]` is the row sibling i was drawn from (one-hot if it was not
# drawn), and `u` holds one uniform for each sibling and one more. Return a pair:
# `(i, tokens[i])` if sibling i is accepted, else `(None, token)` with a token drawn from
# whatever is left of p.
#
# `residual(p, q)` and `draw(weights, uniform)` are imported above. As in lesson 01 the check
# hands you uniforms that have not been tossed: compare them, or give them to `draw`.


# %% exercise="3.4" role="answer" points=3
def accept_sibling(p, tokens, q_rows, u):
    """(index of the accepted sibling or None, the token that comes out)."""
    ### BEGIN SOLUTION
    for i, guess in enumerate(tokens):
        if u[i] < p[guess] / q_rows[i][guess]:
            return i, guess
        p = residual(p, q_rows[i])
    return None, draw(p, u[len(tokens)])
    ### END SOLUTION


# %% exercise="3.4" role="check"
from lessonlib.exercises import check

check("3.4", accept_sibling)

# %% [markdown] exercise="3.5" role="intro"
# ### Exercise 3.5: tree against chain, at equal compute
#
# A run leaves a trace: `trace.rounds`, one for each target forward. Of a `round` you need
# `round.emitted` (the tokens it added to the text), `round.accepted` (how many depths had an
# accepted node) and `round.kinds[-1]`: `"recovered"` if all siblings at the next depth were
# rejected, `"bonus"` if the path went all the way down. Pool all rounds of all traces and return
# two numbers:
#
# 1. **τ**, tokens per target forward;
# 2. **α per path**: of the depths that were *reached* (tested at all), the share that *passed*.
#    A depth passes if any of its siblings is accepted.


# %% exercise="3.5" role="answer" points=2
def tau_and_alpha(traces):
    """(tokens per target forward, depths passed per depth reached) over all runs."""
    ### BEGIN SOLUTION
    rounds = [one for trace in traces for one in trace.rounds]
    passed = sum(one.accepted for one in rounds)
    failed = sum(one.kinds[-1] == "recovered" for one in rounds)
    return sum(len(one.emitted) for one in rounds) / len(rounds), passed / (passed + failed)
    ### END SOLUTION


# %% exercise="3.5" role="check"
from lessonlib.exercises import check

check("3.5", tau_and_alpha)

# %% [markdown]
# ## Profile
#
# Now the real pair. This is the first cell that needs torch; give it a few seconds.

# %% id="profile-load"
import torch

from lessonlib.lab.corpus import cut_prompts
from lessonlib.lab.pairs import load_pair

pair = load_pair("bundled")
prompts = [pair.encode(text)[-160:] for text in cut_prompts(5)]
print(pair.target.shape)

# %% [markdown]
# **One forward, 14 futures.** The tree [2, 2, 2] behind a real prompt, through the cache, in one
# forward of the target; then every node's text alone. The tree's tokens are arbitrary here, only
# the logits are compared.

# %% id="profile-one-forward"
parents = treemask.grow_tree([2, 2, 2])
tokens = np.random.default_rng(0).integers(1, pair.target.vocab_size, len(parents)).tolist()
cache = pair.target.new_cache()
pair.target.forward(prompts[0], cache)
in_one = pair.target.forward(tokens, cache, parents).logits
alone = []
for node in range(len(parents)):
    text = prompts[0] + [tokens[i] for i in treemask.trace_path(parents, node)]
    alone.append(pair.target.forward(text, pair.target.new_cache()).logits[-1])
gap = (in_one - torch.stack(alone)).abs().max()
print(len(parents), "nodes, largest difference below 1e-3:", bool(gap < 1e-3))

# %% [markdown]
# **The traps, on the same rows.** Positions by index, or the mask of a chain, raise no error.
# They give other numbers.

# %% id="profile-traps"
chain_parents = treemask.grow_tree([1] * len(tokens))
cache.rollback(len(prompts[0]))
as_chain = pair.target.forward(tokens, cache, chain_parents).logits
wrong = (as_chain - torch.stack(alone)).abs().amax(dim=1)
print(
    "nodes that are right if the tree is run as a chain:",
    int((wrong < 1e-3).sum()),
    "of",
    len(tokens),
)

# %% [markdown]
# **The cache after a round.** The accepted path's rows lie scattered among the rejected ones, so
# they are gathered to the front. After that the text goes on as if nothing had happened.

# %% id="profile-commit"
cache.rollback(len(prompts[0]))
pair.target.forward(tokens, cache, parents)
path = treemask.list_paths(parents)[5]
cache.commit(len(prompts[0]), path)
after = pair.target.forward([tokens[0]], cache).logits
text = prompts[0] + [tokens[node] for node in path] + [tokens[0]]
again = pair.target.forward(text, pair.target.new_cache()).logits[-1:]
print("accepted nodes", path, "  rows kept", cache.length - 1 - len(prompts[0]))
print("the next row agrees:", bool((after - again).abs().max() < 1e-3))

# %% [markdown]
# **Tree against chain, measured.** All rows but the first verify at most 14 drafted tokens per
# target forward: the same compute for the target. The chain of 3 is as deep as the tree and
# asks for less. The numbers are computed by the library's version of your function of exercise
# 3.5.

# %% id="profile-runs"
from tqdm.auto import tqdm

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import measure_paths
from lessonlib.drafting.tree import TreeDrafter

CONTESTANTS = {  # name: (branching, how siblings are drawn)
    "chain of 3": ([1] * 3, "independent"),
    "chain of 14": ([1] * 14, "independent"),
    "tree [2, 2, 2], independent": ([2, 2, 2], "independent"),
    "tree [2, 2, 2], no replacement": ([2, 2, 2], "without replacement"),
    "tree [2, 2, 2], top-k": ([2, 2, 2], "top-k"),
}


def run(prompt, branching, siblings, length=40):
    sampling = Sampling(temperature=1.0)
    drafter = TreeDrafter(pair.draft, sampling, branching, siblings)
    return generate(
        pair.target,
        drafter,
        prompt,
        max_new_tokens=length,
        K=len(branching),
        sampling=sampling,
        coins=iter(np.random.default_rng(7).random, None),
    )


# %% id="profile-tree-table" tags=["measured"]
print(f"{'':31} tau   alpha per path   draft forwards per round")
for name, contestant in tqdm(CONTESTANTS.items()):
    traces = [run(prompt, *contestant) for prompt in prompts]
    tau, alpha = measure_paths(traces)
    print(f"{name:30} {tau:5.2f}   {alpha:14.3f}   {len(contestant[0]):24}")

# %% [markdown]
# Read it in two directions. *Down the α column:* what does a second guess bring, under each way
# of drawing it? Siblings that were chosen and not drawn pass with p(x) alone; lesson 07 follows
# that up. *Down the last column:* the chain of 14 asks the draft 14 times in a row, the tree 3
# times. Which of them is faster depends on c and v(n) of lesson 02; here are the seconds on this
# machine.

# %% id="profile-seconds" tags=["measured"]
from lessonlib.lab.timing import time_interleaved

shapes = ("chain of 3", "chain of 14", "tree [2, 2, 2], no replacement")
seconds = time_interleaved(
    {name: lambda name=name: run(prompts[0], *CONTESTANTS[name], length=24) for name in shapes}
)
for name, value in seconds.items():
    print(f"{name:31} {value:.3f} s for 24 tokens")

# %% [markdown]
# **Greedy is safe with any tree.** At temperature 0 the target's row is one-hot: the sibling
# that equals its favourite is accepted, all others are rejected. The text is the plain greedy one
# (here in float64, so that rounding cannot break a tie).

# %% id="profile-greedy"
exact = load_pair("bundled", dtype="float64")
greedy = Sampling(temperature=0)
options = {
    "max_new_tokens": 24,
    "sampling": greedy,
    "coins": iter(np.random.default_rng(0).random, None),
}
plain = generate(exact.target, None, prompts[1], **options).new_tokens
for branching in ([1, 1, 1], [2, 2, 2], [4, 1]):
    drafter = TreeDrafter(exact.draft, greedy, branching, "top-k")
    trace = generate(exact.target, drafter, prompts[1], K=len(branching), **options)
    print(branching, "same text as plain greedy:", trace.new_tokens == plain)

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | tree mask | "the attention mask for the batch" | ones over the prefix, then ancestor-or-self |
# | position | "the index in the input" | prefix + depth; siblings share it |
# | accepted path | "the best branch" | the first sibling that passes, at every depth |
# | sibling row | "the draft's softmax" | the row this very sibling was drawn from |
# | commit | "crop the cache" | gather the path's rows behind the prefix, set the length |

# %% id="recap-1" tags=["hide-input"]
ask(
    "Siblings are drawn without replacement. The second one is divided by ...",
    [
        "q, the draft's softmax",
        "q without the first sibling, renormalised",
        "a one-hot row",
    ],
    right=1,
    why="That is the row it was drawn from. With plain q it would be accepted as if it could "
    "have been the first token again; see first-row-for-all in the zoo.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "A tree of 14 nodes is verified. The path 1, 4, 10 is accepted. What happens to the cache?",
    [
        "it is cut to prefix + 3 rows",
        "the rows of 1, 4 and 10 are moved behind the prefix, then it is cut",
        "it is cleared and the text is run again",
    ],
    right=1,
    why="Cutting alone would keep the rows of nodes 0, 1 and 2. The root's own row stays in "
    "front; the token that closed the round has no row yet.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "The draft is so good that a first guess nearly always passes. What do you spend 14 verified "
    "tokens on?",
    ["a chain", "the tree [2, 2, 2]", "14 siblings"],
    right=0,
    why="Second guesses help only where first ones fail. If they rarely do, depth is worth more; "
    "the third widget shows where the curves cross.",
)

# %% [markdown]
# **Go further (open).** A full tree spends as much on the second guess of a second guess as on
# the first of a first. Sequoia (Chen et al. 2024, arXiv 2402.12374) computes the best shape for
# a budget by dynamic programming. Take the shares from the second widget (`count_paths` in
# `lessonlib.widgets.toy_paths`), choose the 14 nodes of a larger tree that are reached most often,
# and compare. Why may the shape depend on these averages, but not on the tokens drawn?
#
# Next: **04, KV rollback**: the cache, the whole loop, and everything that can go wrong there.
