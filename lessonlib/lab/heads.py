"""EAGLE's heads in practice: built for a target, trained on its stored features, found again."""

from __future__ import annotations

from pathlib import Path

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.eagle import EagleHead, build_head, load_head, save_head
from lessonlib.drafting.eagle_training import acceptance_by_step, eagle_loss
from lessonlib.lab import pairs
from lessonlib.lab.cards import TEMPERATURES, mean_rates
from lessonlib.lab.features import FeatureStore
from lessonlib.lab.recipes import CHECK_ROWS
from lessonlib.lab.training import Plan, Progress, fit

POSITIONS = 5  # how far along a drafted chain acceptance is measured


def find_head(pair: pairs.Pair, kind: str) -> EagleHead:
    """The head of that kind for the target of ``pair``.

    For the folder of something you trained: the head beside it, or else the one that
    its target has anyway. Raises FileNotFoundError with the command that trains it if there is
    none, or if the target is no GPT-2.
    """
    if not isinstance(pair.target, GPT2):
        raise FileNotFoundError(
            f"pair {pair.name!r} has no {kind} head: they are made for GPT-2 targets only"
        )
    origin = pairs.find_origin(pair.name) or pair.name
    for name in (pair.name, origin):
        folder = pairs.find_home(name) / kind
        if (folder / "model.safetensors").exists():
            return load_head(folder, pair.target)
    raise FileNotFoundError(
        f"pair {pair.name!r} has no {kind} head: train one with "
        f"'python course.py train {kind} --target {origin}'"
    )


def build(kind: str, target: GPT2) -> EagleHead:
    """A fresh head for ``target``."""
    return build_head(kind, target.shape, target.embedding, target.head)


def train(
    head: EagleHead, stores: dict[str, FeatureStore], plan: Plan, folder: Path, resume: bool
) -> Progress:
    """Train ``head`` in place on the stores "train" and "held_out", by the loss of its kind."""

    def loss_of(batch):
        tokens, features = (part.to(head.device) for part in batch)
        return eagle_loss(head, features, tokens)

    return fit(
        head,
        loss_of,
        stores["train"].draw,
        plan,
        folder,
        resume=resume,
        evaluate=lambda: measure(head, stores["held_out"], (0.0, 1.0), CHECK_ROWS),
    )


def measure(head: EagleHead, store: FeatureStore, temperatures, rows: int | None = None) -> dict:
    """α over held-out text by temperature and position, as {"alpha": ..., "by_position": ...}.

    Position 0 is drafted from the target's features, position k from k of the head's own.
    """

    def measure_batch(batch):
        tokens, features = (part.to(head.device) for part in batch)
        rates = {t: acceptance_by_step(head, features, tokens, POSITIONS, t) for t in temperatures}
        return len(tokens), rates

    batches = store.spread(rows or len(store.tokens), tap=slice(None))
    means = mean_rates(map(measure_batch, batches))
    return {"alpha": {t: rates[0] for t, rates in means.items()}, "by_position": means}


def export(head: EagleHead, store: FeatureStore, folder: Path) -> dict:
    """Write ``head`` into ``folder``; returns the facts of its card."""
    save_head(head, folder)
    weights = sum(weight.numel() for weight in head.parameters())
    return {
        "title": f"EAGLE head: {head.shape.kind}",
        "summary": "One decoder layer that drafts from the target's features; the embedding and "
        "the LM head are the target's own.",
        "parameters": f"{weights:,}",
        **measure(head, store, TEMPERATURES),
    }
