# %% [markdown]
# # 05 Distil a draft
#
# *Train the draft on what the target thinks, not on what the text says.*
#
# Lesson 02 showed what an acceptance rate is worth. This lesson raises one. You will see why the
# target's whole distribution teaches a draft better than the text does, watch a small GPT-2 learn
# it on your machine, and decide how large a draft should be.
#
# | symbol | meaning |
# |---|---|
# | p, q | the target's and the draft's distribution of the next token |
# | r | what really comes next in the text |
# | z | logits: p = softmax(z / T), and the draft has its own |
# | α | Σ min(p, q), the chance that a drafted token passes |
# | TV | total variation distance, ½ Σ \|p − q\| |
# | KL(p‖q) | forward KL divergence, Σ p ln(p / q), in nats; KL(q‖p) is the reverse one |
# | H(p) | entropy, −Σ p ln p |
# | c, v(n), E | draft cost, verification cost and tokens per round, as in lesson 02 |

# %% id="setup"
from fractions import Fraction
from pathlib import Path

import numpy as np

from lessonlib.lab.drafts import SIZES, choose_draft, load_drafts
from lessonlib.theory import divergence, speedup
from lessonlib.widgets.hump import one_hump
from lessonlib.widgets.lesson05 import (
    drafts_compared,
    learning_curves,
    plot_live_run,
    plot_long_run,
    plot_pinsker,
)
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Predict
#
# Commit to an answer before anything moves.

# %% id="predict-teacher" tags=["hide-input"]
ask(
    "Two drafts of the same size read the same text for as long. One learns the next token of the "
    "text, the other the target's distribution at every position. Which has the higher α on new "
    "text?",
    ["the one that learned the text", "the one that learned the target", "they end up equal"],
    right=1,
    why="α asks how near q is to p, and the text is only one draw from something near p. The first "
    "widget has what both reached.",
)

# %% id="predict-forever" tags=["hide-input"]
ask(
    "A draft as large as you like learns from the text for ever, by cross-entropy. What does its α "
    "approach?",
    ["1", "1 − TV(p, r), which is below 1", "0"],
    right=1,
    why="Cross-entropy on the text is least at q = r. That is a perfect model of the text. But the "
    "target is not, so it rejects some of what such a draft proposes.",
)

# %% id="predict-loss" tags=["hide-input"]
ask(
    "α = 1 − TV(p, q), exactly. Then the best loss to train a small draft with must be TV.",
    ["yes, it is the goal itself", "not necessarily", "no, TV has no gradient"],
    right=1,
    why="TV is the goal, and it has a gradient. But that gradient is weakest where the draft is "
    "most wrong. Whether that matters is a question to a measurement: it is recorded below.",
)

# %% [markdown]
# ## Play
#
# **Drafts of the same size.** All have two layers, started as the target's first two, and all
# that were trained read the same text in the same order for the same number of tokens. Nothing
# here runs now: α was measured on held-out text when they were trained, and is replayed.
#
# First compare the three teachers. Slide the temperature up: α rises for all three. Has the
# untrained draft learned anything? Then set T back to 1 and raise c until even the best draft
# gains at no K. What has that c to do with its α? (Lesson 02 has the rule.) Last, switch to the
# three divergences.

# %% id="play-drafts"
drafts_compared()

# %% [markdown]
# **What a small draft gives up.** Here the draft can place one hump, and the target has two. Move
# and widen the hump by hand and find the largest α you can. Then press the three buttons: each
# puts the hump where one divergence is least.
#
# One of them refuses to leave out anything that p likes, one refuses to propose anything that p
# dislikes. Which is which, and which of the two has the higher α *here*?

# %% id="play-hump"
one_hump()

# %% [markdown]
# ## Prove
#
# **Line 1: what is accepted is what is shared.** Since max(x, 0) + max(−x, 0) = |x|, and p and q
# sum to the same, the excess of p over q equals that of q over p, and each is half of Σ|p − q|.
# What is left of q is Σ min(p, q) = 1 − TV. In exact rationals:

# %% id="prove-tv"
p = np.array([Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)])
q = np.array([Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)])

alpha, tv = np.minimum(p, q).sum(), sum(abs(p - q)) / 2
print("alpha", alpha, "  TV", tv, "  sum", alpha + tv)
assert alpha + tv == 1

