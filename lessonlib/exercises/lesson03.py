"""Checks of lesson 03: mask, positions, one forward for a tree, siblings, tree against chain."""

from __future__ import annotations

import numpy as np

from lessonlib.decoding.trace import Round, Trace, measure_paths
from lessonlib.exercises import Exercise, Wrong, inputs
from lessonlib.exercises.sibling_misconceptions import diagnose_siblings
from lessonlib.theory import siblings, treemask
from lessonlib.theory.exactlaw import total_variation
from lessonlib.theory.rejection import one_hot
from lessonlib.theory.tinyformer import TinyTransformer
from lessonlib.theory.verify import Test

RAGGED = (-1, 0, -1, 1, 1, 2, 0, 5, 7)  # numbered branch by branch, not depth by depth


def _trees():
    """(parents, prefix): the tree of the text, a ragged one, a chain, random ones."""
    yield (-1, -1, 0, 0, 1), 3
    yield treemask.grow_tree([2, 2, 2]), 4
    yield RAGGED, 2
    yield treemask.grow_tree([1, 1, 1, 1]), 3
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(1, 10))
        yield tuple(int(rng.integers(-1, node)) for node in range(n)), int(rng.integers(0, 4))


# 3.1 build_mask


def _read_mask(answer, parents, prefix) -> np.ndarray:
    given = list(parents)
    with inputs.unchanged(parents=given):
        mask = answer(given, prefix)
    name, shape = "your mask", (len(parents), prefix + len(parents))
    additive = "your mask holds scores to add: give True and False, True where a node may look"
    if np.shape(mask) == shape and not np.isfinite(np.asarray(mask, dtype=float)).all():
        raise Wrong(additive)
    values = inputs.as_array(mask, name, shape)
    if not np.isin(values, (0, 1)).all():
        raise Wrong(additive)
    return values.astype(bool)


def _wrong_masks(parents, prefix):
    """Known wrong masks of one tree, with what to say about each."""
    n, right = len(parents), treemask.build_mask(parents, prefix)
    tree, past = right[:, prefix:], np.ones((n, prefix), dtype=bool)
    own = np.eye(n, dtype=bool)
    parent = np.array([[j == parents[i] for j in range(n)] for i in range(n)], dtype=bool)
    siblings_too = np.array([[parents[j] == parents[i] for j in range(n)] for i in range(n)])
    trees = {
        "every node sees all earlier ones: that is a chain's mask, a node sees its ancestors": (
            np.tril(np.ones((n, n), dtype=bool))
        ),
        "a node sees only its parent: go on to the parent's parent, up to the root": parent | own,
        "a node does not see itself: set column prefix + i in row i": tree & ~own,
        "a node sees its descendants: rows look, columns are looked at (it is transposed)": tree.T,
        "a node sees its siblings: they are other guesses for the same place": tree | siblings_too,
        "a node sees only itself: add its ancestors": own,
        "every node sees every other: a node sees its ancestors and itself": np.ones_like(own),
    }
    masks = {words: np.hstack([past, mask]) for words, mask in trees.items()}
    masks["the prefix is hidden: every node sees all of the first prefix columns"] = np.hstack(
        [~past, tree]
    )
    masks["the prefix columns come first, before those of the nodes"] = np.hstack([tree, past])
    return masks


def check_mask_mistakes(answer) -> None:
    found = None
    for parents, prefix in ((RAGGED, 2), (treemask.grow_tree([2, 2, 2]), 4)):
        mask = _read_mask(answer, parents, prefix)
        if np.array_equal(mask, treemask.build_mask(parents, prefix)):
            continue
        known = _wrong_masks(parents, prefix)
        found = next((words for words, wrong in known.items() if np.array_equal(mask, wrong)), None)
        if found:
            raise Wrong(found)


def check_mask_values(answer) -> None:
    for parents, prefix in _trees():
        mask, wanted = _read_mask(answer, parents, prefix), treemask.build_mask(parents, prefix)
        for node in range(len(parents)):
            if not np.array_equal(mask[node], wanted[node]):
                raise Wrong(
                    f"for parents {list(parents)} and prefix {prefix}, row {node} is "
                    f"{mask[node].astype(int).tolist()}, wanted {wanted[node].astype(int).tolist()}"
                )


# 3.2 find_positions


def check_positions(answer) -> None:
    for parents, prefix in _trees():
        given, n = list(parents), len(parents)
        with inputs.unchanged(parents=given):
            yours = inputs.as_vector(answer(given, prefix), "your positions", n)
        depths = treemask.find_depths(parents)
        if np.array_equal(yours, prefix + depths):
            continue
        if n > 4 and prefix > 0:  # large enough to tell the mistakes apart
            _name_position_mistake(yours, prefix, depths)
        inputs.close(yours, prefix + depths, 0, f"for parents {given} and prefix {prefix}, it")


