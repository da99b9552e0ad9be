# %% [markdown]
# # 04 KV rollback
#
# *Forget by counting: a row you do not read is a row you do not have.*
#
# A transformer keeps the keys and values of every token it has run: its **KV cache**, one row
# per token. Speculative decoding fills that cache with guesses, and some of them are wrong. So
# after every round both models must forget exactly the rejected rows: one too many costs a
# forward, one too few changes the text, and one forgotten *feed* makes your speedup vanish with
# no error at all.
#
# In about an hour you will count rows, let a draft catch up, keep the books of a batch, and write
# the whole decoding loop. Then you break it on a real model, in all the ways people break it.
# Nothing here needs a network or a GPU.
#
# | symbol | meaning |
# |---|---|
# | text | prompt and everything emitted so far |
# | row | keys and values of one token that was run |
# | kv_length | how many rows a cache holds; rows behind it are garbage |
# | correction | the token that closes a round after a rejection |
# | bonus | the token that closes a round in which all K drafts were accepted |
# | rollback | set kv_length; nothing is erased |

# %% id="setup"
import numpy as np

from lessonlib.theory import kv
from lessonlib.theory.rejection import draw
from lessonlib.theory.verify import speculative_round
from lessonlib.widgets.lesson04 import cache_player, two_sequences
from lessonlib.widgets.quiz import ask

# %% [markdown]
# ## Predict
#
# Commit to an answer first.

# %% id="predict-rows" tags=["hide-input"]
ask(
    "The text has 20 tokens. The draft proposes 4, the target accepts the first 2 and rejects the "
    "third; a correction takes its place. How many rows of the target's cache stand?",
    ["21", "22", "23"],
    right=1,
    why="The text is 23 tokens long now. All of them were run but the correction, which came out "
    "of the last row: 22 rows. The 23rd slot holds the row of the token that was *rejected*.",
)

# %% id="predict-catch-up" tags=["hide-input"]
ask(
    "All drafts were accepted. In the next round you feed the draft the bonus token and nothing "
    "else. What do you notice?",
    ["an error", "wrong text", "right text, but fewer tokens are accepted"],
    right=2,
    why="The draft never ran the last token it proposed, so its cache has a hole. The target "
    "still decides what comes out, so the text stays right, and only the speedup suffers.",
)

# %% [markdown]
# ## Play
#
# **Step through a round.** Both caches of a recorded run of the course's own pair. Slide K and
# the temperature, pick a round, and watch three things: what each model is fed first, which rows
# go stale, and that the newest token never has a row.

# %% id="play-caches"
cache_player()

# %% [markdown]
# **Two sequences of one batch.** A accepts everything, B rejects somewhere: slide where. After the
# round their caches have different lengths. Who has to wait for whom?

# %% id="play-batch"
two_sequences()

# %% [markdown]
# ## Prove
#
# **Rows in front of a rejection are right.** In a causal model the row of token i is computed
# from tokens 0 to i and from nothing behind them. So it does not matter what was drafted later:
# if tokens 0 to i stand, row i stands. Rejecting token j makes exactly the rows from j on wrong,
# because they belong to another text.
#
# **The invariant.** Before a round the text has n tokens and the target's cache n − 1 rows: the
# newest token has not been run. The target runs it together with K drafted tokens and accepts a
# of them. Of these K + 1 rows, 1 + a belong to tokens that stand:
# $$(n - 1) + 1 + a = n + a, \qquad \text{while the text grows to } n + a + 1.$$
# So there is again one row less than tokens, and the next round begins as this one did.
# $\blacksquare$
#
# **The draft** ran its own tokens one at a time, to learn what comes next. Nobody asked what comes
# after the last of them, so it ran K − 1 of its K tokens and holds n + K − 1 rows. It keeps
# min(n + a, n + K − 1): one row short exactly if a = K.

# %% id="prove-table"
n, K = 10, 4
print(f"a text of {n} tokens, K = {K}")
print("accepted   text   target rows   draft rows   next fed to the draft")
for accepted in range(K + 1):
    text = n + accepted + 1
    rows, draft_rows = kv.rows_to_keep(n, accepted), kv.draft_rows_to_keep(n, accepted, K)
    fed = kv.catch_up(range(text), draft_rows)
    print(f"{accepted:8} {text:6} {rows:13} {draft_rows:12}   positions {fed}")
    assert rows == text - 1

