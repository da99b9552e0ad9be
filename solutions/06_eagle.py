# %% [markdown]
# # 06 EAGLE drafting on GPT-2: 1, 2 and 3
#
# *Let the draft start from what the target was about to say.*
#
# A small draft model reads tokens, and has to work out from them what the target made of them with
# all its layers. EAGLE does not guess that: the target has run over the text anyway, so the draft
# is handed the target's own **features** (the paper's *second-to-top layer*) and has one step left
# to take. A single layer is enough.
#
# You will see what features cannot know and how EAGLE-1 repairs it, grow EAGLE-2's tree, find out
# what a tree of chosen tokens costs at T > 0, and see how EAGLE-3 trains a head to live with its
# own mistakes. Plan two hours, one of them for the exercises. The target is the course's own small
# GPT-2; its heads are trained and come with it, and one command at the end trains a head for the
# real one.
#
# | symbol | meaning |
# |---|---|
# | f(t), features at t | what the LM head multiplies, after token t: it gives p of token t + 1 |
# | head | the draft: one decoder layer; it borrows the target's embedding and LM head |
# | taps | hidden states of the target that a head may read: low, middle, top |
# | confidence | of a drafted node: the product of the head's q along its path |
# | chosen | a drafted token that was taken for being likely, not drawn: its q is one-hot |
# | p, q, K, α, τ, c, v | as before |

# %% id="setup"
from pathlib import Path

import numpy as np
import torch

from lessonlib.decoding.taps import take_taps
from lessonlib.drafting.eagle import EagleStep
from lessonlib.lab.corpus import cut_prompts
from lessonlib.lab.headrecords import load_heads
from lessonlib.lab.heads import find_head
from lessonlib.lab.kinds import CODE
from lessonlib.lab.pairs import load_pair
from lessonlib.theory import treemask
from lessonlib.theory.exactlaw import law_of, target_law, total_variation
from lessonlib.theory.toys import random_rows
from lessonlib.theory.trees import CHOSEN, Proposal, chain
from lessonlib.theory.verify import verify
from lessonlib.widgets.eagle_plots import plot_confidence, plot_training
from lessonlib.widgets.lesson06 import growing_tree, positions_compared
from lessonlib.widgets.quiz import ask
from lessonlib.widgets.selfgrade import grade_yourself

pair = load_pair("bundled")
eagle1, eagle3 = find_head(pair, "eagle1"), find_head(pair, "eagle3")
prompts = [pair.encode(prompt)[-160:] for prompt in cut_prompts(24)]  # held-out code
text = pair.encode(CODE)[:160]

# %% [markdown]
# ## Predict
#
# Commit to an answer first.

# %% id="predict-unknown" tags=["hide-input"]
ask(
    "The features at t hold everything the target knew when it made p, the distribution of token "
    "t + 1. A draft that continues the text from them lacks one thing. Which?",
    ["the tokens before t", "which token was drawn from p", "the position t"],
    right=1,
    why="The coin was tossed after the features were made. Whatever came out, the features are the "
    "same; what follows is not.",
)

# %% id="predict-chosen" tags=["hide-input"]
ask(
    "A tree holds the head's likeliest tokens. At T = 1 the head gives token x a q of 0.9, and the "
    "target a p of 0.6. With which probability may x be accepted?",
    ["min(1, p/q) = 2/3", "p = 0.6", "1, it is the favourite of both"],
    right=1,
    why="x was not drawn from q, it was certain to be proposed. The row it came from is one-hot, "
    "and min(1, p/1) is p. Exercise 6.4 shows what the other answers do to the law.",
)

# %% id="predict-drift" tags=["hide-input"]
ask(
    "A head learned from the target's features only. From the second drafted token on it must feed "
    "on its own outputs. What happens to α along the draft?",
    [
        "nothing: its outputs are made to look like features",
        "it falls, because such inputs were never seen in training",
        "it rises, because the text gets more certain",
    ],
    right=1,
    why="A small error goes in, and what comes out is a little worse than it would have been. The "
    "second widget below shows how much, and for which head.",
)

# %% [markdown]
# ## Play
#
# **Watch a tree grow.** Step through one round of EAGLE-2 on a recorded prompt: the head proposes,
# the most confident nodes are expanded, all are ranked, the best go to the target. Slide depth,
# width and the number of nodes. Find a node that was passed over when its level was expanded, and
# was kept all the same.

# %% id="play-tree"
growing_tree()

# %% [markdown]
# **α along the draft.** Five heads, recorded on held-out text: the two EAGLEs and three that lack
# one idea each. *No shift*: the token is not one step ahead. *One step*: never trained on its own
# outputs. *Top only*: reads one hidden state and not three. Who is best at position 1, and who at
# the last? What does that do to the tokens per forward, on the right?

# %% id="play-positions"
positions_compared()

# %% [markdown]
# ## Prove
#
# **Line 1: features are the last thing before tokens.** The LM head is one matrix. Features times
# that matrix are the logits, with nothing in between. So a draft that guesses the *next features*
# well has guessed the next distribution, all of it.

# %% id="prove-features"
cache = pair.target.new_cache()
output = pair.target.forward(text, cache)
taps = take_taps(output)
same = torch.allclose(output.features @ pair.target.head.T, output.logits, atol=1e-3)
print("features", tuple(output.features.shape), " logits", tuple(output.logits.shape))
print("features times the LM head are the logits:", same)
print("the taps of a row (low, middle, top):", tuple(taps.shape[1:]))