def _name_position_mistake(yours, prefix, depths) -> None:
    index = np.arange(len(depths))
    known = {
        "positions count nodes: siblings share a position, so use depth, not index": prefix + index,
        "positions are depths: add the prefix, the tree hangs behind it": depths,
        "positions are one too high: the first depth stands at position prefix": prefix
        + depths
        + 1,
        "positions are one too low: the first depth stands at position prefix": prefix + depths - 1,
    }
    for words, wrong in known.items():
        if np.array_equal(yours, wrong):
            raise Wrong(words)


# 3.3 score_both_ways


def _scoring_cases():
    for seed, (parents, length) in enumerate(
        [((-1, -1, 0, 0, 1), 3), (treemask.grow_tree([2, 2, 2]), 4), (RAGGED, 1)]
    ):
        rng = np.random.default_rng(seed)
        text, tokens = rng.integers(0, 11, length).tolist(), rng.integers(0, 11, len(parents))
        yield TinyTransformer(vocab=11, seed=seed), text, tokens.tolist(), parents


def score_both_ways(model, text, tokens, parents):
    """The reference: one forward over text and tree, and one forward for each node's own text."""
    whole = _hang_below(text, parents)
    in_one = model(
        [*text, *tokens], treemask.build_mask(whole, 0), treemask.find_positions(whole, 0)
    )[len(text) :]
    by_path = []
    for node in range(len(tokens)):
        line = [*text, *(tokens[i] for i in treemask.trace_path(parents, node))]
        by_path.append(model(line, np.tri(len(line), dtype=bool), np.arange(len(line)))[-1])
    return in_one, np.array(by_path)


def _hang_below(text, parents):
    """The text as a chain with the tree below its last token: one tree."""
    n = len(text)
    return (*range(-1, n - 1), *(n + parent if parent >= 0 else n - 1 for parent in parents))


def _score(answer, model, text, tokens, parents):
    given = {"text": list(text), "tokens": list(tokens), "parents": list(parents)}
    with inputs.unchanged(**given):
        parts = inputs.as_tuple(answer(model, *given.values()), "your answer", 2)
    shape = (len(tokens), model.vocab)
    for part, name in zip(parts, ("in_one", "by_path"), strict=True):
        if np.shape(part) == (len(text) + len(tokens), model.vocab):
            raise Wrong(f"{name} holds rows of the text too: return those of the nodes only")
        yield inputs.as_array(part, name, shape)


def check_in_one(answer) -> None:
    for model, text, tokens, parents in _scoring_cases():
        yours = next(_score(answer, model, text, tokens, parents))
        wanted, _ = score_both_ways(TinyTransformer(11, model.seed), text, tokens, parents)
        if np.abs(yours - wanted).max() < 1e-9:
            continue
        for words, wrong in _wrong_scores(model, text, tokens, parents):
            if np.abs(yours - wrong).max() < 1e-9:
                raise Wrong(words)
        node = int(np.abs(yours - wanted).max(axis=1).argmax())
        inputs.close(yours[node], wanted[node], 1e-9, f"row {node} of in_one")


def _wrong_scores(model, text, tokens, parents):
    whole, n = _hang_below(text, parents), len(text)
    m = len(whole)
    mask, places = treemask.build_mask(whole, 0), treemask.find_positions(whole, 0)
    blind = mask.copy()
    blind[n:, :n] = False
    run = [*text, *tokens]
    yield "in_one uses index as position: siblings share one", model(run, mask, range(m))[n:]
    yield (
        "in_one uses a chain's mask: a node must not see its siblings",
        model(run, np.tri(m, dtype=bool), places)[n:],
    )
    yield (
        "in_one treats the tree as one long chain: mask and positions are the tree's",
        model(run, np.tri(m, dtype=bool), range(m))[n:],
    )
    yield "in_one hides the text from the nodes: they see all of it", model(run, blind, places)[n:]


def check_by_path(answer) -> None:
    for model, text, tokens, parents in _scoring_cases():
        _, yours = _score(answer, model, text, tokens, parents)
        wanted, _ = score_both_ways(TinyTransformer(11, model.seed), text, tokens, parents)
        inputs.close(yours, wanted, 1e-9, "by_path")