# %% [markdown]
# **Line 2: a small KL forces a large α.** Pinsker's inequality: $\text{TV} \le
# \sqrt{\text{KL}/2}$, in nats, for either direction.
#
# *Proof.* Let A be the set of tokens with p > q, and a = p(A), b = q(A), so TV = a − b. Sorting
# tokens into "A" and "not A" cannot raise a KL (the log-sum inequality), so KL is at least
# $f(b) = a\ln\frac ab + (1-a)\ln\frac{1-a}{1-b}$. Compare it with $g(b) = 2(a-b)^2$. At b = a both
# are 0. The derivative of f − g is $(b-a)\left(\frac1{b(1-b)} - 4\right)$. As b(1 − b) ≤ ¼, the
# bracket is never negative: f − g falls left of a, rises right of it, and is nowhere below 0. ∎
#
# Now on the real pair: every position of a held-out text, target against its distilled draft.
# This cell loads torch; give it a few seconds.

# %% id="prove-rows"
from lessonlib.drafting.distill import keep_layers
from lessonlib.lab.corpus import cut_prompts
from lessonlib.lab.pairs import load_pair

pair = load_pair("bundled")
untrained = keep_layers(pair.target, 2)
text = pair.encode("".join(cut_prompts(6)))[: pair.target.context]


def run(model):
    return model.forward(text, model.new_cache()).logit_rows()


target_rows, draft_rows, untrained_rows = run(pair.target), run(pair.draft), run(untrained)
print("positions, vocabulary:", target_rows.shape)

# %% id="prove-pinsker"
kl = [divergence.kl_loss(a, b) for a, b in zip(target_rows, draft_rows, strict=True)]
tv = 1 - divergence.acceptance_rates(target_rows, draft_rows)
broken = sum(x > 1 - divergence.alpha_floor(y) + 1e-9 for x, y in zip(tv, kl, strict=True))
print("positions above the bound:", broken)
assert broken == 0
plot_pinsker(kl, tv)

# %% [markdown]
# **Line 3: the mean loss is a promise.** The root is concave, so what holds at each position holds
# for means (Jensen): mean α ≥ 1 − √(mean KL / 2). Training pushes the mean KL down and with it
# lifts a floor under α. The floor is far below what is really reached, and says nothing above
# 2 nats; it is the direction that counts.

# %% id="prove-floor"
print("draft        mean KL   floor of alpha   alpha")
for name, rows in (("untrained", untrained_rows), ("distilled", draft_rows)):
    loss = divergence.kl_loss(target_rows, rows)
    alpha = divergence.acceptance_rates(target_rows, rows).mean()
    floor = divergence.alpha_floor(loss)
    print(f"{name:11}  {loss:6.3f}    {floor:8.3f}         {alpha:.3f}")
    assert alpha >= floor

# %% [markdown]
# **Line 4: why not cross-entropy on the text?** With respect to the draft's logits, the gradient
# of KL(p‖q) is q − p. The gradient of −ln q(x), for a token x of the text, is q − e(x), where e(x)
# is 1 at x and 0 elsewhere. If x were drawn from p, the two would agree on average: the text
# would be the same teacher, but a noisy one. At every position it would miss q − p by a squared
# length of $\sum_x p(x)\,|e(x) - p|^2 = 1 - \sum p^2$ on average.

# %% id="prove-noise"
p_rows, q_rows = (np.exp(divergence.log_softmax(rows)) for rows in (target_rows, draft_rows))
signal = ((q_rows - p_rows) ** 2).sum(axis=1)
noise = 1 - (p_rows**2).sum(axis=1)

every_x = np.eye(p_rows.shape[1])  # one position in full: all the tokens that could come
from_text = ((q_rows[0] - every_x) ** 2).sum(axis=1)
assert np.isclose(p_rows[0] @ from_text, signal[0] + noise[0])
print(f"squared length of the true gradient, q - p:  {signal.mean():.3f}")
print(f"and of the noise that one token adds to it:  {noise.mean():.3f}")
assert noise.mean() > signal.mean()

# %% [markdown]
# The second number is the larger one: most of what a token of the text says to this draft is noise,
# which training has to average away. The target's row holds no such noise.
#
# And x is not drawn from p. If it were, the mean surprise −ln p(x) of the text would, up to chance,
# equal the mean entropy of p. It is larger: the text follows an r that the target only
# approximates. A draft that learns the text is pulled towards r, and tested against p.

