"""Exercises of lesson 04: what stands after a round, what is fed next, a batch, the whole loop."""

from __future__ import annotations

from lessonlib.exercises import Exercise
from lessonlib.exercises.draft_checks import (
    check_draft_law,
    check_first_forward,
    check_later_forwards,
    check_nothing_drafted,
    check_rows,
    draft_tokens,
)
from lessonlib.exercises.kv_checks import (
    check_batch_mistakes,
    check_batch_stops,
    check_batch_values,
    check_draft_rows,
    check_target_rows,
    rows_after_round,
    simulate_batch,
)
from lessonlib.exercises.loop_checks import (
    check_budget,
    check_caches,
    check_context,
    check_eos,
    check_first_round,
    check_forwards,
    check_greedy,
    check_joint_law,
    check_self_draft,
)
from lessonlib.exercises.loop_trials import speculate

EXERCISES = (
    Exercise(
        "4.1",
        "rows_after_round",
        goal="say how many rows of each cache stand after a round",
        minutes=5,
        difficulty=1,
        hints=(
            "The target ran the newest token and all K drafts. Which of those tokens stand?",
            "The target had text_length - 1 rows. The newest token and the accepted ones stay.",
            "The draft ran K - 1 of its K tokens: it cannot keep more than text_length + K - 1.",
        ),
        help={
            "one row too many": "the slot behind the accepted ones holds the rejected token",
            "one row too few": "the token that closed the last round was run at the start of this",
            "it has no row for it": "a token that was only proposed was never run",
        },
        checks=(check_target_rows, check_draft_rows),
        reference=rows_after_round,
    ),
    Exercise(
        "4.2",
        "draft_tokens",
        goal="let the draft catch up, then propose K tokens, and run nothing twice",
        minutes=10,
        difficulty=2,
        hints=(
            "The cache holds the first cache.length tokens of the text. What is the rest?",
            "Feed text[cache.length:] first, then in each further forward the token just drawn.",
            "draft.forward gives a row for each token it was fed: draw from the last.",
        ),
        help={
            "its cache lacks 2": "after full acceptance its own last token was never run",
            "the first row of the forward": "that row is the law of a token you know already",
            "the last drafted token is run": "stop when K tokens are drawn: K forwards, not K + 1",
        },
        checks=(
            check_first_forward,
            check_later_forwards,
            check_rows,
            check_draft_law,
            check_nothing_drafted,
        ),
        reference=draft_tokens,
        points=2,
    ),
    Exercise(
        "4.3",
        "simulate_batch",
        goal="keep the books of a batch whose sequences accept different lengths",
        minutes=12,
        difficulty=2,
        hints=(
            "Give each sequence three numbers of its own: text length, target rows, draft rows.",
            "Fed is what is run: from the rows that are there to text_length + K (the target) or "
            "text_length + K - 1 (the draft).",
            "After the round: rows as in 4.1, and the text is accepted + 1 tokens longer.",
        ),
        help={
            "each keeps its own": "no sequence waits for another, and none borrows its length",
            "the text grows by": "every round closes with a correction or a bonus",
            "None belongs there": "its plan is used up: nothing of it is run any more",
        },
        checks=(check_batch_mistakes, check_batch_stops, check_batch_values),
        reference=simulate_batch,
        points=2,
    ),
    Exercise(
        "4.4",
        "speculate",
        goal="write the whole loop: draft, verify, roll back, stop",
        minutes=25,
        difficulty=3,
        hints=(
            "Begin with two empty caches and text = list(prompt). A model always runs the part of "
            "the text that its cache lacks, so the prompt is no special case.",
            "end = min(len(prompt) + max_new_tokens, target.context); draft "
            "min(K, end - len(text) - 1) tokens, as in exercise 4.2.",
            "One target forward over everything its cache lacks, the drafted tokens included: its "
            "last len(drafted) + 1 rows are p_rows.",
            "After the round cut behind an eos, then roll both caches back to len(text) - 1; the "
            "draft's may be shorter already.",
        ),
        help={
            "row more is that of a rejected token": "the closing token has not been run: it gets "
            "its row in the next round",
            "lacks 2": "feed text[cache.length:], not text[-1:]",
            "so draft fewer": "a round adds up to K + 1 tokens: leave one place for the last",
            "tokens follow the eos": "an eos can be any token of the block, not just its last",
            "begins with the prompt": "return text[len(prompt):]",
        },
        checks=(
            check_caches,
            check_budget,
            check_first_round,
            check_eos,
            check_context,
            check_greedy,
            check_forwards,
            check_self_draft,
            check_joint_law,
        ),
        reference=speculate,
        points=5,
    ),
)
