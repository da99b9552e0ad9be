"""Checks of exercise 4.4, the whole loop: caches, law, budget, end-of-text, context."""

from __future__ import annotations

from functools import cache

from lessonlib.exercises import Wrong
from lessonlib.exercises.cache_faults import (
    compare_calls,
    list_expected,
    name_cache_fault,
    without_prefill,
)
from lessonlib.exercises.inputs import SAME
from lessonlib.exercises.loop_trials import WRITTEN, Trial, random_trial, scripted_trial
from lessonlib.exercises.misconceptions import ADVICE
from lessonlib.theory.cachedtoy import language
from lessonlib.theory.coins import World, law_of
from lessonlib.theory.exactlaw import Law, complete_law, round_law, target_law, total_variation
from lessonlib.theory.mistakes import MISTAKES
from lessonlib.theory.verify import speculative_round

# The first round rejects 3 of 4 tokens, the second all 4, the third none, the fourth the last.
MISSES = (4, 5, 14)
SEEDS, VOCAB, DRAFTED = (1, 101), 3, 2
IN_A_LOOP = {
    "accept-on-one-coin": "one uniform decides every position: take a fresh coin for each test",
    "close-with-the-accept-coin": "the uniform that rejected a token also draws the next: take a "
    "fresh coin",
}


def _scripted(**asked) -> Trial:
    return scripted_trial(MISSES, **{"budget": 22, "K": 4} | asked)


def check_caches(answer) -> None:
    """What known mistakes do to the caches; also if the answer stops with an exception."""
    trial = _scripted()
    rounds = list_expected(trial, MISSES)
    try:
        yours = trial.run(answer)
    except Exception:
        if trial.log:
            name_cache_fault(trial, rounds)
        raise
    for model in ("target", "draft"):
        if all(call.model != model for call in trial.log):
            raise Wrong(f"at K=4 the {model} was not run: use {model}.forward(tokens, cache)")
    if yours[: len(trial.prompt)] == trial.prompt:
        raise Wrong("what your loop returns begins with the prompt: return the new tokens only")
    name_cache_fault(trial, rounds, yours)


def check_first_round(answer) -> None:
    """The exact law of what the first round emits names a wrong acceptance rule."""
    law = law_of(lambda coins: _run_first_round(answer, coins))
    if total_variation(law, _law_of_round(None)) < SAME:
        return
    for name in MISTAKES:
        if total_variation(law, _law_of_round(name)) < SAME:
            raise Wrong(IN_A_LOOP.get(name, ADVICE[name]))
    p_of, length = _behind_zero(language(VOCAB, SEEDS[0])), DRAFTED + 1
    if max(map(len, law)) <= length:
        off = total_variation(complete_law(law, p_of, length), target_law(p_of, length))
        if off > SAME:
            raise Wrong(f"the joint law of the first {length} tokens is off by TV {off:.3f}")


def _run_first_round(answer, coins: World) -> tuple[int, ...]:
    trial = random_trial(SEEDS, VOCAB, prompt=[0], budget=DRAFTED + 1, K=DRAFTED)
    tokens = trial.run(answer, coins)
    calls = [call for call in trial.log if call.model == "target"]
    # The second forward runs the newest token behind all the others.
    return tuple(tokens[: len(calls[1].cached)] if len(calls) > 1 else tokens)


@cache
def _law_of_round(mistake: str | None) -> Law:
    p_of, q_of = (_behind_zero(language(VOCAB, seed)) for seed in SEEDS)
    return round_law(MISTAKES.get(mistake, speculative_round), p_of, q_of, DRAFTED)


def _behind_zero(row_of):
    return lambda context: row_of((0, *context))


def check_greedy(answer) -> None:
    for seed in range(6):
        K, prompt = seed, [seed % 4, 1, 2][: 1 + seed % 3]
        asked = {"prompt": prompt, "budget": 12, "K": K}
        trial, alone = (random_trial((seed, other), greedy=True, **asked) for other in (50, seed))
        yours, text = trial.run(answer), list(prompt)
        for _ in range(12):
            text.append(int(alone.p_of(tuple(text)).argmax()))
        wanted = text[len(prompt) :]
        same = next((i for i, (a, b) in enumerate(zip(yours, wanted, strict=False)) if a != b), 12)
        if same < 12:
            raise Wrong(
                f"with greedy models (K={K}) token {same} is {yours[same]}, but the target alone "
                f"writes {wanted[same]}"
            )


