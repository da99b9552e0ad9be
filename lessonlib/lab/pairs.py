"""Which target goes with which draft, and where their weights are.

``bundled`` is always there, offline. ``gpt2`` and ``gpt2-medium`` come from the
Hugging Face hub or its local cache. Any folder that holds ``target/`` and ``draft/``
is a pair too.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lessonlib.folders import ROOT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from lessonlib.decoding.gpt2 import GPT2

# name -> (target, draft), hub names without their owner, as people say them
HUB_PAIRS = {"gpt2": ("gpt2", "distilgpt2"), "gpt2-medium": ("gpt2-medium", "gpt2")}
HUB_OWNERS = {
    "gpt2": "openai-community",
    "gpt2-medium": "openai-community",
    "distilgpt2": "distilbert",
}
_FILES = ["config.json", "model.safetensors", "tokenizer.json"]


class PairNotFoundError(FileNotFoundError):
    """A pair that was asked for is neither bundled nor on this machine nor downloadable."""


@dataclass(frozen=True)
class Pair:
    """A target, a draft with the same vocabulary, and the tokenizer of both."""

    name: str
    target: GPT2
    draft: GPT2
    tokenizer: Tokenizer

    @property
    def eos(self) -> int | None:
        """The id of the end-of-text token. It is 0 in the bundled pair, which is falsy."""
        return self.tokenizer.token_to_id("<|endoftext|>")

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False)


def bundled_folder() -> Path:
    """Where the pair that ships with the course is."""
    return ROOT / "lessonlib" / "models" / "bundled"


def hub_cache() -> Path:
    """The Hugging Face cache folder on this machine."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def load_pair(name: str = "bundled", *, dtype: str | None = None) -> Pair:
    """Load a pair by name or folder onto the device that ``lab/device`` chose.

    ``dtype`` ("float32", "float64") overrides the chosen one. Raises
    PairNotFoundError with one sentence if the weights are not to be had, and
    ValueError for an unknown dtype, for a file that cannot be used, or if the
    vocabularies differ.
    """
    import torch

    from lessonlib.lab import device

    if dtype is not None and dtype not in device.DTYPES:
        raise ValueError(f"dtype is {dtype!r}: use one of {', '.join(device.DTYPES)}")
    target_folder, draft_folder = find_folders(name)
    chosen = device.apply(device.choose_device(parameters=count_parameters(target_folder)))
    options = {"device": chosen.device, "dtype": getattr(torch, dtype or chosen.dtype)}
    target = _load_model(target_folder, **options)
    draft = _load_model(draft_folder, **options)
    if target.vocab_size != draft.vocab_size:
        raise ValueError(
            f"in pair {name!r} the target has {target.vocab_size} tokens and the draft "
            f"{draft.vocab_size}: use two models with one tokenizer"
        )
    return Pair(name, target, draft, _load_tokenizer(target_folder, target.vocab_size))


def count_parameters(folder: Path) -> int:
    """How many numbers ``folder/model.safetensors`` holds, read from its header alone."""
    from safetensors import safe_open

    file = folder / "model.safetensors"
    try:
        with safe_open(file, "numpy") as weights:
            names = weights.keys()
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    except Exception as error:  # what it raises is no subclass of any one exception
        raise ValueError(_explain(file, error)) from error


def _load_model(folder: Path, **options) -> GPT2:
    """Load a model and let it read one token: a file may be whole and its content not fit."""
    from lessonlib.decoding.gpt2 import GPT2

    try:
        model = GPT2.from_folder(folder, **options)
        logits = model.forward([0], model.new_cache()).logits
    except Exception as error:
        if type(error) is ValueError:  # a sentence of its own
            raise
        raise ValueError(_explain(folder, error)) from error
    if logits.shape != (1, model.vocab_size) or not logits.isfinite().all():
        raise ValueError(f"{folder} holds weights that do not belong to its config.json")
    return model


def _load_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(_explain(file, error)) from error
    if tokenizer.get_vocab_size() > vocab_size:
        raise ValueError(
            f"{file} has {tokenizer.get_vocab_size()} tokens and the models {vocab_size}: "
            "use the tokenizer that the models were trained with"
        )
    return tokenizer


def _explain(place: Path, error: Exception) -> str:
    """One sentence about a file or folder that cannot be used."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{place} cannot be used, fetch or make it again ({reason[:160]})"


def find_target(name: str) -> Path:
    """The folder of a pair's target, or the folder itself if it holds a model.

    Raises PairNotFoundError if there is none, with the names there are.
    """
    if name in HUB_PAIRS:
        return _find_on_hub(HUB_PAIRS[name][0])
    folder = bundled_folder() if name == "bundled" else Path(name).expanduser()
    if all((folder / file).exists() for file in _FILES):
        return folder
    return find_folders(name)[0]


def find_home(name: str) -> Path:
    """The folder that holds what was trained for a pair's target: its draft, its heads.

    A pair from the hub is not ours to write into: its drafts live in the user's cache.
    """
    from platformdirs import user_cache_path

    if name in HUB_PAIRS:
        return user_cache_path("speculative-decoding-course") / name
    return bundled_folder() if name == "bundled" else Path(name).expanduser()


def find_folders(name: str) -> tuple[Path, Path]:
    if name in HUB_PAIRS:
        target, draft = HUB_PAIRS[name]
        return _find_on_hub(target), _find_on_hub(draft)
    folder = bundled_folder() if name == "bundled" else Path(name).expanduser()
    wanted = [*(Path("target", file) for file in _FILES), *(Path("draft", f) for f in _FILES[:2])]
    missing = [file for file in wanted if not (folder / file).exists()]
    if missing:
        known = ", ".join(["bundled", *HUB_PAIRS])
        raise PairNotFoundError(
            f"no {missing[0].name} in {(folder / missing[0]).parent}: name one of {known}, or a "
            "folder that holds target/ and draft/, each with config.json and model.safetensors, "
            "and target/ with tokenizer.json"
        )
    return folder / "target", folder / "draft"


def _find_on_hub(model: str) -> Path:
    """The local folder of a hub model, from the cache if it is there, else downloaded."""
    from huggingface_hub.errors import HTTPError

    # Old caches use the bare name, from before the hub gave every model an owner.
    names = [f"{HUB_OWNERS[model]}/{model}", model]
    for name in names:
        with suppress(OSError):
            return _take_snapshot(name, local_files_only=True)
    try:
        return _take_snapshot(names[0])
    except (OSError, HTTPError) as error:
        raise PairNotFoundError(
            f"{model} is not in the Hugging Face cache ({hub_cache()}) and cannot be downloaded "
            "now: connect once and try again, or use the pair 'bundled', which needs no network"
        ) from error


def _take_snapshot(name: str, **options) -> Path:
    """The folder of a hub model; an OSError if a file of it is missing, as offline it may be."""
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(name, allow_patterns=_FILES, **options))
    for file in _FILES:
        (folder / file).stat()
    return folder
