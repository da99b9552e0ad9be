"""GPT-2's forward pass, written out: static caches, features, nothing hidden.

Source: Radford et al. 2019; weights and names as in ``transformers.GPT2LMHeadModel``,
whose logits it reproduces. Its matrices are stored (inputs, outputs), which is also
the faster layout for a few rows on a CPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from lessonlib.decoding.attention import attend, place
from lessonlib.decoding.cache import Cache
from lessonlib.decoding.steps import Step


@dataclass(frozen=True)
class Output:
    """What a forward over n tokens gives: logits (n, V), features and hidden states.

    ``features`` (n, width) are the last hidden states after the final layer norm: just what
    the LM head multiplies. ``hidden[i]`` (n, width) is the residual stream behind block i.
    """

    logits: torch.Tensor
    features: torch.Tensor
    hidden: tuple[torch.Tensor, ...] = ()

    def logit_rows(self) -> np.ndarray:
        """The logits as a float64 array (n, V) on the CPU, ready to be sampled from."""
        return self.logits.double().cpu().numpy()

    def pick(self, rows: Sequence[int] | slice) -> Output:
        """The same for some of the rows."""
        return Output(
            self.logits[rows], self.features[rows], tuple(state[rows] for state in self.hidden)
        )


@dataclass(frozen=True)
class Shape:
    """The numbers that define a GPT-2, read from its config.json."""

    layers: int
    heads: int
    width: int
    vocab_size: int
    context: int
    epsilon: float

    @classmethod
    def read(cls, folder: Path) -> Shape:
        """Read ``folder/config.json``; refuse what this forward does not compute."""
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config.get("model_type") != "gpt2":
            raise ValueError(f"{folder} holds a {config.get('model_type')!r} model, not a gpt2 one")
        if config.get("activation_function", "gelu_new") not in ("gelu_new", "gelu_pytorch_tanh"):
            raise ValueError(f"activation_function in {folder} must be the tanh GELU of GPT-2")
        if config.get("scale_attn_by_inverse_layer_idx") or not config.get("scale_attn_weights", 1):
            raise ValueError(f"{folder} scales attention unlike GPT-2: run it with transformers")
        return cls(
            layers=config["n_layer"],
            heads=config["n_head"],
            width=config["n_embd"],
            vocab_size=config["vocab_size"],
            context=config["n_positions"],
            epsilon=config.get("layer_norm_epsilon", 1e-5),
        )


class GPT2:
    """A GPT-2 that runs one sequence or a batch of them, each over its own cache."""

    def __init__(self, shape: Shape, weights: dict[str, torch.Tensor]):
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.context = shape.context
        weights = {name.removeprefix("transformer."): w for name, w in weights.items()}
        self.embedding = weights["wte.weight"]
        self.positions = weights["wpe.weight"]
        self.head = weights.get("lm_head.weight", self.embedding)  # tied in every GPT-2
        self.blocks = [_take_block(weights, layer) for layer in range(shape.layers)]
        self.final_norm = weights["ln_f.weight"], weights["ln_f.bias"]

    @classmethod
    def from_folder(
        cls, folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> GPT2:
        """Load ``config.json`` and ``model.safetensors`` from ``folder``."""
        weights = load_file(folder / "model.safetensors", device=device)
        return cls(Shape.read(folder), {name: w.to(dtype) for name, w in weights.items()})

    @property
    def dtype(self) -> torch.dtype:
        """The number format of the weights."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    def new_cache(self) -> Cache:
        """An empty cache with room for the whole context."""
        head_size = self.shape.width // self.shape.heads
        return Cache(
            self.shape.layers,
            self.shape.heads,
            self.context,
            head_size,
            device=self.device,
            dtype=self.embedding.dtype,
        )

    def forward(
        self, tokens: Sequence[int], cache: Cache, parents: Sequence[int] | None = None
    ) -> Output:
        """Run ``tokens`` behind the cached ones and append their rows to the cache.

        Returns logits (n, V) and features (n, width): row i has seen the cached tokens
        and tokens[: i + 1]. With ``parents`` the tokens are a tree, and row i has seen its
        ancestors only; if it lists more nodes than there are tokens, the first ones are the
        newest rows of the cache. Raises ValueError for no tokens, and if the text would
        outgrow the context.
        """
        (output,) = self.forward_rows([Step(self, tokens, cache, parents)])
        return output

    @torch.inference_mode()
    def forward_rows(self, steps: Sequence[Step]) -> list[Output]:
        """``forward`` for every step at once; the steps may differ in all their lengths.

        Nothing is padded: the tokens of all rows are laid end to end, and whatever treats
        each token alone, which is all but the attention, runs over them in one go. The
        attention goes row by row, each over its own cache: a row cannot see its neighbours.
        """
        places = [place(step, self.context, self.device) for step in steps]
        sizes = [len(step.tokens) for step in steps]
        tokens = [token for step in steps for token in step.tokens]
        ids = torch.tensor(tokens, dtype=torch.long, device=self.device)
        positions = torch.cat([positions for positions, _ in places])
        x = self.embedding[ids] + self.positions[positions]
        hidden = []
        for layer, block in enumerate(self.blocks):
            mixed = torch.addmm(block["c_attn.bias"], self._norm(x, block["ln_1"]), block["c_attn"])
            rows = [
                attend(part, layer, step.cache, unseen, self.shape.heads)
                for part, step, (_, unseen) in zip(mixed.split(sizes), steps, places, strict=True)
            ]
            mixed = rows[0] if len(rows) == 1 else torch.cat(rows)
            x = x + torch.addmm(block["attn.c_proj.bias"], mixed, block["attn.c_proj"])
            x = x + self._feed_forward(block, x)
            hidden.append(x)
        for step, size in zip(steps, sizes, strict=True):
            step.cache.length += size
        features = self._norm(x, self.final_norm)
        parts = (F.linear(features, self.head), features, *hidden)
        rows = zip(*(part.split(sizes) for part in parts), strict=True)
        return [Output(logits, top, tuple(streams)) for logits, top, *streams in rows]

    def _norm(self, x, weight_and_bias):
        return F.layer_norm(x, x.shape[-1:], *weight_and_bias, self.shape.epsilon)

    def _feed_forward(self, block, x):
        inner = torch.addmm(block["c_fc.bias"], self._norm(x, block["ln_2"]), block["c_fc"])
        inner = F.gelu(inner, approximate="tanh")
        return torch.addmm(block["mlp.c_proj.bias"], inner, block["mlp.c_proj"])


def _take_block(weights: dict[str, torch.Tensor], layer: int) -> dict:
    """The tensors of one layer under short names, each layer norm as (weight, bias)."""

    def take(name):
        return weights[f"h.{layer}.{name}"]

    block = {name: (take(f"{name}.weight"), take(f"{name}.bias")) for name in ("ln_1", "ln_2")}
    for short, name in (
        ("c_attn", "attn.c_attn"),
        ("attn.c_proj", "attn.c_proj"),
        ("c_fc", "mlp.c_fc"),
        ("mlp.c_proj", "mlp.c_proj"),
    ):
        block[short], block[f"{short}.bias"] = take(f"{name}.weight"), take(f"{name}.bias")
    return block
