"""Tell a learner what is wrong with the caches of a loop, from the forwards that it ran.

On scripted models the right run is known, forward by forward. The first forward that is not
what it should be says which mistake was made; one that no known mistake explains is left to
the other checks (a wrong acceptance rule changes the text, not the caches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lessonlib.exercises import Wrong
from lessonlib.exercises.loop_trials import WRITTEN, Trial, write_draft
from lessonlib.theory.cachedtoy import Call
from lessonlib.theory.metrics import count_accepted


@dataclass(frozen=True)
class Expected:
    """A round as it should be: the text before it, what is drafted, and how much passes."""

    text: list[int]
    drafted: list[int]
    accepted: int
    draft_rows: int  # before the round
    last_rejected: int  # drafted tokens that the round before it rejected; 0 in the first
    last_full: bool  # whether the round before it accepted everything


def list_expected(trial: Trial, misses: Sequence[int]) -> list[Expected]:
    """The rounds of a scripted trial in which the draft is wrong at the positions ``misses``."""
    rounds: list[Expected] = []
    n, end = len(trial.prompt), len(trial.prompt) + trial.budget
    draft_rows, rejected, full = 0, 0, False
    while n < end:
        drafted = write_draft(misses)[n : n + min(trial.K, end - n - 1)]
        passed = [n + i not in misses for i in range(len(drafted))]
        accepted = count_accepted(passed)
        rounds.append(Expected(WRITTEN[:n], drafted, accepted, draft_rows, rejected, full))
        rejected, full = len(drafted) - accepted, accepted == len(drafted)
        draft_rows = min(n + accepted, n + len(drafted) - 1) if drafted else draft_rows
        n += accepted + 1
    return rounds


def name_cache_fault(
    trial: Trial, rounds: Sequence[Expected], written: list[int] | None = None
) -> None:
    """Raise Wrong at the first forward of a known mistake, in the order in which they ran.

    ``written`` is what the loop returned, or None if it stopped with an exception: then the
    cache of the draft, as it was left, tells why the last forward could not be run.
    """
    calls = without_prefill(trial.log, trial.prompt)
    if written is None and trial.draft.caches:
        calls.append(Call("draft", tuple(trial.draft.caches[-1].tokens), ()))
    for number, expected in enumerate(rounds, 1):
        mine = _take_round(calls)
        text = None if written is None else [*trial.prompt, *written][: len(expected.text)]
        if not mine or text not in (None, expected.text):
            return  # the text has gone another way: not the caches' fault
        _name_fault_of_round(mine, expected, number)
        if not _as_expected(mine[-1], expected):
            return
        del calls[: len(mine)]


def _name_fault_of_round(calls: Sequence[Call], expected: Expected, number: int) -> None:
    drafting = [call for call in calls if call.model == "draft"]
    known = expected.text[-1:], expected.text[expected.draft_rows :][:1], []
    if drafting and list(drafting[0].fed[-1:]) not in known:
        return  # the loop has another text in mind
    faults = _list_draft_faults(drafting, expected, number) if drafting else {}
    if calls[-1].model == "target":
        faults |= _list_target_faults(calls[-1], expected, number)
    for words, found in faults.items():
        if found:
            raise Wrong(f"round {number}: {words}")


def without_prefill(log: Sequence[Call], prompt: list[int]) -> list[Call]:
    """The calls without those that run the prompt, short of its last token, by themselves."""
    alone = tuple(prompt[:-1])
    return [call for call in log if call.cached or call.fed != alone]


def _take_round(calls: Sequence[Call]) -> list[Call]:
    """The calls up to and with the next of the target."""
    ends = [i for i, call in enumerate(calls) if call.model == "target"]
    return list(calls[: ends[0] + 1] if ends else calls)


def _as_expected(call: Call, expected: Expected) -> bool:
    line = [*expected.text, *expected.drafted]
    return call.model == "target" and list(call.cached + call.fed) == line


def _list_target_faults(call: Call, expected: Expected, number: int) -> dict[str, bool]:
    """Every known fault in the target's forward of a round, and whether it is there."""
    text, cached, fed = expected.text, list(call.cached), list(call.fed)
    standing, holds = len(text) - 1, f"holds {len(call.cached)} rows for a text of {len(text)}"
    more = cached[:standing] == text[:-1] and len(cached) > standing and cached != text
    again = number > 1 and len(cached) < standing and cached + fed == [*text, *expected.drafted]
    return {
        "the target's cache still holds all rejected rows: roll it back after every round": (
            more and len(cached) - standing == expected.last_rejected > 1
        ),
        f"the target's cache {holds} tokens: keep len(text) - 1, a row more is that of a "
        "rejected token": more,
        f"the target's cache {holds} tokens, so {standing - len(cached)} are run again: keep "
        "len(text) - 1 rows": again,
        "the target has run the newest token by itself: run it together with the drafted ones": (
            cached == text and fed == expected.drafted
        ),
        "the target runs one token at a time: feed it all that it lacks, the drafted tokens "
        "included": (
            len(expected.drafted) > 0 and len(fed) == 1 and cached + fed == text[: len(cached) + 1]
        ),
        "the target is not fed the newest token of the text": (
            fed == expected.drafted and len(cached) == standing
        ),
        "no bonus token: when all drafted tokens are accepted, add one from the last row": (
            expected.last_full and cached == text[:-2] and fed[:1] == text[-2:-1]
        ),
    }


