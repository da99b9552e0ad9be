"""EAGLE's head: one decoder layer that drafts from the target's own features.

A row of the head is (features, token), and the two are one step apart:

    row t = (the target's features at t, the embedding of token t + 1)

The features at t are what the target's distribution of token t + 1 is made of; *which*
token came out of it is the one thing they cannot know, so the head is told. Its output is
a guess at the features at t + 1, the target's own LM head turns it into a distribution
of token t + 2, and fed back in the place of features it drafts on.

Positions. GPT-2 adds a learned embedding to say where a token stands; the head adds none. The
target's features have been through the target and carry what it knew about the place, and
attention that only looks back can tell near from far by itself.

Sources: EAGLE-1, Li et al. 2024 (arXiv 2401.15077), section 3; EAGLE-3, Li et al. 2025
(arXiv 2503.01840), section 3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from lessonlib.decoding.attention import attend, place
from lessonlib.decoding.cache import Cache
from lessonlib.decoding.gpt2 import GPT2, Output, Shape
from lessonlib.decoding.steps import Step


@dataclass(frozen=True)
class Kind:
    """What sets one EAGLE apart from another, and each ablation from its EAGLE.

    ``taps``: how many of the target's hidden states a row reads, from the top down.
    ``shift``: the token is this many steps ahead of the features; 0 is the ablation.
    ``steps``: how many steps training unrolls on the head's own outputs; 1 is none.
    ``copies``: the output is trained to equal the next features (EAGLE-1); else it is free,
    and a norm of the head's own stands between it and the LM head (EAGLE-3).
    """

    taps: int
    shift: int = 1
    steps: int = 1
    copies: bool = False


KINDS = {
    "eagle1": Kind(taps=1, copies=True),
    "eagle1-unshifted": Kind(taps=1, shift=0, copies=True),
    "eagle3": Kind(taps=3, steps=4),
    "eagle3-one-step": Kind(taps=3),
    "eagle3-top": Kind(taps=1, steps=4),
}


@dataclass(frozen=True)
class HeadShape:
    """What ``config.json`` of a head holds: its kind, and the sizes of its target."""

    kind: str
    width: int
    heads: int
    vocab_size: int
    context: int
    epsilon: float


@dataclass(frozen=True)
class EagleStep(Step):
    """A forward of a head: ``features`` go with ``tokens``, row by row.

    (n, taps, width) are the target's, as ``take_taps`` gives them; (n, width) are the
    head's own outputs.
    """

    features: torch.Tensor | None = None


class Affine(torch.nn.Module):
    """x @ weight + bias, with the weight stored (inputs, outputs) like all of GPT-2's."""

    def __init__(self, inputs: int, outputs: int, scale: float = 1.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs) * scale * inputs**-0.5)
        self.bias = torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.mT, self.bias)


