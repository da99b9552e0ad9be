"""A tiny random GPT-2 pair on disk, with a tokenizer of its own, for tests that load one."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.lab.corpus import train_tokenizer

VOCAB, CONTEXT = 300, 96
TEXTS = ["def read(path):\n    return open(path).read()\n", "import os\n\nfor x in y:\n    pass\n"]
FILES = ("config.json", "model.safetensors", "tokenizer.json")


def write_tokenizer(folder: Path) -> None:
    """Write tokenizer.json with VOCAB tokens; spare merges are made up of what the texts hold."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"{a}{b}{c} " for a in "abcde" for b in "fghij" for c in "klmno"]
    tokenizer = train_tokenizer([*TEXTS, *words], VOCAB)
    assert tokenizer.get_vocab_size() == VOCAB
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(folder: Path, *, layers: int, seed: int, vocab: int = VOCAB) -> None:
    """Write a random GPT-2 with weights large enough that one token matters to the next."""
    config = GPT2Config(vocab_size=vocab, n_positions=CONTEXT, n_embd=16, n_layer=layers, n_head=2)
    config.bos_token_id = config.eos_token_id = 0
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)


def write_pair(folder: Path) -> Path:
    """Write ``folder/target`` (2 layers, tokenizer) and ``folder/draft`` (1 layer)."""
    write_tokenizer(folder / "target")
    write_model(folder / "target", layers=2, seed=1)
    write_model(folder / "draft", layers=1, seed=2)
    return folder


def make_pair(folder: Path) -> tuple[GPT2, GPT2]:
    """A random target (2 layers) and draft (1 layer) in float64, without a tokenizer."""
    for name, layers in (("target", 2), ("draft", 1)):
        write_model(folder / name, layers=layers, seed=layers)
    return tuple(
        GPT2.from_folder(folder / name, dtype=torch.float64) for name in ("target", "draft")
    )


def write_hub_model(cache: Path, name: str, source: Path) -> Path:
    """Lay ``source``'s files out as the hub's cache does: refs, blobs, and links to the blobs.

    ``name`` is the repository, such as "openai-community/gpt2". Returns the snapshot.
    """
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    for part in (repository / "refs", repository / "blobs", snapshot):
        part.mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    for i, file in enumerate(FILES):
        blob = repository / "blobs" / f"{i:040x}"
        blob.write_bytes((source / file).read_bytes())
        try:
            os.symlink(Path("..", "..", "blobs", blob.name), snapshot / file)
        except OSError:  # Windows without the right to link: the hub's client copies, too
            (snapshot / file).write_bytes(blob.read_bytes())
    return snapshot