# %% [markdown]
# **Overwriting is rollback.** Nothing needs to be erased. A cache is a buffer and a number, and
# rows behind that number are never read: the next forward writes over them. That is why rollback
# costs nothing, and why a single wrong number goes unnoticed.
#
# **Nothing is run twice.** The target runs every token that stands once, but for the newest, and
# every rejected one once for nothing. Over a whole run that makes
# tokens run = tokens of the text − 1 + rejected ones, less what the cache held to begin with. Here
# are the books of two sequences in one batch, A and B, and that sum.

# %% id="prove-batch"
lengths, plans = [10, 10], [[4, 4, 4], [2, 0, 4]]  # how many of 4 drafts pass, round by round
batch = kv.simulate_batch(lengths, plans, K)
print("round        text   target ran   target rows   draft ran   draft rows")
for r, sequences in enumerate(batch):
    for name, now in zip("AB", sequences, strict=True):
        ran, draft_ran = len(now.target_fed), len(now.draft_fed)
        print(
            f"{r:3}     {name} {now.text:6} {ran:12} {now.target_rows:13} "
            f"{draft_ran:11} {now.draft_rows:12}"
        )
for i, name in enumerate("AB"):
    ran = sum(len(sequences[i].target_fed) for sequences in batch)
    last, rejected = batch[-1][i], sum(K - passed for passed in plans[i])
    text, held = last.text + last.emitted, lengths[i] - 1  # held before the first round
    print(f"{name}: ran {ran} = text {text} - 1 - held before {held} + rejected {rejected}")
    assert ran == text - 1 - held + rejected

# %% [markdown]
# **What if a batch shares one length?** A simple batch cuts every sequence to the shortest
# acceptance, so that all rows stay aligned. B's bad luck becomes A's.

# %% id="prove-aligned"
emitted = [sum(passed + 1 for passed in plan) for plan in plans]
aligned = sum(min(passes) + 1 for passes in zip(*plans, strict=True))
print("tokens in 3 rounds, lengths of their own:", dict(zip("AB", emitted, strict=True)))
print("tokens in 3 rounds, cut to the shortest: ", {"A": aligned, "B": aligned})

# %% [markdown]
# ## Program
#
# Four exercises: count, catch up, keep the books, and then the whole loop.

# %% [markdown] exercise="4.1" role="intro"
# ### Exercise 4.1: what stands after a round
#
# Before a round the text has `text_length` tokens, and both caches hold what they should. The
# draft proposes `K` tokens (at least 1), the target accepts the first `accepted` of them, and a
# correction or bonus closes the round. Return two numbers: the rows of the **target's** cache
# that stand, and those of the **draft's**.


# %% exercise="4.1" role="answer"
def rows_after_round(text_length, K, accepted):
    """(rows of the target's cache, rows of the draft's cache) after the round."""
    ### BEGIN SOLUTION
    target_rows = text_length + accepted
    draft_rows = min(target_rows, text_length + K - 1)
    return target_rows, draft_rows
    ### END SOLUTION


# %% exercise="4.1" role="check"
from lessonlib.exercises import check

check("4.1", rows_after_round)

# %% [markdown] exercise="4.2" role="intro"
# ### Exercise 4.2: catch up, then draft
#
# `cache` holds the first `cache.length` tokens of `text`, rolled back already. Draft `K` tokens
# in `K` forwards and return two things: the list of tokens, and the list of the K rows they were
# drawn from.
#
# `draft.forward(tokens, cache)` runs a list of tokens behind the cached ones, adds their rows to
# the cache, and returns an array (n, V): row i is the distribution of what follows token i. Draw
# with `draw(row, coins.random())`, a fresh uniform for each token. Run nothing twice, and
# nothing that nobody asks for. To try your function: `CachedToy("draft", 5, language(5, 1))` from
# `lessonlib.theory.cachedtoy` is such a model, with `new_cache()` and a `log` of its forwards, and
# `np.random.default_rng(0)` has fresh coins.


