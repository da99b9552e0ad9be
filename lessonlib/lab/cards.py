"""Model cards: what a checkpoint was trained on, how far it got, how well it drafts.

``card.json`` holds the numbers, as measured when the weights were written;
``README.md`` beside it is drawn from them.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import torch

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import acceptance_rates

TEMPERATURES = (0.0, 0.7, 1.0, 1.5)


@torch.inference_mode()
def run_windows(model: GPT2, stream: np.ndarray, rows: int | None = None):
    """Yield (tokens, logits) over back-to-back windows of a held-out stream, each as long
    as the context; ``rows`` takes only that many of them, evenly spread."""
    starts = list(range(0, len(stream) - model.context, model.context))
    if rows is not None:
        starts = starts[:: max(1, len(starts) // rows)][:rows]
    for start in starts:
        tokens = stream[start : start + model.context + 1].astype(np.int64)
        yield tokens, model.forward(tokens[:-1].tolist(), model.new_cache()).logits


def measure_loss(model: GPT2, stream: np.ndarray, rows: int | None = None) -> float:
    """Held-out cross-entropy in nats per token."""
    losses = []
    for tokens, logits in run_windows(model, stream, rows):
        wanted = torch.from_numpy(tokens[1:]).to(logits.device)
        losses.append(float(torch.nn.functional.cross_entropy(logits, wanted)))
    return float(np.mean(losses))


def measure_alphas(
    target: GPT2, draft: GPT2, stream: np.ndarray, rows: int | None = None
) -> dict[str, float]:
    """Mean α = Σ min(p, q) over held-out text, by temperature (as text, for JSON)."""
    found: dict[str, list[float]] = {f"{t:g}": [] for t in TEMPERATURES}
    windows = zip(run_windows(target, stream, rows), run_windows(draft, stream, rows), strict=True)
    for (_, target_logits), (_, draft_logits) in windows:
        for t in TEMPERATURES:
            rates = acceptance_rates(target_logits, draft_logits, t)
            found[f"{t:g}"].append(float(rates.mean()))
    return {t: round(float(np.mean(values)), 4) for t, values in found.items()}


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
