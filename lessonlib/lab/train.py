"""``course.py train``: make the bundled pair, by the script that made the committed one.

    python course.py train target --minutes 85
    python course.py train draft --minutes 15

Each writes a checkpoint a minute into ``runs/`` (``--resume`` goes on from there, with
a longer ``--minutes`` if you like) and a finished model into ``runs/pair``, which is a
pair that ``demo --pair runs/pair`` and every lesson can load.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import kl_loss
from lessonlib.lab import cards, corpus, device
from lessonlib.lab.training import Plan, Progress, fit

CONTEXT = 512
TARGET_LAYERS, DRAFT_LAYERS, WIDTH, HEADS = 12, 2, 192, 6


@dataclass(frozen=True)
class Text:
    """Training and held-out streams under one tokenizer."""

    tokenizer: Tokenizer
    train: np.ndarray
    held_out: np.ndarray


def load_text(tokenizer_file: Path) -> Text:
    """Read the corpus; train and keep the tokenizer if ``tokenizer_file`` is not there yet."""
    train, held_out = (corpus.read_sources(paths) for paths in corpus.list_modules())
    if not tokenizer_file.exists():
        tokenizer_file.parent.mkdir(parents=True, exist_ok=True)
        corpus.train_tokenizer(train).save(str(tokenizer_file))
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    streams = (corpus.encode_texts(tokenizer, texts) for texts in (train, held_out))
    return Text(tokenizer, *streams)


def build_gpt2(layers: int, vocab: int) -> GPT2LMHeadModel:
    """A fresh GPT-2 with tied embeddings and no dropout: one short run hardly repeats itself."""
    config = GPT2Config(
        vocab_size=vocab,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        activation_function="gelu_pytorch_tanh",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def next_token_loss(model: GPT2LMHeadModel, windows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats per token over windows (batch, length + 1)."""
    logits = model(windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def check_now(model: GPT2LMHeadModel, stream: np.ndarray, rows: int = 24) -> float:
    """A quick held-out loss for the training log, over ``rows`` windows."""
    starts = np.linspace(0, len(stream) - CONTEXT - 1, rows).astype(int)
    windows = np.stack([stream[s : s + CONTEXT + 1] for s in starts]).astype(np.int64)
    parts = torch.from_numpy(windows).to(model.device).split(4)
    return float(np.mean([float(next_token_loss(model, part)) for part in parts]))


def train_target(text: Text, plan: Plan, folder: Path, resume: bool):
    """Train the target on the next token. Returns (model, progress)."""
    model = build_gpt2(TARGET_LAYERS, text.tokenizer.get_vocab_size())
    model.to(device.choose_device().device)
    done = fit(
        model,
        lambda windows: next_token_loss(model, windows),
        text.train,
        plan,
        folder,
        resume=resume,
        evaluate=lambda: check_now(model, text.held_out),
    )
    return model, done


def start_draft(target: GPT2LMHeadModel) -> GPT2LMHeadModel:
    """A shallow copy in the literal sense: the target's embeddings and its first layers."""
    draft = build_gpt2(DRAFT_LAYERS, target.config.vocab_size)
    kept = {
        name: weight
        for name, weight in target.state_dict().items()
        if not name.startswith("transformer.h.") or int(name.split(".")[2]) < DRAFT_LAYERS
    }
    draft.load_state_dict(kept)
    return draft.to(target.device)


def train_draft(text: Text, target: GPT2LMHeadModel, plan: Plan, folder: Path, resume: bool):
    """Distil a draft by KL on the target's full rows. Returns (model, progress)."""
    draft = start_draft(target)
    target.eval()

    def loss_of(windows):
        with torch.no_grad():
            wanted = target(windows[:, :-1]).logits
        return kl_loss(wanted, draft(windows[:, :-1]).logits)

    evaluate = lambda: check_now(draft, text.held_out)  # noqa: E731
    done = fit(draft, loss_of, text.train, plan, folder, resume=resume, evaluate=evaluate)
    return draft, done


def export(model: GPT2LMHeadModel, folder: Path) -> GPT2:
    """Write float16 weights that ``from_pretrained`` loads; return them as the course runs them."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: weight.half() for name, weight in model.state_dict().items()}
    half = GPT2LMHeadModel(model.config).half()
    half.load_state_dict(state)
    half.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return GPT2.from_folder(folder)


def describe(model: GPT2, done: Progress, text: Text) -> dict:
    """The facts both cards share."""
    shape, weights = model.shape, sum(w.numel() for w in _weights(model))
    return {
        "training": {
            "shape": f"GPT-2, {shape.layers} layers, width {shape.width}, {shape.heads} heads",
            "parameters": f"{weights:,}",
            "tokenizer": f"byte-level BPE, {shape.vocab_size} tokens, context {shape.context}",
            "text": f"Python's standard library, {len(text.train):,} tokens",
            "steps": f"{done.steps:,}",
            "tokens seen": f"{done.tokens:,}",
            "time": f"{done.seconds / 60:.0f} minutes",
        },
        "held_out_loss": round(cards.measure_loss(model, text.held_out), 4),
        "held_out_modules": list(corpus.HELD_OUT),
    }


def _weights(model: GPT2):
    yield from (model.embedding, model.positions, *model.final_norm)
    for block in model.blocks:
        for entry in block.values():
            yield from entry if isinstance(entry, tuple) else (entry,)


def main(argv: list[str] | None = None) -> int:
    """Run one training; returns the exit code."""
    options = _parse(argv)
    pair, folder = options.out / "pair", options.out / options.what
    make = make_target if options.what == "target" else make_draft
    try:
        device.apply()
        facts = make(pair, folder, options.minutes, options.resume)
    except (ValueError, FileNotFoundError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 2
    command = f"python course.py train {options.what} --minutes {options.minutes:g}"
    cards.write_card(pair / options.what, {**facts, "command": command})
    shutil.copyfile(folder / "log.jsonl", pair / options.what / "log.jsonl")
    print(f"held-out loss {facts['held_out_loss']:.3f} nats/token; written to {pair}")
    return 0


def make_target(pair: Path, folder: Path, minutes: float, resume: bool) -> dict:
    """Train and export ``pair``'s target; returns the facts of its card."""
    plan = Plan(minutes, window=CONTEXT, seed=0)
    text = load_text(pair / "target" / "tokenizer.json")
    model, done = train_target(text, plan, folder, resume)
    target = export(model, pair / "target")
    facts = describe(target, done, text)
    return facts | {"title": "Bundled target", "summary": "A small GPT-2 that writes Python."}


def make_draft(pair: Path, folder: Path, minutes: float, resume: bool) -> dict:
    """Distil and export ``pair``'s draft; returns the facts of its card."""
    if not (pair / "target" / "model.safetensors").exists():
        raise FileNotFoundError(f"no target in {pair / 'target'}: run 'train target' first")
    plan = Plan(minutes, window=CONTEXT, seed=1)
    text = load_text(pair / "target" / "tokenizer.json")
    target = GPT2LMHeadModel.from_pretrained(pair / "target", dtype=torch.float32)
    target.to(device.choose_device().device)
    model, done = train_draft(text, target, plan, folder, resume)
    draft, whole = export(model, pair / "draft"), GPT2.from_folder(pair / "target")
    return describe(draft, done, text) | {
        "title": "Bundled draft",
        "summary": "Distilled from the bundled target by KL on its full distribution, "
        f"starting from the target's first {DRAFT_LAYERS} layers.",
        "alpha": cards.measure_alphas(whole, draft, text.held_out),
    }


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course.py train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["target", "draft"])
    parser.add_argument("--minutes", type=_read_minutes, default=60.0, help="budget (default 60)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder (default runs)")
    return parser.parse_args(argv)


def _read_minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} minutes: use a number above 0")
    return minutes