# %% exercise="4.2" role="answer" points=2
def draft_tokens(draft, cache, text, K, coins):
    """(K drafted tokens, the K rows they were drawn from)."""
    ### BEGIN SOLUTION
    tokens, q_rows = [], []
    fresh = text[cache.length :]
    for _ in range(K):
        q = draft.forward(fresh, cache)[-1]
        fresh = [draw(q, coins.random())]
        tokens.append(fresh[0])
        q_rows.append(q)
    return tokens, q_rows
    ### END SOLUTION


# %% exercise="4.2" role="check"
from lessonlib.exercises import check

check("4.2", draft_tokens)

# %% [markdown] exercise="4.3" role="intro"
# ### Exercise 4.3: the books of a batch
#
# Sequence i starts with `text_lengths[i]` tokens, and both its caches hold all but the newest.
# `accepted[i]` says how many of its `K` drafts pass in round 0, in round 1, and so on; when the
# list is used up, the sequence has stopped, and the others go on.
#
# Return a list of rounds. Each is a list with one entry per sequence: `None` if it has stopped,
# else four numbers `(target_rows, draft_rows, target_fed, draft_fed)`. The first two are the
# kv_length of each cache **after** the round, the others are how many tokens each model **ran** in
# it, what the draft had to catch up on included. No sequence waits for another, and no token whose
# row stands is run again.


# %% exercise="4.3" role="answer" points=2
def simulate_batch(text_lengths, accepted, K):
    """Rounds of entries (target_rows, draft_rows, target_fed, draft_fed), or None."""
    ### BEGIN SOLUTION
    text = list(text_lengths)
    held = [(length - 1, length - 1) for length in text]
    rounds = []
    for r in range(max(len(plan) for plan in accepted)):
        entries = []
        for i, plan in enumerate(accepted):
            if r >= len(plan):
                entries.append(None)
                continue
            fed = text[i] + K - held[i][0], text[i] + K - 1 - held[i][1]
            held[i] = text[i] + plan[r], min(text[i] + plan[r], text[i] + K - 1)
            text[i] += plan[r] + 1
            entries.append((*held[i], *fed))
        rounds.append(entries)
    return rounds
    ### END SOLUTION


# %% exercise="4.3" role="check"
from lessonlib.exercises import check

check("4.3", simulate_batch)

# %% [markdown] exercise="4.4" role="intro"
# ### Exercise 4.4: the whole loop
#
# Return the list of new tokens that continue `prompt`. `target` and `draft` have `new_cache()`,
# `forward(tokens, cache)` as in exercise 4.2, and `context`, the same for both; a cache has
# `length` and `rollback(length)`. Make one cache for each model. The contract:
#
# * exactly `max_new_tokens` tokens, unless `eos` or the end of `target.context` comes first. A
#   text fills the context to its last place: the newest token needs no row;
# * `eos` is a token id (0 is one!) or `None`. It may come anywhere in a round. It is emitted, and
#   nothing after it. An eos in the prompt stops nothing;
# * a round drafts `K` tokens in K forwards of the draft, and fewer only near the end; it verifies
#   all of them in one forward of the target. K = 0 is plain decoding, without the draft;
# * after **every** round, the last one included, the target's cache holds `len(text) - 1` rows, and
#   both caches hold only rows of tokens that stand;
# * the output has the target's joint law, exactly.
#
# `speculative_round(p_rows, q_rows, drafted, u)` is your round from lesson 01, imported above:
# `p_rows` has one row more than there are drafted tokens, and `u` is one fresh `coins.random()`
# for each row of it. What you wrote in exercise 4.2 may be part of the loop.


