"""Any causal language model that ``transformers`` reads, behind the protocol of the loop.

A local folder with a config.json, or a GGUF file. Everything the loop needs and
``transformers`` leaves to its caller is here: a cache that rolls back, trees, and a clear
word where a model runs out of context, which some answer with an IndexError and others,
whose positions are rotations, with nonsense.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from lessonlib.decoding.attention import check_step
from lessonlib.decoding.gpt2 import Output
from lessonlib.decoding.hf_cache import HFCache
from lessonlib.decoding.hf_tree import tree_inputs
from lessonlib.decoding.steps import Step


class HFModel:
    """A ``transformers`` model that runs sequences, each over a cache of its own.

    ``vocab_size`` is the number of logits. Many models pad theirs beyond the tokenizer's
    size, so that two sizes of one family may differ: give the tokenizer's, and only the
    logits of its tokens are kept. Raises ValueError for a model whose cache cannot be
    rolled back, that cannot be told the positions of its tokens, or that is not causal.
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int | None = None):
        self.model = model.eval()
        self._config = model.config.get_text_config(decoder=True)
        self.new_cache()  # refuses what cannot be rolled back
        _check_positions(model, self._config)
        self.context: int = self._config.max_position_embeddings
        self.vocab_size: int = model.get_output_embeddings().weight.shape[0]
        if vocab_size is not None:
            if not 2 <= vocab_size <= self.vocab_size:
                raise ValueError(
                    f"vocab_size is {vocab_size}, but the model has {self.vocab_size} logits: "
                    "give the number of tokens in the tokenizer"
                )
            self.vocab_size = vocab_size
        self._blocks = _find_blocks(model, self._config.num_hidden_layers)
        self._check_causal()

    @classmethod
    def from_folder(
        cls,
        folder: Path | str,
        gguf_file: str | None = None,
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        vocab_size: int | None = None,
    ) -> HFModel:
        """Load from a local folder, or from a GGUF file in it; ``folder`` may be that file itself.

        Nothing is downloaded and no code from the folder is run. A quantised GGUF is
        unpacked to ``dtype``. Raises FileNotFoundError if config.json or the file is not
        there, ImportError if reading GGUF needs a package that is not installed, and
        ValueError for weights that do not fill the model.
        """
        folder = Path(folder).expanduser()
        if gguf_file is None and folder.suffix.lower() == ".gguf":
            folder, gguf_file = folder.parent, folder.name
        _check_files(folder, gguf_file)
        with _without_progress_bar():
            model, report = AutoModelForCausalLM.from_pretrained(
                folder,
                gguf_file=gguf_file,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        missing = sorted(report["missing_keys"])
        if missing:
            raise ValueError(
                f"the weights in {folder} lack {len(missing)} of the model's tensors, such as "
                f"{missing[0]}: they would be random numbers"
            )
        return cls(model.to(device), vocab_size)

    @property
    def dtype(self) -> torch.dtype:
        """The number format of the weights."""
        return self.model.dtype

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def eos(self) -> int | None:
        """The id of the token that ends a text, the first where the config names several."""
        named = self._config.eos_token_id
        return named[0] if isinstance(named, list) else named

    def new_cache(self) -> HFCache:
        """An empty cache; it grows with what is run."""
        return HFCache(self._config)

    def forward(
        self, tokens: Sequence[int], cache: HFCache, parents: Sequence[int] | None = None
    ) -> Output:
        """Run ``tokens`` behind the cached ones and append their rows to the cache.

        As ``gpt2.GPT2.forward``: row i has seen the cached tokens and tokens[: i + 1], or,
        with ``parents``, its ancestors only. Raises ValueError for no tokens, and if the
        text would outgrow the context.
        """
        (output,) = self.forward_rows([Step(self, tokens, cache, parents)])
        return output

    @torch.inference_mode()
    def forward_rows(self, steps: Sequence[Step]) -> list[Output]:
        """``forward`` for every step, one after the other: a batch is right, but no faster."""
        return [self._run(step) for step in steps]

    def _run(self, step: Step) -> Output:
        inputs = self._place(step)
        ids = torch.tensor([list(step.tokens)], dtype=torch.long, device=self.device)
        with _record(self.model.get_output_embeddings(), self._blocks) as (features, hidden):
            answer = self.model(ids, cache=step.cache.rows, use_cache=True, **inputs)
        logits = answer.logits[0, :, : self.vocab_size]
        return Output(logits, features[0][0], tuple(stream[0] for stream in hidden))

    def _place(self, step: Step) -> dict[str, torch.Tensor]:
        """The positions of the n new tokens and, for a tree, the mask that hides the others."""
        prefix = check_step(step, self.context)
        n, start, parents = len(step.tokens), step.cache.length, step.parents
        if parents is None:  # transformers masks a chain by itself
            return {"position_ids": torch.arange(start, start + n, device=self.device)[None]}
        inputs = tree_inputs(parents, prefix, self.model.dtype, self.device)
        # The nodes at the front may be in the cache: only the new ones are run.
        return {
            "attention_mask": inputs["attention_mask"][:, :, -n:],
            "position_ids": inputs["position_ids"][:, -n:],
        }

    def _check_causal(self) -> None:
        """Raise ValueError if a token changes the logits in front of it, as in most BERTs."""
        first, second = (self.forward([0, t], self.new_cache()).logits[0] for t in (0, 1))
        if not torch.allclose(first, second, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise ValueError(
                f"this {self._config.model_type} model is not causal, its tokens see what follows "
                "them: use a language model that reads from left to right"
            )


def _check_files(folder: Path, gguf_file: str | None) -> None:
    """Raise unless the folder holds a model that can be read with what is installed."""
    wanted = gguf_file or "config.json"
    if not (folder / wanted).is_file():
        raise FileNotFoundError(
            f"no {wanted} in {folder}: give a local folder with config.json and weights, "
            "or a GGUF file"
        )
    lacking = [name for name in ("accelerate", "gguf") if gguf_file and not find_spec(name)]
    if lacking:
        names = " and ".join(lacking)
        raise ImportError(
            f"a GGUF file cannot be read without {names}: run pip install {' '.join(lacking)}"
        )


def _check_positions(model: PreTrainedModel, config: PreTrainedConfig) -> None:
    """Raise ValueError unless the model heeds a cache, positions, and says how many it has."""
    takes = inspect.signature(model.forward).parameters
    faults = [f"takes no {name}" for name in ("cache", "position_ids") if name not in takes]
    if getattr(config, "alibi", False):
        faults.append("takes the place of a token in the cache (ALiBi) for its position")
    if "local" in getattr(config, "attention_layers", ()):
        faults.append("counts the rows of the cache in its local attention, not positions")
    if not isinstance(getattr(config, "max_position_embeddings", None), int):
        faults.append("has no max_position_embeddings in its config")
    if faults:
        raise ValueError(
            f"this {config.model_type} model {' and '.join(faults)}, so its tokens cannot be "
            "placed in a tree: use another architecture"
        )


def _find_blocks(model: PreTrainedModel, layers: int) -> Sequence[nn.Module]:
    """The model's transformer blocks, whatever its architecture calls them; empty if unknown."""
    stacks = (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == layers)
    return next(stacks, ())


@contextmanager
def _record(head: nn.Module, blocks: Sequence[nn.Module]) -> Iterator[tuple[list, list]]:
    """Collect what enters the LM head, and what leaves each block, while the model runs.

    The hidden states that transformers returns will not do: the last has passed the norm.
    """
    features, hidden = [], []

    def keep_input(head, inputs):
        features.append(inputs[0])

    def keep_output(block, inputs, output):
        hidden.append(output[0] if isinstance(output, tuple) else output)

    hooks = [block.register_forward_hook(keep_output) for block in blocks]
    hooks.append(head.register_forward_pre_hook(keep_input))
    try:
        yield features, hidden
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """In a notebook that bar is a widget, whose state would be saved with it."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
