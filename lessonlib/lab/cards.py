"""Model cards: what a checkpoint was trained on, how far it got, how well it drafts.

``card.json`` holds the numbers, as measured when the weights were written;
``README.md`` beside it is drawn from them.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import acceptance_rates
from lessonlib.lab.features import cut_windows

TEMPERATURES = (0.0, 0.7, 1.0, 1.5)


@torch.inference_mode()
def run_windows(model: GPT2, stream: np.ndarray):
    """Yield (tokens, logits) over the back-to-back windows of a held-out stream (n,), each as
    long as the context. Raises ValueError for a stream that holds none."""
    for window in cut_windows(stream, model.context, len(stream)):
        tokens = window.astype(np.int64)
        yield tokens, model.forward(tokens[:-1].tolist(), model.new_cache()).logits


def mean_rates(batches: Iterable[tuple[int, Mapping[float, ArrayLike]]]) -> dict[str, Any]:
    """Means over all rows of batches that may differ in size, by temperature as text for JSON.

    A batch is (how many rows, {temperature: the mean of its rows, a number or several}).

    >>> mean_rates([(3, {0.5: [1.0, 0.5]}), (1, {0.5: [0.0, 0.5]})])
    {'0.5': [0.75, 0.5]}
    """
    totals: dict[float, np.ndarray] = {}
    count = 0
    for rows, means in batches:
        count += rows
        for t, mean in means.items():
            totals[t] = totals.get(t, 0.0) + rows * np.asarray(mean, dtype=float)
    return {f"{t:g}": (total / count).round(4).tolist() for t, total in totals.items()}


def measure_loss(model: GPT2, stream: np.ndarray) -> float:
    """Held-out cross-entropy in nats per token."""
    losses = []
    for tokens, logits in run_windows(model, stream):
        wanted = torch.from_numpy(tokens[1:]).to(logits.device)
        losses.append(float(torch.nn.functional.cross_entropy(logits, wanted)))
    return float(np.mean(losses))


def measure_alphas(target: GPT2, draft: GPT2, stream: np.ndarray) -> dict[str, float]:
    """Mean α = Σ min(p, q) over held-out text, by temperature (as text, for JSON)."""
    windows = zip(run_windows(target, stream), run_windows(draft, stream), strict=True)
    return mean_rates(
        (1, {t: float(acceptance_rates(wanted, given, t).mean()) for t in TEMPERATURES})
        for (_, wanted), (_, given) in windows
    )


def write_card(folder: Path, facts: dict) -> None:
    """Write ``card.json`` and the README drawn from it into ``folder``."""
    facts = {**facts, "python": platform.python_version()}
    (folder / "card.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(render_card(facts), encoding="utf-8")


def render_card(facts: dict) -> str:
    """A card's facts as Markdown."""
    lines = [f"# {facts['title']}", "", facts["summary"], "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts["training"].items()]
    if "held_out_loss" in facts:
        lines += [f"| held-out loss | {facts['held_out_loss']:.3f} nats/token |"]
    lines += [
        f"| held-out modules | {', '.join(facts['held_out_modules'])} |",
        f"| Python whose library it read | {facts['python']} |",
        f"| made by | `{facts['command']}` |",
    ]
    if "alpha" in facts:
        lines += ["", "Mean α = Σ min(p, q) against the target, over the held-out modules:", ""]
        lines += ["| T | α |", "|---|---|"]
        lines += [f"| {t} | {alpha:.3f} |" for t, alpha in facts["alpha"].items()]
    if "by_position" in facts:
        lines += ["", "α by position in the drafted chain, all before it accepted:", ""]
        count = len(next(iter(facts["by_position"].values())))
        lines += [
            f"| T | {' | '.join(map(str, range(1, count + 1)))} |",
            "|---" * (count + 1) + "|",
        ]
        for t, rates in facts["by_position"].items():
            lines += [f"| {t} | {' | '.join(f'{rate:.3f}' for rate in rates)} |"]
    return "\n".join(lines) + "\n"