# %% exercise="4.4" role="answer" points=5
def speculate(target, draft, prompt, max_new_tokens, K, eos, coins):
    """The list of new tokens, drawn from the target's law."""
    ### BEGIN SOLUTION
    text = list(prompt)
    target_cache, draft_cache = target.new_cache(), draft.new_cache()
    end = min(len(text) + max_new_tokens, target.context)
    while len(text) < end:
        start, drafted, q_rows = len(text), [], []
        for _ in range(min(K, end - start - 1)):
            known = text + drafted
            q_rows.append(draft.forward(known[draft_cache.length :], draft_cache)[-1])
            drafted.append(draw(q_rows[-1], coins.random()))
        known = text + drafted
        p_rows = target.forward(known[target_cache.length :], target_cache)
        u = [coins.random() for _ in range(len(drafted) + 1)]
        text += speculative_round(p_rows[-len(u) :], q_rows, drafted, u)
        stopped = eos in text[start:]
        if stopped:
            text = text[: text.index(eos, start) + 1]
        target_cache.rollback(len(text) - 1)
        draft_cache.rollback(min(draft_cache.length, len(text) - 1))
        if stopped:
            break
    return text[len(prompt) :]
    ### END SOLUTION


# %% exercise="4.4" role="check"
from lessonlib.exercises import check

check("4.4", speculate)

# %% [markdown]
# ## Profile
#
# Now the real pair, in float64, because we compare exact texts. This is the first cell that needs
# torch; give it a few seconds. `Probe` wraps a model and counts what it runs.

# %% id="profile-load"
from lessonlib.decoding.loop import generate, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab.corpus import cut_prompts
from lessonlib.lab.pairs import bundled_folder, load_pair
from lessonlib.lab.probes import ForgetfulDrafter, OffByOneCache, PoisonedCache, Probe

pair = load_pair("bundled", dtype="float64")
code = "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, name):\n        self"
prompts = [pair.encode(code)]
prompts += [pair.encode(text)[-n:] for text, n in zip(cut_prompts(3), (40, 80, 1), strict=True)]
sampling, greedy = Sampling(temperature=0.6), Sampling(temperature=0)


def run(target, draft, prompt=prompts[0], *, drafter=SmallModelDrafter, how=sampling, **options):
    asked = {"max_new_tokens": 32, "K": 4, "sampling": how, **options}
    coins = iter(np.random.default_rng(3).random, None)
    return generate(target, drafter(draft, how), prompt, coins=coins, **asked)


print(pair.target.shape)

# %% [markdown]
# **The caches after every round.** `text` is counted after the round. Check the invariant with
# your finger, and find the rounds after which the draft is one row behind.

# %% id="profile-rounds"
target, draft = Probe(pair.target), Probe(pair.draft)
trace = run(target, draft)
print("drafted   accepted   closed by     text   target rows   draft rows")
for one in trace.rounds:
    text = one.start + len(one.emitted)
    closing = "bonus" if one.kinds[-1] == "bonus" else "correction"
    print(
        f"{len(one.drafted):7} {one.accepted:10}   {closing:10} {text:7} "
        f"{one.target_rows:13} {one.draft_rows:12}"
    )
    assert one.target_rows == text - 1

# %% [markdown]
# **Every forward is counted.** The target's forwards are its rounds and one prefill of the prompt;
# the draft's are one for each drafted token. Tokens run are those of the text, short of the newest,
# and the rejected ones: nothing was run twice.

# %% id="profile-forwards"
text, rejected = len(prompts[0]) + len(trace.new_tokens), trace.drafted - trace.accepted
print(f"target: {target.forwards} forwards for {len(trace.rounds)} rounds and a prefill")
print(f"target: {target.tokens_run} tokens run = text {text} - 1 + rejected {rejected}")
print(f"draft:  {draft.forwards} forwards for {trace.drafted} drafted tokens")
assert target.tokens_run == text - 1 + rejected

# %% [markdown]
# **Garbage stays unread.** Every row behind kv_length is overwritten with NaN after each round. A
# single read of one would turn all logits into NaN.

# %% id="profile-poison"
poisoned = run(Probe(pair.target, PoisonedCache), Probe(pair.draft, PoisonedCache))
print("poisoned tails, same run:", poisoned == trace)

# %% [markdown]
# **Off by one.** Now keep one row more after a rejection: that of the rejected token. Nothing
# complains. The target goes on to read a token that is not in the text, and every later token sits
# one place too far.