def check_calls(answer) -> None:
    """One call runs text and tree together; every other runs the text of one node or path."""
    for model, text, tokens, parents in _scoring_cases():
        list(_score(answer, model, text, tokens, parents))
        whole = len(text) + len(tokens)
        longest = len(text) + int(treemask.find_depths(parents).max()) + 1
        if model.calls.count(whole) != 1:
            raise Wrong(
                f"{model.calls.count(whole)} calls ran text and tree together ({whole} tokens), "
                "wanted 1"
            )
        if any(longest < ran != whole for ran in model.calls):
            raise Wrong("by_path must run one path at a time, each with its own text only")


# 3.4 accept_sibling


def _read_choice(answer):
    """The learner's rule with its output read, and its inputs guarded."""

    def choose(p, tokens, q_rows, u):
        rows = np.array(q_rows)
        with inputs.unchanged(p=p, tokens=tokens, q_rows=rows):
            child, token = inputs.as_tuple(answer(p, tokens, rows, u), "what you return", 2)
        token = inputs.as_int(token, "your token", low=0)
        if child is None:
            return None, token
        child = inputs.as_int(child, "your accepted sibling", low=0)
        if child >= len(tokens):
            raise Wrong(
                f"sibling {child} is accepted, but there are {len(tokens)}: return its index"
            )
        if tokens[child] != token:
            raise Wrong(f"sibling {child} is token {tokens[child]}, but you return token {token}")
        return child, token

    return choose


def check_sibling_law(answer) -> None:
    sentence = diagnose_siblings(_read_choice(answer))
    if sentence:
        raise Wrong(sentence)


def check_more_siblings(answer) -> None:
    """Three siblings and three tokens: an answer that fits only two is caught here."""
    rng = np.random.default_rng(5)
    p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    for rule in siblings.RULES:
        choices = (_read_choice(answer), siblings.accept_sibling)
        yours, wanted = (siblings.sibling_law(choose, p, q, rule, 3) for choose in choices)
        if total_variation(yours, wanted) > 1e-9:
            raise Wrong("right for 2 siblings of 4 tokens, but not for 3 of 3: do not fix sizes")


def check_no_siblings(answer) -> None:
    p = np.array([0.25, 0.75])
    given = inputs.as_tuple(answer(p, [], np.zeros((0, 2)), [0.5]), "what you return", 2)
    if given[0] is not None or inputs.as_int(given[1], "your token", low=0) != 1:
        raise Wrong("without siblings draw from p with the last uniform: (None, token)")
    chosen = _read_choice(answer)(p, [1], [one_hot(1, 2)], [0.8, 0.5])
    if chosen != (None, 0):
        raise Wrong("a chosen sibling (one-hot q) is accepted with p(x), else x is left out")


# 3.5 tau_and_alpha


def _make_round(flags: str, drafted: int, closed: str = "recovered") -> Round:
    """A round whose tests passed (1) or failed (0) as ``flags`` says, over a tree."""
    tests = [
        Test(i, i, 0.1, 0.2, 0.5, 0.4 if f == "1" else 0.6, f == "1", 0.7)
        for i, f in enumerate(flags)
    ]
    passed = flags.count("1")
    kinds = ["drafted"] * passed + [closed]
    return Round(1, [0] * drafted, tests, [0] * (passed + 1), kinds, 0)


def _path_traces():
    """Runs over [2, 2, 2]: siblings fail before others pass, and depths are not tests."""
    first = Trace([0], [_make_round("01011", 14, "bonus"), _make_round("00", 14)])
    second = Trace(
        [0], [_make_round("100", 14), _make_round("0100", 14), _make_round("1", 2, "bonus")]
    )
    yield [first]
    yield [second]
    yield [first, second]
    yield [Trace([0, 1], [_make_round("110", 4), _make_round("1111", 4, "bonus")])]


def _measure(answer, traces):
    parts = inputs.as_tuple(answer(traces), "your answer", 2)
    tau = inputs.as_number(parts[0], "your tau", low=0)
    return tau, inputs.as_number(parts[1], "your alpha", 0, 1)


def check_tau(answer) -> None:
    for traces in _path_traces():
        (tau, _), wanted = _measure(answer, traces), measure_paths(traces)[0]
        if abs(tau - (wanted - 1)) < 1e-9:
            raise Wrong(
                f"tau is {tau:.4f}, wanted {wanted:.4f}: each round also emits a last token"
            )
        each = np.mean([trace.tau for trace in traces])
        if len(traces) > 1 and abs(tau - each) < 1e-9 and abs(wanted - each) > 1e-9:
            raise Wrong("tau is a mean of means: pool the runs, all tokens over all forwards")
        inputs.close(tau, wanted, 1e-9, "tau")