# %% [markdown]
# **Line 2: what they cannot know.** Take a place where the target hesitates between two tokens, a
# and b. The features are the same whichever is drawn. The two texts go on differently.
#
# Suppose a head is *not* told which. It has one row q for both. Mass that it puts on a token pays
# twice up to min(pₐ, p_b), above that it pays in one of the two texts only. The two rows share
# $S = \sum \min(p_a, p_b)$, so the best q puts S where it pays twice and the rest where it pays
# once: the two acceptance rates add up to at most 2S + (1 − S), and **their mean is at most
# (1 + S)/2**, for any such head whatever. $\blacksquare$
#
# EAGLE-1's head is told the token and has no such limit. Here are the eight places in this text
# where the second-likeliest token is likeliest. Same features, two tokens, two drafts:

# %% id="prove-uncertainty" tags=["measured"]
from lessonlib.decoding.sampling import warp


def follow(at, both):
    """The rows of target and head, (2, V) each, once ``both`` tokens stand behind place ``at``."""
    cache.rollback(at + 1)
    target_rows = pair.target.forward(both, cache, parents=[-1, -1]).logit_rows()
    memory = eagle1.new_cache()
    eagle1.forward_rows([EagleStep(eagle1, text[1 : at + 1], memory, features=taps[:at])])
    told = EagleStep(eagle1, both, memory, parents=[-1, -1], features=taps[[at, at]])
    return warp(target_rows), warp(eagle1.forward_rows([told])[0].logit_rows())


chances, rivals = output.logits.softmax(-1).topk(2)
results = []
print("if the target draws ...   the head drafts ...        alpha   untold, at most")
for at in sorted((chances[16:, 1].topk(8).indices + 16).tolist(), reverse=True):
    both = rivals[at].tolist()
    p, q = follow(at, both)
    results.append((np.minimum(p, q).sum(axis=1).mean(), (1 + np.minimum(*p).sum()) / 2))
    words = [" or ".join(repr(pair.decode([x])) for x in row) for row in (both, q.argmax(axis=1))]
    print(f"{words[0]:25} {words[1]:26} {results[-1][0]:.3f}   {results[-1][1]:.3f}")
print(f"{'mean':52} {np.mean(results, axis=0)[0]:.3f}   {np.mean(results, axis=0)[1]:.3f}")

# %% [markdown]
# Where both tokens lead on alike the limit is near 1, and nothing is lost by not knowing. What the
# token is worth on all held-out text is in Profile: a head of the same kind was trained without it.
#
# **Line 3: the fused input, and the shift.** So a row of the head is a pair, one step apart:
#
# | row t of the head | |
# |---|---|
# | is given | f(t), the target's features at t |
# | is told | token t + 1: its embedding stands beside f(t) |
# | guesses | f(t + 1), the features that the target makes once it has read token t + 1 |
# | so it drafts | token t + 2, through the target's LM head |
#
# Both halves are normed and put through one matrix back to the target's width, then comes one
# decoder layer. The row has read exactly what its label has read. Here is the table with a real
# text:

# %% id="prove-alignment"
print("row   given f of      told            its label         drafts")
for t in range(5):
    pieces = [repr(pair.decode([text[t + i]])) for i in range(3)]
    print(f"{t:3}   {pieces[0]:14}  {pieces[1]:14}  target row {t + 1:2}     {pieces[2]}")
print(f"{len(text)} tokens, so the last row is {len(text) - 2}: it drafts what is not there yet")

# %% [markdown]
# **Line 4: EAGLE-1's loss.** The output of a row will stand in for features in the next drafting
# step, so it is trained to *be* features: smooth L1 (squared where the error is small, absolute
# where it is large) to f(t + 1). A small error may still fall on a direction that matters to the
# LM head, so a tenth of a cross-entropy is added, with the target's whole row as the teacher, as in
# lesson 05:
#
# $$\text{loss} = \text{SmoothL1}(\hat f(t+1), f(t+1)) + 0.1 \cdot \text{CE}(p, \hat p)$$
#
# On this text, with the trained head; beside it two guesses that learned nothing.

# %% id="prove-losses" tags=["measured"]
from torch.nn.functional import smooth_l1_loss

from lessonlib.drafting.eagle_training import average_rows, soft_cross_entropy, unroll

wanted, matrix = output.features[1:], pair.target.head
expected = average_rows(wanted, matrix)[1]
with torch.inference_mode():
    guesses = {
        "the head": unroll(eagle1, taps[None], torch.tensor([text]), steps=1)[0][0],
        "f(t) once more": output.features[:-1],
        "the mean f": wanted.mean(0).expand_as(wanted),
    }
print("guess            smooth L1   cross-entropy (nats)")
for name, guess in guesses.items():
    distance, surprise = smooth_l1_loss(guess, wanted), soft_cross_entropy(guess, expected, matrix)
    print(f"{name:15}  {distance:9.3f}   {surprise:9.3f}")
entropy = soft_cross_entropy(wanted, expected, matrix)
print(f"f(t + 1) itself  {0:9.3f}   {entropy:9.3f}   (the target's entropy: no q does better)")

# %% [markdown]
# **Line 5: which tree?** EAGLE-1 sends the same static shape every time. EAGLE-2 spends its nodes
# where they count. A chosen node is accepted if its parent is, and then with p(x), whatever its
# siblings: if those before it were rejected, p was divided by what is left, and that cancels. So
# the chance of a node is the product of p along its path, and
#
# $$E[\text{tokens per round}] = 1 + \sum_{\text{nodes}} \prod_{\text{path}} p(x)$$
#
# The best tree of m nodes has the m largest products. The head knows q and not p, so EAGLE-2 ranks
# by the product of q, the **confidence**. A node is never more confident than its parent, so the m
# most confident nodes are a tree by themselves, if ties go to the parent. $\blacksquare$
#
# The formula against every outcome of a small tree, enumerated:

# %% id="prove-expected"
p_of = random_rows(4, seed=3)
tree = Proposal((0, 1, 2, 3, 0), (-1, -1, 0, 0, 1), (CHOSEN,) * 5)
paths = [
    tuple(tree.tokens[i] for i in treemask.trace_path(tree.parents, node)) for node in range(5)
]
chances = [np.prod([p_of(path[:i])[path[i]] for i in range(len(path))]) for path in paths]

p_rows = [p_of(()), *(p_of(path) for path in paths)]
law = law_of(lambda coins: 1 + len(verify(tree, p_rows, iter(coins.random, None)).path))
counted = sum(tokens * weight for tokens, weight in law.items())
print(f"enumerated {counted:.6f}   1 + sum of products {1 + sum(chances):.6f}")
assert abs(counted - 1 - sum(chances)) < 1e-12

# %% [markdown]
# How to find the most confident nodes without running the head on all of them:
#
# 1. **Expand.** Level by level: only the `top_k` most confident nodes of the newest level are run
#    through the head, and each gets its `top_k` likeliest children. One forward a level.
# 2. **Rerank.** From *all* nodes that were ever proposed keep the most confident. A shallow node
#    that was passed over may beat a deep one that was expanded.
#
# **Line 6: why q is one-hot here.** The tree's tokens were chosen. If you hand the verifier the
# head's softmax as if they had been drawn from it, the output is no longer the target's. Here the
# draft is always the head's favourite, at one place:

# %% id="prove-one-hot"
p, q = random_rows(4, seed=1)(()), random_rows(4, seed=2)(())
favourite = int(q.argmax())
for name, row in (("chosen (one-hot)", CHOSEN), ("the head's softmax", q)):
    proposal = chain([favourite], [row])

    def emit(coins, proposal=proposal):
        verdict = verify(proposal, [p, p], iter(coins.random, None))
        return favourite if verdict.path else verdict.token

    off = total_variation(law_of(emit), dict(enumerate(p)))
    print(f"q handed over: {name:18}  output off p by TV {off:.3f}")

# %% [markdown]
# It has a price. A drawn token passes with probability α = Σ min(p, q): draft and target share
# their luck. A chosen one passes with p(x) only, and at T > 0 even a favourite is rarely certain.
# Siblings make up for some of it, at a node each. Both on held-out text, at the first position of
# a draft:

# %% id="prove-price" tags=["measured"]
from lessonlib.lab.eagle_trials import run_along
from lessonlib.theory.temperature import chosen_rate, shared_rate

along = [run_along(eagle1, pair.target, prompt) for prompt in prompts[::4]]
p_logits, q_logits = (np.concatenate(part) for part in zip(*along, strict=True))
print("  T    one drawn   one chosen   8 chosen siblings")
for T in (0.0, 0.7, 1.0, 1.5):
    rates = [shared_rate(p_logits, q_logits, T).mean()]
    rates += [chosen_rate(p_logits, q_logits, T, count).mean() for count in (1, 8)]
    print(f"{T:4}  " + "".join(f"{rate:10.3f}" for rate in rates))

# %% [markdown]
# Read it by columns. At T = 0 drawing and choosing are the same. As T rises the first column goes
# one way and the second the other. Eight siblings help, but they are eight nodes for *one* place;
# the next place needs its own.
#
# **Line 7: lossless at every temperature.** The whole loop, with the head's cache, its features and
# its rounds, on a target so small that every outcome can be enumerated: three tokens take up to
# three rounds, so the law covers what a rejection leaves behind. Chains are drawn and carry their
# q; trees are chosen.

# %% id="prove-lossless"
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2, Shape
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.lab.heads import build

torch.manual_seed(1)
sizes = {"n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 3, "n_positions": 16}
ends = {"bos_token_id": None, "eos_token_id": None}
random_gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, **ends, initializer_range=1.0)).double()
toy = GPT2(Shape(*sizes.values(), 1e-5), random_gpt2.state_dict())
toy_head = build("eagle3", toy).eval()
start = [1, 0, 2, 2]


def law_of_a_run(make_drafter, sampling):
    """The joint law of three tokens, drafting included."""

    def run(coins):
        options = {"max_new_tokens": 3, "K": 2, "sampling": sampling}
        trace = generate(toy, make_drafter(), start, coins=iter(coins.random, None), **options)
        return tuple(trace.new_tokens)

    return law_of(run)


print("  T    chain: TV      tree: TV")
for T in (0.0, 0.7, 1.0, 1.5):
    sampling = Sampling(T)

    def p_of(context, sampling=sampling):
        forward = toy.forward([*start, *context], toy.new_cache())
        return sampling.probabilities(forward.logit_rows()[-1])

    wanted_law, distances = target_law(p_of, 3), []
    for make in (
        lambda: EagleDrafter(toy_head, sampling),  # noqa: B023
        lambda: DynamicTreeDrafter(toy_head, top_k=2, nodes=4),
    ):
        distances.append(total_variation(law_of_a_run(make, sampling), wanted_law))
    print(f"{T:4}   {distances[0]:9.6f}     {distances[1]:9.6f}")
    assert max(distances) < 1e-12