def check_budget(answer) -> None:
    for K in range(6):
        for budget in (0, 1, 2, 5, 11):
            trial = random_trial((1, 2), prompt=[1, 2], budget=budget, K=K)
            count = len(trial.run(answer))
            if count > budget:
                raise Wrong(
                    f"{count} tokens for max_new_tokens={budget} at K={K}: a round adds up to "
                    "K + 1, so draft fewer in the last"
                )
            if count < budget:
                raise Wrong(f"{count} tokens for max_new_tokens={budget} at K={K}: too few")
            if K == 0 and any(call.model == "draft" for call in trial.log):
                raise Wrong("K=0 is plain decoding: do not run the draft")


def check_eos(answer) -> None:
    """End-of-text as an accepted token, a correction, a bonus, the last of a block, or 0."""
    for at in (3, 4, 5, 6, 8, 9, 10, 13, 14):
        _check_stop(answer, _scripted(eos=WRITTEN[at]), at - 2)
    _check_stop(answer, _scripted(eos=WRITTEN[1]), 22)  # in the prompt: no stop
    _check_stop(answer, _scripted(eos=WRITTEN[2]), 22)
    zero = WRITTEN.index(0)
    _check_stop(answer, scripted_trial((), start=zero - 1, budget=9, K=4, eos=0), 2)


def _check_stop(answer, trial: Trial, wanted: int) -> None:
    yours, start = trial.run(answer), len(trial.prompt)
    written = WRITTEN[start : start + wanted]
    if yours == written:
        _check_last_rows(trial, [*trial.prompt, *yours], "an end-of-text")
        return
    if trial.eos in trial.prompt and len(yours) < wanted:
        raise Wrong("the eos of the prompt ends the text: only a new one does")
    if trial.eos in yours[:-1]:
        falsy = " (its id may be 0, which is falsy)" if trial.eos == 0 else ""
        raise Wrong(f"tokens follow the eos: cut the round behind it and stop{falsy}")
    if yours == written[:-1]:
        raise Wrong("the eos itself is missing: it is the last new token")
    raise Wrong(f"with an eos {wanted} tokens should come out, but yours emits {len(yours)}")


def _check_last_rows(trial: Trial, text: list[int], when: str) -> None:
    rows = list(trial.target.caches[-1].tokens)
    if rows != text[:-1]:
        raise Wrong(
            f"after {when} the target's cache holds {len(rows)} rows for a text of {len(text)} "
            "tokens: roll back to len(text) - 1 after every round"
        )
    rows = list(trial.draft.caches[-1].tokens)
    if rows != text[: len(rows)] or len(rows) > len(text) - 1:
        raise Wrong(f"after {when} the draft's cache holds rows that do not stand: roll it back")


def check_context(answer) -> None:
    for K in range(6):
        for start in (4, 9, 12):
            asked = {"prompt": [1] * start, "budget": 30, "K": K, "context": 12}
            count = len(random_trial((1, 2), **asked).run(answer))
            if count != 12 - start:
                raise Wrong(
                    f"with a prompt of {start} and a context of 12 tokens {12 - start} fit, "
                    f"but yours emits {count}"
                )


def check_self_draft(answer) -> None:
    """A draft that is the target must be believed always, or its rows are not what they seem."""
    for K in (1, 2, 5):
        trial = random_trial((3, 3), vocab=5, prompt=[1, 2, 3], budget=8 * (K + 1), K=K)
        trial.run(answer)
        calls = without_prefill(trial.log, trial.prompt)
        rounds = sum(call.model == "target" for call in calls)
        if rounds > 8:
            raise Wrong(
                f"the target as its own draft needs {rounds} rounds for {8 * (K + 1)} tokens at "
                f"K={K}, wanted 8: nothing may be rejected"
            )


def check_joint_law(answer) -> None:
    """The law of a whole run: several rounds, with rollback and catch-up between them."""
    asked = {"prompt": [0], "budget": 4, "K": 2}
    law = law_of(lambda coins: tuple(random_trial(SEEDS, 2, **asked).run(answer, coins)))
    off = total_variation(law, target_law(language(2, SEEDS[0]), 4, (0,)))
    if off > SAME:
        raise Wrong(f"the joint law of 4 tokens is off by TV {off:.3f}: it is not the target's")


def check_forwards(answer) -> None:
    """Every forward of the scripted run is what it should be, and so are the rows at the end."""
    trial = _scripted()
    yours = trial.run(answer)
    if yours != WRITTEN[3:25]:
        raise Wrong("the text is not the target's own, although both models are greedy")
    compare_calls(trial, list_expected(trial, MISSES))
    _check_last_rows(trial, WRITTEN[:25], "the last round")
