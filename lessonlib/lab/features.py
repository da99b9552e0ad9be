"""What the target thinks of the training text, computed once and kept on disk.

Every draft of this course learns from the target's hidden states: a distilled draft from
its distribution, EAGLE's heads from its features. Running the target costs more than
training a head, so it runs once over the text; all trainings then read the same files.
The logits are not kept: ``features @ head.T`` gives all V of them back from ``width`` numbers.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.taps import TAPS, take_taps


@dataclass(frozen=True)
class FeatureStore:
    """Windows of text and the target's features of them, as files that are read on demand.

    ``tokens`` is (windows, window + 1) uint16 or uint32, ``features`` (windows, window,
    TAPS, width) float16: row t belongs to token t, which has seen tokens 0..t.
    """

    tokens: np.ndarray
    features: np.ndarray

    @classmethod
    def open(cls, folder: Path) -> FeatureStore:
        """Open what ``build_store`` wrote. Raises FileNotFoundError if there is nothing yet."""
        return cls(
            np.load(folder / "tokens.npy", mmap_mode="r"),
            np.load(folder / "features.npy", mmap_mode="r"),
        )

    def draw(self, batch: int, window: int, key: tuple[int, ...], tap: int | slice = slice(None)):
        """The beginnings of ``batch`` windows: tokens (batch, window + 1) as int64 and features
        (batch, window, TAPS, width) as float32; ``key`` decides which, ``tap`` picks one."""
        rows = np.random.default_rng(key).choice(len(self.tokens), size=batch, replace=False)
        return self._take(np.sort(rows), window, tap)  # sorted: neighbours are read in one go

    def draw_top(self, batch: int, window: int, key: tuple[int, ...]):
        """``draw`` with the top features only: (batch, window, width)."""
        return self.draw(batch, window, key, tap=-1)

    def spread(self, count: int, tap: int | slice = -1, batch: int = 4):
        """Yield ``count`` whole windows, evenly spread, as ``draw`` gives them, in batches."""
        rows = np.linspace(0, len(self.tokens) - 1, min(count, len(self.tokens))).astype(int)
        for some in np.array_split(rows, -(-len(rows) // batch)):
            yield self._take(some, self.features.shape[1], tap)

    def _take(self, rows, window, tap):
        tokens = self.tokens[rows, : window + 1].astype(np.int64)
        features = self.features[rows, :window, tap].astype(np.float32)
        return torch.from_numpy(tokens), torch.from_numpy(features)


def cut_windows(stream: np.ndarray, window: int, windows: int) -> np.ndarray:
    """At most ``windows`` back-to-back windows of ``stream`` (n,), evenly spread: (., window + 1).

    Each begins with the token that the one before it ends with.

    >>> cut_windows(np.arange(10), window=2, windows=2).tolist()
    [[0, 1, 2], [6, 7, 8]]
    """
    whole = (len(stream) - 1) // window
    if whole < 1:
        raise ValueError(f"stream has {len(stream)} tokens: one window takes {window + 1}")
    starts = np.linspace(0, whole - 1, min(windows, whole)).astype(int) * window
    return stream[starts[:, None] + np.arange(window + 1)]


def check_batch(batch: int, windows: int) -> None:
    """Raise ValueError unless a batch can be drawn from that many different windows."""
    if batch > windows:
        raise ValueError(
            f"batch is {batch} but only {windows} windows are kept: use --batch {windows} "
            "or more --windows"
        )


def build_store(
    target: GPT2, stream: np.ndarray, folder: Path, *, window: int, windows: int
) -> FeatureStore:
    """Run ``target`` over at most ``windows`` windows of ``stream`` (n,), with a progress bar.

    Goes on where an earlier call for the same text and target was stopped. Raises
    ValueError if the stream is too short, if ``folder`` is damaged or holds the features of
    another text or target or of more or fewer windows, or if the disk has no room for them.
    """
    tokens = cut_windows(stream, window, windows)
    shape = (len(tokens), window, TAPS, target.shape.width)
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state.json"
    facts = {
        "shape": list(shape),
        "text": int(tokens[:, :-1].astype(np.int64).sum()),
        "target": float(target.head.double().sum()),  # changes with the weights
    }
    done = _read_state(state, facts)
    if done:
        store = _open_whole(folder, tokens, shape)
        if done == len(tokens):
            return store
        del store  # Windows writes into no file that is still mapped
    else:
        _check_room(folder, shape)
    file = folder / "features.npy"
    features = np.lib.format.open_memmap(file, "r+" if done else "w+", np.float16, shape)
    np.save(folder / "tokens.npy", tokens)
    bar = tqdm(range(done, len(tokens)), "features", total=len(tokens), initial=done)
    for i in bar:
        output = target.forward(tokens[i, :-1].tolist(), target.new_cache())
        features[i] = take_taps(output).half().cpu().numpy()
        if (i + 1) % 100 == 0 or i + 1 == len(tokens):
            features.flush()
            part = state.with_suffix(".part")
            part.write_text(json.dumps({**facts, "done": i + 1}))
            os.replace(part, state)
    return FeatureStore.open(folder)


def _check_room(folder: Path, shape: tuple[int, ...]) -> None:
    wanted, free = 2 * math.prod(shape), shutil.disk_usage(folder).free
    if wanted > free:
        raise ValueError(
            f"the features take {wanted / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB free: "
            "use fewer --windows, or another --out"
        )


def _open_whole(folder: Path, tokens: np.ndarray, shape: tuple[int, ...]) -> FeatureStore:
    """The store, if its files are what ``build_store`` wrote: opened to be gone on with, a file
    that was cut would be filled up with zeros."""
    try:
        store = FeatureStore.open(folder)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(_explain_damage(folder)) from error
    whole = store.features.shape == shape and store.features.dtype == np.float16
    if not (whole and np.array_equal(store.tokens, tokens)):
        raise ValueError(_explain_damage(folder))
    return store


def _read_state(state: Path, facts: dict) -> int:
    """How many windows are done already."""
    if not state.exists():
        return 0
    windows = facts["shape"][0]
    try:
        found = json.loads(state.read_text())
        done, kept = int(found.pop("done")), int(found["shape"][0])
    except Exception as error:  # a damaged file may hold anything
        raise ValueError(_explain_damage(state.parent)) from error
    alike = {**found, "text": 0, "shape": [windows, *found["shape"][1:]]} == {**facts, "text": 0}
    if kept != windows and alike:
        raise ValueError(
            f"{state.parent} holds the features of {kept} windows and this run wants {windows}: "
            f"use --windows {kept}, or another --out"
        )
    if found != facts:
        raise ValueError(f"{state.parent} holds features of another text or target: remove it")
    if not 0 < done <= windows:
        raise ValueError(_explain_damage(state.parent))
    return done


def _explain_damage(folder: Path) -> str:
    return f"{folder} is damaged: remove it, and the next run computes it again"