# %% [markdown]
# **Line 8: EAGLE-3, and exposure bias.** EAGLE-1's head was only ever shown true features. While
# drafting it has them for the first drafted token only; from then on it is fed its own outputs.
# That gap between training and use is called **exposure bias**. EAGLE-1's answer is the feature
# loss: make the outputs look like features. EAGLE-3 gives three others:
#
# * **No feature loss.** The output is free to be whatever drafts well; tokens alone are scored.
# * **Fused taps.** The row reads low, middle and top states of the target through one matrix, not
#   the top one alone, which has only the *next* token left to say.
# * **Training-time test.** In training, too, the head is run on its own outputs, several steps
#   deep, and every step is scored: it practises what it will do.
#
# What may a row look at in such an unrolled step? Exactly what its cache would hold. A chain that
# started at row s has the true rows 0 to s, and behind them its own rows of earlier steps. It must
# not see the true row s + 1: while drafting, nobody has made it yet. Many chains, one for each
# start, share one forward; a mask keeps them apart. That mask is exercise 6.5.

# %% [markdown]
# ## Program
#
# Five exercises, in NumPy, and one question in your own words.

# %% [markdown] exercise="6.1" role="intro"
# ### Exercise 6.1: the fused input
#
# The text is a list of n token ids. The target has run all but the newest, so `features` is
# (n − 1, width); `embedding` is (V, width). Return what the head's first matrix gets: an array
# (n − 1, 2 · width), the features to the left.


# %% exercise="6.1" role="answer"
def fuse_input(features, embedding, tokens):
    """Row t: the features at t beside an embedding, (n - 1, 2 width)."""
    ### BEGIN SOLUTION
    return np.hstack([features, embedding[np.asarray(tokens)[1:]]])
    ### END SOLUTION


# %% exercise="6.1" role="check"
from lessonlib.exercises import check

check("6.1", fuse_input)

# %% [markdown] exercise="6.2" role="intro"
# ### Exercise 6.2: the shift, step by step
#
# The target has run over a text of n tokens: its rows are 0 to n − 1. Row i holds f(i), and its
# logits are p of the token at place i + 1. A chain starts at *each* row s. At step 0 the head is
# given f(s). At step k it is given its own output of step k − 1, which stands in for f(s + k).
#
# Return three lists of whole numbers, one entry for each start s = 0, 1, ... whose step k has a
# label: `told`, the place of the token that the row is told; `labels`, the target row that it
# should match; `drafted`, the place of the token that it drafts (which may be n, right behind the
# text).


# %% exercise="6.2" role="answer" points=2
def align_rows(n, k):
    """(told, labels, drafted) for step k of every start."""
    ### BEGIN SOLUTION
    start = np.arange(n - 1 - k)
    return start + k + 1, start + k + 1, start + k + 2
    ### END SOLUTION


# %% exercise="6.2" role="check"
from lessonlib.exercises import check

check("6.2", align_rows)

# %% [markdown] exercise="6.3" role="intro"
# ### Exercise 6.3: expand and rerank
#
# `q_of(path)` runs the head behind a tuple of drafted tokens and returns its row q (V,); `q_of(())`
# is the row right behind the text. Grow a tree at most `depth` deep:
#
# * the first level holds the `top_k` likeliest tokens of `q_of(())`;
# * at each further depth, the `top_k` most confident nodes **of the newest level** get their
#   `top_k` likeliest tokens as children;
# * at the end keep the `nodes` most confident of **all** nodes proposed (all of them, if there are
#   fewer). On a tie the node that was proposed first wins.
#
# Return two lists of equal length, `tokens` and `parents`: for each kept node its token and the
# place of its parent in these lists, −1 for the text. Parents come before their children. On the
# real head each call of `q_of` is a forward: call it once for the text and once for each expanded
# node. (`top_k` is never larger than the vocabulary.)


# %% exercise="6.3" role="answer" points=3
def grow_tree(q_of, depth, top_k, nodes):
    """(tokens, parents) of the most confident nodes."""
    ### BEGIN SOLUTION
    tokens, parents, paths, scores = [], [], [], []
    level = [(-1, (), 1.0)]
    for _ in range(depth):
        newest = len(tokens)
        for above, path, confidence in level:
            q = q_of(path)
            for token in np.argsort(-q, kind="stable")[:top_k].tolist():
                tokens.append(token)
                parents.append(above)
                paths.append((*path, token))
                scores.append(confidence * q[token])
        best = sorted(range(newest, len(tokens)), key=lambda node: -scores[node])[:top_k]
        level = [(node, paths[node], scores[node]) for node in best]
    kept = sorted(range(len(tokens)), key=lambda node: -scores[node])[:nodes]
    place = {-1: -1, **{node: i for i, node in enumerate(kept)}}
    return [tokens[node] for node in kept], [place[parents[node]] for node in kept]
    ### END SOLUTION


# %% exercise="6.3" role="check"
from lessonlib.exercises import check

check("6.3", grow_tree)

# %% [markdown] exercise="6.4" role="intro"
# ### Exercise 6.4: a token that was chosen
#
# The head chose `token` for its large q and sent it to the target. Return the pair: the chance with
# which it must be **kept**, and the row (V,) from which its replacement is drawn if it is not. `p`
# is the target's row, `q` the head's. The check enumerates every outcome: the token that comes out
# must follow p exactly. (If the token is kept for certain, nothing is left to draw from: return p
# itself.)


# %% exercise="6.4" role="answer"
def accept_chosen(p, q, token):
    """(chance that token is kept, row of what takes its place)."""
    ### BEGIN SOLUTION
    rest = np.where(np.arange(len(p)) == token, 0.0, p)
    left = rest.sum()
    return p[token], rest / left if left > 0 else p
    ### END SOLUTION


