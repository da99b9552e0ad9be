"""``transformers`` itself on the same clock: ``generate``, and ``generate`` with an assistant.

Both as the library ships them, with its own defaults for how much the assistant drafts.
Importing this module imports transformers, which takes seconds: do it off the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel
from transformers.utils import logging

from lessonlib.decoding.sampling import Sampling
from lessonlib.lab.bench_rows import ASSISTED, FIRST_ROUND, TRANSFORMERS
from lessonlib.lab.timing import Clock
from lessonlib.lab.turns import Turn

# (prompt, tokens, sampling, seed, clock) -> Turn
Rival = Callable[[Sequence[int], int, Sampling, int, Clock], Turn]


class RoundClock:
    """A stopping criterion that never stops: it is called after every round, and looks.

    The first call comes behind the prefill and the first round; the time runs from there,
    as it does for the course's own loop.
    """

    def __init__(self, clock: Clock):
        self._clock = clock
        self._marks: list[tuple[float, int]] = []

    def __call__(self, input_ids: torch.Tensor, scores, **_) -> torch.Tensor:
        self._marks.append((self._clock(), input_ids.shape[1]))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

    @property
    def rounds(self) -> int:
        """How many rounds there were behind the first."""
        return len(self._marks) - 1

    def read(self) -> Turn:
        """Tokens, rounds and seconds behind the first round."""
        (began, before), (ended, after) = self._marks[0], self._marks[-1]
        return Turn(after - before, self.rounds, ended - began)


def load_rivals(target: Path, draft: Path, like) -> dict[str, Rival]:
    """Both ways to generate with the weights of two folders, where and as ``like`` runs."""
    models = [_load(folder, like) for folder in (target, draft)]
    return {
        TRANSFORMERS: lambda *how: _generate(models[0], None, *how),
        ASSISTED: lambda *how: _generate(*models, *how),
    }


def _load(folder: Path, like) -> PreTrainedModel:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=like.dtype).eval().to(like.device)
    # An end of text must not stop a turn: all entrants emit equally many tokens.
    model.generation_config.eos_token_id = None
    return model


def _generate(
    model: PreTrainedModel, assistant: PreTrainedModel | None, prompt: Sequence[int],
    tokens: int, sampling: Sampling, seed: int, clock: Clock,
) -> Turn:  # fmt: skip
    """One turn, up to ``tokens`` tokens behind the first; it has random numbers of its own."""
    watch = RoundClock(clock)
    how = {"do_sample": False}
    if sampling.temperature > 0:  # and no top-k, which transformers sets to 50 by itself
        how = {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
    ids = torch.tensor([list(prompt)], device=model.device)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(seed)
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            assistant_model=assistant,
            generation_config=GenerationConfig(max_new_tokens=tokens + 1, pad_token_id=0, **how),
            stopping_criteria=[watch],
        )
    if watch.rounds == 0:  # the first round, which is off the clock, brought it all
        return _generate(model, assistant, prompt, tokens + FIRST_ROUND, sampling, seed, clock)
    return watch.read()
