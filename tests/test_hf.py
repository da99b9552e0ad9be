"""Models of ``transformers`` behind the loop: logits, rollback, trees, limits.

Cases 14, 16-18, 23, 25-27, 29; what is refused (19) is in test_hf_refusals.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.hf import HFModel
from lessonlib.decoding.loop import generate, generate_batch
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.drafting.tree import TreeDrafter
from lessonlib.theory.treemask import grow_tree, trace_path
from tests.hfmodels import CONTEXT, VOCAB, disturb, make_llama, write_pair
from tests.toys import coins_of

TEXT = [5, 60, 7, 33, 8, 12]
GREEDY = Sampling(temperature=0)
TREES = {"2-2-2": grow_tree([2, 2, 2]), "ragged": (-1, 0, -1, 1, 1, 2, 0, 5, 7), "star": (-1,) * 6}
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
FAMILIES = ["gpt2", "llama"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Target and draft of each family, in float64 on disk."""
    root = tmp_path_factory.mktemp("hf")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=32, n_layer=3, n_head=4)
    config.bos_token_id = config.eos_token_id = 0
    write_pair(disturb(GPT2LMHeadModel(config).double(), 0.1, 1), root / "gpt2")
    write_pair(make_llama(), root / "llama")
    return root


@pytest.fixture(scope="module")
def pairs(folders):
    return {
        family: tuple(
            HFModel.from_folder(folders / family / part, dtype=torch.float64)
            for part in ("target", "draft")
        )
        for family in FAMILIES
    }


@pytest.fixture(params=FAMILIES)
def pair(request, pairs):
    return pairs[request.param]


def apart(first, second):
    """The largest difference on the scale of ``second``, NaN counting as infinite."""
    gap = (first - second).abs().nan_to_num(float("inf")).max()
    return float(gap / second.abs().max().clamp(min=1))


def logits_of(model, text):
    """The logits behind ``text`` by the plainest way there is: no cache, no mask, no positions."""
    with torch.no_grad():
        return model.model(torch.tensor([text], device=model.device)).logits[0]


def path_logits(model, tokens, parents):
    texts = [TEXT + [tokens[i] for i in trace_path(parents, n)] for n in range(len(parents))]
    return torch.stack([logits_of(model, text)[-1] for text in texts])


def tokens_for(parents):
    return np.random.default_rng(4).integers(0, VOCAB, len(parents)).tolist()


# Against the own forward


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_gpt2_gives_what_our_own_forward_gives(folders, device, dtype):
    folder = folders / "gpt2" / "target"
    theirs = HFModel.from_folder(folder, device=device, dtype=dtype)
    ours = GPT2.from_folder(folder, device=device, dtype=dtype)
    assert (theirs.vocab_size, theirs.context) == (ours.vocab_size, ours.context)
    caches, tokens, start = (theirs.new_cache(), ours.new_cache()), tokens_for(range(40)), 0
    for n, parents in ((10, None), (1, None), (14, TREES["2-2-2"]), (5, None)):
        part, start = tokens[start : start + n], start + n
        got = theirs.forward(part, caches[0], parents)
        wanted = ours.forward(part, caches[1], parents)
        assert got.logits.dtype == got.features.dtype == dtype
        assert len(got.hidden) == len(wanted.hidden) == 3
        for a, b in zip(
            (got.logits, got.features, *got.hidden),
            (wanted.logits, wanted.features, *wanted.hidden),
            strict=True,
        ):
            assert a.shape == b.shape
            assert apart(a, b) < TOLERANCE[dtype]
        assert caches[0].length == caches[1].length == start


