"""Tiny random ``transformers`` models: a Llama pair on disk, as folders and as GGUF files."""

from __future__ import annotations

from pathlib import Path

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests.tinypair import VOCAB as TOKENS
from tests.tinypair import write_tokenizer

VOCAB, CONTEXT = 97, 64
TINY = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
}


def disturb(model: PreTrainedModel, amount: float, seed: int) -> PreTrainedModel:
    """Add noise to every weight: large enough that a wrong row or position shows."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += amount * torch.randn(weight.shape, generator=noise, dtype=weight.dtype)
    return model.eval()


def make_llama(seed: int = 0, **changes) -> LlamaForCausalLM:
    """A random Llama in float64: rotary positions, two KV heads for four query heads."""
    torch.manual_seed(seed)
    config = LlamaConfig(**{**TINY, "num_key_value_heads": 2, **changes})
    return disturb(LlamaForCausalLM(config).double(), 0.1, seed)


def write_pair(model: PreTrainedModel, folder: Path, amount: float = 0.02) -> Path:
    """Write ``folder/target``, and as ``folder/draft`` the same model with some more noise."""
    model.save_pretrained(folder / "target")
    disturb(model, amount, seed=9).save_pretrained(folder / "draft")
    return folder


def write_text_pair(folder: Path, **changes) -> Path:
    """Write a Llama pair with a tokenizer; ``changes`` are the config's."""
    write_tokenizer(folder / "target")
    sizes = {"vocab_size": TOKENS, "hidden_size": 64, "intermediate_size": 96, **changes}
    return write_pair(make_llama(**sizes, tie_word_embeddings=False), folder, amount=0.005)


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