# %% exercise="6.4" role="check"
from lessonlib.exercises import check

check("6.4", accept_chosen)

# %% [markdown] exercise="6.5" role="intro"
# ### Exercise 6.5: two steps of training-time test
#
# `head(features, tokens, mask)` runs m rows at once: row i is fused from features[i] and the
# embedding of tokens[i] (one token id each, already the shifted one) and looks at the rows j with
# `mask[i, j]`, a boolean array (m, m). Out come m outputs, (m, width).
#
# The text has n + 1 tokens and `features` (n, width) are the target's, at places 0 to n − 1. Return
#
# 1. `first` (n, width): the outputs of step 0, on true features, for all rows;
# 2. `second` (n − 1, width): the outputs of step 1. Row s belongs to the chain that started at row
#    s: it is fed `first[s]`, it is told the token that comes next, and it looks at the true rows 0
#    to s and at itself.
#
# Two calls of `head` do, without a loop over starts: in the second, let the true rows and those of
# step 1 run together. To try your function, take `TinyHead(vocab=9, width=4, seed=0)` from
# `lessonlib.theory.tinyhead` as the head.


# %% exercise="6.5" role="answer" points=3
def unroll_twice(head, features, tokens):
    """(first, second): outputs on true features, and on the head's own outputs."""
    ### BEGIN SOLUTION
    n = len(features)
    causal = np.tri(n, dtype=bool)
    first = head(features, tokens[1:], causal)
    blind, own = np.zeros((n, n - 1), dtype=bool), np.eye(n - 1, dtype=bool)
    everyone = np.block([[causal, blind], [causal[:-1], own]])
    fed = np.vstack([features, first[:-1]])
    return first, head(fed, [*tokens[1:], *tokens[2:]], everyone)[n:]
    ### END SOLUTION


# %% exercise="6.5" role="check"
from lessonlib.exercises import check

check("6.5", unroll_twice)

# %% [markdown]
# **The same on the real head.** The library's unroll goes as deep as you like. Run it from one
# start along a drafted chain, and draft that chain with the loop: step by step, do both say the
# same?

# %% id="demo-unroll"
from lessonlib.decoding.steps import run_alone

drafter = EagleDrafter(eagle3, Sampling(1.0))
drafter.settle(text, pair.target.forward(text[:-1], pair.target.new_cache()))
drafted = run_alone(drafter.propose(text, 5, iter(np.random.default_rng(0).random, None)))

hidden_future = taps[:1].expand(5, -1, -1)  # rows that no step may look at
unrolled = unroll(
    eagle3,
    torch.cat([taps[:-1], hidden_future])[None],
    torch.tensor([[*text, *drafted.tokens]]),
    steps=5,
    starts=torch.tensor([len(text) - 2]),
)
rows = torch.stack([unrolled[0][0, len(text) - 2], *(step[0, 0] for step in unrolled[1:])])
in_training = (eagle3.finish(rows) @ pair.target.head.T).softmax(-1).detach().numpy()
gaps = np.abs(in_training - np.array(drafted.q)).max(axis=1)
print("step k of the unroll is step k of the drafting loop:", (gaps < 1e-5).tolist())

# %% [markdown]
# ### In your own words
#
# Bengio et al. (2015, *scheduled sampling*) met the same gap when a language model is trained on
# true text and then writes its own: they replaced some of the true tokens in training by the
# model's own, a growing share of them. **In two sentences:** what is exposure bias in a draft head,
# and what does training-time test do about it that scheduled sampling does not?
#
# *Your answer (double-click here and write):*
#
# &nbsp;

# %% id="own-words-checklist" tags=["hide-input"]
grade_yourself(
    [
        "the cause: trained on the target's features, used on its own outputs",
        "the effect: errors add up, so acceptance falls with the position in the draft",
        "scheduled sampling mixes: by a coin, a single input is true or the model's own",
        "training-time test unrolls: every start, K steps deep, each step scored, as in drafting",
    ],
    "For example: the head learns on the target's features but drafts on its own outputs, so it is "
    "wrong in places that it never saw and acceptance falls along the draft. Scheduled sampling "
    "swaps in own inputs here and there; training-time test runs whole chains as the drafting loop "
    "does, with the mask of the loop, and scores each step against the target.",
)

# %% [markdown]
# ## Profile
#
# **Ablations.** Each head below was trained on the same text for the same 2.5 million tokens, and
# differs from its EAGLE in one thing. (The heads that come with the course read more: see the next
# table.) Their rates on held-out text were recorded when they were trained; nothing runs now.

# %% id="profile-ablations"
heads = load_heads()


def lost(kind, T):
    """How much α falls from the first drafted position to the last."""
    first, *_, last = heads[kind].by_position[T]
    return first - last


def expected(kind, T):
    """E, the tokens of a round that drafts all recorded positions."""
    return 1 + np.cumprod(heads[kind].by_position[T]).sum()


print("                              alpha at         lost until       E, tokens of")
print("                              position 1       position 5       a round at K = 5")
print("head                weights   T = 0   T = 1    T = 0   T = 1    T = 0   T = 1")
for kind, head in heads.items():
    print(
        f"{kind:18} {head.parameters:8,}   {head.alpha[0]:.3f}   {head.alpha[1]:.3f}    "
        f"{lost(kind, 0):.3f}   {lost(kind, 1):.3f}    "
        f"{expected(kind, 0):5.2f}   {expected(kind, 1):5.2f}"
    )
