"""The speculative decoding loop: draft, verify, commit, roll back. One loop for every drafter.

A chain is a tree with one child per node, so the same code serves both.

Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. The
invariant after every round is len(cache) == len(text) - 1: the newest token has not
been run yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.steps import Run, Step, run_alone, run_together
from lessonlib.decoding.trace import Round, TopRow, Trace
from lessonlib.theory.treemask import under_root
from lessonlib.theory.trees import Proposal, chain
from lessonlib.theory.verify import Test, verify


class Model(Protocol):
    """What the loop needs of a model; ``gpt2.GPT2`` is one, ``hf.HFModel`` another."""

    vocab_size: int
    context: int

    def new_cache(self): ...

    def forward_rows(self, steps: Sequence[Step]) -> list: ...


class Drafter(Protocol):
    """What the loop needs of a drafter; ``drafting.small.SmallModelDrafter`` is one.

    ``propose`` drafts at most K tokens deep: a Proposal, or a run (``decoding/steps``) that
    ends in one. ``settle`` is called behind the prefill and every round: ``text`` stands
    now, and ``seen`` is the target's Output for the tokens of ``text`` that it ran since
    the last call, those of the accepted path: the rows of text[-1 - n : -1].
    """

    vocab_size: int
    rows: int

    def propose(
        self, text: Sequence[int], K: int, coins: Iterator[float]
    ) -> Proposal | Run[Proposal]: ...

    def settle(self, text: Sequence[int], seen) -> None: ...


def generate(
    target: Model, drafter: Drafter | None, prompt: Sequence[int], *, coins: Iterator[float], **how
) -> Trace:
    """Continue ``prompt`` so that the output follows the target's law exactly.

    ``drafter=None`` (or K = 0) is plain decoding by the same code. ``coins`` yields
    uniforms in [0, 1). ``how`` is what ``decode`` takes: max_new_tokens, K, sampling, eos,
    top; its errors are listed there.
    """
    return run_alone(decode(target, drafter, prompt, coins=coins, **how))


def generate_batch(
    target: Model,
    drafters: Sequence[Drafter | None],
    prompts: Sequence[Sequence[int]],
    *,
    coins: Sequence[Iterator[float]],
    **how,
) -> list[Trace]:
    """``generate`` for several prompts at once, each with a drafter and coins of its own.

    Rows accept different lengths and stop at different times, and none sees another: each
    follows the target's law as it would alone. Token for token it is what it would have been
    alone in float64; in float32 the number of rows in a matrix product changes the rounding
    of its last digits, and where two tokens are that close, the text can part there.
    Drafters that share a model have their forwards batched, too. Raises ValueError if the
    three lists are not equally long.
    """
    if not len(drafters) == len(prompts) == len(coins):
        sizes = f"{len(drafters)}, {len(prompts)} and {len(coins)}"
        raise ValueError(f"drafters, prompts and coins must be equally long, got {sizes}")
    rows = zip(drafters, prompts, coins, strict=True)
    runs = [decode(target, drafter, prompt, coins=c, **how) for drafter, prompt, c in rows]
    return run_together(runs, last=target)


def decode(
    target: Model,
    drafter: Drafter | None,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    K: int = 4,
    sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
    coins: Iterator[float],
    eos: int | None = None,
    top: int = 0,
) -> Run[Trace]:
    """The run behind ``generate``: it yields the forwards it wants and returns the Trace.

    K is how deep a round may draft. Emits exactly ``max_new_tokens`` unless ``eos`` or the
    end of the target's context comes first; nothing follows an ``eos``. ``top`` > 0 records
    that many of the likeliest tokens at each position of a chain.

    Raises ValueError for an empty or too long prompt, a token outside the vocabulary,
    a negative K or max_new_tokens, vocabularies that differ, and a drafter that drafts
    deeper than it was asked to.
    """
    _check_request(target, drafter, prompt, max_new_tokens, K)
    trace, text, cache = Trace(list(prompt)), list(prompt), target.new_cache()
    if len(text) > 1:
        prefill = yield Step(target, text[:-1], cache)
        if drafter is not None:
            drafter.settle(text, prefill)
    end = len(prompt) + max_new_tokens
    while len(text) < end:
        # A round emits up to K + 1 tokens: draft no more than there is room for.
        room = min(end, target.context) - len(text)
        if room <= 0:
            trace.stopped = "context"
            break
        proposal = chain([], [])
        if drafter is not None and room > 1 and K > 0:
            proposal = yield from _draft(drafter, text, min(K, room - 1), coins)
            # A wide tree may have more nodes than the target's cache has free rows.
            proposal = proposal.first(target.context - len(text))
        parents = None if proposal.is_chain else under_root(proposal.parents)
        output = yield Step(target, [text[-1], *proposal.tokens], cache, parents)
        p_rows = sampling.probabilities(output.logit_rows())
        round, rows = _close_round(proposal, p_rows, text, coins, eos, top)
        cache.commit(len(text) - 1, rows)
        text += round.emitted
        if drafter is not None:
            drafter.settle(text, output.pick(rows))
            round = replace(round, draft_rows=drafter.rows)
        trace.rounds.append(round)
        if text[-1] == eos:
            trace.stopped = "eos"
            break
    return trace


def _draft(drafter, text, most, coins) -> Run[Proposal]:
    """At most ``most`` tokens deep; a drafter that runs a model asks for its forwards."""
    proposal = drafter.propose(text, most, coins)
    if not isinstance(proposal, Proposal):
        proposal = yield from proposal
    if proposal.depth > most:
        raise ValueError(f"drafter went {proposal.depth} tokens deep, asked for {most}")
    return proposal


def _close_round(proposal, p_rows, text, coins, eos, top) -> tuple[Round, list[int]]:
    """Verify, cut behind an eos; returns the round and the rows of its forward to keep."""
    verdict = verify(proposal, p_rows, coins)
    emitted = [*(proposal.tokens[node] for node in verdict.path), verdict.token]
    kinds = [*("drafted" for _ in verdict.path), verdict.kind]
    if eos in emitted:
        stop = emitted.index(eos) + 1
        emitted, kinds = emitted[:stop], kinds[:stop]
    # The root was row 0 of this forward, node i row i + 1; the newest token has no row yet.
    rows = [0, *(node + 1 for node in verdict.path)][: len(emitted)]
    round = Round(
        start=len(text),
        drafted=list(proposal.tokens),
        parents=[] if proposal.is_chain else list(proposal.parents),
        tests=_cut_tests(verdict.tests, len(emitted)),
        emitted=emitted,
        kinds=kinds,
        target_rows=len(text) + len(emitted) - 1,
        top=_record_top(proposal, p_rows, emitted, top),
    )
    return round, rows


def _cut_tests(tests, passes) -> list[Test]:
    """The tests up to pass number ``passes``: the text behind an eos does not exist."""
    passed = np.cumsum([test.accepted for test in tests])
    return [
        test for test, count in zip(tests, passed, strict=True) if count - test.accepted < passes
    ]


def _record_top(proposal, p_rows, emitted, top) -> list[TopRow]:
    """The ``top`` likeliest tokens of each row of a chain, with the drafted and emitted one."""
    rows = []
    for i, p in enumerate(p_rows if top and proposal.is_chain else []):
        q = proposal.q_row(i, len(p)) if i < len(proposal.tokens) else None
        weight = p.copy() if q is None else np.maximum(p, q)
        weight[[*proposal.tokens[i : i + 1], *emitted[i : i + 1]]] += 1  # always shown
        shown = np.argsort(-weight, kind="stable")[:top]
        tokens = shown[np.argsort(-p[shown], kind="stable")]
        rows.append(
            TopRow(tokens.tolist(), p[tokens].tolist(), [] if q is None else q[tokens].tolist())
        )
    return rows


def _check_request(target, drafter, prompt, max_new_tokens, K) -> None:
    if len(prompt) == 0:
        raise ValueError("prompt is empty: give at least one token, such as end-of-text")
    if len(prompt) > target.context:
        raise ValueError(
            f"prompt has {len(prompt)} tokens, but the target's context holds {target.context}: "
            "shorten the prompt"
        )
    outside = [token for token in prompt if not 0 <= token < target.vocab_size]
    if outside:
        raise ValueError(
            f"prompt holds token {outside[0]}, outside the vocabulary of {target.vocab_size}"
        )
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}: use 0 or more")
    if K < 0:
        raise ValueError(f"K is {K}: use 0 (plain decoding) or more")
    if drafter is not None and drafter.vocab_size != target.vocab_size:
        raise ValueError(
            f"the draft's vocabulary has {drafter.vocab_size} tokens and the target's "
            f"{target.vocab_size}: use a draft trained with the target's tokenizer"
        )