def _list_draft_faults(calls: Sequence[Call], expected: Expected, number: int) -> dict[str, bool]:
    """Every known fault in the draft's forwards of a round, and whether it is there."""
    text, rows, ran, K = expected.text, expected.draft_rows, len(calls), len(expected.drafted)
    cached, fed, lacking = list(calls[0].cached), list(calls[0].fed), text[rows:]
    second = list(calls[1].fed) if ran > 1 else []
    later, level = number > 1, cached == text[:rows]
    more = cached[:rows] == text[:rows] and len(cached) > rows and len(fed) < 2
    return {
        "the draft runs its last token, too, and nobody asks what comes after it": (
            ran == K + 1 and list(calls[-1].fed) == expected.drafted[-1:]
        ),
        "the draft runs the whole text again: feed only what its cache lacks": (
            later and not cached and fed == text
        ),
        f"the draft's cache holds {len(cached)} rows for a text of {len(text)} tokens: it keeps "
        "rows of rejected tokens, roll it back as well": (
            later and more and not expected.last_full
        ),
        f"the draft is fed 1 token but lacks {len(lacking)}: after full acceptance it has not "
        "run its own last token either": (
            later and level and len(lacking) > 1 and fed == lacking[-1:]
        ),
        "the draft catches up in a forward too many: feed both tokens in one": (
            later and level and ran > K and fed == lacking[:1] and second == lacking[1:2] != []
        ),
        "the draft runs tokens again whose rows stand: its cache lost too many": (
            later and len(cached) < rows and cached == text[: len(cached)]
        ),
    }


def compare_calls(trial: Trial, rounds: Sequence[Expected]) -> None:
    """Raise Wrong unless every round ran just the forwards it should, whatever the reason."""
    calls = without_prefill(trial.log, trial.prompt)
    for number, expected in enumerate(rounds, 1):
        mine, n = _take_round(calls), len(expected.text)
        del calls[: len(mine)]
        line = [*expected.text, *expected.drafted]
        ends = [*range(n, len(line)), len(line)]  # what each forward has behind it in the end
        reached = [len(call.cached) + len(call.fed) for call in mine]
        if reached != ends:
            raise Wrong(
                f"round {number}: its forwards reach {reached} tokens, wanted {ends}: one for each "
                "drafted token, then one of the target"
            )
        for call, end in zip(mine, ends, strict=True):
            if list(call.cached + call.fed) != line[:end]:
                raise Wrong(f"round {number}: the {call.model} runs tokens that do not stand")
        held, wanted = (len(mine[-1].cached), len(mine[0].cached)), (n - 1, expected.draft_rows)
        if number > 1 and held != wanted:
            raise Wrong(
                f"round {number}: the caches hold {held[0]} and {held[1]} rows, wanted "
                f"{wanted[0]} and {wanted[1]}"
            )
    if calls:
        raise Wrong(f"forwards run after the last round: {len(calls)}, wanted none")