class DecoderLayer(torch.nn.Module):
    """One GPT-2 block in two halves; between them stands whatever attention the caller needs."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width, epsilon)
        self.c_attn = Affine(width, 3 * width)
        self.attn_proj = Affine(width, width, scale=0.0)
        self.ln_2 = torch.nn.LayerNorm(width, epsilon)
        self.c_fc = Affine(width, 4 * width)
        self.mlp_proj = Affine(4 * width, width, scale=0.0)

    def open(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values of x (..., width), side by side: (..., 3 width)."""
        return self.c_attn(self.ln_1(x))

    def close(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The block's output, given what attention ``mixed`` (..., width) for x."""
        x = x + self.attn_proj(mixed)
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class EagleHead(torch.nn.Module):
    """The draft model of EAGLE-1, 2 and 3; the target's embedding and LM head stay frozen."""

    def __init__(self, shape: HeadShape, embedding: torch.Tensor, output: torch.Tensor):
        super().__init__()
        width, norm = shape.width, lambda: torch.nn.LayerNorm(shape.width, shape.epsilon)
        self.shape, self.kind = shape, KINDS[shape.kind]
        self.vocab_size, self.context = shape.vocab_size, shape.context
        if not self.kind.copies:
            self.ln_taps, self.reduce = norm(), Affine(self.kind.taps * width, width)
            self.ln_f = norm()
        self.ln_features, self.ln_token = norm(), norm()
        self.fuse = Affine(2 * width, width)
        self.layer = DecoderLayer(width, shape.epsilon)
        # Buffers move with the head but are not parameters, and are not in its file.
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("output", output, persistent=False)

    @property
    def device(self) -> torch.device:
        return self.output.device

    @property
    def dtype(self) -> torch.dtype:
        return self.output.dtype

    def new_cache(self) -> Cache:
        """An empty cache with room for a row behind each token of the target's context."""
        shape, head_size = self.shape, self.shape.width // self.shape.heads
        room = (1, shape.heads, shape.context, head_size)
        return Cache(*room, device=self.device, dtype=self.dtype)

    def read(self, features: torch.Tensor) -> torch.Tensor:
        """The target's taps (..., taps, width) as one feature (..., width).

        EAGLE-1 takes the top one as it is, EAGLE-3 puts what it reads through one matrix.
        """
        features = features[..., -self.kind.taps :, :]
        return features[..., 0, :] if self.kind.copies else self._reduce(features)

    def _reduce(self, features):
        return self.reduce(self.ln_taps(features).flatten(-2))

    def enter(self, features: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The layer's input: features (..., width) and token ids (...) fused to (..., width)."""
        token = self.ln_token(self.embedding[tokens])
        return self.fuse(torch.cat([self.ln_features(features), token], -1))

    def finish(self, output: torch.Tensor) -> torch.Tensor:
        """What the LM head multiplies, from the layer's output (..., width)."""
        return output if self.kind.copies else self.ln_f(output)

    @torch.inference_mode()
    def forward_rows(self, steps: Sequence[EagleStep]) -> list[Output]:
        """Answer every step: logits (n, V), and features (n, width) that stand in for the target's.

        Row i has seen the cached rows and the step's rows up to i, or with ``parents`` its
        ancestors only. Raises ValueError if a cache would outgrow the context.
        """
        places = [place(step, self.context, self.device)[1] for step in steps]
        sizes = [len(step.tokens) for step in steps]
        tokens = [token for step in steps for token in step.tokens]
        features = [self.read(s.features) if s.features.ndim == 3 else s.features for s in steps]
        x = self.enter(torch.cat(features), torch.tensor(tokens, device=self.device))
        mixed = [
            attend(part, 0, step.cache, unseen, self.shape.heads)
            for part, step, unseen in zip(
                self.layer.open(x).split(sizes), steps, places, strict=True
            )
        ]
        x = self.layer.close(x, torch.cat(mixed))
        for step, size in zip(steps, sizes, strict=True):
            step.cache.length += size
        logits = F.linear(self.finish(x), self.output)
        pairs = zip(logits.split(sizes), x.split(sizes), strict=True)
        return [Output(rows, features) for rows, features in pairs]


def build_head(
    kind: str, target_shape: Shape, embedding: torch.Tensor, output: torch.Tensor
) -> EagleHead:
    """A fresh head for a target: its shape, embedding (V, width) and LM head (V, width).

    Always the same one for the same kind and shape. Raises ValueError for an unknown kind.

    >>> shape = Shape(layers=2, heads=2, width=8, vocab_size=5, context=16, epsilon=1e-5)
    >>> head = build_head("eagle1", shape, torch.zeros(5, 8), torch.zeros(5, 8))
    >>> head.fuse.weight.shape  # features and token side by side
    torch.Size([16, 8])
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: use one of {', '.join(KINDS)}")
    sizes = {name: getattr(target_shape, name) for name in list(HeadShape.__annotations__)[1:]}
    with torch.random.fork_rng(devices=[]):  # the caller's own randomness is left alone
        torch.manual_seed(0)
        head = EagleHead(HeadShape(kind, **sizes), embedding, output)
    return head.to(device=output.device, dtype=output.dtype)


def save_head(head: EagleHead, folder: Path) -> None:
    """Write ``config.json`` and float16 ``model.safetensors``, without the target's tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "eagle_head", **asdict(head.shape)}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="ascii")
    weights = {name: weight.half().cpu() for name, weight in head.state_dict().items()}
    save_file(weights, folder / "model.safetensors")


def load_head(folder: Path, target: GPT2) -> EagleHead:
    """Read a head and give it the embedding and LM head of ``target``, its device and dtype.

    Raises FileNotFoundError if the folder holds no head, and ValueError for files that cannot
    be used or that are for a target of another shape.
    """
    files = folder / "config.json", folder / "model.safetensors"
    if not any(file.exists() for file in files):
        raise FileNotFoundError(f"no head in {folder}: train one with 'course.py train eagle3'")
    try:
        config, weights = json.loads(files[0].read_text(encoding="utf-8")), load_file(files[1])
        is_head = config.pop("model_type", None) == "eagle_head"
        made_for = (target.shape, target.embedding, target.head)
        head = build_head(config["kind"], *made_for) if is_head else None
        fits = is_head and config == asdict(head.shape)
        if fits:
            head.load_state_dict(weights)
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise ValueError("its weights hold NaN or infinity")
    except Exception as error:  # a damaged file can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        sentence = f"the head in {folder} cannot be used ({reason}): train it again"
        raise ValueError(sentence) from error
    if not is_head:
        raise ValueError(f"{folder} holds no EAGLE head: train one with 'course.py train eagle3'")
    if not fits:
        raise ValueError(f"the head in {folder} is for a target of another shape: train its own")
    return head.eval().requires_grad_(False)