# %% id="prove-entropy"
surprise = -divergence.log_softmax(target_rows)[np.arange(len(text) - 1), text[1:]]
entropy = -(p_rows * np.log(p_rows)).sum(axis=1)[:-1]
excess = surprise - entropy
error = excess.std() / len(excess) ** 0.5
print(f"mean surprise {surprise.mean():.2f} nats, mean entropy {entropy.mean():.2f} nats")
print(f"the difference is {excess.mean():.2f} ± {error:.2f}")
assert excess.mean() > 2 * error

# %% [markdown]
# **Line 5: why not TV itself?** Its gradient is q (A − [q < p]), where A is the draft's mass on the
# tokens that it underrates. It is exactly the gradient of −α, and it has the factor q: a token
# that the draft has all but given up gets almost no push, however much the target wants it.
# Reverse KL, q (ln(q/p) − KL(q‖p)), has the same factor, softened by a logarithm. Forward KL pushes
# with p − q. Here the target wants token 0 with p = 0.9:

# %% id="prove-gradients"
print("q(0)      forward KL   reverse KL       TV       (gradient at token 0)")
for small in (0.5, 0.1, 1e-2, 1e-4, 1e-6):
    p, q = np.array([0.9, 0.1]), np.array([small, 1 - small])
    ratio, below = np.log(q / p), q < p
    forward, tv = q - p, q * ((q * below).sum() - below)
    reverse = q * (ratio - (q * ratio).sum())
    print(f"{small:<8g}  {forward[0]:9.5f}   {reverse[0]:9.5f}   {tv[0]:10.6f}")

# %% [markdown]
# So there is a case for each: TV aims at α itself, forward KL keeps its push everywhere, and far
# off reverse KL lies between. But these are gradients at one position, and an optimiser such as
# Adam or Muon rescales them: a weak gradient need not learn slowly. Which loss wins on a given pair
# and budget is a matter of measurement: see Profile.

# %% [markdown]
# ## Program
#
# Four exercises, in NumPy. Rows are positions, columns are tokens: logits have shape (n, V).

# %% [markdown] exercise="5.1" role="intro"
# ### Exercise 5.1: the loss
#
# Return KL(p‖q) in nats, averaged over the rows, where p and q are the distributions of the two
# arrays of logits at `temperature` > 0. It must stay finite when a temperature of 0.02 drives some
# probabilities to 0. (Some papers multiply by T². It keeps gradients comparable when a
# distillation loss is mixed with another; here is none, so leave it out.)


# %% exercise="5.1" role="answer" points=2
def kl_loss(target_logits, draft_logits, temperature):
    """Mean of KL(p || q) over rows, in nats."""
    ### BEGIN SOLUTION

    def log_softmax(logits):
        z = (logits - logits.max(axis=-1, keepdims=True)) / temperature
        return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))

    log_p, log_q = log_softmax(target_logits), log_softmax(draft_logits)
    return (np.exp(log_p) * (log_p - log_q)).sum(axis=-1).mean()
    ### END SOLUTION


# %% exercise="5.1" role="check"
from lessonlib.exercises import check

check("5.1", kl_loss)

# %% [markdown] exercise="5.2" role="intro"
# ### Exercise 5.2: acceptance rates, without a coin
#
# Return α for each row, an array of shape (n,), with both sides at `temperature` ≥ 0. At
# temperature 0 both models are greedy: a row is accepted if and only if both have the same
# largest logit.


# %% exercise="5.2" role="answer"
def acceptance_rates(target_logits, draft_logits, temperature):
    """Alpha of each row."""
    ### BEGIN SOLUTION
    if temperature == 0:
        return (target_logits.argmax(axis=-1) == draft_logits.argmax(axis=-1)).astype(float)

    def softmax(logits):
        powers = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
        return powers / powers.sum(axis=-1, keepdims=True)

    return np.minimum(softmax(target_logits), softmax(draft_logits)).sum(axis=-1)
    ### END SOLUTION


# %% exercise="5.2" role="check"
from lessonlib.exercises import check

check("5.2", acceptance_rates)

# %% [markdown]
# The library's versions on the rows of the real pair. Heat flattens p and q, so they grow alike:
# the KL falls and α rises. That is no merit of the draft. To judge a draft, stay in one line.

