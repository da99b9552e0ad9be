"""The mutation table of lesson 04: wrong answers fail with their own sentence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lessonlib.exercises.batch_misconceptions import ONE_SEQUENCE, WHOLE_BATCH, play
from lessonlib.exercises.draft_checks import draft_tokens
from lessonlib.exercises.kv_checks import (
    DRAFT_ROWS,
    TARGET_ROWS,
    rows_after_round,
    simulate_batch,
)
from lessonlib.exercises.loop_checks import IN_A_LOOP
from lessonlib.exercises.loop_trials import speculate
from lessonlib.exercises.misconceptions import ADVICE
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.rejection import draw, residual
from lessonlib.theory.verify import speculative_round

# Right answers, written another way


def right_rows(text_length, K, accepted):
    return [np.int64(text_length + accepted), text_length + accepted - (accepted == K)]


def right_draft(draft, cache, text, K, coins):
    """Runs all that is lacking before it draws, draws by hand, and returns arrays."""
    tokens, rows = [], np.zeros((K, draft.vocab_size), dtype=np.float32)
    for i in range(K):
        known = [*text, *tokens]
        last = draft.forward(known[cache.length :], cache)[-1]
        rows[i] = last
        tokens.append(int(np.searchsorted(np.cumsum(last), coins.random(), side="right")))
    return np.array(tokens, dtype=int), rows


def right_batch(text_lengths, accepted, K):
    """Round by round, with three counters for each sequence."""
    text = list(text_lengths)
    target, draft = [n - 1 for n in text], [n - 1 for n in text]
    rounds = []
    for r in range(max(len(plan) for plan in accepted)):
        row = []
        for i, plan in enumerate(accepted):
            if r >= len(plan):
                row.append(None)
                continue
            fed = text[i] + K - target[i], text[i] + K - 1 - draft[i]
            target[i] = text[i] + plan[r]
            draft[i] = target[i] - (plan[r] == K)
            text[i] += plan[r] + 1
            row.append([target[i], draft[i], *fed])
        rounds.append(tuple(row))
    return rounds


def right_loop(target, draft, prompt, max_new_tokens, K, eos, coins):
    """Prefills both models, tests by hand, drafts K to the end and cuts what is too much."""
    text, new = list(prompt), []
    caches = {model: model.new_cache() for model in (target, draft)}
    if len(text) > 1:
        for model, cache in caches.items():
            if model is target or K > 0:
                model.forward(text[:-1], cache)
    while len(new) < max_new_tokens and len(text) < target.context:
        most = min(K, target.context - len(text) - 1)
        tokens, q_rows = [], []
        fed = text[caches[draft].length :]
        for _ in range(most):
            q_rows.append(draft.forward(fed, caches[draft])[-1])
            fed = [draw(q_rows[-1], coins.random())]
            tokens += fed
        p_rows = target.forward([text[-1], *tokens], caches[target])
        block = []
        for p, q, x in zip(p_rows, q_rows, tokens, strict=False):
            if not coins.random() * q[x] < p[x]:
                block.append(draw(residual(p, q), coins.random()))
                break
            block.append(x)
        else:
            block.append(draw(p_rows[-1], coins.random()))
        block = block[: max_new_tokens - len(new)]
        if eos is not None and eos in block:
            block = block[: block.index(eos) + 1]
        text, new = text + block, new + block
        for cache in caches.values():
            cache.rollback(min(cache.length, len(text) - 1))
        if new[-1] == eos:
            break
    return tuple(new)


RIGHT = {
    "4.1": [rows_after_round, right_rows],
    "4.2": [draft_tokens, right_draft],
    "4.3": [simulate_batch, right_batch],
    "4.4": [speculate, right_loop],
}


# Wrong answers


def drafting(first=None, last_too=False, row=-1, pick=None, one_by_one=False):
    """The right draft with one part swapped: what it is fed, which row, how it draws."""

    def answer(draft, cache, text, K, coins):
        tokens, q_rows = [], []
        lacking = text[cache.length :]
        fed = lacking if first is None else first(text, cache)
        if one_by_one:
            for token in lacking[:-1]:
                draft.forward([token], cache)
            fed = lacking[-1:]
        for _ in range(K):
            q_rows.append(draft.forward(fed, cache)[row])
            choose = pick or (lambda q, coins: draw(q, coins.random()))
            fed = [choose(q_rows[-1], coins)]
            tokens += fed
        if last_too and K:
            draft.forward(fed, cache)
        return tokens, q_rows

    return answer


def clear_first(text, cache):
    cache.rollback(0)
    return text


def one_coin(draft, cache, text, K, coins):
    coin = coins.random()
    return drafting(pick=lambda q, _: draw(q, coin))(draft, cache, text, K, coins)


def change_text(draft, cache, text, K, coins):
    text.append(0)
    return draft_tokens(draft, cache, text[:-1], K, coins)


def draft_for_nothing(draft, cache, text, K, coins):
    if K == 0:
        draft.forward(text[cache.length :], cache)
    return draft_tokens(draft, cache, text, K, coins)


def target_with(rows):
    return lambda n, K, a: (rows(n, K, a), right_rows(n, K, a)[1])


def draft_with(rows):
    return lambda n, K, a: (right_rows(n, K, a)[0], rows(n, K, a))


def batch_of(change):
    return lambda lengths, plans, K: simulate_batch(lengths, change(plans), K)


def stopped_go_on(lengths, plans, K):
    rounds = [list(row) for row in simulate_batch(lengths, plans, K)]
    for before, row in pairwise(rounds):
        row[:] = [old if new is None else new for old, new in zip(before, row, strict=True)]
    return rounds


def loop_with(
    keep=lambda text, n, tokens, cache: len(text) - 1,
    keep_draft=lambda text, n, tokens, cache: len(text) - 1,
    draft_fed=lambda text, tokens, cache: [*text, *tokens][cache.length :],
    target_fed=lambda text, tokens, cache: [*text, *tokens][cache.length :],
    round=speculative_round,
    most=lambda K, room: min(K, room - 1),
    cut=lambda text, start, eos: (
        text[: text.index(eos, start) + 1] if eos in text[start:] else text
    ),
    stops=lambda text, start, eos: eos in text[start:],
    limit=lambda start, budget, context: min(start + budget, context),
    last_too=False,
    give=lambda text, n: text[n:],
):
    """The right loop with one part swapped."""

    def answer(target, draft, prompt, budget, K, eos, coins):
        text, p_cache, q_cache = list(prompt), target.new_cache(), draft.new_cache()
        end = limit(len(prompt), budget, target.context)
        while len(text) < end:
            n, tokens, q_rows = len(text), [], []
            for _ in range(most(K, end - n)):
                q_rows.append(draft.forward(draft_fed(text, tokens, q_cache), q_cache)[-1])
                tokens.append(draw(q_rows[-1], coins.random()))
            if last_too and tokens:
                draft.forward(tokens[-1:], q_cache)
            rows = target.forward(target_fed(text, tokens, p_cache), p_cache)[-len(tokens) - 1 :]
            u = [coins.random() for _ in range(len(tokens) + 1)]
            text = cut(text + round(rows, q_rows, tokens, u), n, eos)
            p_cache.rollback(keep(text, n, tokens, p_cache))
            q_cache.rollback(min(q_cache.length, keep_draft(text, n, tokens, q_cache)))
            if stops(text, n, eos):
                break
        return give(text, len(prompt))

    return answer


def off_by_one(text, n, tokens, cache):
    return min(cache.length, len(text))


def off_by_one_unguarded(text, n, tokens, cache):
    return len(text)


def no_rollback(text, n, tokens, cache):
    return cache.length


def newest_only(text, tokens, cache):
    """Feeds the prompt once, then always one token: the catch-up is forgotten."""
    line = [*text, *tokens]
    return line if cache.length == 0 else line[-1:]


def all_again(text, tokens, cache):
    cache.rollback(0)
    return [*text, *tokens]


def without_newest(text, tokens, cache):
    line = [*text, *tokens]
    return line[len(text) :] if cache.length and tokens else line[cache.length :]


def catch_up_in_two(target, draft, prompt, budget, K, eos, coins):
    class OneByOne:
        new_cache = staticmethod(draft.new_cache)

        @staticmethod
        def forward(tokens, cache):
            alone = [tokens] if cache.length == 0 else [[token] for token in tokens]
            return np.vstack([draft.forward(part, cache) for part in alone])

    return speculate(target, OneByOne, prompt, budget, K, eos, coins)


def one_at_a_time(target, draft, prompt, budget, K, eos, coins):
    """Verifies token by token: the right text, K times the target forwards."""

    class Slow:
        context, new_cache = target.context, staticmethod(target.new_cache)

        @staticmethod
        def forward(tokens, cache):
            return np.vstack([target.forward([token], cache) for token in tokens])

    return speculate(Slow, draft, prompt, budget, K, eos, coins)


def lazy_rollback(target, draft, prompt, budget, K, eos, coins):
    """Rolls back at the start of a round, so the last round leaves its rows behind."""

    class Lazy:
        context = target.context

        @staticmethod
        def new_cache():
            cache = target.new_cache()
            real, kept = cache.rollback, []

            def later(length):
                kept[:] = [length]

            def settle():
                if kept:
                    real(kept.pop())

            cache.rollback, cache.settle = later, settle
            return cache

        @staticmethod
        def forward(tokens, cache):
            return target.forward(tokens, cache)

    text, p_cache, q_cache = list(prompt), Lazy.new_cache(), draft.new_cache()
    end = min(len(text) + budget, target.context)
    while len(text) < end and eos not in text[len(prompt) :]:
        p_cache.settle()
        start, tokens, rows = len(text), [], []
        for _ in range(min(K, end - start - 1)):
            rows.append(draft.forward([*text, *tokens][q_cache.length :], q_cache)[-1])
            tokens.append(draw(rows[-1], coins.random()))
        p_rows = target.forward([*text, *tokens][p_cache.length :], p_cache)
        u = [coins.random() for _ in range(len(tokens) + 1)]
        text += speculative_round(p_rows[-len(u) :], rows, tokens, u)
        if eos in text[start:]:
            del text[text.index(eos, start) + 1 :]
        p_cache.rollback(len(text) - 1)
        q_cache.rollback(min(q_cache.length, len(text) - 1))
    return text[len(prompt) :]


def stop_at_prompts_eos(target, draft, prompt, budget, K, eos, coins):
    new = speculate(target, draft, prompt, budget, K, eos, coins)
    return [] if eos in prompt else new


def without_eos(target, draft, prompt, budget, K, eos, coins):
    new = speculate(target, draft, prompt, budget, K, eos, coins)
    return new[:-1] if eos in new else new


def falsy(text, start, eos):
    return bool(eos) and eos in text[start:]


def reuse_across_rounds(target, draft, prompt, budget, K, eos, coins):
    """The coin that closes a round also draws the first draft of the next."""

    class Sticky:
        left = None

        def random(self):
            coin, self.left = self.left, None
            return coins.random() if coin is None else coin

    sticky = Sticky()

    def round(p_rows, q_rows, tokens, u):
        sticky.left = u[-1]
        return speculative_round(p_rows, q_rows, tokens, u)

    return loop_with(round=round)(target, draft, prompt, budget, K, eos, sticky)


def one_forward_more(target, draft, prompt, budget, K, eos, coins):
    """Runs the newest token at the end, and rolls it back."""
    new = speculate(target, draft, prompt, budget, K, eos, coins)
    if new and len(prompt) + len(new) < target.context:
        target.forward(new[-1:], target.caches[-1])
        target.caches[-1].rollback(len(prompt) + len(new) - 1)
    return new


def forgets_at_2(target, draft, prompt, budget, K, eos, coins):
    """Forgets the catch-up at K = 2 only, where no script of forwards looks."""
    loop = loop_with(draft_fed=newest_only) if K == 2 else speculate
    return loop(target, draft, prompt, budget, K, eos, coins)


def zero_is_falsy(target, draft, prompt, *rest):
    """Takes a leading token 0 for nothing."""
    if len(prompt) > 1 and not prompt[0]:
        prompt = prompt[1:]
    return speculate(target, draft, prompt, *rest)


def greedy_always(p_rows, q_rows, tokens, u):
    for j, x in enumerate(tokens):
        if p_rows[j].argmax() != x:
            return [*tokens[:j], int(p_rows[j].argmax())]
    return [*tokens, int(p_rows[-1].argmax())]


def draft_without_rollback(text, n, tokens, cache):
    return cache.length


def lose_one_more(text, n, tokens, cache):
    return max(0, len(text) - 2)


def mistaken(name):
    """A loop with a wrong round; where nothing is drafted the round is right, or it has no end."""

    def round(p_rows, q_rows, tokens, u):
        return (MISTAKES[name] if tokens else speculative_round)(p_rows, q_rows, tokens, u)

    return loop_with(round=round)


OWN_SENTENCES = {
    **ADVICE,
    **IN_A_LOOP,
    "bonus-missing": "no bonus token",
    "replacement-missing": "add at least one token",
}
ROUND_MISTAKES = [(mistaken(name), OWN_SENTENCES[name]) for name in MISTAKES]

WRONG = {
    "4.1": [
        *((target_with(rows), words) for words, rows in TARGET_ROWS.items()),
        *((draft_with(rows), words) for words, rows in DRAFT_ROWS.items()),
        (target_with(lambda n, K, a: n - 1 + a + 2), "that of the rejected token"),
        (target_with(lambda n, K, a: 7), "text_length=1, K=1, accepted=0: the target keeps 7"),
        (draft_with(lambda n, K, a: n + a + 5), "the draft keeps 6 rows, wanted 1"),
        (lambda n, K, a: n + a, "wanted 2 values"),
        (lambda n, K, a: None, "is a return missing?"),
        (lambda n, K, a: (float(n + a), n + a), "wanted an int"),
        (lambda n, K, a: (float("nan"), n + a), "wanted an int"),
        (lambda n, K, a: ([n + a], n + a), "your target rows is a list, wanted an int"),
    ],
    "4.2": [
        (drafting(first=lambda text, cache: text[-1:]), "but its cache lacks 2"),
        (drafting(first=lambda text, cache: text), "run only those that it lacks"),
        (drafting(first=clear_first), "run only those that it lacks"),
        (drafting(first=lambda text, cache: text[cache.length :][:1]), "the first forward is fed"),
        (drafting(last_too=True), "the last drafted token is run, too"),
        (drafting(one_by_one=True), "in several forwards: feed them in one"),
        (drafting(row=0), "q_rows[0] is the first row of the forward"),
        (drafting(pick=lambda q, coins: int(q.argmax())), "the likeliest token is taken"),
        (one_coin, "draw each with a fresh coins.random()"),
        (draft_for_nothing, "K=0 asks for no token"),
        (lambda *a: (draft_tokens(*a)[0][:-1], []), "3 tokens are drafted, wanted K=4"),
        (lambda *a: (draft_tokens(*a)[0], [[0.5]] * a[3]), "has shape (4, 1), wanted (4, 40)"),
        (lambda *a: (draft_tokens(*a)[0], None), "your q_rows is None"),
        (lambda draft, cache, text, K, coins: ([0] * K, np.zeros((K, 40))), "was not run"),
        (lambda *a: draft_tokens(*a)[0], "what you return holds 4 values, wanted 2"),
        (lambda *a: None, "is a return missing?"),
        (
            lambda *a: (draft_tokens(*a)[0], np.full((a[3], a[0].vocab_size), np.nan)),
            "your q_rows holds NaN",
        ),
        (change_text, "your code changed text in place"),
    ],
    "4.3": [
        *((lambda *a, kind=kind: play(kind, *a), words) for words, kind in ONE_SEQUENCE.items()),
        *((batch_of(change), words) for words, change in WHOLE_BATCH.items()),
        (stopped_go_on, "None belongs there"),
        (lambda *a: simulate_batch(*a)[:-1], "until the last sequence stops"),
        (lambda *a: [[(0, 0, 0, 0) if x else x for x in row] for row in simulate_batch(*a)],
         "round 0, sequence 0: target_rows is 0, wanted 10"),
        (lambda *a: [[x and x[:2] for x in row] for row in simulate_batch(*a)], "wanted 4"),
        (lambda *a: [row[:1] for row in simulate_batch(*a)], "round 0 of your answer holds 1"),
        (lambda *a: [[None for _ in row] for row in simulate_batch(*a)], "has not stopped"),
        (lambda *a: None, "is a return missing?"),
        (lambda *a: 3, "wanted 2 values"),
        (lambda *a: [[x and (*x[:3], float("nan")) for x in row] for row in simulate_batch(*a)],
         "wanted an int"),
        (lambda lengths, plans, K: plans[0].append(0) or simulate_batch(lengths, plans, K),
         "changed accepted in place"),
    ],
    "4.4": [
        (loop_with(keep=off_by_one), "a row more is that of a rejected token"),
        (loop_with(keep=off_by_one_unguarded), "a row more is that of a rejected token"),
        (loop_with(keep=no_rollback), "still holds all rejected rows"),
        (loop_with(keep=lose_one_more), "so 1 are run again"),
        (loop_with(target_fed=all_again), "are run again"),
        (loop_with(keep_draft=draft_without_rollback), "it keeps rows of rejected tokens"),
        (loop_with(keep_draft=off_by_one), "it keeps rows of rejected tokens"),
        (loop_with(keep_draft=lose_one_more), "its cache lost too many"),
        (loop_with(draft_fed=newest_only), "is fed 1 token but lacks 2"),
        (loop_with(draft_fed=all_again), "runs the whole text again"),
        (loop_with(target_fed=without_newest), "is not fed the newest token"),
        (loop_with(last_too=True), "runs its last token, too"),
        (catch_up_in_two, "feed both tokens in one"),
        (one_at_a_time, "the target runs one token at a time"),
        (lazy_rollback, "roll back to len(text) - 1 after every round"),
        *ROUND_MISTAKES,
        (loop_with(round=greedy_always), "the joint law of the first 3 tokens"),
        (loop_with(most=lambda K, room: K), "so draft fewer"),
        (loop_with(limit=lambda n, new, context: min(n + new + 1, context)), "so draft fewer"),
        (loop_with(limit=lambda n, budget, context: min(n + budget - 1, context)), "too few"),
        (loop_with(most=lambda K, room: min(max(K, 1), room - 1)), "K=0 is plain decoding"),
        (loop_with(cut=lambda text, start, eos: text), "tokens follow the eos"),
        (loop_with(stops=lambda text, start, eos: False), "tokens follow the eos"),
        (loop_with(stops=falsy), "which is falsy"),
        (without_eos, "the eos itself is missing"),
        (stop_at_prompts_eos, "the eos of the prompt ends the text"),
        (loop_with(limit=lambda n, budget, context: n + budget), "past the context of 12"),
        (loop_with(limit=lambda n, budget, context: min(n + budget, context - 1)),
         "8 fit, but yours emits 7"),
        (loop_with(give=lambda text, n: text), "begins with the prompt"),
        (reuse_across_rounds, "the joint law of 4 tokens is off"),
        (one_forward_more, "forwards run after the last round: 1"),
        (forgets_at_2, "nothing may be rejected"),
        (zero_is_falsy, "but the target alone writes"),
        (lambda *a: None, "is a return missing?"),
        (lambda *a: 5, "wanted a list of token ids"),
        (lambda *a: [1, 2, 3], "the target was not run"),
        (loop_with(most=lambda K, room: 0), "the draft was not run"),
        (lambda *a: [float("nan")] * a[3], "wanted an int"),
        (lambda *a: np.zeros((2, 2)), "wanted a list of token ids"),
        (lambda t, d, prompt, *a: prompt.append(1) or [1], "changed prompt in place"),
    ],
}  # fmt: skip


def test_every_sentence_about_rows_is_one_plain_line_of_its_own():
    sentences = [*TARGET_ROWS, *DRAFT_ROWS, *ONE_SEQUENCE, *WHOLE_BATCH, *IN_A_LOOP.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(words.isascii() and len(words) < 100 for words in sentences)