def test_a_run_with_it_is_the_run_with_our_own_forward(folders, pairs):
    own = [GPT2.from_folder(folders / "gpt2" / p, dtype=torch.float64) for p in ("target", "draft")]
    options = {"max_new_tokens": 40, "K": 3, "sampling": Sampling(temperature=0.8)}

    def run(target, draft):
        drafter = SmallModelDrafter(draft, options["sampling"])
        return generate(target, drafter, TEXT, coins=coins_of(2), **options)

    wanted = run(*own)
    assert 0 < wanted.accepted < wanted.drafted
    for target, draft in (pairs["gpt2"], (pairs["gpt2"][0], own[1]), (own[0], pairs["gpt2"][1])):
        trace = run(target, draft)
        for got, expected in zip(trace.rounds, wanted.rounds, strict=True):
            assert (got.drafted, got.emitted, got.kinds) == (
                expected.drafted,
                expected.emitted,
                expected.kinds,
            )
            assert (got.target_rows, got.draft_rows) == (expected.target_rows, expected.draft_rows)


def test_features_are_what_the_head_multiplies_and_nothing_stays_hooked(pair):
    model = pair[0]
    output = model.forward(TEXT, model.new_cache())
    head = model.model.get_output_embeddings()
    with torch.inference_mode():
        assert apart(head(output.features), output.logits) < 1e-12
    assert [tuple(stream.shape) for stream in output.hidden] == [(len(TEXT), 32)] * 3
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.model.modules())


def test_half_precision_runs_trees_too(folders):
    model = HFModel.from_folder(folders / "llama" / "target", dtype=torch.bfloat16)
    parents, cache = TREES["2-2-2"], model.new_cache()
    model.forward(TEXT, cache)
    got = model.forward(tokens_for(parents), cache, parents)
    assert apart(got.logits.float(), path_logits(model, tokens_for(parents), parents).float()) < 0.1
    assert got.logit_rows().dtype == np.float64


# The cache


@pytest.mark.parametrize("kept", range(len(TEXT) + 5))
def test_after_a_rollback_the_next_logits_are_those_of_a_fresh_cache(pair, kept):
    model, cache = pair[0], pair[0].new_cache()
    text = [*TEXT, 90, 91, 92, 93]
    model.forward(text, cache)
    whole = [buffer for layer in cache.rows.layers for buffer in (layer.keys, layer.values)]
    cache.rollback(kept)
    assert cache.length == kept
    with torch.inference_mode():
        for buffer in whole:  # what is kept is a view of these: spoil all that was cut off
            buffer[:, :, kept:] = float("nan")
    got = model.forward([1, 2], cache).logits
    assert apart(got, logits_of(model, [*text[:kept], 1, 2])[-2:]) < 1e-12


def test_a_rollback_to_what_is_not_there_is_refused_and_changes_nothing(pair):
    cache = pair[0].new_cache()
    cache.rollback(0)
    for held in (0, 3):
        for length in (held + 1, 100, -1):
            with pytest.raises(ValueError, match=f"length is {length}, but the cache holds {held}"):
                cache.rollback(length)
        assert cache.length == held
        pair[0].forward([1, 2, 3], cache)


@pytest.mark.parametrize("path", [(), (0,), (1,), (0, 1, 2), (1, 4), (0, 3, 9), (1, 5, 13)])
def test_after_the_commit_of_a_path_the_text_goes_on_as_if_it_had_been_alone(pair, path):
    model, cache, parents = pair[0], pair[0].new_cache(), TREES["2-2-2"]
    if path == (0, 1, 2):
        parents = grow_tree([1] * 5)
    tokens = tokens_for(parents)
    model.forward(TEXT, cache)
    model.forward(tokens, cache, parents)
    cache.commit(len(TEXT), path)
    text = [*TEXT, *(tokens[node] for node in path)]
    assert cache.length == len(text)
    got = model.forward([1, 2], cache).logits
    assert apart(got, logits_of(model, [*text, 1, 2])[-2:]) < 1e-12


@pytest.mark.parametrize(
    ("rows", "start"), [([1, 1], 0), ([2, 1], 0), ([3], 0), ([0], 3), ([-1], 1), ([0], -1)]
)
def test_a_commit_of_rows_that_are_not_there_is_refused(pair, rows, start):
    cache = pair[0].new_cache()
    pair[0].forward([1, 2, 3], cache)
    with pytest.raises(ValueError, match="must rise and lie within the 3 rows"):
        cache.commit(start, rows)
    assert cache.length == 3


