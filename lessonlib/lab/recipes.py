"""How each model of the course is trained: what it starts as, what it learns from, its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import LOSSES, acceptance_rates
from lessonlib.lab import checkpoints, corpus
from lessonlib.lab.cards import mean_rates
from lessonlib.lab.device import choose_device
from lessonlib.lab.features import FeatureStore
from lessonlib.lab.training import Plan, Progress, draw_batch, fit

CONTEXT = 512
TARGET_LAYERS, DRAFT_LAYERS, WIDTH, HEADS = 12, 2, 192, 6
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LEAST_CONTEXT = 16  # an EAGLE head unrolls 4 steps, with room to pick where from, in half of it
CHECK_ROWS = 16  # held-out windows that the training log is made from


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
    tokenizer = checkpoints.load_tokenizer(tokenizer_file.parent)
    streams = (corpus.encode_texts(tokenizer, texts) for texts in (train, held_out))
    return Text(tokenizer, *streams)


def load_target(folder: Path) -> GPT2:
    """The target on the chosen device. Raises ValueError for one that cannot be learnt from."""
    config = folder / checkpoints.CONFIG
    if checkpoints.find_gguf(folder) or checkpoints.read_json(config).get("model_type") != "gpt2":
        raise ValueError(f"{folder} holds no GPT-2: drafts and heads are made for GPT-2 targets")
    target = checkpoints.load_model(folder, device=choose_device().device)
    tokens = checkpoints.load_tokenizer(folder).get_vocab_size()
    if tokens > target.vocab_size:
        raise ValueError(
            f"{folder / checkpoints.TOKENIZER} has {tokens} tokens and the target "
            f"{target.vocab_size}: use the tokenizer that the target was trained with"
        )
    if target.context < LEAST_CONTEXT:
        raise ValueError(
            f"{folder} has a context of {target.context} tokens: use a target with "
            f"{LEAST_CONTEXT} or more"
        )
    return target


def build_gpt2(layers: int, vocab: int) -> GPT2LMHeadModel:
    """A fresh GPT-2 with tied embeddings and no dropout: one short run hardly repeats itself."""
    config = GPT2Config(
        vocab_size=vocab,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        activation_function="gelu_pytorch_tanh",
        **NO_DROPOUT,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def next_token_loss(model: GPT2LMHeadModel, windows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats per token over windows (batch, length + 1)."""
    logits = model(windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def check_target(model: GPT2LMHeadModel, stream: np.ndarray) -> dict:
    """A quick held-out loss for the training log."""
    starts = np.linspace(0, len(stream) - CONTEXT - 1, CHECK_ROWS).astype(int)
    windows = np.stack([stream[s : s + CONTEXT + 1] for s in starts]).astype(np.int64)
    parts = torch.from_numpy(windows).to(model.device).split(4)
    loss = np.mean([float(next_token_loss(model, part)) for part in parts])
    return {"held_out": round(float(loss), 4)}


def train_target(text: Text, plan: Plan, folder: Path, resume: bool):
    """Train the target on the next token. Returns (model, progress)."""
    device = choose_device().device
    model = build_gpt2(TARGET_LAYERS, text.tokenizer.get_vocab_size()).to(device)
    done = fit(
        model,
        lambda windows: next_token_loss(model, windows.to(device)),
        lambda *request: draw_batch(text.train, *request),
        plan,
        folder,
        resume=resume,
        evaluate=lambda: check_target(model, text.held_out),
    )
    return model, done


def start_draft(target: GPT2LMHeadModel, layers: int = 0) -> GPT2LMHeadModel:
    """A shallow copy in the literal sense: the target's embeddings and its first ``layers``.

    0 stands for as many as the bundled draft has. Without the dropout that GPT-2's config
    asks for: the draft is to match the target's rows, and noise in its own only blurs them.
    Raises ValueError if the target has not as many layers.
    """
    layers = layers or DRAFT_LAYERS
    if layers > target.config.n_layer:
        raise ValueError(f"layers is {layers}: the target has 1 to {target.config.n_layer} to keep")
    changes = {"n_layer": layers, **NO_DROPOUT}
    config = type(target.config)(**{**target.config.to_dict(), **changes})
    draft = GPT2LMHeadModel(config)
    kept = {
        name: weight
        for name, weight in target.state_dict().items()
        if not name.startswith("transformer.h.") or int(name.split(".")[2]) < layers
    }
    draft.load_state_dict(kept)
    return draft.to(target.device)


def train_draft(
    draft: GPT2LMHeadModel,
    head: torch.Tensor,
    stores: dict[str, FeatureStore],
    loss: str,
    plan: Plan,
    folder: Path,
    resume: bool,
) -> Progress:
    """Distil ``draft`` in place by one of LOSSES from the stores "train" and "held_out".

    ``head`` (V, width) is the target's: with the stored features it gives the target's logits.
    """
    loss_between = LOSSES[loss]

    def compare(batch, measure):
        tokens, top = (part.to(head.device) for part in batch)
        return measure(top @ head.mT, draft(tokens[:, :-1]).logits, tokens[:, 1:])

    def evaluate():
        batches = stores["held_out"].spread(CHECK_ROWS)
        return measure_alphas(compare, batches, (0.0, 0.5, 1.0, 1.5))

    return fit(
        draft,
        lambda batch: compare(batch, loss_between),
        stores["train"].draw_top,
        plan,
        folder,
        resume=resume,
        evaluate=evaluate,
    )


def measure_alphas(compare: Callable, batches, temperatures) -> dict:
    """Mean α by temperature (as text, for JSON) over ``batches``, as {"alpha": {...}}.

    A batch begins with its tokens, a window a row. ``compare(batch, measure)`` returns
    ``measure(target_logits, draft_logits, next_tokens)``.
    """

    def measure(wanted, given, _):
        return {t: float(acceptance_rates(wanted, given, t).mean()) for t in temperatures}

    return {"alpha": mean_rates((len(batch[0]), compare(batch, measure)) for batch in batches)}


def export(model: GPT2LMHeadModel, folder: Path) -> GPT2:
    """Write float16 weights that ``from_pretrained`` loads; return them as the course runs them."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: weight.half() for name, weight in model.state_dict().items()}
    half = GPT2LMHeadModel(model.config).half()
    half.load_state_dict(state)
    half.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return GPT2.from_folder(folder)
