"""The mutation table of lesson 06: wrong answers fail with their own sentence."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from lessonlib.exercises import (
    Wrong,
    chosen_checks,
    find_exercise,
    growth_checks,
    row_checks,
    unroll_checks,
)
from lessonlib.theory.treemask import trace_path
from tests.answers import outcome

# Right answers, written another way than the reference


def right_input(features, embedding, tokens):
    rows = []
    for t, feature in enumerate(features):
        rows.append([*feature, *embedding[tokens[t + 1]]])
    return rows


def right_rows(n, k):
    told = [s + k + 1 for s in range(n) if s + k + 1 < n]
    return told, tuple(told), [place + 1 for place in told]


def right_tree(q_of, depth, top_k, nodes):
    """By levels of plain tuples and logs; the kept nodes in the order of their proposal."""
    proposed = []  # (log confidence, token, parent, path)
    level = [(0.0, -1, ())]
    for step in range(depth):
        start = len(proposed)
        for score, node, path in level:
            q = q_of(list(path))
            for x in heapq.nsmallest(top_k, range(len(q)), key=lambda x, q=q: (-q[x], x)):
                log = float(np.log(q[x])) if q[x] > 0 else -np.inf
                proposed.append((score + log, x, node, (*path, x)))
        if step < depth - 1:
            newest = range(start, len(proposed))
            best = heapq.nsmallest(top_k, newest, key=lambda i: (-proposed[i][0], i))
            level = [(proposed[i][0], i, proposed[i][3]) for i in best]
    kept = heapq.nsmallest(nodes, range(len(proposed)), key=lambda i: (-proposed[i][0], i))
    kept = np.sort(kept)
    parents = [-1 if proposed[i][2] < 0 else np.searchsorted(kept, proposed[i][2]) for i in kept]
    return np.array([proposed[i][1] for i in kept]), np.array(parents)


def right_chosen(p, q, token):
    rest = p.copy()
    rest[token] = 0.0
    return p[token], rest / rest.sum() if rest.sum() > 0 else p


def right_unroll(head, features, tokens):
    """One call for both steps is not possible; the mask is written entry by entry."""
    n = len(features)
    m = 2 * n - 1
    mask = np.zeros((m, m), dtype=bool)
    for i in range(m):
        start = i if i < n else i - n
        mask[i, : start + 1] = True
        mask[i, i] = True
    first = head(features, tokens[1:], mask[:n, :n])
    fed = np.concatenate([features, first[: n - 1]])
    return [first, head(fed, list(tokens[1:]) + list(tokens[2:]), mask)[n:]]


def right_tree_by_ranges(q_of, depth, top_k, nodes):
    """With order[i] for i in range(top_k): nothing says that top_k may exceed the vocabulary."""

    def checked(path):
        q = q_of(path)
        assert len(q) >= top_k
        return q

    return right_tree(checked, depth, top_k, nodes)


RIGHT = {
    "6.1": [row_checks.fuse_input, right_input],
    "6.2": [row_checks.align_rows, right_rows],
    "6.3": [growth_checks.grow_tree, right_tree, right_tree_by_ranges],
    "6.4": [chosen_checks.accept_chosen, right_chosen],
    "6.5": [unroll_checks.unroll_twice, right_unroll],
}


def test_an_array_of_three_rows_and_ranges_are_read():
    assert "ok" in outcome("6.2", lambda n, k: np.array(right_rows(n, k)))
    assert "ok" in outcome(
        "6.2", lambda n, k: (range(k + 1, n), range(k + 1, n), range(k + 2, n + 1))
    )


# Wrong answers


def with_slip(slips, i):
    return slips[i][1], slips[i][0]


def rows_with(part, slip):
    """The right rows with one of the three parts replaced by slip(start, k)."""

    def answer(n, k):
        found = list(right_rows(n, k))
        found[part] = np.asarray(slip(np.arange(n - 1 - k), k))
        return found

    return answer


def rows_cut(change):
    return lambda n, k: [change(part) for part in right_rows(n, k)]


def tree_of(slip):
    """A learner's tree from a slip's paths: sorted, so parents come before children."""

    def answer(q_of, depth, top_k, nodes):
        paths = sorted(slip(q_of, depth, top_k, nodes), key=lambda path: (len(path), path))
        place = {(): -1, **{path: i for i, path in enumerate(paths)}}
        return [path[-1] for path in paths], [place[path[:-1]] for path in paths]

    return answer


def tree_with(change):
    return lambda *tree: change(*right_tree(*tree))


def later_tie(q_of, depth, top_k, nodes):
    """Right, but a tie goes to the node that was proposed last."""
    tokens, parents = right_tree(q_of, depth, top_k, 99)
    paths = [trace_path(parents, node) for node in range(len(tokens))]
    chance = [1.0] * len(tokens)
    for node, path in enumerate(paths):
        for i in path:
            above = tuple(int(tokens[j]) for j in trace_path(parents, i))
            chance[node] *= q_of(above[:-1])[above[-1]]
    kept = sorted(range(len(tokens)), key=lambda i: (-chance[i], -i))[:nodes]
    place = {-1: -1, **{node: i for i, node in enumerate(kept)}}
    return [int(tokens[i]) for i in kept], [place[int(parents[i])] for i in kept]


def not_renumbered(q_of, depth, top_k, nodes):
    """Right, but the parents are numbers among all proposed nodes."""
    growth = growth_checks._grow(q_of, depth, top_k)
    growth.rerank(nodes)
    return [growth.tokens[i] for i in growth.kept], [growth.parents[i] for i in growth.kept]


def greedy_of_all(q_of, depth, top_k, nodes):
    """The head is asked about every node, the deepest too; the tree is right."""
    tokens, parents = right_tree(q_of, depth, top_k, nodes)
    for node in range(len(tokens)):
        q_of(growth_checks.path_of(tokens, parents, node))
    return tokens, parents


def asks_too_much(q_of, depth, top_k, nodes):
    answer = right_tree(q_of, depth, top_k, nodes)
    if depth > 1:
        for x in range(len(q_of(()))):
            q_of((x,))
    return answer


def asks_twice(q_of, depth, top_k, nodes):
    """Right, but the row is fetched once for the tokens and once for their q."""
    return right_tree(lambda path: q_of(path) + 0 * q_of(path), depth, top_k, nodes)


def asks_twice_below(q_of, depth, top_k, nodes):
    """The same, but behind drafted tokens only."""
    return right_tree(lambda path: q_of(path) if not path else (q_of(path), q_of(path))[0],
                      depth, top_k, nodes)  # fmt: skip


def with_last_rest(rest):
    """The right rule, but where p(x) = 1 it gives ``rest``."""
    return lambda p, q, x: (p[x], rest if p[x] == 1 else right_chosen(p, q, x)[1])


def unroll_with(part, slip):
    def answer(head, features, tokens):
        parts = list(right_unroll(head, features, tokens))
        parts[part] = slip(head, features, tokens)
        head.calls.clear()
        return parts

    return answer


def unroll_in_a_loop(head, features, tokens):
    first, _ = right_unroll(head, features, tokens)
    second = []
    for s in range(len(features) - 1):
        fed = np.vstack([features[: s + 1], first[s]])
        second.append(head(fed, tokens[1 : s + 3], np.tri(s + 2, dtype=bool))[-1])
    return first, second


def true_rows_too(head, features, tokens):
    first, second = right_unroll(head, features, tokens)
    return first, np.vstack([first, second])


def one_row_too_many(head, features, tokens):
    first, second = right_unroll(head, features, tokens)
    return first, np.vstack([second, second[-1]])


WRONG = {
    "6.1": [
        *((slip, words) for words, slip in row_checks.WRONG_INPUTS),
        (lambda f, e, t: f + e[np.array(t)[1:]], "added or mixed"),
        (lambda f, e, t: np.vstack([f, e[np.array(t)[1:]]]), "stacked on top of each other"),
        (lambda f, e, t: np.hstack([f, np.array(t)[1:, None]]), "has shape (5, 4), wanted (5, 6)"),
        (lambda f, e, t: -row_checks.fuse_input(f, e, t), "of your input is"),
        (lambda f, e, t: f.fill(0), "your code changed features in place"),
        (lambda f, e, t: t.pop(0) and None, "your code changed tokens in place"),
        (lambda f, e, t: None, "is None (is a return missing?)"),
    ],
    "6.2": [
        (lambda n, k: (1, 2, 3), "told is 1 (int), wanted a list of places"),
        *(
            (rows_with(i, slip), words)
            for i, name in enumerate(row_checks.PARTS)
            for words, slip in row_checks.WRONG_PLACES[name]
        ),
        (lambda n, k: [[10**400] * (n - 1 - k)] * 3, "is an int of more than 64 bits"),
        (
            lambda n, k: [np.arange(n - k) + k + 1] * 2 + [np.arange(n - k) + k + 2],
            "told is one row too long for n = 6, k = 0",
        ),
        (rows_cut(lambda part: part[:-1]), "told is one row too short for n = 6, k = 0"),
        (rows_cut(lambda part: part[:1]), "told has 1 rows for n = 6, k = 0, wanted 5"),
        (rows_with(1, lambda s, k: s[::-1]), "labels for n = 6, k = 0 is"),
        (lambda n, k: right_rows(max(n, 3), k), "told is one row too long for n = 2"),
        (lambda n, k: right_rows(n, k)[0], "holds 5 values, wanted 3"),
        (lambda n, k: rows_cut(lambda p: np.array(p) + 0.0)(n, k), "token 0 of told is 1.0"),
    ],
    "6.3": [
        *((tree_of(slip), words) for words, slip in growth_checks.WRONG_TREES),
        (later_tie, "the tie goes to the parent"),
        (not_renumbered, "your parents count all proposed nodes"),
        (greedy_of_all, "is run on the deepest nodes, to no use"),
        (asks_too_much, "only the 4 expanded ones need it"),
        (asks_twice, "the head is run on the text 2 times: run it once, keep the row"),
        (asks_twice_below, "2 times: run it once, keep the row"),
        (lambda f, d, k, m: right_tree(f, d, k, m + 1), "you keep 7 nodes, wanted 6"),
        (lambda f, d, k, m: right_tree(f, d, k, m - 1), "you keep 5 nodes, wanted 6"),
        (lambda f, d, k, m: right_tree(f, d - 1, k, m), "for depth"),
        (lambda f, d, k, m: right_tree(f, d, k, m if m < 99 else 5), "and 4 tokens you keep"),
        (tree_with(lambda t, p: (t, p + 1)), "is 0: a parent comes before its children"),
        (tree_with(lambda t, p: (t, np.where(p < 0, p, p + 9))), "number the kept nodes anew"),
        (tree_with(lambda t, p: (np.arange(len(t)), p * 0 - 1)), "is not kept, but the path"),
        (tree_with(lambda t, p: (np.zeros_like(t), p * 0 - 1)), "is in the tree twice"),
        (tree_with(lambda t, p: (t, p[:-1])), "6 tokens, but 5 parents"),
        (tree_with(lambda t, p: (t, 7)), "your parents are no list"),
        (tree_with(lambda t, p: t), "holds 6 values, wanted 2"),
        (lambda f, d, k, m: None, "None (is a return missing?)"),
    ],
    "6.4": [
        *(
            (lambda p, q, x, f=f: (f(p, q, x), p), words)
            for words, f in chosen_checks.WRONG_CHANCES
        ),
        *(
            (lambda p, q, x, f=f: (p[x], f(p, q, x)), words)
            for words, f in chosen_checks.WRONG_RESTS
        ),
        (lambda p, q, x: (1.0, p), "the chance over several rows is"),
        (lambda p, q, x: (p[x], np.roll(right_chosen(p, q, x)[1], 1)), "the rest is"),
        (lambda p, q, x: (p[x], right_chosen(p, q, x)[1] * (1 - p[x])), "the rest sums to"),
        (lambda p, q, x: (p[x], chosen_checks._without(p, x)), "the rest is 0/0: return p itself"),
        (with_last_rest(np.zeros(3)), "the rest for p(x) = 1 sums to 0, wanted 1"),
        (with_last_rest(np.array([0.5, 0.5])), "the rest for p(x) = 1 has shape (2,), wanted (3,)"),
        (with_last_rest(np.array([1.5, 0, -0.5])), "the rest for p(x) = 1 holds -0.5"),
        (lambda p, q, x: (p[x], p.__setitem__(x, 0)), "your code changed p in place"),
        (lambda p, q, x: p[x], "wanted 2 values"),
        (lambda p, q, x: (2 * p.max() + 1, p), "wanted a number from 0 to 1"),
    ],
    "6.5": [
        *((unroll_with(0, slip), words) for words, slip in unroll_checks.WRONG_FIRST),
        *((unroll_with(1, slip), words) for words, slip in unroll_checks.WRONG_SECOND),
        (unroll_in_a_loop, "the head ran 6 times for 5 features"),
        (true_rows_too, "second holds the true rows too"),
        (one_row_too_many, "second has 5 rows for 5 features"),
        (unroll_with(0, lambda head, f, t: f), "of first is"),
        (unroll_with(1, lambda head, f, t: f[1:]), "of second is"),
        (unroll_with(1, lambda head, f, t: None), "second is None (is a return missing?)"),
        (lambda head, f, t: right_unroll(head, f, t)[0][0], "what you return holds"),
        (lambda head, f, t: f.fill(1) or (f, f), "your code changed features in place"),
    ],
}


def test_the_law_itself_catches_a_slip_that_no_table_names():
    with pytest.raises(Wrong, match=r"is off p by TV 0\."):
        chosen_checks.check_chosen_law(lambda p, q, x: (p[x], p))
    chosen_checks.check_chosen_law(right_chosen)


def test_drafting_step_by_step_catches_what_the_mask_let_through():
    wrong = unroll_with(1, unroll_checks.WRONG_SECOND[0][1])
    with pytest.raises(Wrong, match="drafted step by step, is"):
        unroll_checks.check_against_drafting(wrong)


def test_no_tree_of_the_checks_hangs_on_a_tie():
    """Confidences differ by far more than rounding, so products and sums of logs agree."""
    for q_of, depth, top_k, nodes in growth_checks._list_trees():
        tokens, parents = growth_checks.grow_tree(q_of, depth, top_k, 999)
        scores = []
        for node in range(len(tokens)):
            path = growth_checks.path_of(tokens, parents, node)
            scores.append(np.prod([q_of(path[:i])[path[i]] for i in range(len(path))]))
        assert np.diff(np.sort(scores)).min() > 1e-9
        assert nodes < len(tokens)


def test_a_help_row_is_found_for_the_commonest_slips():
    from lessonlib.exercises.hints import find_symptom

    for id, sentence in {
        "6.1": row_checks.WRONG_INPUTS[0][0],
        "6.2": row_checks.WRONG_PLACES["labels"][0][0],
        "6.3": growth_checks.WRONG_TREES[0][0],
        "6.4": chosen_checks.WRONG_CHANCES[0][0],
        "6.5": unroll_checks.WRONG_SECOND[0][0],
    }.items():
        assert find_symptom(find_exercise(id).help, sentence), id