# Trees


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_forward_over_a_tree_equals_a_path_at_a_time(folders, family, attention, dtype, shape):
    model = HFModel.from_folder(folders / family / "target", dtype=dtype)
    model.model.set_attn_implementation(attention)
    parents, cache = TREES[shape], model.new_cache()
    tokens = tokens_for(parents)
    model.forward(TEXT, cache)
    got = model.forward(tokens, cache, parents).logits
    assert cache.length == len(TEXT) + len(parents)
    tolerance = TOLERANCE[dtype] / 10
    if (family, attention) == ("llama", "eager"):
        tolerance = 1e-5  # Llama's eager attention takes its softmax in float32, whatever the dtype
    assert apart(got, path_logits(model, tokens, parents)) < tolerance


def test_a_tree_run_depth_by_depth_equals_the_tree_run_at_once(pair):
    model, cache, parents = pair[0], pair[0].new_cache(), TREES["2-2-2"]
    tokens, rows, start = tokens_for(parents), [], 0
    model.forward(TEXT, cache)
    for stop in (2, 6, 14):
        rows.append(model.forward(tokens[start:stop], cache, parents[:stop]).logits)
        start = stop
    assert apart(torch.cat(rows), path_logits(model, tokens, parents)) < 1e-12


@pytest.mark.parametrize("parents", [(), (-1,), (-1, 0, 1, 2, 3, 4)])
def test_parents_that_do_not_fit_the_tokens_are_refused(pair, parents):
    cache = pair[0].new_cache()
    pair[0].forward([1, 2, 3], cache)
    with pytest.raises(ValueError, match=f"parents lists {len(parents)} nodes for 2 new tokens"):
        pair[0].forward([4, 5], cache, parents)


# The loop


@pytest.fixture(scope="module")
def plain(pairs):
    """Greedy text by ``transformers`` alone, the whole text run again for every token."""
    texts = {}
    for family, (target, _) in pairs.items():
        text = list(TEXT)
        for _ in range(40):
            text.append(int(logits_of(target, text)[-1].argmax()))
        texts[family] = text[len(TEXT) :]
    return texts


