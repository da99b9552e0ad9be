"""A pair of other models than GPT-2, from a folder: whole folders, GGUF files, or one of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from transformers import LlamaForCausalLM

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.hf import HFModel
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import demo
from lessonlib.lab.heads import find_head
from lessonlib.lab.pairs import PairNotFoundError, count_parameters, load_pair
from tests.hfmodels import make_llama, write_gguf, write_text_pair
from tests.tinypair import VOCAB, write_model
from tests.toys import coins_of

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_pair(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "pair")


def set_config(part, **changes) -> None:
    file = part / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def check_decodes(pair) -> None:
    """The draft is of some use, and greedily the text is the target's own."""
    prompt = pair.encode("def read(path):\n")
    options = {"max_new_tokens": 30, "sampling": GREEDY, "coins": coins_of(0)}
    trace = generate(pair.target, SmallModelDrafter(pair.draft, GREEDY), prompt, K=3, **options)
    assert trace.accepted > trace.drafted / 4
    assert trace.new_tokens == generate(pair.target, None, prompt, **options).new_tokens


def test_a_folder_of_two_llamas_is_a_pair(folder):
    pair = load_pair(str(folder), dtype="float64")
    assert isinstance(pair.target, HFModel)
    assert pair.target.model.dtype == pair.draft.model.dtype == torch.float64
    assert pair.decode(pair.encode("import os\n")) == "import os\n"
    check_decodes(pair)


def test_the_demo_runs_it(folder):
    done = subprocess.run(
        [sys.executable, "-m", "lessonlib", "demo", "--pair", folder, "--tokens", "12"],
        env={**os.environ, "COURSE_DEVICE": "cpu", "COURSE_REPEATS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "def read_config(path):" in done.stdout
    assert "ms/token" in done.stdout


def test_the_end_of_a_text_is_the_one_that_the_config_names(copy):
    for named, eos in ((7, 7), ([9, 2], 9), (None, None)):
        set_config(copy / "target", eos_token_id=named)
        assert load_pair(str(copy)).eos == eos


def test_padded_logits_are_cut_to_the_tokens_there_are(tmp_path):
    folder = write_text_pair(tmp_path, vocab_size=VOCAB + 20)
    make_llama(vocab_size=VOCAB + 4).save_pretrained(folder / "draft")
    pair = load_pair(str(folder))
    assert pair.target.vocab_size == pair.draft.vocab_size == VOCAB
    assert pair.draft.forward([1], pair.draft.new_cache()).logits.shape == (1, VOCAB)


def test_a_draft_with_fewer_tokens_than_the_tokenizer_is_refused(copy):
    shutil.rmtree(copy / "draft")
    make_llama(vocab_size=VOCAB - 1).save_pretrained(copy / "draft")
    with pytest.raises(ValueError, match="the target has 300 tokens and the draft 299: use two"):
        load_pair(str(copy))


def test_a_gpt2_can_draft_for_a_llama(copy):
    shutil.rmtree(copy / "draft")
    write_model(copy / "draft", layers=1, seed=2)
    pair = load_pair(str(copy), dtype="float64")
    assert isinstance(pair.draft, GPT2)
    trace = generate(
        pair.target, SmallModelDrafter(pair.draft, GREEDY), [5, 6, 7],
        max_new_tokens=20, sampling=GREEDY, coins=coins_of(0),
    )  # fmt: skip
    assert trace.drafted > 0


def test_gguf_files_are_a_pair_too(copy, capsys, monkeypatch):
    for part in ("target", "draft"):
        model = LlamaForCausalLM.from_pretrained(copy / part, dtype=torch.float32)
        for file in (copy / part).glob("*.safetensors"):
            file.unlink()
        (copy / part / "config.json").unlink()
        write_gguf(model, copy / part / "model.gguf")
    check_decodes(load_pair(str(copy), dtype="float64"))
    assert count_parameters(copy / "target") == (copy / "target" / "model.gguf").stat().st_size
    monkeypatch.setenv("COURSE_REPEATS", "1")
    assert demo.main(["--pair", str(copy), "--tokens", "8"]) == 0
    assert "ms/token" in capsys.readouterr().out
    shutil.copy(copy / "draft" / "model.gguf", copy / "draft" / "other.gguf")
    with pytest.raises(ValueError, match="holds 2 GGUF files: keep one"):
        load_pair(str(copy))
    (copy / "target" / "tokenizer.json").unlink()
    (copy / "draft" / "other.gguf").unlink()
    with pytest.raises(PairNotFoundError, match=r"^no tokenizer.json in .*target: name one of"):
        load_pair(str(copy))


def test_weights_in_several_files_are_counted_and_run(copy):
    whole = count_parameters(copy / "target")
    model = LlamaForCausalLM.from_pretrained(copy / "target")
    (copy / "target" / "model.safetensors").unlink()
    model.save_pretrained(copy / "target", max_shard_size="200KB")
    assert len(list((copy / "target").glob("model-*.safetensors"))) > 1
    assert count_parameters(copy / "target") == whole
    check_decodes(load_pair(str(copy)))


def test_a_model_that_cannot_be_run_is_one_sentence_with_its_place(copy):
    for changes, words in (
        ({"model_type": "mistral", "sliding_window": 8}, "this mistral model cannot be rolled"),
        ({"model_type": "no-such-kind"}, "no-such-kind"),
        ({"model_type": None}, "has model type `None`"),
    ):
        set_config(copy / "target", **changes)
        with pytest.raises(ValueError, match=words) as caught:
            load_pair(str(copy))
        assert str(caught.value).startswith(f"{copy / 'target'}: ")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 700


def test_it_has_no_eagle_head_and_no_command_that_could_make_one(folder):
    with pytest.raises(FileNotFoundError, match="they are made for GPT-2 targets only"):
        find_head(load_pair(str(folder)), "eagle1")
