"""Checks of exercise 4.2: a draft that runs what its cache lacks, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.theory.cachedtoy import CachedToy, Call, ToyCache, language, scripted_rows
from lessonlib.theory.coins import law_of
from lessonlib.theory.exactlaw import target_law, total_variation
from lessonlib.theory.rejection import draw

SCRIPT = np.random.default_rng(4).permutation(40).tolist()  # no token twice


def draft_tokens(draft, cache, text, K, coins):
    """The reference: K tokens in K forwards, the first of which runs all that is lacking."""
    tokens, q_rows, fed = [], [], list(text[cache.length :])
    for _ in range(K):
        q_rows.append(draft.forward(fed, cache)[-1])
        fed = [draw(q_rows[-1], coins.random())]
        tokens += fed
    return tokens, q_rows


@dataclass(frozen=True)
class Situation:
    """A draft whose cache holds the first ``rows`` tokens of ``text``, and the K asked for."""

    draft: CachedToy
    cache: ToyCache
    text: list[int]
    rows: int
    K: int


def _make(row_of, vocab: int, text: list[int], rows: int, K: int) -> Situation:
    draft = CachedToy("draft", vocab, row_of)
    cache = draft.new_cache()
    if rows:
        draft.forward(text[:rows], cache)
    draft.log.clear()
    return Situation(draft, cache, text, rows, K)


def _scripted() -> Iterator[Situation]:
    """One token lacking, then two, then the whole prompt, then other lengths."""
    for length, rows, K in ((6, 5, 4), (7, 5, 4), (5, 0, 3), (1, 0, 2), (9, 7, 1), (12, 11, 1)):
        yield _make(scripted_rows(SCRIPT, 40), 40, SCRIPT[:length], rows, K)


def _draft(answer, now: Situation, coins) -> tuple[list[int], list[np.ndarray]]:
    text = list(now.text)
    with inputs.unchanged(text=text):
        parts = inputs.as_tuple(
            answer(now.draft, now.cache, text, now.K, coins), "what you return", 2
        )
    tokens = inputs.as_tokens(parts[0], "your tokens")
    if len(tokens) != now.K:
        raise Wrong(f"{len(tokens)} tokens are drafted, wanted K={now.K}")
    if now.K == 0:
        return [], []
    shape = (now.K, now.draft.vocab_size)
    return tokens, list(inputs.as_array(parts[1], "your q_rows", shape))


def check_first_forward(answer) -> None:
    for now in _scripted():
        _draft(answer, now, np.random.default_rng(0))
        _name_first_fault(now.draft.log, now)


def _name_first_fault(log: list[Call], now: Situation) -> None:
    lacking = now.text[now.rows :]
    if not log:
        raise Wrong("the draft was not run: call draft.forward(tokens, cache)")
    cached, fed = list(log[0].cached), list(log[0].fed)
    if cached == now.text[: now.rows] and fed == lacking:
        return
    if len(cached) < now.rows or fed == now.text:
        raise Wrong(
            f"{len(fed)} tokens are run, but {now.rows} of the {len(now.text)} have their rows in "
            "the cache: run only those that it lacks"
        )
    if len(log) > now.K and fed == lacking[:1] and list(log[1].fed) == lacking[1:2]:
        raise Wrong("tokens that the cache lacks are fed in several forwards: feed them in one")
    if fed == lacking[-1:]:
        raise Wrong(
            f"the draft is fed the newest token only, but its cache lacks {len(lacking)}: feed "
            "all of them in one forward"
        )
    raise Wrong(f"the first forward is fed {fed}, wanted {lacking}, which the cache lacks")


def check_later_forwards(answer) -> None:
    for now in _scripted():
        tokens, _ = _draft(answer, now, np.random.default_rng(0))
        fed = [list(call.fed) for call in now.draft.log]
        if len(fed) == now.K + 1 and fed[-1] == tokens[-1:]:
            raise Wrong("the last drafted token is run, too: nobody asks what comes after it")
        if len(fed) != now.K:
            raise Wrong(f"the draft ran {len(fed)} forwards for K={now.K} tokens, wanted {now.K}")
        for i, (given, token) in enumerate(zip(fed[1:], tokens, strict=False), 2):
            if given != [token]:
                raise Wrong(f"forward {i} is fed {given}, wanted the token just drafted: {[token]}")
        if now.cache.length != len(now.text) + now.K - 1:
            raise Wrong(
                f"the cache holds {now.cache.length} rows afterwards, wanted "
                f"{len(now.text) + now.K - 1}: every drafted token but the last"
            )


def check_nothing_drafted(answer) -> None:
    now = _make(scripted_rows(SCRIPT, 40), 40, SCRIPT[:6], 5, K=0)
    _draft(answer, now, np.random.default_rng(0))
    if now.draft.log:
        raise Wrong("K=0 asks for no token: do not run the draft")


def check_rows(answer) -> None:
    """Each row is the one its token was drawn from: the last of its forward."""
    row_of = language(3, 7)
    for rows in (4, 3, 0):
        now = _make(row_of, 3, [0, 1, 2, 2, 1], rows, K=3)
        tokens, q_rows = _draft(answer, now, np.random.default_rng(1))
        for i, row in enumerate(q_rows):
            if np.abs(row - row_of((*now.text, *tokens[:i]))).max() < SAME:
                continue
            if np.abs(row - row_of((*now.text, *tokens[:i])[: rows + 1])).max() < SAME:
                raise Wrong("q_rows[0] is the first row of the forward: take its last one")
            raise Wrong(f"q_rows[{i}] is not the row that drafted token {i} was drawn from")


def check_draft_law(answer) -> None:
    row_of = language(3, 7)

    def run(coins) -> tuple[int, ...]:
        return tuple(_draft(answer, _make(row_of, 3, [0, 1], 1, K=2), coins)[0])

    law, wanted = law_of(run), target_law(row_of, 2, (0, 1))
    if total_variation(law, wanted) < SAME:
        return
    if len(law) == 1:
        raise Wrong("the likeliest token is taken: draw it from its row with draw(row, u)")
    raise Wrong(
        "the drafted tokens do not follow their rows: draw each with a fresh coins.random()"
    )