for T in (0, 1):
    assert heads["eagle1"].alpha[T] > heads["eagle1-unshifted"].alpha[T]
    assert lost("eagle3-one-step", T) > lost("eagle1", T) > lost("eagle3", T) > 0
    assert max(heads, key=lambda kind: expected(kind, T)) == "eagle3"

# %% id="profile-ablations-plot"
plot_training(heads, temperature=0.0)

# %% [markdown]
# Three questions to the table, one for each idea:
#
# * *What is the shifted token worth?* Compare `eagle1` with `eagle1-unshifted`.
# * *What does training-time test buy?* Compare `eagle3` with `eagle3-one-step`: not at the first
#   position, which it is not for, but in the last two columns. A head with a free output that was
#   never fed its own is lost at the second position, and the plot on the right tells whether more
#   text would have helped. What α loses on the way **is** the exposure bias. EAGLE-1's row says
#   that its feature loss is a remedy, too.
# * *What do low and middle taps add?* Compare `eagle3` with `eagle3-top`. How much they add under a
#   target of dozens of layers, and with far more text, is for the paper to say.
#
# And what did reading features buy at all? The distilled draft of lesson 05 reads tokens. These are
# the cards that came with the weights, all three trained on the same number of tokens:

# %% id="profile-cards"
import json

from lessonlib.lab.pairs import bundled_folder

print("draft     weights    tokens of training    alpha T=0    T=1")
for name in ("draft", "eagle1", "eagle3"):
    card = json.loads(Path(bundled_folder(), name, "card.json").read_text(encoding="utf-8"))
    facts, alpha = card["training"], card["alpha"]
    print(
        f"{name:7} {facts['parameters']:>9}   {facts['tokens seen']:>12}   "
        f"{alpha['0']:14.3f}  {alpha['1']:7.3f}"
    )

# %% [markdown]
# **Live: tokens per target forward.** Held-out code, all prompts in one batch, at most six deep;
# trees send 24 nodes. Nothing is timed yet. Behind ± stands the standard error of τ over the
# rounds. The columns at the right are α by position: of the rounds that got that far, the share in
# which a drafted token passed.

# %% id="profile-tau" tags=["measured"]
from tqdm.auto import tqdm

from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.bench_rows import count_depths
from lessonlib.lab.eagle_trials import WatchedTree, compare_tau, decode_all, measure_tau

CONTESTANTS = {
    "distilled draft": lambda sampling: SmallModelDrafter(pair.draft, sampling),
    "EAGLE-1 chain": lambda sampling: EagleDrafter(eagle1, sampling),
    "EAGLE-3 chain": lambda sampling: EagleDrafter(eagle3, sampling),
    "EAGLE-2 tree": lambda sampling: WatchedTree(DynamicTreeDrafter(eagle1)),
    "EAGLE-3 tree": lambda sampling: WatchedTree(DynamicTreeDrafter(eagle3)),
}
runs = {
    (T, name): decode_all(pair.target, make, prompts[:count], T, K=6, tokens=40)
    for T, count in ((0.0, 16), (1.0, 8))
    for name, make in tqdm(CONTESTANTS.items(), f"T = {T:g}")
}

# %% id="profile-tau-table" tags=["measured"]
print("T    proposer           tau           rounds    alpha by position")
for (T, name), (traces, _) in runs.items():
    reached, passed = count_depths(traces)
    rates = "  ".join(f"{b / a:.2f}" for a, b in zip(reached, passed, strict=True))
    tau, error = measure_tau(traces)
    rounds = sum(len(trace.rounds) for trace in traces)
    print(f"{T:g}    {name:16} {tau:5.2f} ± {error:.2f}   {rounds:6}    {rates}")

STEPS = {
    "another head, as a chain": ("EAGLE-1 chain", "EAGLE-3 chain"),
    "another head, as a tree": ("EAGLE-2 tree", "EAGLE-3 tree"),
    "another shape, one head": ("EAGLE-1 chain", "EAGLE-2 tree"),
    "from tokens to features": ("distilled draft", "EAGLE-1 chain"),
}
print("\nwhat each step gains in tau, prompt by prompt")
for T in (0.0, 1.0):
    for words, (old, new) in STEPS.items():
        gain, error = compare_tau(runs[T, old][0], runs[T, new][0])
        told = "" if abs(gain) > 2 * error else "   within the error"
        print(f"T = {T:g}   {words:25} {old:15} to {new:14} {gain:+.2f} ± {error:.2f}{told}")

# %% [markdown]
# The second table compares prompt by prompt, because prompts differ more than proposers do; its ±
# is the standard error of that difference. EAGLE-2 is EAGLE-1's head in another shape. At T = 0,
# which steps are certain? Siblings find the target's token nearly as often with the weaker head,
# so in a tree a better head gains less than in a chain.
#
# *Within the error* does not mean equal. Four times as many prompts, here and in the first cell,
# halve the ±; on 2 cores that takes about a minute.
#
# Then look at the step to a tree at T = 1, and go back to line 6: a chain's tokens are drawn and
# share the target's luck, a tree's are chosen and pass with p alone. Many nodes of guesses can be
# worth less than a few tokens that were drawn.
#
# **Is the head's confidence worth its name?** Every node that was verified, sorted by confidence:
# how many of them had their whole path accepted? At T = 0 the paths that follow the head's first
# guess at every step have a line of their own.

# %% id="profile-confidence" tags=["measured"]
from lessonlib.lab.eagle_trials import list_nodes, sort_by_confidence

