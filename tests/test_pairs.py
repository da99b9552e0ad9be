"""Pairs from a folder, from a hub cache, and the one sentence where there is none. Case 25, 49."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import device
from lessonlib.lab.pairs import PairNotFoundError, count_parameters, load_pair
from tests.tinypair import VOCAB, write_hub_model, write_model, write_pair
from tests.toys import coins_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty hub cache that this process looks into, with the network switched off."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def parts_of(folder: Path, model: str) -> Path:
    """Files of a hub model: weights of target or draft, the tokenizer beside them."""
    part = folder / "hub" / model
    if not part.exists():
        shutil.copytree(folder / ("draft" if model == "distilgpt2" else "target"), part)
        shutil.copyfile(folder / "target" / "tokenizer.json", part / "tokenizer.json")
    return part


def test_a_folder_is_a_pair_that_decodes(folder):
    pair = load_pair(str(folder))
    assert (pair.name, pair.target.shape.layers, pair.draft.shape.layers) == (str(folder), 2, 1)
    assert pair.target.vocab_size == pair.draft.vocab_size == VOCAB
    assert pair.target.embedding.dtype == torch.float32
    assert pair.eos == 0
    prompt = pair.encode("def read(path):\n")
    assert pair.decode(prompt) == "def read(path):\n"
    assert pair.decode([0]) == "<|endoftext|>"  # shown, not dropped
    drafter = SmallModelDrafter(pair.draft, Sampling())
    trace = generate(pair.target, drafter, prompt, max_new_tokens=20, coins=coins_of(0))
    assert len(trace.new_tokens) == 20
    assert trace.drafted > 0


def test_float64_on_request_and_a_dtype_we_do_not_know_is_refused(folder):
    pair = load_pair(str(folder), dtype="float64")
    assert pair.target.embedding.dtype == pair.draft.embedding.dtype == torch.float64
    with pytest.raises(ValueError, match="dtype is 'float65': use one of float32, float64"):
        load_pair(str(folder), dtype="float65")


def test_two_vocabularies_are_refused_with_both_sizes(folder, tmp_path):
    shutil.copytree(folder / "target", tmp_path / "target")
    write_model(tmp_path / "draft", layers=1, seed=2, vocab=VOCAB + 4)
    with pytest.raises(ValueError, match="the target has 300 tokens and the draft 304"):
        load_pair(str(tmp_path))


CONFIG = "config.json"


def edit_config(folder: Path, **changes) -> None:
    file = folder / CONFIG
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def rewrite_weights(folder: Path, change) -> None:
    file = folder / "model.safetensors"
    save_file({name: change(name, w) for name, w in load_file(file).items()}, file)


BREAKS = {
    "weights cut short": lambda part: cut_short(part / "model.safetensors"),
    "weights empty": lambda part: (part / "model.safetensors").write_bytes(b""),
    "weights a folder": lambda part: (
        (part / "model.safetensors").unlink() or (part / "model.safetensors").mkdir()
    ),
    "weights not numbers": lambda part: rewrite_weights(part, lambda _, w: w * float("nan")),
    "weights of another name": lambda part: save_file(
        {"other": torch.ones(2)}, part / "model.safetensors"
    ),
    "config cut short": lambda part: cut_short(part / CONFIG),
    "config not text": lambda part: (part / CONFIG).write_bytes(b"\xff\xfe\x00"),
    "config a list": lambda part: (part / CONFIG).write_text("[]"),
    "config without layers": lambda part: edit_config(part, n_layer=None),
    "config with words": lambda part: edit_config(part, n_head="two"),
    "config with more layers": lambda part: edit_config(part, n_layer=7),
    "config with another width": lambda part: edit_config(part, n_embd=24),
    "config with another vocabulary": lambda part: edit_config(part, vocab_size=VOCAB - 1),
}


@pytest.mark.parametrize("part", ["target", "draft"])
@pytest.mark.parametrize("fault", BREAKS)
def test_a_file_that_cannot_be_used_is_one_sentence_with_its_place(folder, tmp_path, part, fault):
    shutil.copytree(folder, tmp_path / "pair")
    BREAKS[fault](tmp_path / "pair" / part)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "pair" / part))) as caught:
        load_pair(str(tmp_path / "pair"))
    sentence = str(caught.value)
    assert type(caught.value) is ValueError
    assert "\n" not in sentence
    assert len(sentence) < 500


@pytest.mark.parametrize("text", ["", "{}", "[1", "\x00"])
def test_a_broken_tokenizer_is_one_sentence(folder, tmp_path, text):
    shutil.copytree(folder, tmp_path / "pair")
    (tmp_path / "pair/target/tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be used, fetch or make it again"):
        load_pair(str(tmp_path / "pair"))


def test_a_tokenizer_of_other_models_is_refused_with_both_sizes(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "pair")
    for part in ("target", "draft"):
        write_model(tmp_path / "pair" / part, layers=1, seed=3, vocab=VOCAB - 5)
    with pytest.raises(ValueError, match="has 300 tokens and the models 295: use the tokenizer"):
        load_pair(str(tmp_path / "pair"))


def test_the_size_of_the_target_decides_the_threads(folder, monkeypatch):
    wanted = count_parameters(folder / "target")
    assert wanted == sum(w.numel() for w in load_file(folder / "target/model.safetensors").values())
    assert wanted > count_parameters(folder / "draft")
    monkeypatch.delenv("COURSE_THREADS", raising=False)
    monkeypatch.setattr(device, "count_physical_cores", lambda: 2)
    monkeypatch.setattr(device, "count_usable_cpus", lambda: 2)
    before = torch.get_num_threads()
    try:
        for small_model, threads in ((wanted + 1, 1), (wanted, 2)):
            monkeypatch.setattr(device, "SMALL_MODEL", small_model)
            load_pair(str(folder))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_a_missing_folder_says_what_can_be_named(tmp_path):
    with pytest.raises(PairNotFoundError) as caught:
        load_pair(str(tmp_path / "nowhere"))
    sentence = str(caught.value)
    assert "\n" not in sentence
    for word in (str(tmp_path / "nowhere"), "bundled", "gpt2-medium", "target/ and draft/"):
        assert word in sentence


@pytest.mark.parametrize(
    "file",
    ["target/config.json", "target/tokenizer.json", "draft/model.safetensors", "draft/config.json"],
)
def test_a_missing_file_is_named_with_its_folder(folder, tmp_path, file):
    shutil.copytree(folder, tmp_path / "pair")
    (tmp_path / "pair" / file).unlink()
    part, name = file.split("/")
    with pytest.raises(PairNotFoundError) as caught:
        load_pair(str(tmp_path / "pair"))
    assert str(caught.value).startswith(f"no {name} in {tmp_path / 'pair' / part}:")


@pytest.mark.parametrize(
    ("pair", "models"),
    [
        ("gpt2", {"openai-community/gpt2": 2, "distilbert/distilgpt2": 1}),
        ("gpt2", {"gpt2": 2, "distilgpt2": 1}),  # the names before there were owners
        ("gpt2-medium", {"openai-community/gpt2-medium": 2, "openai-community/gpt2": 2}),
    ],
)
def test_a_cached_hub_pair_is_found_offline(folder, cache, pair, models):
    for name in models:
        write_hub_model(cache, name, parts_of(folder, name.split("/")[-1]))
    loaded = load_pair(pair)
    assert [loaded.target.shape.layers, loaded.draft.shape.layers] == list(models.values())
    assert loaded.decode(loaded.encode("for x in y:")) == "for x in y:"


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME"])
def test_the_hubs_own_environment_variables_say_where_the_cache_is(folder, tmp_path, variable):
    hub = tmp_path / "hub"  # HF_HOME holds the folder hub
    for name in ("openai-community/gpt2", "distilbert/distilgpt2"):
        write_hub_model(hub, name, parts_of(folder, name.split("/")[-1]))
    where = str(hub if variable == "HF_HUB_CACHE" else tmp_path)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGINGFACE_"))}
    code = "from lessonlib.lab.pairs import load_pair; print(load_pair('gpt2').target.shape.layers)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, variable: where, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


def sentence_of(pair: str) -> str:
    with pytest.raises(PairNotFoundError) as caught:
        load_pair(pair)
    return str(caught.value)


def wanted_sentence(model: str, cache: Path) -> str:
    return (
        f"{model} is not in the Hugging Face cache ({cache}) and cannot be downloaded now: "
        "connect once and try again, or use the pair 'bundled', which needs no network"
    )


@pytest.mark.parametrize("pair", ["gpt2", "gpt2-medium"])
def test_offline_and_not_cached_is_one_sentence(cache, pair):
    assert sentence_of(pair) == wanted_sentence(pair, cache)


def test_a_missing_draft_is_named_and_not_the_target(folder, cache):
    write_hub_model(cache, "openai-community/gpt2", parts_of(folder, "gpt2"))
    assert sentence_of("gpt2") == wanted_sentence("distilgpt2", cache)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_half_a_snapshot_counts_as_not_cached(folder, cache, file):
    (write_hub_model(cache, "openai-community/gpt2", parts_of(folder, "gpt2")) / file).unlink()
    assert sentence_of("gpt2") == wanted_sentence("gpt2", cache)


def test_without_a_route_to_the_hub_the_same_sentence_comes_fast(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # refuses every connection
    began = time.perf_counter()
    assert sentence_of("gpt2") == wanted_sentence("gpt2", cache)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize("error", [httpx2.ProxyError, httpx2.ReadTimeout, PermissionError])
def test_whatever_stops_the_download_it_is_the_same_sentence(cache, monkeypatch, error):
    def refuse(name, **options):
        if options.get("local_files_only"):
            raise huggingface_hub.errors.LocalEntryNotFoundError("not cached")
        raise error("no")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    assert sentence_of("gpt2") == wanted_sentence("gpt2", cache)


def test_what_is_not_cached_is_downloaded(folder, cache, monkeypatch):
    asked = []

    def download(name, *, allow_patterns, local_files_only=False):
        asked.append((name, local_files_only))
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("not cached")
        return str(parts_of(folder, name.split("/")[-1]))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert load_pair("gpt2").draft.shape.layers == 1
    assert [name for name, local in asked if not local] == [
        "openai-community/gpt2",
        "distilbert/distilgpt2",
    ]
