"""``course.py train``: make the bundled models, or a draft for a GPT-2 of your own.

    python course.py train target --minutes 94
    python course.py train draft --tokens 1500000
    python course.py train eagle3 --target gpt2 --minutes 60

``draft`` and the heads need a target: the one in OUT/pair unless --target names another:
a pair by its name or folder, or the folder of a GPT-2. The target's features over the training
text are computed first and kept, for all trainings to read. Each run writes a checkpoint a
minute into ``runs/`` (``--resume`` goes on from there, with a longer budget if you like);
Ctrl-C saves, too, and touches no earlier result. A run that ends replaces its own earlier
result; any other model in that place moves to NAME.bak.

What comes out is used with ``--pair``: the last line says which. Beside ``target/`` it
belongs to that pair (``demo --pair runs/pair``); elsewhere the folder of what you trained is a
pair itself, of that draft and its target: ``demo --pair runs/bundled/draft``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import LOSSES
from lessonlib.drafting.eagle import KINDS
from lessonlib.lab import cards, corpus, device, heads, naming, pairs, recipes
from lessonlib.lab.estimate import announce
from lessonlib.lab.features import FeatureStore, build_store, check_batch, cut_windows
from lessonlib.lab.training import Plan, Progress

MOST_WINDOWS = 6000  # of training text; the bundled pair's whole library is 5 843


def main(argv: list[str] | None = None) -> int:
    """Run one training; returns the exit code, 130 if Ctrl-C ended it."""
    options = _parse(argv)
    try:
        device.apply()
        options.target = naming.name_target(options.target)
        finished = MAKERS.get(options.what, make_head)(options)
    except (ValueError, OSError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 2
    return 0 if finished else 130


def make_target(options: argparse.Namespace) -> bool:
    """Train and export the target of OUT/pair; False, and no export, if it was interrupted."""
    home = options.out / "pair"
    text = recipes.load_text(home / "target" / "tokenizer.json")
    folder = options.out / "target"
    plan = _plan(options, recipes.CONTEXT)
    model, done = recipes.train_target(text, plan, folder, options.resume)
    if done.interrupted:
        return False
    naming.make_room(folder, home / "target")
    target = recipes.export(model, home / "target")
    facts = describe(target, done, text)
    facts |= {"title": "Bundled target", "summary": "A small GPT-2 that writes Python."}
    finish(options, home / "target", facts)
    return True


def make_draft(options: argparse.Namespace) -> bool:
    """Distil and export a draft for a target; False, and no export, if it was interrupted."""
    check_batch(options.batch, options.windows)
    source, home = find_target(options)
    target = recipes.load_target(source)
    text = recipes.load_text(source / "tokenizer.json")
    theirs = GPT2LMHeadModel.from_pretrained(source, dtype=torch.float32).to(target.device)
    draft = recipes.start_draft(theirs, options.layers)
    name = naming.name_draft(options)
    folder = runs_of(options) / name
    naming.check_free(folder, home / name)
    stores = open_stores(options, target, text)
    plan = _plan(options, stores["train"].features.shape[1])
    announce(options.what, draft, plan, stores)
    done = recipes.train_draft(
        draft, target.head, stores, options.loss, plan, folder, options.resume
    )
    if done.interrupted:
        return False
    naming.make_room(folder, home / name)
    draft = recipes.export(draft, home / name)
    facts = describe(draft, done, text) | {
        "title": naming.title_draft(options),
        "summary": f"Distilled from its target ({options.loss}), "
        f"starting from the target's first {draft.shape.layers} layers.",
        "alpha": cards.measure_alphas(target, draft, text.held_out),
    }
    finish(options, home / name, facts)
    print(naming.explain_use(options, home, name))
    return True


def make_head(options: argparse.Namespace) -> bool:
    """Train and export an EAGLE head for a target; False, and no export, if interrupted."""
    check_batch(options.batch, options.windows)
    source, home = find_target(options)
    target = recipes.load_target(source)
    text = recipes.load_text(source / "tokenizer.json")
    folder = runs_of(options) / options.what
    naming.check_free(folder, home / options.what)
    stores = open_stores(options, target, text)
    head = heads.build(options.what, target)
    plan = _plan(options, stores["train"].features.shape[1])
    announce(options.what, head, plan, stores)
    done = heads.train(head, stores, plan, folder, options.resume)
    if done.interrupted:
        return False
    naming.make_room(folder, home / options.what)
    facts = _count(done, text) | heads.export(head, stores["held_out"], home / options.what)
    facts["training"] = {"parameters": facts.pop("parameters"), **facts["training"]}
    finish(options, home / options.what, facts)
    print(naming.explain_use(options, home, options.what))
    return True


MAKERS = {"target": make_target, "draft": make_draft}


def find_target(options: argparse.Namespace) -> tuple[Path, Path]:
    """(the target's folder, the folder its drafts belong into)."""
    if options.target:
        source, home = pairs.find_target(options.target), pairs.find_home(options.target)
        # What ships with the course is left alone: its new drafts stay among the runs.
        return source, runs_of(options) if options.target == "bundled" else home
    folder = options.out / "pair" / "target"
    if not (folder / "model.safetensors").exists():
        raise FileNotFoundError(
            f"no target in {folder}: run 'train target' first, or name one with --target bundled"
        )
    return folder, folder.parent


def runs_of(options: argparse.Namespace) -> Path:
    """Where checkpoints and features go: a folder in --out for each target that was named."""
    return options.out / Path(options.target).name


def open_stores(options: argparse.Namespace, target: GPT2, text) -> dict[str, FeatureStore]:
    """The target's features over the held-out and the training text, computed where missing."""
    folder = runs_of(options) / "features"
    window = min(recipes.CONTEXT, target.context)
    streams = {"held_out": text.held_out, "train": text.train}
    check_batch(options.batch, len(cut_windows(text.train, window, options.windows)))
    return {
        name: build_store(target, stream, folder / name, window=window, windows=options.windows)
        for name, stream in streams.items()
    }


def describe(model: GPT2, done: Progress, text) -> dict:
    """The facts that the cards of targets and drafts share."""
    shape, weights = model.shape, sum(w.numel() for w in _weights(model))
    facts = _count(done, text)
    facts["training"] = {
        "shape": f"GPT-2, {shape.layers} layers, width {shape.width}, {shape.heads} heads",
        "parameters": f"{weights:,}",
        "tokenizer": f"byte-level BPE, {shape.vocab_size} tokens, context {shape.context}",
        **facts["training"],
    }
    facts["held_out_loss"] = round(cards.measure_loss(model, text.held_out), 4)
    return facts


def _count(done: Progress, text) -> dict:
    return {
        "training": {
            "text": f"Python's standard library, {len(text.train):,} tokens",
            "steps": f"{done.steps:,}",
            "tokens seen": f"{done.tokens:,}",
            "time": f"{done.seconds / 60:.0f} minutes",
        },
        "held_out_modules": list(corpus.HELD_OUT),
    }


def _weights(model: GPT2):
    yield from (model.embedding, model.positions, *model.final_norm)
    for block in model.blocks:
        for entry in block.values():
            yield from entry if isinstance(entry, tuple) else (entry,)


def finish(options: argparse.Namespace, folder: Path, facts: dict) -> None:
    """Write the card beside the exported weights, and say so."""
    # A draft of a target that lies elsewhere says which; others lie in their target's folder.
    named = {"target": options.target} if options.target in naming.NAMED else {}
    cards.write_card(folder, {**facts, **named, "command": naming.spell(options)})
    reached = []
    if "held_out_loss" in facts:
        reached.append(f"held-out loss {facts['held_out_loss']:.3f} nats/token")
    if "alpha" in facts:
        reached.append(f"alpha {facts['alpha']['1']:.3f} at T = 1")
    print(f"{', '.join(reached)}; written to {folder}")


def _plan(options: argparse.Namespace, window: int) -> Plan:
    seed = 0 if options.what == "target" else 1
    budget = {"tokens": options.tokens} if options.tokens else {"minutes": options.minutes}
    return Plan(**budget, batch=options.batch, window=window, seed=seed)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course.py train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["target", "draft", *KINDS])
    parser.add_argument("--target", default="", help="bundled, gpt2, gpt2-medium or a folder")
    parser.add_argument("--loss", choices=LOSSES, default="forward-kl", help="what a draft learns")
    parser.add_argument("--layers", type=_read_count, default=0, help="of a draft (default 2)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=_read_minutes, default=60.0, help="budget (default 60)")
    budget.add_argument("--tokens", type=_read_count, default=0, help="budget in training tokens")
    parser.add_argument("--batch", type=_read_count, default=16, help="windows a step (default 16)")
    parser.add_argument(
        "--windows",
        type=_read_count,
        default=MOST_WINDOWS,
        help=f"of training text whose features are kept (default {MOST_WINDOWS})",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder (default runs)")
    options = parser.parse_args(argv)
    if options.target and options.what == "target":
        parser.error("--target names the target of a draft: leave it out with 'train target'")
    if options.what != "draft" and (options.layers or options.loss != "forward-kl"):
        parser.error(f"--layers and --loss are for drafts: leave them out with '{options.what}'")
    return options


def _read_minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} minutes: use a number above 0")
    return minutes


def _read_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)