edges = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
cold, warm = (list_nodes(*runs[T, "EAGLE-2 tree"]) for T in (0.0, 1.0))
PARTS = {
    "T = 0, first guesses only": (cold, cold.first),
    "T = 0, some second guess": (cold, ~cold.first),
    "T = 1, all": (warm, warm.first | True),
}
bins = {}
for name, (nodes, part) in PARTS.items():
    found = sort_by_confidence(nodes.confidence[part], nodes.accepted[part], edges)
    bins[name] = [one for one in found if one.count >= 8]  # of fewer, a share says little
plot_confidence(bins)

# %% [markdown]
# Confidence is q at temperature 1, whatever you decode at. So at T = 1 it should lie near the
# diagonal: line 5 with q for p. At T = 0 the target always takes its favourite, and the head's
# first guess is that favourite far more often than q says. Second guesses get no such gift. So at
# T = 0 confidence is right about second guesses and much too modest about first ones, and a tree
# that is ranked by it goes wide where it should go deep.
#
# **Static against dynamic, at equal nodes.** The static tree has one shape for every place: the
# i-th best child counts as accepted as often as the head's i-th guess was right on *other*
# prompts, at T = 0. The dynamic tree goes by confidence. *Sharpened* is dynamic too, but its
# confidence is the head's softmax at temperature ½, which raises first guesses; ½ was tried as the
# first value below 1, and kept. Same depth, same number of nodes, T = 0.

# %% id="profile-static" tags=["measured"]
from functools import partial

from lessonlib.lab.calibration import list_full_rounds
from lessonlib.lab.eagle_trials import measure_ranks

tried, others = prompts[::2], prompts[1::2]
ranks = measure_ranks(eagle1, pair.target, others, top_k=4)
SHAPES = {
    "static": {"rank_rates": ranks},
    "dynamic": {},
    "sharpened": {"heat": 0.5},
}
print("the head's i-th guess is right:", "  ".join(f"{rate:.3f}" for rate in ranks))
print("nodes   tree         tau           different shapes   over the static tree")
for nodes in tqdm((8, 24)):
    grown = {}
    for name, how in SHAPES.items():
        make = partial(DynamicTreeDrafter, eagle1, nodes=nodes, **how)
        grown[name], _ = decode_all(
            pair.target, lambda _, make=make: make(), tried, 0.0, K=6, tokens=40
        )
        tau, error = measure_tau(grown[name])
        shapes = {tuple(round.parents) for round in list_full_rounds(grown[name], K=6)}
        gain, spread = compare_tau(grown["static"], grown[name])
        gained = "" if name == "static" else f"{gain:+.2f} ± {spread:.2f}"
        print(f"{nodes:5}   {name:10} {tau:5.2f} ± {error:.2f}   {len(shapes):12}       {gained}")

# %% [markdown]
# A tree that follows the context is not better by itself. The static tree was tuned to T = 0 and
# the dynamic one was not, so the fair comparison is the last line of each block: is *sharpened*
# ahead of *static* by more than the error? The paper's targets are larger and surer of themselves,
# and then q at temperature 1 may be sharp enough.
#
# **Greedy is exact.** In float64, so that rounding cannot break a tie: every proposer writes the
# text that plain decoding writes.

# %% id="profile-greedy"
exact = load_pair("bundled", dtype="float64")
exact1, exact3 = find_head(exact, "eagle1"), find_head(exact, "eagle3")
greedy = Sampling(temperature=0)
options = {
    "max_new_tokens": 32,
    "sampling": greedy,
    "coins": iter(np.random.default_rng(0).random, None),
}
plain = generate(exact.target, None, prompts[5], **options).new_tokens
for name, drafter in {
    "EAGLE-1 chain": EagleDrafter(exact1, greedy),
    "EAGLE-2 tree": DynamicTreeDrafter(exact1),
    "EAGLE-3 tree": DynamicTreeDrafter(exact3),
}.items():
    trace = generate(exact.target, drafter, prompts[5], K=6, **options)
    print(f"{name:14} same text as plain greedy:", trace.new_tokens == plain)

# %% [markdown]
# **Seconds.** τ is not speedup (lesson 02). For each proposer the course's benchmark measures c,
# what one of its forwards costs, and v, what the target pays to verify its width; the formula then
# picks how much a round should draft *on this machine*, and the race against plain decoding tells
# whether the formula was right. T = 0, one prompt.

# %% id="profile-speed" tags=["measured"]
from lessonlib.lab.bench_rows import describe_row
from lessonlib.lab.calibration import calibrate
from lessonlib.lab.proposers import PLAIN, list_proposers
from lessonlib.lab.race import list_entrants, race
from lessonlib.lab.timing import count_repeats

proposers, repeats = list_proposers(pair), count_repeats(5)
with tqdm(total=len(proposers) + 2 + repeats * (len(proposers) + 1)) as bar:
    costs = calibrate(pair.target, proposers, text, (0.0,), progress=bar.update)
    sizes = {name: cost.size for name, cost in costs.items()}
    entrants = list_entrants(pair.target, proposers, sizes, tokens=32)
    turns = race(entrants, [text] * repeats, greedy, bar.update)
print(
    "proposer         drafts          c      v      tau   predicted   measured (lowest to highest)"
)
for name, cost in costs.items():
    row = describe_row(name, turns[PLAIN], turns[name], cost)
    speed = row["speedup"]
    print(
        f"{name:15}  {cost.size!s:12}  {cost.c:5.2f}  {cost.v:5.2f}  {row['tau']:6.2f}   "
        f"{row['middle']['predicted']:8.2f}x  {speed['median']:8.2f}x "
        f"({speed['low']:.2f} to {speed['high']:.2f})"
    )

