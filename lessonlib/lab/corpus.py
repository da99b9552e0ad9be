"""The bundled pair's training text: the Python standard library of this interpreter.

Nothing is downloaded: whoever can run the course has the corpus. A fixed list of
modules is held out; every held-out loss and acceptance rate the course reports
comes from those.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"

# Everyday modules from many corners of the library, so that held-out text looks
# like the training text without being part of it.
HELD_OUT = (
    "calendar.py",
    "configparser.py",
    "csv.py",
    "fractions.py",
    "heapq.py",
    "json/decoder.py",
    "json/encoder.py",
    "pprint.py",
    "sched.py",
    "shlex.py",
    "textwrap.py",
    "wave.py",
)

# Tests are another dialect; the rest are tables of numbers or prose in a dictionary.
_SKIPPED_PARTS = {"test", "tests", "idle_test", "pydoc_data", "__pycache__"}
_SKIPPED_PARTS |= {"site-packages", "dist-packages"}
_TABLES = {"encodings", "turtledemo"}


def list_modules() -> tuple[list[Path], list[Path]]:
    """Return (training, held-out) source files, each in a fixed order.

    >>> train, held_out = list_modules()
    >>> len(held_out) == len(HELD_OUT), set(train) & set(held_out)
    (True, set())
    """
    root, held_out = Path(sysconfig.get_path("stdlib")), list_held_out()
    train = [
        path
        for path in sorted(_walk_sources(root))
        if path.relative_to(root).parts[0] not in _TABLES
        and not path.name.startswith("_sysconfigdata")
        and path not in held_out
    ]
    return train, held_out


def list_held_out() -> list[Path]:
    """The held-out source files, without a walk through the whole library."""
    return [Path(sysconfig.get_path("stdlib"), name) for name in HELD_OUT]


def _walk_sources(root: Path) -> Iterator[Path]:
    """Every .py file under ``root``; skipped folders (site-packages is huge) are not entered."""
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in _SKIPPED_PARTS]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def read_sources(paths: list[Path]) -> list[str]:
    """Read source files as text; a byte that is not UTF-8 becomes U+FFFD."""
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths]


def train_tokenizer(texts: list[str], vocab_size: int = 2048) -> Tokenizer:
    """Train a GPT-2 style byte-level BPE on ``texts``; id 0 is END_OF_TEXT."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode_texts(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """Encode texts into one uint16 stream, each text followed by END_OF_TEXT."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    parts = [[*encoding.ids, end] for encoding in tokenizer.encode_batch(texts)]
    return np.concatenate([np.asarray(part, dtype=np.uint16) for part in parts])


def cut_prompts(count: int, lines: int = 12) -> list[str]:
    """``count`` held-out code prompts, evenly spread: up to ``lines`` lines that end in a ``def``.

    >>> prompts = cut_prompts(3)
    >>> len(prompts), all("def " in prompt.splitlines()[-1] for prompt in prompts)
    (3, True)
    """
    prompts = []
    for text in read_sources(list_held_out()):
        rows = text.splitlines(keepends=True)
        starts = [i for i, row in enumerate(rows) if row.lstrip().startswith("def ")]
        prompts += ["".join(rows[max(0, i + 1 - lines) : i + 1]) for i in starts]
    if not 0 < count <= len(prompts):
        raise ValueError(f"count is {count}: the held-out modules give 1 to {len(prompts)} prompts")
    return [prompts[i] for i in np.linspace(0, len(prompts) - 1, count).astype(int)]
