"""Which target goes with which draft, and where their weights are.

``bundled`` is always there, offline. ``gpt2`` and ``gpt2-medium`` come from the
Hugging Face hub or its local cache. Any folder that holds ``target/`` and ``draft/``
is a pair too, of any models that ``transformers`` reads. And so is the folder of a draft,
or of an EAGLE head, that ``course.py train`` wrote: that draft with its target.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lessonlib.folders import ROOT
from lessonlib.lab.checkpoints import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    count_parameters,
    list_missing_files,
    load_model,
    load_tokenizer,
    read_json,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from lessonlib.decoding.loop import Model

# name -> (target, draft), hub names without their owner, as people say them
HUB_PAIRS = {"gpt2": ("gpt2", "distilgpt2"), "gpt2-medium": ("gpt2-medium", "gpt2")}
HUB_OWNERS = {
    "gpt2": "openai-community",
    "gpt2-medium": "openai-community",
    "distilgpt2": "distilbert",
}
_FILES = [CONFIG, WEIGHTS, TOKENIZER]


class PairNotFoundError(FileNotFoundError):
    """A pair that was asked for is neither bundled nor on this machine nor downloadable."""


@dataclass(frozen=True)
class Pair:
    """A target, a draft with the same vocabulary, and the tokenizer of both."""

    name: str
    target: Model
    draft: Model
    tokenizer: Tokenizer

    @property
    def eos(self) -> int | None:
        """The id of the end-of-text token. It is 0 in the bundled pair, which is falsy."""
        if hasattr(self.target, "eos"):  # other models than GPT-2 have other names for it
            return self.target.eos
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
    target = load_model(target_folder, **options)
    draft = load_model(draft_folder, **options)
    tokenizer = load_tokenizer(target_folder)
    _check_vocabularies(name, target, draft, tokenizer, target_folder)
    return Pair(name, target, draft, tokenizer)


def _check_vocabularies(name, target, draft, tokenizer, folder: Path) -> None:
    """Let both models speak the tokens of the one tokenizer, or raise ValueError."""
    from lessonlib.decoding.gpt2 import GPT2

    tokens = tokenizer.get_vocab_size()
    for model in (target, draft):  # some models pad their logits, and each size differently
        if not isinstance(model, GPT2):
            model.vocab_size = min(model.vocab_size, tokens)
    if target.vocab_size != draft.vocab_size:
        raise ValueError(
            f"in pair {name!r} the target has {target.vocab_size} tokens and the draft "
            f"{draft.vocab_size}: use two models with one tokenizer"
        )
    if tokens > target.vocab_size:
        raise ValueError(
            f"{folder / TOKENIZER} has {tokens} tokens and the models {target.vocab_size}: "
            "use the tokenizer that the models were trained with"
        )


def find_target(name: str) -> Path:
    """The folder of a pair's target, or the folder itself if it holds a model.

    Raises PairNotFoundError if there is none, with the names there are.
    """
    if name in HUB_PAIRS:
        return _find_on_hub(HUB_PAIRS[name][0])
    folder = _find_folder(name)
    for place in (folder, folder / "target"):
        if not list_missing_files(place) and (place / TOKENIZER).exists():
            return place
    return find_folders(name)[0]


def find_home(name: str) -> Path:
    """The folder that holds what was trained for a pair's target: its draft, its heads.

    A pair from the hub is not ours to write into: its drafts live in the user's cache.
    """
    from platformdirs import user_cache_path

    if name in HUB_PAIRS:
        return user_cache_path("speculative-decoding-course") / name
    folder = _find_folder(name)
    return folder.absolute().parent if find_origin(name) else folder


def find_origin(name: str) -> str | None:
    """Whose draft or head lies in the folder ``name``: a pair's name, or the folder of its target.

    Its card says so, or else it lies in that folder. None for what is no draft's folder: a
    target has a tokenizer, a pair has other folders.
    """
    folder = _find_folder(name)
    if name in HUB_PAIRS or list_missing_files(folder) or (folder / TOKENIZER).exists():
        return None
    card = folder / "card.json"
    named = read_json(card).get("target") if card.exists() else None
    return named or str(folder.absolute().parent)


def find_folders(name: str) -> tuple[Path, Path]:
    """The folders of a pair's target and draft. Raises PairNotFoundError if one is missing."""
    if name in HUB_PAIRS:
        target, draft = HUB_PAIRS[name]
        return _find_on_hub(target), _find_on_hub(draft)
    origin = find_origin(name)
    if origin is not None:
        return find_target(origin), _find_draft(_find_folder(name), origin)
    folder = _find_folder(name)
    target, draft = folder / "target", folder / "draft"
    missing = [target / file for file in list_missing_files(target)]
    missing += [] if (target / TOKENIZER).exists() else [target / TOKENIZER]
    missing += [draft / file for file in list_missing_files(draft)]
    if missing:
        known = ", ".join(["bundled", *HUB_PAIRS])
        raise PairNotFoundError(
            f"no {missing[0].name} in {missing[0].parent}: name one of {known}, a folder that "
            "holds target/ and draft/, each with config.json and model.safetensors or a GGUF "
            "file, and target/ with tokenizer.json, or the folder of a draft that you trained"
        )
    return target, draft


def _find_draft(folder: Path, origin: str) -> Path:
    """The draft itself; for an EAGLE head the draft beside it, or else its target's usual one."""
    if read_json(folder / CONFIG).get("model_type") != "eagle_head":
        return folder
    beside = folder.absolute().parent / "draft"
    return find_folders(origin)[1] if list_missing_files(beside) else beside


def _find_folder(name: str) -> Path:
    return bundled_folder() if name == "bundled" else Path(name).expanduser()


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
