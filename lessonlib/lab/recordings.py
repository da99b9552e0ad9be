"""What the bundled pair did, recorded: so that a picture needs no model.

Widgets of lessons 00 and 01 replay these files; loading them imports no torch.
``python -m lessonlib.lab.recordings`` makes them again, after the weights changed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from lessonlib.decoding.trace import Trace

DATA = Path(__file__).parents[1] / "data"
PROMPT = 'def read_config(path):\n    """Read the file'
CONTEXTS = (
    'def read_config(path):\n    """Read the file at path."""\n    with open(path) as',
    '"""Return a copy of the',
    "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, name):\n        self",
    "xq 7}} lorem %% ;; zu",
)
LENGTHS = (1, 2, 3, 4, 6, 8)
TEMPERATURES = (0.0, 0.5, 0.8, 1.0, 1.5)
SHOWN = 12  # tokens of a context that are drawn one by one


@cache
def load_round() -> Trace:
    """A short run at K = 4 and T = 1, with the likeliest tokens of each position."""
    return Trace.from_json(DATA / "lesson01_round.json")


def pick_round(trace: Trace) -> int:
    """The first round in which some, but not all, drafted tokens were accepted."""
    for i, round in enumerate(trace.rounds):
        if 0 < round.accepted < len(round.drafted):
            return i
    return 0


@cache
def load_contexts() -> list[dict]:
    """Logits of target and draft (V,) after each text, those of ``tokens`` first."""
    rows = json.loads((DATA / "lesson01_contexts.json").read_text(encoding="ascii"))
    logits = ("p_logits", "q_logits")
    return [{**row, **{name: np.array(row[name]) for name in logits}} for row in rows]


@cache
def load_runs() -> dict[tuple[int, float], Trace]:
    """Runs of one prompt and seed for every K and temperature of lesson 00's sliders."""
    rows = json.loads((DATA / "lesson00_runs.json").read_text(encoding="ascii"))
    return {(row["K"], row["T"]): Trace.from_dict(row["trace"]) for row in rows}


def record(folder: Path = DATA) -> None:
    """Run the bundled pair and write all recordings into ``folder``.

    In float64, where a coin that lands next to a boundary falls on the same side on
    every machine: whoever has the weights gets these very files again.
    """
    from lessonlib.lab.pairs import load_pair

    folder.mkdir(parents=True, exist_ok=True)
    pair = load_pair("bundled", dtype="float64")
    _run(pair, 4, 1.0, tokens=24, top=8).to_json(folder / "lesson01_round.json")
    contexts = [_record_context(pair, text) for text in CONTEXTS]
    _write(folder / "lesson01_contexts.json", contexts)
    runs = [
        {"K": K, "T": T, "trace": _run(pair, K, T, tokens=48).to_dict()}
        for K in LENGTHS
        for T in TEMPERATURES
    ]
    _write(folder / "lesson00_runs.json", runs)


def _write(path: Path, rows: list[dict]) -> None:
    path.write_text(json.dumps(rows, separators=(",", ":")) + "\n", encoding="ascii")


def _run(pair, K: int, temperature: float, *, tokens: int, top: int = 0) -> Trace:
    from lessonlib.decoding.loop import generate
    from lessonlib.decoding.sampling import Sampling
    from lessonlib.drafting.small import SmallModelDrafter

    sampling = Sampling(temperature)
    trace = generate(
        pair.target,
        SmallModelDrafter(pair.draft, sampling),
        pair.encode(PROMPT),
        max_new_tokens=tokens,
        K=K,
        sampling=sampling,
        coins=iter(np.random.default_rng(1).random, None),
        top=top,
    )
    seen = {*trace.prompt, *trace.new_tokens}
    for round in trace.rounds:
        seen.update(round.drafted, *(row.tokens for row in round.top))
    trace.pieces = {token: pair.decode([token]) for token in sorted(seen)}
    return trace


def _record_context(pair, text: str) -> dict:
    tokens = pair.encode(text)
    p, q = (
        model.forward(tokens, model.new_cache()).logit_rows()[-1]
        for model in (pair.target, pair.draft)
    )
    p, q = (z - np.logaddexp.reduce(z) for z in (p, q))
    order = np.argsort(-np.maximum(p, q), kind="stable")
    return {
        "text": text,
        "tokens": [pair.decode([int(token)]) for token in order[:SHOWN]],
        "p_logits": p[order].round(3).tolist(),
        "q_logits": q[order].round(3).tolist(),
    }


if __name__ == "__main__":
    record()
