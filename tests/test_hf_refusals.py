"""What the adapter will not run, in one sentence and before anything goes wrong. Case 19."""

from __future__ import annotations

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from lessonlib.decoding import hf
from lessonlib.decoding.hf import HFModel
from tests.hfmodels import TINY, VOCAB, make_llama


def build(architecture: str, head: str = "ForCausalLM", **changes):
    """A tiny random model of an architecture, by the name transformers gives it."""
    config = getattr(transformers, f"{architecture}Config")(**{**TINY, **changes})
    torch.manual_seed(0)
    return getattr(transformers, f"{architecture}{head}")(config)


NO_ROW_PER_TOKEN = "cannot be rolled back, because its {} does not keep a row for every token"
REFUSED = {
    "sliding window": (
        lambda: build("Mistral", sliding_window=8),
        NO_ROW_PER_TOKEN.format("DynamicSlidingWindowLayer"),
    ),
    "every other layer": (
        lambda: build("Gemma2", head_dim=8, num_key_value_heads=2, sliding_window=8),
        NO_ROW_PER_TOKEN.format("DynamicSlidingWindowLayer"),
    ),
    "state space": (lambda: build("Mamba"), NO_ROW_PER_TOKEN.format("LinearAttentionLayer")),
    "no cache": (
        lambda: build("OpenAIGPT", "LMHeadModel", n_embd=32, n_layer=2, n_head=4),
        "openai-gpt model takes no cache",
    ),
    "no positions": (
        lambda: build("Bloom", n_layer=2, n_head=4),
        "bloom model takes no position_ids, so its tokens",
    ),
    "ALiBi": (lambda: build("Falcon", alibi=True), "falcon model takes the place of a token"),
    "local attention": (
        lambda: build("GPTNeo", num_layers=3, num_heads=4, attention_types=[[["local"], 3]]),
        "gpt_neo model counts the rows of the cache in its local attention",
    ),
    "sees what follows": (lambda: build("Bert", "LMHeadModel"), "bert model is not causal"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_that_cannot_be_rolled_back_or_placed_in_a_tree_is_refused(kind):
    make, sentence = REFUSED[kind]
    with pytest.raises(ValueError, match=sentence):
        HFModel(make())


def test_a_model_whose_config_names_no_context_is_refused():
    model = make_llama()
    vars(model.config)["max_position_embeddings"] = None  # past the validation of a config
    with pytest.raises(ValueError, match="llama model has no max_position_embeddings"):
        HFModel(model)


@pytest.mark.parametrize(
    "make",
    [
        lambda: build("Mistral", num_key_value_heads=2, sliding_window=None),
        lambda: build("Falcon", alibi=False),
        lambda: build("GPTNeo", num_layers=3, num_heads=4, attention_types=[[["global"], 3]]),
        lambda: build("Bert", "LMHeadModel", is_decoder=True),
        lambda: build("GPTNeoX"),  # its config says is_decoder=False, too
    ],
    ids=["no window", "rotary Falcon", "global GPT-Neo", "causal BERT", "GPT-NeoX"],
)
def test_its_harmless_sister_is_run(make):
    model = HFModel(make())
    cache = model.new_cache()
    model.forward([1, 2, 3], cache)
    model.forward([4, 5], cache, [-1, -1])
    cache.commit(3, [1])
    wanted = model.forward([1, 2, 3, 5, 6], model.new_cache()).logits[-1]
    assert (model.forward([6], cache).logits[0] - wanted).abs().max() < 1e-5


# Files


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no config.json in {tmp_path}: give a local"):
        HFModel.from_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no config.json in gpt2"):
        HFModel.from_folder("gpt2")  # a name is not looked up on the hub
    for given in ((tmp_path, "a.gguf"), (tmp_path / "a.gguf",)):
        with pytest.raises(FileNotFoundError, match=f"no a.gguf in {tmp_path}"):
            HFModel.from_folder(*given)


@pytest.mark.parametrize("package", ["accelerate", "gguf"])
def test_a_missing_package_is_named_with_the_cure(tmp_path, monkeypatch, package):
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(hf, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(ImportError, match=f"without {package}: run pip install {package}$"):
        HFModel.from_folder(tmp_path / "a.gguf")


def test_weights_that_leave_a_part_of_the_model_random_are_refused(tmp_path):
    make_llama().save_pretrained(tmp_path)
    assert HFModel.from_folder(str(tmp_path)).vocab_size == VOCAB
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lack 1 of the model's tensors, such as model.layers.1"):
        HFModel.from_folder(tmp_path)


def test_loading_draws_no_progress_bar_and_leaves_the_switch_as_it_was(tmp_path, capfd):
    switch = transformers.utils.logging
    make_llama().save_pretrained(tmp_path)
    capfd.readouterr()
    try:
        for turn, is_on in (
            (switch.disable_progress_bar, False),
            (switch.enable_progress_bar, True),
        ):
            turn()
            HFModel.from_folder(tmp_path)
            assert capfd.readouterr().err == ""
            assert switch.is_progress_bar_enabled() == is_on
    finally:
        switch.enable_progress_bar()
