"""One training loop for every model of the course: a budget, checkpoints, resume."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from lessonlib.lab.muon import build_optimizers

CHECKPOINT_SECONDS = 60.0


@dataclass
class Progress:
    """What a checkpoint remembers besides weights and optimizer state.

    ``interrupted``, which no checkpoint holds: Ctrl-C ended this call before its budget did.
    """

    seconds: float = 0.0
    steps: int = 0
    tokens: int = 0
    interrupted: bool = False


@dataclass(frozen=True)
class Plan:
    """How long to train and how: warm up, hold, then cool down to nothing.

    The budget is ``minutes`` or ``tokens``; only with the latter do two machines take the
    same steps, and two drafts that are to be compared get the same training. Raises
    ValueError unless one of them is positive.
    """

    minutes: float = 0.0
    tokens: int = 0
    batch: int = 16
    window: int = 512
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup_tokens: int = 100_000
    cooldown: float = 0.35
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.minutes > 0) == (self.tokens > 0):
            raise ValueError(
                f"minutes is {self.minutes} and tokens {self.tokens}: give one budget above 0"
            )

    def share(self, done: Progress) -> float:
        """How much of the budget is spent, from 0 up.

        >>> Plan(minutes=2).share(Progress(seconds=30.0))
        0.25
        """
        return done.tokens / self.tokens if self.tokens else done.seconds / 60 / self.minutes

    def rate(self, share: float, tokens: int) -> float:
        """The learning-rate factor in [0.02, 1] when ``share`` of the budget is spent."""
        warm = min(1.0, (tokens + 1) / self.warmup_tokens)
        return max(0.02, min(warm, (1.0 - share) / self.cooldown))

    def window_at(self, share: float) -> int:
        """Half length until the cool-down: cheaper while a model is still learning words."""
        return self.window if share > 1 - self.cooldown else self.window // 2


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


def fit(
    model: torch.nn.Module,
    loss_of: Callable[[Any], torch.Tensor],
    draw: Callable[[int, int, tuple[int, int]], Any],
    plan: Plan,
    folder: Path,
    *,
    resume: bool = False,
    evaluate: Callable[[], dict] | None = None,
) -> Progress:
    """Train ``model`` in place until the budget is spent; what was spent before counts on resume.

    ``draw(batch, window, key)`` gives a batch, of which ``loss_of`` makes the mean loss.
    Writes ``checkpoint.pt`` (each minute, and on Ctrl-C, which ends the run early but loses
    nothing: the result is then ``interrupted``) and ``log.jsonl`` into ``folder``;
    ``evaluate`` adds its entries to the log. Raises ValueError on resume if the checkpoint
    cannot be read or is of a model of another shape, without resume if the folder holds a
    run, which would be lost, and at a loss or gradient that is not finite.
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
        _run(model, loss_of, draw, plan, done, optimizers, save)
    except FloatingPointError as error:
        kept = f"{checkpoint} is from before" if checkpoint.exists() else "nothing was saved"
        raise ValueError(
            f"{error} after {done.steps} steps, and training stopped ({kept}): "
            "check the model and the text that it learns from"
        ) from error
    except KeyboardInterrupt:
        _save_checkpoint(checkpoint, model, optimizers, done)
        done.interrupted = True
        tqdm.write(f"stopped: go on with --resume ({checkpoint})")
    return done


def _run(model, loss_of, draw, plan, done, optimizers, save) -> None:
    """Step until the budget is spent, counting in ``done``; ``save`` each minute and at the end."""
    saved = done.seconds
    losses: list[float] = []
    model.train()
    bar_format = "{l_bar}{bar}| {elapsed}, {remaining} left{postfix}"
    with tqdm(total=1.0, initial=min(plan.share(done), 1.0), bar_format=bar_format) as bar:
        while plan.share(done) < 1:
            began = time.perf_counter()
            share = plan.share(done)
            window = plan.window_at(share)
            _set_rates(optimizers, plan.rate(share, done.tokens))
            batch = draw(plan.batch, window, (plan.seed, done.steps))
            losses.append(_take_step(model, loss_of, batch, optimizers))
            took = time.perf_counter() - began
            done.seconds += took
            done.steps += 1
            done.tokens += plan.batch * window
            bar.update(min(plan.share(done), 1.0) - bar.n)
            recent = sum(losses[-20:]) / len(losses[-20:])
            bar.set_postfix_str(f"{plan.batch * window / took:.0f} tokens/s, loss {recent:.3f}")
            if done.seconds - saved >= CHECKPOINT_SECONDS or plan.share(done) >= 1:
                saved = done.seconds
                save(sum(losses) / len(losses))
                losses = losses[-20:]


def _set_rates(optimizers, factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor


def _take_step(model, loss_of, batch, optimizers) -> float:
    """One step on one batch; returns its loss, which also waits for the device to finish.

    Raises FloatingPointError, with the weights as they were, where the step would spoil them.
    """
    loss = loss_of(batch)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for name, value in (("loss", loss), ("gradient", norm)):
        if not value.isfinite():
            raise FloatingPointError(f"the {name} is {value.item()}")
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
            row |= evaluate()
        model.train()
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _save_checkpoint(path: Path, model, optimizers, done: Progress) -> None:
    states = [optimizer.state_dict() for optimizer in optimizers]
    part = path.with_suffix(".part")
    counts = {"seconds": done.seconds, "steps": done.steps, "tokens": done.tokens}
    torch.save({"model": model.state_dict(), "optimizers": states, "done": counts}, part)
    os.replace(part, path)  # a crash in the middle leaves the old checkpoint whole


def _load_checkpoint(path: Path, model, optimizers) -> Progress:
    try:
        saved = torch.load(path, weights_only=True, map_location="cpu")
        weights, states, counts = saved["model"], saved["optimizers"], saved["done"]
        done = Progress(float(counts["seconds"]), int(counts["steps"]), int(counts["tokens"]))
        then = {name: weight.shape for name, weight in weights.items()}
    except Exception as error:  # a file may hold anything, and fail in as many ways
        raise ValueError(_explain_unreadable(path)) from error
    if then != {name: weight.shape for name, weight in model.state_dict().items()}:
        raise ValueError(f"{path} is of a model of another shape: name another folder with --out")
    try:
        for optimizer, state in zip(optimizers, states, strict=True):
            optimizer.load_state_dict(state)
    except Exception as error:
        raise ValueError(_explain_unreadable(path)) from error
    model.load_state_dict(weights)
    return done


def _explain_unreadable(path: Path) -> str:
    return f"{path} cannot be read: remove it to start again"