# %% id="demo-temperatures"
print("           untrained         distilled")
print("   T      KL     alpha      KL     alpha")
for T in (0.3, 0.7, 1.0, 1.5, 2.0):
    cells = []
    for rows in (untrained_rows, draft_rows):
        alpha = divergence.acceptance_rates(target_rows, rows, T).mean()
        cells.append(f"{divergence.kl_loss(target_rows, rows, T):6.2f}   {alpha:.3f}")
    print(f"{T:4}   " + "     ".join(cells))

# %% [markdown] exercise="5.3" role="intro"
# ### Exercise 5.3: why not cross-entropy on the data?
#
# A small draft cannot tell all contexts apart. Take the extreme: one row `q` for n contexts. The
# target has the rows `p` (n, V), the text really follows the rows `r` (n, V), and context i comes
# with frequency `weights[i]`.
#
# * Taught by the text, for ever: q is where $\sum_i w_i \sum_x r_i(x)\,(-\ln q(x))$ is least.
# * Taught by the target: q is where $\sum_i w_i\,\text{KL}(p_i \| q)$ is least.
#
# Return the mean α of both, the text's first. You need no optimizer: find the two rows on paper.


# %% exercise="5.3" role="answer" points=2
def compare_teachers(p, r, weights):
    """(alpha of the draft taught by the data, alpha of the one taught by the target)."""
    ### BEGIN SOLUTION
    # Both losses are -sum_x m(x) ln q(x) plus a constant, m the weighted mean row: least at q = m.
    drafts = weights @ r, weights @ p
    return tuple(weights @ np.minimum(p, q).sum(axis=1) for q in drafts)
    ### END SOLUTION


# %% exercise="5.3" role="check"
from lessonlib.exercises import check

check("5.3", compare_teachers)

# %% [markdown]
# One comparison is an example. Here are 2,000 languages at random, with text that scatters around
# the target's distribution: how often does the target teach better, and by how much?

# %% id="demo-teachers"
rng = np.random.default_rng(0)
results = []
for _ in range(2000):
    p = rng.dirichlet(np.full(8, 0.5), size=3) * 0.98 + 0.02 / 8
    r = np.array([rng.dirichlet(8 * row) for row in p])
    results.append(divergence.compare_teachers(p, r, rng.dirichlet(np.ones(3))))
by_text, by_target = np.array(results).T
print(f"mean alpha: taught by the text {by_text.mean():.3f}, by the target {by_target.mean():.3f}")
print(f"the target teaches better in {np.mean(by_target > by_text):.0%} of them")

# %% id="demo-question" tags=["hide-input"]
ask(
    "In some of these languages the text was the better teacher. How can that be?",
    [
        "rounding errors",
        "forward KL is not α: its best row is not the row with the largest α",
        "there the text followed p exactly",
    ],
    right=1,
    why="With one row for several contexts, the mean row has the least KL and need not have the "
    "most overlap. By chance r may lie nearer to the row that has. If the text followed p exactly, "
    "both would be equal.",
)

# %% [markdown] exercise="5.4" role="intro"
# ### Exercise 5.4: the draft that pays
#
# A larger draft has a higher α and a higher c. `drafts` maps names to `(alpha, c)`; an α may be 1.
# The keys of `v` are the K that you may choose, and `v[K]` is what verifying the K + 1 rows costs.
# Return `(name, K)` with the largest predicted speedup, or `(None, 0)` if no draft beats plain
# decoding.


# %% exercise="5.4" role="answer" points=2
def choose_best(drafts, v):
    """(name, K) of the best draft and its length, or (None, 0)."""
    ### BEGIN SOLUTION
    best, fastest = (None, 0), 1.0
    for name, (alpha, c) in drafts.items():
        for K, cost in v.items():
            gain = sum(alpha**i for i in range(K + 1)) / (c * K + cost)
            if gain > fastest:
                best, fastest = (name, K), gain
    return best
    ### END SOLUTION


# %% exercise="5.4" role="check"
from lessonlib.exercises import check

check("5.4", choose_best)

# %% [markdown]
# ## Profile
#
# **Train one, here and now.** The draft starts as the target's first two layers, which is
# `untrained` above, and reads a part of the course's training text for 25 seconds, while the target
# says what it thinks of every position. It is the training of `course.py train draft` in small.
# Stop it with the ■ button if you like: the draft keeps what it has learned, and if you run the
# cell again it goes on from there.