# %% [markdown]
# Compare c of a head with that of the distilled draft: a head has one layer, but each pays for the
# LM head in full, and for the overhead of a forward. Under a target of eighty wide layers both
# would be small change. The loop's own work (softmax, ranking, masks) is in *measured* and not in
# *predicted*, and it, too, weighs more the smaller the target. So believe your own table for this
# pair, and τ for what a larger one could gain. `python course.py bench` repeats it for prose and
# noise, at three temperatures and with five prompts each.
#
# **What others measured**, with a target of 13 billion weights on a GPU. The last column is what a
# round must have cost there, τ over the speedup; compare it with c K + v of your table.

# %% id="profile-published"
from lessonlib.theory.published import SPEC_BENCH, round_cost

print("Spec-Bench, Vicuna-13B, A100, greedy   speedup    tau   cost of a round")
for result in SPEC_BENCH:
    speed, tau, cost = result.speedup, result.tau, round_cost(result)
    print(f"{result.method:37}  {speed:5.2f}x   {tau:5.2f}   {cost:9.2f}")

# %% [markdown]
# Servers do not draft unless they are asked to. In vLLM the switch is
# `--speculative-config '{"method": "eagle3", "model": ..., "num_speculative_tokens": ...}'`.
#
# **The real exercise: a head for GPT-2.** It is the same code. First the target's taps over the
# training text are computed and kept, then the head is trained from them:
#
#     python course.py train eagle3 --target gpt2 --minutes 60
#
# Before the training it says what it will take. This is what it says for the largest text it would
# keep; fewer `--windows` take less disk:

# %% id="profile-estimate"
import sys
from contextlib import redirect_stderr

from lessonlib.drafting.eagle import build_head
from lessonlib.lab.estimate import announce
from lessonlib.lab.features import FeatureStore
from lessonlib.lab.train import MOST_WINDOWS
from lessonlib.lab.training import Plan

gpt2 = Shape(layers=12, heads=12, width=768, vocab_size=50257, context=1024, epsilon=1e-5)
table = torch.zeros(1).expand(gpt2.vocab_size, gpt2.width)  # in the place of GPT-2's own
largest = FeatureStore(  # arrays of one number that only claim their size
    np.broadcast_to(np.uint16(gpt2.vocab_size - 1), (MOST_WINDOWS, 513)),
    np.broadcast_to(np.float16(0), (MOST_WINDOWS, 512, 3, gpt2.width)),
)
plan = Plan(minutes=60, batch=16, window=512)
with redirect_stderr(sys.stdout):
    announce("eagle3", build_head("eagle3", gpt2, table, table), plan, {"train": largest})

# %% [markdown]
# It shows the time that is left, writes a checkpoint each minute, saves when you press Ctrl-C and
# goes on with `--resume`. The head goes to your user's cache, and `find_head(load_pair("gpt2"),
# "eagle3")` finds it there. `eagle1`, and the ablations of this lesson by the names in the table,
# are trained in the same way.

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | features | "the hidden states" | what the LM head multiplies: p of the next token, all of it |
# | shifted token | "the input embedding" | token t + 1 beside f(t): what the features led to |
# | EAGLE-1's loss | "feature regression" | smooth L1 to the next features, a little cross-entropy |
# | confidence | "the score of a beam" | product of q along the path, for want of p |
# | rerank | "prune the tree" | keep the best of *all* proposed nodes, passed-over ones included |
# | one-hot q | "EAGLE is lossless" | a chosen token passes with p(x), not with min(1, p/q) |
# | fused taps | "multi-layer features" | low, middle and top states through one matrix |
# | training-time test | "multi-step training" | the drafting loop in training, mask and all |
# | exposure bias | "error accumulation" | α falls along the draft, as its inputs become its own |

# %% id="recap-1" tags=["hide-input"]
ask(
    "Row t of the head is given f(t) and told token t + 1. Which token does it draft?",
    ["token t + 1", "token t + 2", "token t + 3"],
    right=1,
    why="Token t + 1 is known by then. The row guesses f(t + 1), whose logits are those of token "
    "t + 2.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "You decode at T = 1 and your tree's acceptance is poor. A colleague lets the verifier divide "
    "by the head's softmax, and α jumps. What happened?",
    [
        "the q rows were missing before; now it is right",
        "more is accepted, and the output no longer follows p",
        "nothing, the two are equal at T = 1",
    ],
    right=1,
    why="The tokens were chosen and not drawn. min(1, p/q) accepts them too often: line 6 has the "
    "distance. A tree whose siblings are really drawn may carry its rows, as in lesson 03.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "In an unrolled training step a row of the chain from s may look at ...",
    [
        "all true rows before its own place",
        "the true rows 0 to s, and the chain's own rows",
        "the true rows 0 to s, and the rows of all chains",
    ],
    right=1,
    why="That is what the cache holds while drafting. True rows behind s do not exist yet, and the "
    "other chains are other runs.",
)

# %% [markdown]
# **Go further (open).** At T = 1 the chosen trees of this lesson lose against a drawn chain. Build
# the tree that line 6 asks for: siblings *drawn* from the head's q without replacement, which carry
# the rows they were drawn from (lesson 03 has the rule, `lessonlib/theory/siblings.py` the draws).
# Which nodes you expand may depend on confidences, but whether a node is *kept* must not depend on
# what was drawn below it. Why not? Measure τ against the chain and against the chosen tree.
#
# Next: **07, the failure mode at temperature 1.5**: which drafts break when it gets hot, and why.
