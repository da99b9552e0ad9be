"""Our GPT-2 forward against ``transformers``: logits with and without cache, limits."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from tests.toys import coins_of

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A random GPT-2 with weights large enough that a wrong row shows."""
    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=97, n_positions=64, n_embd=48, n_layer=3, n_head=4)
    config.bos_token_id = config.eos_token_id = 0
    model = GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    return folder


def devices():
    cuda = pytest.param("cuda", marks=pytest.mark.cuda)
    return pytest.mark.parametrize("device", ["cpu", cuda])


@devices()
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("cut", [[40], [1] * 40, [10, 1, 5, 1, 23]])
def test_logits_equal_transformers(checkpoint, device, dtype, cut):
    ours = GPT2.from_folder(checkpoint, device=device, dtype=dtype)
    theirs = GPT2LMHeadModel.from_pretrained(checkpoint, dtype=dtype).eval().to(device)
    tokens = torch.randint(0, 97, (40,), generator=torch.manual_seed(1))
    with torch.no_grad():
        wanted = theirs(tokens[None].to(device)).logits[0]
    cache, rows, start = ours.new_cache(), [], 0
    for n in cut:
        rows.append(ours.forward(tokens[start : start + n].tolist(), cache).logits)
        start += n
    assert cache.length == 40
    assert (torch.cat(rows) - wanted).abs().max() < TOLERANCE[dtype]


def test_rows_past_the_length_are_never_read(checkpoint):
    model = GPT2.from_folder(checkpoint, dtype=torch.float64)
    tokens = list(range(20))
    clean, poisoned = model.new_cache(), model.new_cache()
    wanted = model.forward(tokens, clean).logits
    model.forward([*tokens[:12], 90, 91, 92], poisoned)
    poisoned.rollback(12)
    for buffer in (poisoned.keys, poisoned.values):
        buffer[:, :, 12:] = float("nan")
    got = model.forward(tokens[12:], poisoned).logits
    assert torch.equal(got, got.nan_to_num(1e9))
    assert (got - wanted[12:]).abs().max() < 1e-9


def test_features_are_what_the_head_multiplies(checkpoint):
    model = GPT2.from_folder(checkpoint, dtype=torch.float64)
    output = model.forward([3, 1, 4], model.new_cache())
    assert output.features.shape == (3, 48)
    assert (output.features @ model.head.T - output.logits).abs().max() < 1e-12


@pytest.mark.parametrize("K", range(1, 9))
def test_greedy_speculative_equals_greedy_plain_and_a_self_draft_is_accepted(checkpoint, K):
    model = GPT2.from_folder(checkpoint, dtype=torch.float64)
    greedy = Sampling(temperature=0)
    options = {"max_new_tokens": 50, "sampling": greedy, "coins": coins_of(0)}
    plain = generate(model, None, [5, 6], **options)
    trace = generate(model, SmallModelDrafter(model, greedy), [5, 6], K=K, **options)
    assert trace.new_tokens == plain.new_tokens
    assert trace.accepted == trace.drafted > 0


def test_past_the_context_is_one_sentence(checkpoint):
    model = GPT2.from_folder(checkpoint)
    cache = model.new_cache()
    model.forward([0] * 60, cache)
    with pytest.raises(ValueError, match="65 tokens do not fit into this model's context of 64"):
        model.forward([0] * 5, cache)
    assert cache.length == 60


def test_no_tokens_and_parents_that_do_not_fit_are_one_sentence(checkpoint):
    model = GPT2.from_folder(checkpoint)
    cache = model.new_cache()
    model.forward([1, 2, 3], cache)
    for parents in (None, ()):
        with pytest.raises(ValueError, match="tokens is empty: run at least one"):
            model.forward([], cache, parents)
    for parents in ((), (-1,), (-1, 0, 1, 2, 3, 4)):
        with pytest.raises(ValueError, match=f"parents lists {len(parents)} nodes for 2 new"):
            model.forward([4, 5], cache, parents)
    assert cache.length == 3


def test_a_cache_cannot_roll_forward(checkpoint):
    cache = GPT2.from_folder(checkpoint).new_cache()
    with pytest.raises(ValueError, match="length is 1, but the cache holds 0 rows"):
        cache.rollback(1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "llama"}, "holds a 'llama' model, not a gpt2 one"),
        ({"activation_function": "relu"}, "must be the tanh GELU"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scales attention unlike GPT-2"),
        ({"scale_attn_weights": False}, "scales attention unlike GPT-2"),
    ],
)
def test_a_config_we_do_not_compute_is_refused(checkpoint, tmp_path, change, sentence):
    config = json.loads((checkpoint / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    shutil.copy(checkpoint / "model.safetensors", tmp_path)
    with pytest.raises(ValueError, match=sentence):
        GPT2.from_folder(tmp_path)
