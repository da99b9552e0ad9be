"""A GGUF file, written here, through the adapter: the same logits as from the folder."""

from __future__ import annotations

import pytest
import torch

from lessonlib.decoding.hf import HFModel
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from tests.hfmodels import VOCAB, make_llama, write_gguf
from tests.toys import coins_of

TEXT = [5, 60, 7, 33, 8, 12]


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