# %% id="profile-off-by-one"
wrong = run(Probe(pair.target, OffByOneCache), pair.draft)
same = [a == b for a, b in zip(trace.new_tokens, wrong.new_tokens, strict=True)]
print("same text:", all(same), "  tokens up to the first difference:", [*same, False].index(False))
print("right:", repr(pair.decode(trace.new_tokens)))
print("wrong:", repr(pair.decode(wrong.new_tokens)))

# %% [markdown]
# **The forgotten catch-up.** The draft is fed the newest token only. At temperature 0 the text must
# be the target's own, and it is: this mistake cannot be seen in the output. Only acceptance shows
# it, and with an ordinary draft you would not know what to expect. So let the target draft for
# itself: **everything** must be accepted.

# %% id="profile-catch-up"
print("self-draft            text as plain   accepted   drafted")
plain = run(pair.target, pair.draft, how=greedy, K=0).new_tokens
for name, drafter in (("with catch-up", SmallModelDrafter), ("forgotten", ForgetfulDrafter)):
    alone = run(pair.target, pair.target, how=greedy, drafter=drafter)
    same = alone.new_tokens == plain
    print(f"{name:21} {same!s:13} {alone.accepted:10} {alone.drafted:9}")

# %% [markdown]
# **A batch.** Four prompts of different lengths, each with a draft cache and coins of its own. One
# forward of the target serves all rows, without padding: whatever treats tokens one by one runs
# over all of them, the attention goes row by row. Every row is what it is alone, and stops on its
# own: here a token of the first row's text plays end-of-text.


# %% id="profile-batch"
def coins_of(row):
    return iter(np.random.default_rng(row).random, None)


def run_row(target, row, eos):
    drafter = SmallModelDrafter(pair.draft, sampling)
    return generate(target, drafter, prompts[row], coins=coins_of(row), eos=eos, **asked)


asked = {"max_new_tokens": 24, "K": 4, "sampling": sampling}
stop = run_row(pair.target, 0, None).new_tokens[9]
together, one_by_one = Probe(pair.target), Probe(pair.target)
traces = generate_batch(
    together,
    [SmallModelDrafter(pair.draft, sampling) for _ in prompts],
    prompts,
    coins=[coins_of(row) for row in range(4)],
    eos=stop,
    **asked,
)
print("row   prompt   new tokens   rounds   stopped   as alone")
for row, one in enumerate(traces):
    same = one.new_tokens == run_row(one_by_one, row, stop).new_tokens
    size, new = len(prompts[row]), len(one.new_tokens)
    print(f"{row:3} {size:8} {new:12} {len(one.rounds):8}   {one.stopped:9} {same}")
print(f"target forwards: {together.calls} for the batch, {one_by_one.calls} one after the other")

# %% [markdown]
# **The same through `transformers`.** Its `DynamicCache` has no spare room: rows are appended to
# a tensor, and rollback cuts it with `crop`, which takes *minus* the number of rows to drop. The
# adapter checks what `crop` does not, and the loop is the same.

# %% id="profile-transformers"
import torch

from lessonlib.decoding.hf import HFModel

folders = [bundled_folder() / part for part in ("target", "draft")]
theirs = [HFModel.from_folder(folder, dtype=torch.float64) for folder in folders]
cache = theirs[0].new_cache()
theirs[0].forward([7, 8, 9, 10, 11], cache)
print("keys of layer 0:", tuple(cache.rows.layers[0].keys.shape))
cache.rollback(3)  # calls crop(-2)
print("after rollback: ", tuple(cache.rows.layers[0].keys.shape))
try:
    cache.rollback(100)
except ValueError as refusal:
    print("refused:", refusal)
print("same greedy text:", run(*theirs, how=greedy).new_tokens == plain)

# %% [markdown]
# **To the last place.** A long prompt, and more tokens asked for than the context has room for.
# Near the end the rounds draft fewer, and the text fills the context exactly.

# %% id="profile-context"
from tqdm.auto import tqdm

from lessonlib.lab.corpus import list_held_out, read_sources

