"""A model from its files: which forward runs it, how large it is, and what is wrong with it.

GPT-2 runs on the course's own forward; whatever else ``transformers`` reads, GGUF files
included, through ``decoding/hf``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from lessonlib.decoding.loop import Model

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
INDEX = f"{WEIGHTS}.index.json"  # of weights that come in several files


def list_missing_files(folder: Path) -> list[str]:
    """The files that ``folder`` lacks to hold a model: none if there is a GGUF file in it.

    >>> list_missing_files(Path("nowhere"))
    ['config.json', 'model.safetensors']
    """
    if find_gguf(folder) is not None:
        return []
    found = {name: (folder / name).exists() for name in (CONFIG, WEIGHTS)}
    found[WEIGHTS] = found[WEIGHTS] or (folder / INDEX).exists()
    return [name for name, there in found.items() if not there]


def find_gguf(folder: Path) -> Path | None:
    """The GGUF file in ``folder``, if it has one and no config.json. Two raise ValueError."""
    if not folder.is_dir() or (folder / CONFIG).exists():
        return None
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() == ".gguf")
    if len(files) > 1:
        raise ValueError(f"{folder} holds {len(files)} GGUF files: keep one of them there")
    return files[0] if files else None


def read_json(file: Path) -> dict:
    """The object that a JSON file holds. Raises ValueError, with its place, if it holds none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(explain(file, error)) from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__} and no object: make it again")
    return content


def count_parameters(folder: Path) -> int:
    """How many numbers the weights in ``folder`` are, read from their headers alone.

    Of a GGUF file it is the bytes: near enough to tell a small model from a large one.
    """
    gguf = find_gguf(folder)
    if gguf is not None:
        return gguf.stat().st_size
    files = [folder / WEIGHTS]
    if not files[0].exists():
        files = sorted(folder.glob("model-*.safetensors"))
    return sum(map(_count_numbers, files))


def _count_numbers(file: Path) -> int:
    from safetensors import safe_open

    try:
        with safe_open(file, "numpy") as weights:
            names = weights.keys()
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    except Exception as error:  # what it raises is no subclass of any one exception
        raise ValueError(explain(file, error)) from error


def load_model(folder: Path, **options) -> Model:
    """Load a model and let it read one token: a file may be whole and its content not fit.

    ``options`` are the device and the dtype. Raises ValueError, in one sentence, for files
    that cannot be used and for a model that the loop cannot run.
    """
    try:
        model = _open_model(folder, **options)
        logits = model.forward([0], model.new_cache()).logits
    except Exception as error:
        if type(error) in (ValueError, ImportError):  # has a sentence of its own
            raise ValueError(_place(folder, error)) from error
        raise ValueError(explain(folder, error)) from error
    if logits.shape != (1, model.vocab_size) or not logits.isfinite().all():
        raise ValueError(f"{folder} holds weights that do not belong to its config.json")
    return model


def _open_model(folder: Path, **options) -> Model:
    gguf = find_gguf(folder)
    if gguf is None and read_json(folder / CONFIG).get("model_type") == "gpt2":
        from lessonlib.decoding.gpt2 import GPT2

        return GPT2.from_folder(folder, **options)
    from lessonlib.decoding.hf import HFModel

    return HFModel.from_folder(gguf or folder, **options)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json. Raises ValueError if it cannot be used."""
    from tokenizers import Tokenizer

    file = folder / TOKENIZER
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(explain(file, error)) from error


def explain(place: Path, error: Exception) -> str:
    """One sentence about a file or folder that cannot be used."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{place} cannot be used, fetch or make it again ({reason[:160]})"


def _place(folder: Path, error: Exception) -> str:
    """An error's own words in one line, with the folder if they do not name it."""
    words = " ".join(str(error).split())[:400]
    return words if str(folder) in words else f"{folder}: {words}"
