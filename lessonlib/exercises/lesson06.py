"""Exercises of lesson 06: what each asks for, hints for it, and its checks."""

from __future__ import annotations

from lessonlib.exercises import Exercise
from lessonlib.exercises.chosen_checks import (
    accept_chosen,
    check_a_certain_target,
    check_chance,
    check_chosen_law,
    check_rest,
)
from lessonlib.exercises.growth_checks import (
    check_forwards,
    check_small_trees,
    check_ties,
    check_trees,
    grow_tree,
)
from lessonlib.exercises.row_checks import (
    align_rows,
    check_input,
    check_last_row,
    check_rows,
    check_smallest_input,
    fuse_input,
)
from lessonlib.exercises.unroll_checks import (
    check_against_drafting,
    check_calls,
    check_first,
    check_second,
    unroll_twice,
)

EXERCISES = (
    Exercise(
        "6.1",
        "fuse_input",
        goal="give each row of the head the features and the token one step ahead",
        minutes=5,
        difficulty=1,
        hints=(
            "The last token of the text has no features yet, the first one is nobody's next token.",
            "Row t: features[t] side by side with embedding[tokens[t + 1]].",
            "embedding[tokens[1:]] picks all rows at once; np.hstack puts arrays side by side.",
        ),
        help={
            "row t holds token t": "the features at t know token t: tell the row what came after",
            "has shape": "n tokens give n - 1 rows, each twice as wide as the features",
            "only integer scalar arrays": "make the list an array: np.asarray(tokens)[1:]",
        },
        checks=(check_input, check_smallest_input),
        reference=fuse_input,
    ),
    Exercise(
        "6.2",
        "align_rows",
        goal="say which of the target's rows a row of the head must learn from",
        minutes=8,
        difficulty=2,
        hints=(
            "Write the rows down for n = 4 and k = 0, with the table above. How many are there?",
            "At k = 0, row s is told token s + 1, guesses the features at s + 1 and so drafts "
            "token s + 2. Each step further adds 1 to all three.",
            "The largest label is n - 1, so s runs from 0 to n - 2 - k: np.arange(n - 1 - k).",
        ),
        help={
            "is one row too long": "target row n does not exist: the text has rows 0 to n - 1",
            "is one row too short": "a label is a row of the target, not a token of the text",
            "it would learn to copy": "the label is what the row cannot see: the next features",
        },
        checks=(check_rows, check_last_row),
        reference=align_rows,
        points=2,
    ),
    Exercise(
        "6.3",
        "grow_tree",
        goal="grow EAGLE-2's tree: expand where the head is sure, then keep the best of all",
        minutes=20,
        difficulty=3,
        hints=(
            "Keep four lists for the proposed nodes: token, parent, path, confidence. A child's "
            "confidence is its parent's times q.",
            "Expand: sort the newest level by confidence, largest first; the first top_k of it get "
            "top_k children each. Do this depth - 1 times after the first level.",
            "Rerank: sort ALL nodes by confidence, keep the first `nodes`. sorted() leaves ties in "
            "their order, so a parent stays ahead of its child.",
            "Number anew: place = {-1: -1} plus each kept node's place; send parents through it.",
        ),
        help={
            "KeyError": "a kept node's parent is not kept: is its confidence the "
            "product along the path, and does a tie go to the node that came first?",
            "number the kept nodes anew": "parents count kept nodes, not proposed ones",
            "that was passed over counts too": "rank everything that was ever proposed",
            "the head is run on": "call q_of once for the text and once for each expanded node",
        },
        checks=(check_trees, check_small_trees, check_ties, check_forwards),
        reference=grow_tree,
        points=3,
    ),
    Exercise(
        "6.4",
        "accept_chosen",
        goal="keep the law when a token was chosen and not drawn",
        minutes=5,
        difficulty=1,
        hints=(
            "A token that is certain to be proposed was drawn from a one-hot row. Put that row "
            "into lesson 01's rule in the place of q.",
            "min(1, p(x) / 1) is p(x), and p minus the one-hot row is negative at x only.",
            "The rest is p with a 0 at x, divided by what is left. If nothing is, return p.",
        ),
        help={
            "nothing was drawn from q": "confidence chose the token; it is no chance of a draw",
            "the rest is 0/0": "test for p[token] == 1 first",
            "changed p in place": "rest = p.copy() before you set an entry to 0",
        },
        checks=(check_chance, check_rest, check_chosen_law, check_a_certain_target),
        reference=accept_chosen,
    ),
    Exercise(
        "6.5",
        "unroll_twice",
        goal="let a head practise on its own outputs, for all starts at once",
        minutes=15,
        difficulty=3,
        hints=(
            "first is one call: features, tokens[1:], and the causal mask np.tri(n, dtype=bool).",
            "For second, run 2n - 1 rows in one call: the n true ones, then first[:-1] as "
            "features with tokens[2:]. Return the last n - 1 outputs.",
            "The mask of step 1: over the true rows np.tri(n)[:-1] (row s sees 0 to s), over the "
            "rows of step 1 np.eye(n - 1) (itself). True rows see no row of step 1.",
            "np.block([[causal, zeros], [causal[:-1], eye]]), all boolean.",
        ),
        help={
            "which do not exist while drafting": "a chain from s has true features up to s only",
            "it sees the chains of earlier starts": "each start is a drafting run of its own",
            "the head ran": "no loop over starts: one mask holds all of them",
            "mask has shape": "for m rows the mask is boolean and (m, m)",
        },
        checks=(check_first, check_second, check_against_drafting, check_calls),
        reference=unroll_twice,
        points=3,
    ),
)