# %% id="profile-setup"
import torch
from transformers import GPT2LMHeadModel
from transformers.utils import logging

from lessonlib.drafting import distill
from lessonlib.lab import corpus
from lessonlib.lab.pairs import bundled_folder
from lessonlib.lab.recipes import start_draft

logging.disable_progress_bar()
target = GPT2LMHeadModel.from_pretrained(bundled_folder() / "target", dtype=torch.float32)
target.to(pair.target.device).eval()
draft = start_draft(target, layers=2)

modules, held_out = (corpus.read_sources(paths) for paths in corpus.list_modules())
stream = corpus.encode_texts(pair.tokenizer, modules[::12])
fresh = corpus.encode_texts(pair.tokenizer, held_out)
starts = np.linspace(0, len(fresh) - 258, 12).astype(int)
windows = np.stack([fresh[start : start + 256] for start in starts]).astype(np.int64)
print(f"{sum(w.numel() for w in draft.parameters()):,} weights to train,", end=" ")
print(f"{sum(w.numel() for w in target.parameters()):,} in the target")


@torch.no_grad()
def measure_alpha(model):
    """Mean α at T = 1 over windows of modules that neither model has read."""
    rows = torch.from_numpy(windows).to(target.device)
    return float(distill.acceptance_rates(target(rows).logits, model(rows).logits, 1.0).mean())


# %% id="profile-live" tags=["measured"]
from tempfile import TemporaryDirectory

from lessonlib.lab.training import Plan, draw_batch, fit

read, rates = [], []  # tokens read so far, α of the batch


def loss_of(tokens):
    tokens = tokens.to(target.device)
    read.append(tokens[:, 1:].numel() + (read[-1] if read else 0))
    with torch.no_grad():
        wanted = target(tokens[:, :-1]).logits
    given = draft(tokens[:, :-1]).logits
    rates.append(float(distill.acceptance_rates(wanted, given.detach(), 1.0).mean()))
    return distill.kl_loss(wanted, given)


before = measure_alpha(draft)
plan = Plan(minutes=25 / 60, batch=4, window=256, warmup_tokens=2500)
with TemporaryDirectory() as folder:  # for the checkpoint
    done = fit(draft, loss_of, lambda *request: draw_batch(stream, *request), plan, Path(folder))
after = measure_alpha(draft)
print(f"{done.steps} steps, {done.tokens:,} tokens; held-out alpha {before:.3f} -> {after:.3f}")

# %% id="profile-live-plot" tags=["measured"]
plot_live_run(read, rates)

# %% [markdown]
# The first seconds bring the most; what follows is slower. Here are the recorded trainings, all
# from the same start. Who falls behind: a loss on the target's row, or the draft that learns text?

# %% id="profile-curves"
learning_curves()

# %% [markdown]
# **Three teachers, three divergences.** What they reached, on held-out text. These numbers are
# read from the record of those trainings.

# %% id="profile-record"
drafts = load_drafts()
shown = (0.0, 0.5, 1.0, 1.5)
print("alpha at T =     " + "".join(f"{T:8}" for T in shown))
for name in ("untrained", "data", "forward-kl", "reverse-kl", "tv"):
    print(f"{name:15}  " + "".join(f"{drafts[name].alpha[T]:8.3f}" for T in shown))
for T in shown:
    *_, second, best = sorted(("forward-kl", "reverse-kl", "tv"), key=lambda n: drafts[n].alpha[T])
    lead = drafts[best].alpha[T] - drafts[second].alpha[T]
    print(f"best divergence at T = {T}: {best if lead > 0.005 else 'no clear one'}")
assert drafts["forward-kl"].alpha[1] > drafts["data"].alpha[1] > drafts["untrained"].alpha[1]

# %% [markdown]
# (The table has all of the held-out text, the curves above a part of it.) The order of the teachers
# is the point of this lesson: none, then the text, then the target. Judge the divergences at the
# temperature that you decode at, and at your budget.
# *DistillSpec* (arXiv 2310.08461) compares them on large pairs, and finds that the best one
# depends on the task and on how you decode.
#
# **The draft that came with the course** went on by forward KL for longer. Its log:

# %% id="profile-long-run"
import json

log = [json.loads(line) for line in (bundled_folder() / "draft" / "log.jsonl").open()]
plot_long_run([row["tokens"] for row in log], [row["alpha"] for row in log])

