"""One training loop for every model of the bundled pair: time budget, checkpoints, resume."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from lessonlib.lab.muon import build_optimizers

CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """How long to train and how: warm up, hold, then cool down to nothing.

    Windows are half length until the cool-down (cheaper attention while the
    model is still learning words), full length after it begins.
    """

    minutes: float
    batch: int = 16
    window: int = 512
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup_tokens: int = 100_000
    cooldown: float = 0.35
    seed: int = 0

    def rate(self, progress: float, tokens: int) -> float:
        """The learning-rate factor in [0.02, 1] at ``progress`` (0 to 1) of the budget."""
        warm = min(1.0, (tokens + 1) / self.warmup_tokens)
        return max(0.02, min(warm, (1.0 - progress) / self.cooldown))

    def window_at(self, progress: float) -> int:
        return self.window if progress > 1 - self.cooldown else self.window // 2


def draw_batch(stream: np.ndarray, batch: int, window: int, key: tuple[int, int]) -> torch.Tensor:
    """Draw ``batch`` random windows of ``window + 1`` tokens; ``key`` decides which.

    Raises ValueError for a stream (n,) that holds no whole window.

    >>> draw_batch(np.arange(50, dtype=np.uint16), 2, 4, key=(0, 7)).shape
    torch.Size([2, 5])
    """
    if len(stream) <= window:
        raise ValueError(f"stream has {len(stream)} tokens: a window takes {window + 1}")
    starts = np.random.default_rng(key).integers(0, len(stream) - window, size=batch)
    rows = np.stack([stream[s : s + window + 1] for s in starts]).astype(np.int64)
    return torch.from_numpy(rows)


@dataclass
class Progress:
    """What a checkpoint remembers besides weights and optimizer state."""

    seconds: float = 0.0
    steps: int = 0
    tokens: int = 0


def fit(
    model: torch.nn.Module,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    stream: np.ndarray,
    plan: Plan,
    folder: Path,
    *,
    resume: bool = False,
    evaluate: Callable[[], float] | None = None,
) -> Progress:
    """Train ``model`` in place for ``plan.minutes``; the time already spent counts on resume.

    ``loss_of`` takes windows (batch, window + 1) of token ids and returns the mean
    loss in nats per token. Writes ``checkpoint.pt`` (each minute, and on Ctrl-C,
    which ends the run early but loses nothing) and ``log.jsonl`` into ``folder``.
    Raises ValueError on resume if the checkpoint is of a model of another shape, and
    without resume if the folder holds a run, which would be lost.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optimizers = build_optimizers(model, plan.muon_lr, plan.adam_lr)
    checkpoint = folder / "checkpoint.pt"
    log = folder / "log.jsonl"
    if resume and checkpoint.exists():
        done = _load_checkpoint(checkpoint, model, optimizers)
    elif checkpoint.exists():
        raise ValueError(f"{folder} holds a run: go on with --resume, or name another --out")
    else:
        done = Progress()
        log.write_text("")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group.get("base_lr", group["lr"])

    def save(loss: float) -> None:
        _append_log(log, done, loss, model, evaluate)
        _save_checkpoint(checkpoint, model, optimizers, done)

    try:
        _run(model, loss_of, stream, plan, done, optimizers, save)
    except KeyboardInterrupt:
        _save_checkpoint(checkpoint, model, optimizers, done)
        tqdm.write(f"stopped: go on with --resume ({checkpoint})")
    return done


def _run(model, loss_of, stream, plan, done, optimizers, save) -> None:
    """Step until the budget is spent, counting in ``done``; ``save`` each minute and at the end."""
    budget = plan.minutes * 60
    saved = done.seconds
    losses: list[float] = []
    model.train()
    bar_format = "{l_bar}{bar}| {n:.0f}/{total:.0f} s, {remaining} left{postfix}"
    with tqdm(total=budget, initial=min(done.seconds, budget), bar_format=bar_format) as bar:
        while done.seconds < budget:
            began = time.perf_counter()
            progress = done.seconds / budget
            window = plan.window_at(progress)
            _set_rates(optimizers, plan.rate(progress, done.tokens))
            windows = draw_batch(stream, plan.batch, window, key=(plan.seed, done.steps))
            losses.append(_take_step(model, loss_of, windows, optimizers))
            took = time.perf_counter() - began
            done.seconds += took
            done.steps += 1
            done.tokens += plan.batch * window
            bar.update(min(took, budget - bar.n))
            recent = sum(losses[-20:]) / len(losses[-20:])
            bar.set_postfix_str(f"{plan.batch * window / took:.0f} tokens/s, loss {recent:.3f}")
            if done.seconds - saved >= CHECKPOINT_SECONDS or done.seconds >= budget:
                saved = done.seconds
                save(sum(losses) / len(losses))
                losses = losses[-20:]


def _set_rates(optimizers, factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor


def _take_step(model, loss_of, windows, optimizers) -> float:
    """One step on one batch; returns its loss, which also waits for the device to finish."""
    loss = loss_of(windows.to(next(model.parameters()).device))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def _append_log(log: Path, done: Progress, loss: float, model, evaluate) -> None:
    row = {"seconds": round(done.seconds), "steps": done.steps, "tokens": done.tokens}
    row["loss"] = round(loss, 4)
    if evaluate is not None:
        model.eval()
        with torch.no_grad():
            row["held_out"] = round(evaluate(), 4)
        model.train()
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _save_checkpoint(path: Path, model, optimizers, done: Progress) -> None:
    states = [optimizer.state_dict() for optimizer in optimizers]
    part = path.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimizers": states, "done": vars(done)}, part)
    os.replace(part, path)  # a crash in the middle leaves the old checkpoint whole


def _load_checkpoint(path: Path, model, optimizers) -> Progress:
    saved = torch.load(path, weights_only=True, map_location="cpu")
    now, then = ({k: w.shape for k, w in s.items()} for s in (model.state_dict(), saved["model"]))
    if now != then:
        raise ValueError(f"{path} is of a model of another shape: name another folder with --out")
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(state)
    return Progress(**saved["done"])