@pytest.mark.parametrize("drafting", [1, 2, 3, 4, (2, 2), (3, 1, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_speculative_equals_greedy_plain(pairs, plain, family, drafting):
    target, draft = pairs[family]
    if isinstance(drafting, int):
        K, drafter = drafting, SmallModelDrafter(draft, GREEDY)
    else:
        K, drafter = len(drafting), TreeDrafter(draft, GREEDY, drafting)
    options = {"max_new_tokens": 40, "sampling": GREEDY, "coins": coins_of(0)}
    assert generate(target, None, TEXT, **options).new_tokens == plain[family]
    trace = generate(target, drafter, TEXT, K=K, **options)
    assert trace.new_tokens == plain[family]
    assert 0 < trace.accepted < trace.drafted
    length = len(TEXT)
    for round in trace.rounds:
        length += len(round.emitted)
        assert round.target_rows == length - 1


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("K", range(1, 5))
def test_a_self_draft_is_always_accepted(pair, K, temperature):
    sampling = Sampling(temperature)
    options = {"max_new_tokens": 50, "sampling": sampling, "coins": coins_of(0)}
    trace = generate(pair[0], SmallModelDrafter(pair[0], sampling), TEXT, K=K, **options)
    assert trace.accepted == trace.drafted > 0


class Meter:
    """Counts the forwards of a model and the tokens they run."""

    def __init__(self, model):
        self.sizes = []
        self._hook = model.model.register_forward_pre_hook(
            lambda module, inputs: self.sizes.append(inputs[0].shape[1])
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._hook.remove()


def test_every_round_is_one_forward_and_no_token_is_run_again(pair):
    target, draft = pair
    drafter = SmallModelDrafter(draft, Sampling())
    with Meter(target) as target_runs, Meter(draft) as draft_runs:
        trace = generate(target, drafter, TEXT, max_new_tokens=40, K=3, coins=coins_of(1))
    rounds = trace.rounds
    assert 0 < trace.accepted < trace.drafted
    assert target_runs.sizes == [len(TEXT) - 1, *(1 + len(round.drafted) for round in rounds)]
    # The draft runs the prompt once, then one token a draw, two right after full acceptance.
    expected, full = [len(TEXT)], False
    for i, round in enumerate(rounds):
        if round.drafted:
            first = [] if i == 0 else [1 + full]
            expected += [*first, *([1] * (len(round.drafted) - 1))]
        full = round.accepted == len(round.drafted)
    assert draft_runs.sizes == expected


def test_rows_of_a_batch_get_what_they_get_alone(pair):
    target, draft = pair
    prompts, options = [TEXT, [1], [9] * 20], {"max_new_tokens": 30, "K": 3}

    def drafter():
        return SmallModelDrafter(draft, Sampling())

    drafters, coins = [drafter() for _ in prompts], [coins_of(i) for i in range(len(prompts))]
    together = generate_batch(target, drafters, prompts, coins=coins, **options)
    for i, prompt in enumerate(prompts):
        alone = generate(target, drafter(), prompt, coins=coins_of(i), **options)
        assert together[i].new_tokens == alone.new_tokens


# Limits


def test_past_the_context_is_one_sentence_for_learned_and_for_rotary_positions(pair):
    cache = pair[0].new_cache()
    pair[0].forward([0] * 60, cache)
    with pytest.raises(ValueError, match="65 tokens do not fit into this model's context of 64"):
        pair[0].forward([0] * 5, cache)
    assert cache.length == 60


def test_a_run_stops_at_the_end_of_the_context(pair):
    drafter = SmallModelDrafter(pair[1], Sampling())
    trace = generate(pair[0], drafter, TEXT, max_new_tokens=999, coins=coins_of(0))
    assert trace.stopped == "context"
    assert len(TEXT) + len(trace.new_tokens) == CONTEXT


def test_no_tokens_are_refused(pair):
    with pytest.raises(ValueError, match="tokens is empty: run at least one"):
        pair[0].forward([], pair[0].new_cache())


@pytest.fixture(scope="module")
def padded():
    """A Llama of 97 tokens whose head is padded to 112, with padding that it likes best."""
    model = make_llama(vocab_size=112)
    with torch.no_grad():
        model.lm_head.weight[VOCAB:] = 3 * model.lm_head.weight[:15].sum(0)
    return model


def test_a_padded_vocabulary_is_refused_with_both_sizes(pairs, padded):
    target, draft = pairs["llama"][0], HFModel(padded)
    assert draft.vocab_size == 112
    with pytest.raises(ValueError, match="vocabulary has 112 tokens and the target's 97"):
        generate(
            target, SmallModelDrafter(draft, GREEDY), TEXT, max_new_tokens=5, coins=coins_of(0)
        )


def test_a_padded_vocabulary_cut_to_the_tokenizers_size_never_gives_padding(pairs, padded):
    whole, cut = HFModel(padded), HFModel(padded, vocab_size=VOCAB)
    rows = whole.forward(TEXT, whole.new_cache()).logits
    assert torch.equal(cut.forward(TEXT, cut.new_cache()).logits, rows[:, :VOCAB])
    options = {"max_new_tokens": 40, "K": 3}
    uncut = generate(whole, None, TEXT, coins=coins_of(0), **options)
    assert max(uncut.new_tokens) >= VOCAB  # the padding would be drawn
    for target, draft in ((cut, pairs["llama"][1]), (pairs["llama"][0], cut), (cut, cut)):
        drafter = SmallModelDrafter(draft, Sampling())
        trace = generate(target, drafter, TEXT, coins=coins_of(0), **options)
        assert max(trace.new_tokens) < VOCAB
        assert (trace.accepted == trace.drafted) == (target is draft)


@pytest.mark.parametrize("size", [0, -1, 1, 113])
def test_a_vocab_size_that_is_none_is_refused(padded, size):
    with pytest.raises(ValueError, match=f"vocab_size is {size}, but the model has 112 logits"):
        HFModel(padded, vocab_size=size)