# %% [markdown]
# The jump towards the end is the cool-down: the learning rate goes to 0, and the windows get twice
# as long.
#
# **How large should a draft be?** α is recorded, for drafts of 1, 2 and 4 layers with the same
# training. c and v are measured on your machine, now.

# %% id="profile-sizes" tags=["measured"]
from tqdm.auto import tqdm

from lessonlib.lab.timing import measure_costs

costs = {
    layers: measure_costs(pair.target, keep_layers(pair.target, layers), 1)[0]
    for layers in tqdm(SIZES)
}
v = {K: measure_costs(pair.target, pair.draft, K)[1] for K in tqdm((1, 2, 4, 8))}
print("v(K + 1):", ", ".join(f"K = {K}: {cost:.2f}" for K, cost in v.items()))

table = {}
print("layers    c     alpha   predicted speedup at K = 1, 2, 4, 8")
for layers, name in SIZES.items():
    alpha, c = drafts[name].alpha[1], costs[layers]
    table[f"{layers} layers" if layers > 1 else "1 layer"] = alpha, c
    gains = "   ".join(f"{speedup.speedup(alpha, K, c, cost):.2f}x" for K, cost in v.items())
    print(f"{layers:6}  {c:.3f}   {alpha:.3f}   {gains}")
print("the best choice here:", choose_draft(table, v))
textbook = dict.fromkeys(v, 1.0)
print("and if verifying were free (v = 1):", choose_draft(table, textbook))

# %% [markdown]
# With a target of twelve layers even one layer is a twelfth of its work, plus the head and the
# overhead of a forward, and on a CPU verifying a few rows costs well more than one. If your
# machine answers (None, 0), believe it: no such draft pays there. Under a target of eighty layers
# the same one-layer draft would cost next to nothing.
#
# **The real exercise.** On a machine with a GPU, distil a draft for the 124-million GPT-2:
#
#     python course.py train draft --target gpt2 --minutes 60
#
# It runs the target over the text once and keeps, for each position, what its head multiplies:
# a few hundred numbers that give the whole row of logits back whenever the draft needs it. It
# states the memory and disk it takes before it starts, shows the time that is left, writes
# a checkpoint each minute, saves when you press Ctrl-C, and goes on with `--resume`. Add
# `--loss reverse-kl`, `--loss tv` or `--loss data` to repeat the comparison, `--layers 4` for
# another size.

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | distillation | "train on the target's outputs" | bring q near p, on p's whole row everywhere |
# | forward KL | "the KL" | Σ p ln(p/q): leaves nothing out that p likes; gradient q − p |
# | reverse KL | "the KL" | Σ q ln(q/p): proposes nothing that p dislikes |
# | TV | "a loss like the others" | 1 − α itself; weak where q is far off |
# | Pinsker | "KL bounds α" | α ≥ 1 − √(KL/2): a floor, mostly a low one |
# | the data's draft | "a good language model" | near r, and tested against p |
# | α against c | "a better draft is faster" | only if E grows by more than c K + v does |

# %% id="recap-1" tags=["hide-input"]
ask(
    "Your draft has a lower cross-entropy on the text than your colleague's. Whose is accepted "
    "more?",
    ["yours", "your colleague's", "it does not follow"],
    right=2,
    why="Cross-entropy on the text measures how near q is to r. α measures how near it is to p.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "KL(p‖q) averages 0.5 nats. What does Pinsker promise for the mean α?",
    ["at least 0.5", "exactly 0.5", "at most 0.5"],
    right=0,
    why="1 − √(0.5 / 2) = 0.5, a floor. The rows of the real pair lie well above theirs.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "A draft of 4 layers has a higher α than one of 2. When is it the better draft?",
    [
        "always",
        "if its E / (c K + v) at its own best K is higher",
        "if its α / c is higher",
    ],
    right=1,
    why="Each draft is judged at the K that suits it. α / c would favour the cheapest of ours.",
)

# %% [markdown]
# **Go further (open).** Our drafts learn on text from the library. While decoding they meet the
# target's own continuations. Sample continuations from the target (or from the draft, which is
# what DistillSpec calls *on-policy*), train on those, and measure α there. Does it rise more than
# on held-out text, and at which temperature should you sample?
#
# Next: **06, EAGLE**: a draft that reads the target's mind.
