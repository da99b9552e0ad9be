"""The mutation table of lesson 03: wrong answers fail with their own sentence."""

from __future__ import annotations

import numpy as np

from lessonlib.decoding.trace import measure_paths
from lessonlib.exercises.sibling_misconceptions import SIBLING_ADVICE
from lessonlib.exercises.tree_checks import score_both_ways
from lessonlib.theory import siblings, treemask
from lessonlib.theory.rejection import draw, residual
from lessonlib.theory.sibling_mistakes import SIBLING_MISTAKES


def climb(parents, node):
    family = [node]
    while parents[family[-1]] >= 0:
        family.append(parents[family[-1]])
    return family


def right_mask(parents, prefix):
    """Climbs from each node, and gives 0 and 1 in lists: as right as the library's."""
    n = len(parents)
    return [[1] * prefix + [int(j in climb(parents, i)) for j in range(n)] for i in range(n)]


def right_positions(parents, prefix):
    return [prefix + len(climb(parents, node)) - 1 for node in range(len(parents))]


def right_scores(model, text, tokens, parents):
    """Builds the mask by hand and runs whole root-to-leaf paths: as right as the library's."""
    n, m = len(text), len(text) + len(tokens)
    mask = np.zeros((m, m), dtype=bool)
    mask[:n, :n] = np.tril(np.ones((n, n), dtype=bool))
    mask[n:] = np.array(right_mask(parents, n), dtype=bool)
    places = [*range(n), *right_positions(parents, n)]
    rows = [None] * len(tokens)
    for path in treemask.list_paths(parents):
        line = [*text, *(tokens[node] for node in path)]
        logits = model(line, np.tri(len(line), dtype=bool), range(len(line)))
        for step, node in enumerate(path):
            rows[node] = logits[n + step]
    return [model([*text, *tokens], mask, places)[n:], rows]


def right_choice(p, tokens, q_rows, u):
    for i, (x, q) in enumerate(zip(tokens, q_rows, strict=True)):
        if u[i] * q[x] <= p[x]:
            return np.int64(i), int(x)
        lack = np.clip(p - q, 0, None)
        p = lack / lack.sum()
    return [None, draw(p, u[-1])]


def right_measure(traces):
    rounds = [round for trace in traces for round in trace.rounds]
    passed = sum(kind == "drafted" for round in rounds for kind in round.kinds)
    failed = sum("recovered" in round.kinds for round in rounds)
    return np.mean([len(round.emitted) for round in rounds]), passed / (passed + failed)


RIGHT = {
    "3.1": [treemask.build_mask, right_mask],
    "3.2": [treemask.find_positions, right_positions],
    "3.3": [score_both_ways, right_scores],
    "3.4": [siblings.accept_sibling, right_choice],
    "3.5": [measure_paths, right_measure],
}


def mask_with(change):
    def answer(parents, prefix):
        mask = treemask.build_mask(parents, prefix)
        return change(mask, parents, prefix)

    return answer


def tree_part(change):
    """A mask that is right over the prefix, with the nodes' part replaced."""
    return mask_with(
        lambda mask, parents, prefix: np.hstack(
            [mask[:, :prefix], change(mask[:, prefix:], parents, len(parents))]
        )
    )


def only_parent(tree, parents, n):
    return np.array([[j in (i, parents[i]) for j in range(n)] for i in range(n)])


def with_siblings(tree, parents, n):
    same = np.array([[parents[i] == parents[j] for j in range(n)] for i in range(n)])
    return tree | same


def scores_with(mask=None, places=None):
    def answer(model, text, tokens, parents):
        _, by_path = right_scores(model, text, tokens, parents)
        model.calls.clear()
        n, m = len(text), len(text) + len(tokens)
        whole = (*range(-1, n - 1), *(n + p if p >= 0 else n - 1 for p in parents))
        used = treemask.build_mask(whole, 0) if mask is None else mask(whole, n, m)
        at = treemask.find_positions(whole, 0) if places is None else places(m)
        return model([*text, *tokens], used, at)[n:], by_path

    return answer


def hide_text(whole, n, m):
    mask = treemask.build_mask(whole, 0)
    mask[n:, :n] = False
    return mask


def rows_of_the_text_too(model, text, tokens, parents):
    n = len(text)
    whole = (*range(-1, n - 1), *(n + p if p >= 0 else n - 1 for p in parents))
    run = [*text, *tokens]
    return model(run, treemask.build_mask(whole, 0), treemask.find_positions(whole, 0)), []


def never_in_one(model, text, tokens, parents):
    _, by_path = right_scores(model, text, tokens, parents)
    model.calls.clear()
    return by_path, by_path


def once_too_often(model, text, tokens, parents):
    score_both_ways(model, text, tokens, parents)
    return score_both_ways(model, text, tokens, parents)


def one_forward_for_both(model, text, tokens, parents):
    in_one, _ = score_both_ways(model, text, tokens, parents)
    return in_one, np.zeros_like(in_one)


def shifted(change):
    return lambda parents, prefix: change(np.array(right_positions(parents, prefix)), prefix)