def check_alpha(answer) -> None:
    for traces in _path_traces():
        (_, alpha), wanted = _measure(answer, traces), measure_paths(traces)[1]
        if abs(alpha - wanted) < 1e-9:
            continue
        rounds = [round for trace in traces for round in trace.rounds]
        passed = sum(round.accepted for round in rounds)
        known = {
            "alpha counts every sibling's test: count depths, which any sibling can pass": (
                passed / sum(len(round.tests) for round in rounds)
            ),
            "alpha divides by all drafted nodes: divide by the depths that were reached": (
                passed / sum(len(round.drafted) for round in rounds)
            ),
            "alpha divides by emitted tokens: a round that ends in a bonus failed nowhere": (
                passed / sum(len(round.emitted) for round in rounds)
            ),
            "alpha is the mean of test.alpha: count depths passed and depths reached": (
                float(np.mean([test.alpha for round in rounds for test in round.tests]))
            ),
        }
        for words, wrong in known.items():
            if abs(alpha - wrong) < 1e-9:
                raise Wrong(words)
        inputs.close(alpha, wanted, 1e-9, "alpha per path")


EXERCISES = (
    Exercise(
        "3.1",
        "build_mask",
        goal="write the mask with which one forward sees a whole tree",
        minutes=10,
        difficulty=2,
        hints=(
            "Start with zeros of shape (n, prefix + n) and set the first prefix columns to True.",
            "Parents come before children: the row of a node is its parent's row plus itself.",
            "Node i is column prefix + i, not column i.",
        ),
        help={
            "that is a chain's mask": "earlier is not enough: siblings are rival guesses",
            "it is transposed": "mask[i, j] answers: may i look at j?",
            "has shape (n, n)": "the prefix needs columns too, in front",
        },
        checks=(check_mask_mistakes, check_mask_values),
        reference=treemask.build_mask,
        points=2,
    ),
    Exercise(
        "3.2",
        "find_positions",
        goal="give every node the position it has in its own text",
        minutes=5,
        difficulty=1,
        hints=(
            "A node's text is the prefix and its ancestors. How many tokens stand before it?",
            "A child of the text stands at prefix, any other node one behind its parent.",
        ),
        help={
            "positions count nodes": "two siblings are both the next token: same position",
            "one too high": "positions count from 0, so the first one behind the prefix is prefix",
        },
        checks=(check_positions,),
        reference=treemask.find_positions,
    ),
    Exercise(
        "3.3",
        "score_both_ways",
        goal="score a tree in one forward, and prove it by one path at a time",
        minutes=15,
        difficulty=3,
        hints=(
            "A chain is a tree: let the text be one, with the drafted tree below its last token.",
            "The parents of all: range(-1, n - 1) for the n text tokens, then each parent + n, "
            "where -1 + n is the last text token.",
            "by_path: run text + path under a lower triangular mask at positions 0, 1, ...; keep "
            "the last row.",
        ),
        help={
            "index as position": "pass treemask.find_positions, not range",
            "rows of the text too": "the first len(text) rows are not asked for",
            "mask has shape": "the model wants (m, m): text rows need a mask as well",
        },
        checks=(check_in_one, check_by_path, check_calls),
        reference=score_both_ways,
        points=3,
    ),
    Exercise(
        "3.4",
        "accept_sibling",
        goal="accept one of several guesses so that the token still follows p",
        minutes=15,
        difficulty=3,
        hints=(
            "Test the siblings in order; the first that passes is accepted.",
            "After a rejection p becomes residual(p, q_rows[i]); the next sibling meets that p.",
            "If none passes, draw from what is left of p with the last uniform.",
        ),
        help={
            "leaves p as it was": "what a rejected sibling was drawn from used up a share of p",
            "its own row": "a sibling drawn without replacement has a row of its own",
            "a uniform can only be compared": "write u[i] < threshold, and draw(weights, u[...])",
            "the likeliest of the passed": "choosing among passes favours likely tokens twice",
        },
        checks=(check_sibling_law, check_more_siblings, check_no_siblings),
        reference=siblings.accept_sibling,
        points=3,
    ),
    Exercise(
        "3.5",
        "tau_and_alpha",
        goal="measure what a tree gains over a chain of equal compute",
        minutes=10,
        difficulty=2,
        hints=(
            "trace.rounds holds the rounds; each cost one target forward and has .emitted.",
            "A round passed .accepted depths. If it closed with 'recovered', one more was reached.",
            "round.kinds[-1] is 'recovered' or 'bonus'. Sum over all rounds of all traces first.",
        ),
        help={
            "counts every sibling's test": "two failed siblings at one depth are one failed depth",
            "a mean of means": "long runs weigh more: add up first, divide once",
        },
        checks=(check_tau, check_alpha),
        reference=measure_paths,
        points=2,
    ),
)
