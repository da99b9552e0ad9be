"""A GGUF file, written here, through the adapter: the same logits as from the folder."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import torch

from lessonlib.decoding.hf import HFModel
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from tests.hfmodels import VOCAB, make_llama
from tests.toys import coins_of

TEXT = [5, 60, 7, 33, 8, 12]


def swap_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Query and key rows in llama.cpp's order: it rotates neighbours, transformers halves."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def write_gguf(model, path: Path, kind: str = "F32") -> Path:
    """Write a Llama as llama.cpp's converter does, its matrices as F32 or quantised to Q8_0."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        projection = name.split(".")[-2]
        if projection in heads:
            weight = swap_halves(weight, heads[projection])
        type_ = gguf.GGMLQuantizationType[kind if weight.ndim == 2 else "F32"]
        data = gguf.quants.quantize(weight.float().numpy(), type_)
        name = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(name, data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A Llama as a folder and as GGUF files; its rows are blocks of 32, as Q8_0 wants them."""
    folder = tmp_path_factory.mktemp("gguf")
    model = make_llama(hidden_size=64, intermediate_size=96, tie_word_embeddings=False)
    model.save_pretrained(folder / "folder")
    write_gguf(model, folder / "model.gguf")
    write_gguf(model, folder / "small.GGUF", "Q8_0")
    return folder


def logits_of(model):
    return model.forward(TEXT, model.new_cache()).logits


def test_a_gguf_file_gives_the_logits_of_the_folder(llama):
    wanted = logits_of(HFModel.from_folder(llama / "folder"))
    for given in ((llama / "model.gguf",), (llama, "model.gguf"), (str(llama / "model.gguf"),)):
        model = HFModel.from_folder(*given)
        assert (model.vocab_size, model.context) == (VOCAB, 64)
        assert (logits_of(model) - wanted).abs().max() < 1e-4


def test_a_quantised_file_is_a_rounded_model(llama):
    wanted = logits_of(HFModel.from_folder(llama / "folder"))
    gap = (logits_of(HFModel.from_folder(llama / "small.GGUF")) - wanted).abs().max()
    assert 1e-5 < gap < 0.1 * wanted.abs().max()


def test_the_quantised_model_drafts_for_the_whole_one(llama):
    greedy = Sampling(temperature=0)
    target = HFModel.from_folder(llama / "folder", dtype=torch.float64)
    draft = HFModel.from_folder(llama / "small.GGUF", dtype=torch.float64)
    options = {"max_new_tokens": 40, "sampling": greedy, "coins": coins_of(0)}
    plain = generate(target, None, TEXT, **options)
    trace = generate(target, SmallModelDrafter(draft, greedy), TEXT, K=4, **options)
    assert trace.new_tokens == plain.new_tokens
    assert trace.accepted > trace.drafted / 2
