"""Gather what the trainings of lessons 05 and 06 reached into two files the lessons read.

    python -m lessonlib.lab.collect runs/bundled

reads the drafts and heads that ``course.py train ... --target bundled`` left in that folder,
measures each on all of its held-out windows, and keeps that beside the log of its training.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.eagle import KINDS, load_head
from lessonlib.folders import ROOT
from lessonlib.lab import cards, device, heads, pairs, recipes
from lessonlib.lab.features import FeatureStore

DATA = ROOT / "lessonlib" / "data"
DRAFTS = {  # name in the lessons: folder of the run
    "forward-kl": "draft",
    "reverse-kl": "draft-reverse-kl",
    "tv": "draft-tv",
    "data": "draft-data",
    "forward-kl 1 layer": "draft-1-layers",
    "forward-kl 4 layers": "draft-4-layers",
}
TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0)


def collect_drafts(runs: Path, target: GPT2, store: FeatureStore) -> dict:
    """Every draft of DRAFTS, and the one that was never trained, as lesson 05 reads them."""
    theirs = GPT2LMHeadModel.from_pretrained(pairs.find_target("bundled"), dtype=torch.float32)
    found = {"untrained": measure_draft(recipes.start_draft(theirs), target, store)}
    for name, folder in DRAFTS.items():
        draft = GPT2LMHeadModel.from_pretrained(runs / folder, dtype=torch.float32)
        found[name] = read_log(runs / folder) | measure_draft(draft, target, store)
    return found


def measure_draft(draft: GPT2LMHeadModel, target: GPT2, store: FeatureStore) -> dict:
    """Mean α by temperature over the whole of ``store``, and the draft's size."""
    draft = draft.to(target.device).eval()

    @torch.inference_mode()
    def compare(batch, measure: Callable):
        tokens, top = (part.to(target.device) for part in batch)
        return measure(top @ target.head.mT, draft(tokens[:, :-1]).logits, tokens[:, 1:])

    rates = recipes.measure_alphas(compare, store.spread(len(store.tokens)), TEMPERATURES)
    return rates | {"parameters": sum(weight.numel() for weight in draft.parameters())}


def collect_heads(runs: Path, target: GPT2, store: FeatureStore) -> dict:
    """Every kind of EAGLE head, as lesson 06 reads them."""
    found = {}
    for kind in KINDS:
        head = load_head(runs / kind, target)
        weights = sum(weight.numel() for weight in head.parameters())
        rates = heads.measure(head, store, cards.TEMPERATURES)
        found[kind] = read_log(runs / kind) | rates | {"parameters": weights}
    return found


def read_log(folder: Path) -> dict:
    """The training log, a row a minute."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return {"log": [json.loads(line) for line in lines]}


def main(runs: Path) -> None:
    """Write both files."""
    device.apply()
    target = GPT2.from_folder(pairs.find_target("bundled"), device=device.choose_device().device)
    store = FeatureStore.open(runs / "features" / "held_out")
    for file, collect in (("lesson05_drafts", collect_drafts), ("lesson06_heads", collect_heads)):
        rows = collect(runs, target, store)
        text = json.dumps(rows, separators=(",", ":"))
        (DATA / f"{file}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
