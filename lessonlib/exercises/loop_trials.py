"""Running a learner's whole decoding loop on toy models, and taking notes of every forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.theory.cachedtoy import (
    CachedToy,
    Call,
    ContextFull,
    RowOf,
    language,
    scripted_rows,
)
from lessonlib.theory.rejection import draw
from lessonlib.theory.verify import speculative_round

PATIENCE = 1000  # forwards; no run of a check needs a third of it
WRITTEN = np.random.default_rng(11).permutation(60).tolist()  # what the target writes: no twins
VOCAB = 120  # the tokens 60 to 119 are what a wrong draft says


def speculate(target, draft, prompt, max_new_tokens, K, eos, coins):
    """The reference: the whole loop, caches included. Returns the new tokens.

    Nothing is special about the first round or a full acceptance: both models run what their
    cache lacks.
    """
    text, p_cache, q_cache = list(prompt), target.new_cache(), draft.new_cache()
    end = min(len(text) + max_new_tokens, target.context)
    while len(text) < end and eos not in text[len(prompt) :]:
        start, drafted, q_rows = len(text), [], []
        for _ in range(min(K, end - start - 1)):
            q_rows.append(draft.forward([*text, *drafted][q_cache.length :], q_cache)[-1])
            drafted.append(draw(q_rows[-1], coins.random()))
        p_rows = target.forward([*text, *drafted][p_cache.length :], p_cache)
        u = [coins.random() for _ in range(len(drafted) + 1)]
        text += speculative_round(p_rows[-len(u) :], q_rows, drafted, u)
        if eos in text[start:]:
            del text[text.index(eos, start) + 1 :]
        p_cache.rollback(len(text) - 1)
        q_cache.rollback(min(q_cache.length, len(text) - 1))
    return text[len(prompt) :]


class _Log(list):
    """The common log of two models; it ends a loop that does not end."""

    def append(self, call: Call) -> None:
        if len(self) >= PATIENCE:
            raise Wrong(
                f"the loop ran {PATIENCE} forwards and still goes on: every round must add at "
                "least one token"
            )
        super().append(call)


@dataclass
class Trial:
    """One run to make: the two languages and what is asked for; afterwards what was noted."""

    p_of: RowOf
    q_of: RowOf
    vocab: int
    prompt: list[int]
    budget: int
    K: int
    eos: int | None = None
    context: int = 1000

    def run(self, answer: Callable, coins=None) -> list[int]:
        """The tokens that ``answer`` emits; ``log`` and the two models hold the notes."""
        self.log: list[Call] = _Log()
        self.target, self.draft = (
            CachedToy(name, self.vocab, row_of, context=self.context, log=self.log)
            for name, row_of in (("target", self.p_of), ("draft", self.q_of))
        )
        prompt = list(self.prompt)
        coins = np.random.default_rng(0) if coins is None else coins
        try:
            with inputs.unchanged(prompt=prompt):
                given = answer(
                    self.target, self.draft, prompt, self.budget, self.K, self.eos, coins
                )
        except ContextFull:
            raise Wrong(
                f"a forward runs past the context of {self.context} tokens: near the end draft "
                "fewer than K"
            ) from None
        return inputs.as_tokens(given, "what your loop returns")


def random_trial(seeds: tuple[int, int], vocab: int = 4, *, greedy: bool = False, **asked) -> Trial:
    """A run over random languages; equal seeds make a self-draft."""
    p_of, q_of = (language(vocab, seed, greedy) for seed in seeds)
    return Trial(p_of, q_of, vocab, **asked)


def write_draft(misses: Sequence[int]) -> list[int]:
    """What the draft says instead of WRITTEN: other tokens at the positions ``misses``."""
    return [VOCAB - 1 - i if i in misses else token for i, token in enumerate(WRITTEN)]


def scripted_trial(misses: Sequence[int], *, start: int = 3, **asked) -> Trial:
    """The target writes WRITTEN, and the draft says something else at the positions ``misses``.

    ``start`` tokens of it are the prompt. Both models only count how much they have read, so
    the text stays readable whatever is in a cache.
    """
    p_of, q_of = (scripted_rows(script, VOCAB) for script in (WRITTEN, write_draft(misses)))
    return Trial(p_of, q_of, VOCAB, prompt=WRITTEN[:start], **asked)