def count_tests(traces):
    rounds = [round for trace in traces for round in trace.rounds]
    passed = [test.accepted for round in rounds for test in round.tests]
    return right_measure(traces)[0], np.mean(passed)


def mean_alpha(traces):
    rounds = [round for trace in traces for round in trace.rounds]
    return np.mean([test.alpha for round in rounds for test in round.tests])


def per(count):
    def answer(traces):
        rounds = [round for trace in traces for round in trace.rounds]
        whole = sum(count(round) for round in rounds)
        return right_measure(traces)[0], sum(round.accepted for round in rounds) / whole

    return answer


def tau_with(change):
    return lambda traces: (change(traces), right_measure(traces)[1])


WRONG = {
    "3.1": [
        (tree_part(lambda t, p, n: np.tri(n, dtype=bool)), "that is a chain's mask"),
        (tree_part(only_parent), "a node sees only its parent"),
        (tree_part(lambda t, p, n: t & ~np.eye(n, dtype=bool)), "a node does not see itself"),
        (tree_part(lambda t, p, n: t.T), "it is transposed"),
        (tree_part(with_siblings), "a node sees its siblings"),
        (tree_part(lambda t, p, n: np.eye(n, dtype=bool)), "a node sees only itself"),
        (tree_part(lambda t, p, n: np.ones((n, n), dtype=bool)), "every node sees every other"),
        (mask_with(lambda m, p, k: m & (np.arange(m.shape[1]) >= k)), "the prefix is hidden"),
        (mask_with(lambda m, p, k: np.roll(m, -k, 1)), "the prefix columns come first"),
        (mask_with(lambda m, p, k: m[:, k:]), "has shape (9, 9), wanted (9, 11)"),
        (mask_with(lambda m, p, k: np.where(m, 0.0, -np.inf)), "scores to add"),
        (mask_with(lambda m, p, k: np.where(m, 0.0, np.finfo(np.float32).min)), "scores to add"),
        (mask_with(lambda m, p, k: ~m), "row 0 is"),
        (mask_with(lambda m, p, k: p.append(0) or m), "changed parents in place"),
        (lambda parents, prefix: None, "is a return missing?"),
    ],
    "3.2": [
        (lambda p, k: k + np.arange(len(p)), "positions count nodes"),
        (shifted(lambda x, k: x - k), "add the prefix"),
        (shifted(lambda x, k: x + 1), "one too high"),
        (shifted(lambda x, k: x - 1), "one too low"),
        (lambda p, k: k + np.array(p) + 1, "wanted"),
        (lambda p, k: k, "has shape (), wanted (5,)"),
    ],
    "3.3": [
        (scores_with(places=lambda m: np.arange(m)), "index as position"),
        (scores_with(mask=lambda w, n, m: np.tri(m, dtype=bool)), "a chain's mask"),
        (
            scores_with(lambda w, n, m: np.tri(m, dtype=bool), np.arange),
            "treats the tree as one long chain",
        ),
        (scores_with(mask=hide_text), "hides the text"),
        (rows_of_the_text_too, "in_one holds rows of the text too"),
        (never_in_one, "0 calls ran text and tree together"),
        (once_too_often, "2 calls ran text and tree together"),
        (one_forward_for_both, "by_path is"),
        (lambda model, text, tokens, parents: None, "wanted 2 values"),
    ],
    "3.4": [
        *((SIBLING_MISTAKES[name], SIBLING_ADVICE[name]) for name in SIBLING_MISTAKES),
        (lambda p, tokens, rows, u: (0, tokens[0] + 1), "but you return token"),
        (lambda p, tokens, rows, u: (7, 0), "sibling 7 is accepted, but there are 2"),
        (lambda p, tokens, rows, u: tokens[0], "wanted 2 values"),
        (lambda p, tokens, rows, u: (None, draw(residual(rows[0], p), u[-1])), "off by TV"),
        (lambda p, tokens, rows, u: p.fill(0.25) or (None, 0), "changed p in place"),
    ],
    "3.5": [
        (count_tests, "counts every sibling's test"),
        (per(lambda round: len(round.drafted)), "divides by all drafted nodes"),
        (per(lambda round: len(round.emitted)), "divides by emitted tokens"),
        (
            lambda traces: (right_measure(traces)[0], mean_alpha(traces)),
            "the mean of test.alpha",
        ),
        (tau_with(lambda t: right_measure(t)[0] - 1), "also emits a last token"),
        (tau_with(lambda t: np.mean([trace.tau for trace in t])), "a mean of means"),
        (lambda traces: 1.0, "wanted 2 values"),
    ],
}  # fmt: skip


def test_advice_exists_for_every_sibling_mistake_and_is_one_plain_line():
    assert set(SIBLING_ADVICE) == set(SIBLING_MISTAKES)
    assert len(set(SIBLING_ADVICE.values())) == len(SIBLING_ADVICE)
    assert all(words.isascii() and len(words) < 100 for words in SIBLING_ADVICE.values())
