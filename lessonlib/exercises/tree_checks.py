"""Checks of lesson 03 on the geometry of trees: mask, positions, one forward for a whole tree."""

from __future__ import annotations

import numpy as np

from lessonlib.exercises import Wrong, inputs
from lessonlib.exercises.inputs import SAME
from lessonlib.theory import treemask
from lessonlib.theory.tinyformer import TinyTransformer

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
    if inputs.shape_of(mask) == shape and inputs.not_finite(mask):
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
        if inputs.shape_of(part) == (len(text) + len(tokens), model.vocab):
            raise Wrong(f"{name} holds rows of the text too: return those of the nodes only")
        yield inputs.as_array(part, name, shape)


def check_in_one(answer) -> None:
    for model, text, tokens, parents in _scoring_cases():
        yours = next(_score(answer, model, text, tokens, parents))
        wanted, _ = score_both_ways(TinyTransformer(11, model.seed), text, tokens, parents)
        if np.abs(yours - wanted).max() < SAME:
            continue
        for words, wrong in _wrong_scores(model, text, tokens, parents):
            if np.abs(yours - wrong).max() < SAME:
                raise Wrong(words)
        node = int(np.abs(yours - wanted).max(axis=1).argmax())
        inputs.close(yours[node], wanted[node], SAME, f"row {node} of in_one")


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
        inputs.close(yours, wanted, SAME, "by_path")


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