context = pair.target.context
long_prompt = pair.encode(read_sources(list_held_out()[:1])[0])[: context - 60]
print(" K   stopped by   text   target rows   last drafts")
for length in tqdm((1, 4, 8)):
    ended = run(pair.target, pair.draft, long_prompt, K=length, max_new_tokens=context)
    text = len(long_prompt) + len(ended.new_tokens)
    drafts = [len(one.drafted) for one in ended.rounds[-4:]]
    print(f"{length:2}   {ended.stopped:11} {text:5} {ended.rounds[-1].target_rows:13}   {drafts}")
    assert text == context

# %% [markdown]
# **What the rows are worth, in seconds on this machine.** One verification of K + 1 tokens behind a
# long text with its rows in the cache, against one that runs the whole text again, as a loop
# without rollback must; and the batch above against its rows one after the other.

# %% id="profile-seconds" tags=["measured"]
from lessonlib.lab.timing import time_interleaved

fast = load_pair("bundled")  # in float32 now, as one would run it
cached = fast.target.new_cache()
fast.target.forward(long_prompt, cached)


def verify_cached():
    fast.target.forward([1, 2, 3, 4, 5], cached)
    cached.rollback(len(long_prompt))


def verify_afresh():
    fast.target.forward([*long_prompt, 1, 2, 3, 4, 5], fast.target.new_cache())


def decode_rows(groups):
    for rows in groups:
        generate_batch(
            fast.target,
            [SmallModelDrafter(fast.draft, sampling) for _ in rows],
            [prompts[row] for row in rows],
            coins=[coins_of(row) for row in rows],
            **asked | {"max_new_tokens": 12},
        )


seconds = time_interleaved(
    {
        "verify 5 tokens, rows cached": verify_cached,
        "verify 5 tokens, all run again": verify_afresh,
        "four rows, one batch": lambda: decode_rows([range(4)]),
        "four rows, one after the other": lambda: decode_rows([[0], [1], [2], [3]]),
    },
    repeats=3,
)
for name, value in seconds.items():
    print(f"{name:32} {value * 1000:8.1f} ms")

# %% [markdown]
# ## Recap
#
# | term | what people say | what it means |
# |---|---|---|
# | kv_length | "the size of the cache" | the rows that are read; the buffer may be larger |
# | rollback | "delete the wrong entries" | set kv_length to len(text) − 1, overwrite later |
# | prefix + j + 1 | "what was accepted, and the new token" | one too many: that one was not run |
# | catch-up | "feed the last token" | feed all that lack a row: two after full acceptance |
# | row independence | "pad and mask" | each sequence has a length of its own, and its own text |

# %% id="recap-1" tags=["hide-input"]
ask(
    "The target's cache holds one row less than the text has tokens. Which token lacks its row?",
    ["the rejected one", "the newest one: correction or bonus", "the first of the prompt"],
    right=1,
    why="It was drawn from the last row of the forward, so it cannot have been in that forward. "
    "It is run first thing in the next round.",
)

# %% id="recap-2" tags=["hide-input"]
ask(
    "Which test finds a draft cache that is handled wrongly?",
    [
        "greedy output equals the target's own",
        "the joint law of K + 1 tokens",
        "a self-draft, which must be accepted always",
    ],
    right=2,
    why="The draft decides only what is proposed. Its q rows are honest, whatever text its cache "
    "holds, so the output keeps its law. Only acceptance tells.",
)

# %% id="recap-3" tags=["hide-input"]
ask(
    "An end-of-text token is the second of four accepted drafts. What happens?",
    [
        "the round is emitted, then the text stops",
        "the text is cut behind it, and the cache to one row less",
        "it counts as rejected",
    ],
    right=1,
    why="What follows the end of a text is not part of it. Cut first, then count: the invariant "
    "holds for what is left.",
)

# %% [markdown]
# **Go further (open).** Some models attend to the last W tokens only and keep their rows in a ring:
# row i is overwritten by row i + W. Why can such a cache not be rolled back, and how many spare
# slots make it possible again for drafts of K tokens? What would a state-space model, which folds
# all tokens into one state, have to store?
#
# Next: **05, distil a draft**: where a draft comes from, and what makes it agree with its target.
