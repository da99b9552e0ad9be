"""What the bundled pair did at many temperatures, recorded: lesson 07's pictures need no model.

``python -m lessonlib.lab.recordings07`` measures it all again, after the weights changed.
Speeds are the recording machine's: their clock counts the CPU seconds of one process on one
thread, so that a busy machine does not bend them.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

import numpy as np

from lessonlib.lab.fingerprint import take_fingerprint
from lessonlib.lab.recordings import DATA
from lessonlib.lab.turns import measure_tau, summarize_ratios
from lessonlib.theory.temperature import RATES, chosen_rate

FILE = "lesson07_temperatures.json"
TEMPERATURES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
LENGTHS = (1, 2, 3, 4, 6)
TOKENS, REPEATS = 48, 5
PROMPT_TOKENS = 160
TREE = "top-k tree"  # one level with two guesses, as a rate beside the four


@cache
def load_recording() -> dict:
    """``weights``, ``alpha[kind][rule]`` at TEMPERATURES, and ``speeds``, the measured grid.

    A row is {"proposer", "K", "T", "tau", "speedup", "low", "high"}; see `look_up`. The
    speedup is the median of the paired ratios of REPEATS repeats, low and high their ends.
    """
    return json.loads((DATA / FILE).read_text(encoding="ascii"))


def list_proposers() -> list[str]:
    """The proposers that were measured, in their order."""
    return list(dict.fromkeys(row["proposer"] for row in load_recording()["speeds"]))


def look_up(proposer: str, field: str = "speedup") -> np.ndarray:
    """One field of a proposer's grid: rows are TEMPERATURES, columns LENGTHS."""
    found = {
        (row["T"], row["K"]): row[field]
        for row in load_recording()["speeds"]
        if row["proposer"] == proposer
    }
    if not found:
        raise ValueError(f"no recording of {proposer!r}: use one of {', '.join(list_proposers())}")
    return np.array([[found[T, K] for K in LENGTHS] for T in TEMPERATURES])


def measure_alphas(pair) -> dict[str, dict[str, list[float]]]:
    """Mean α at fixed contexts: by kind of text, by rule, at each of TEMPERATURES."""
    from lessonlib.lab.kinds import list_kinds, read_rows

    found = {}
    for kind, text in list_kinds().items():
        p, q = read_rows(pair, text)
        rules = {**RATES, TREE: lambda p, q, T: chosen_rate(p, q, T, 2)}
        found[kind] = {
            name: [round(float(rate(p, q, T).mean()), 4) for T in TEMPERATURES]
            for name, rate in rules.items()
        }
    return found


def measure_speeds(pair) -> list[dict]:
    """Every proposer at every K and T, raced against plain decoding on the code prompt."""
    from tqdm import tqdm

    from lessonlib.decoding.sampling import Sampling
    from lessonlib.lab.contest import list_contestants
    from lessonlib.lab.kinds import CODE
    from lessonlib.lab.proposers import PLAIN
    from lessonlib.lab.race import list_entrants, race

    prompt = pair.encode(CODE)[-PROMPT_TOKENS:]
    rows, contestants = [], list_contestants(pair)
    cells = [(T, K) for T in TEMPERATURES for K in LENGTHS]
    with tqdm(total=REPEATS * len(cells) * (len(contestants) + 1)) as progress:
        for T, K in cells:
            sizes = {name: one.size(K) for name, one in contestants.items()}
            entrants = list_entrants(pair.target, contestants, sizes, TOKENS, time.process_time)
            turns = race(entrants, [prompt] * REPEATS, Sampling(T), progress.update)
            plain = turns.pop(PLAIN)
            rows += [_describe(name, K, T, plain, played) for name, played in turns.items()]
    return rows


def _describe(name: str, K: int, T: float, plain, turns) -> dict:
    speed = summarize_ratios(plain, turns)
    row = {"proposer": name, "K": K, "T": T, "tau": round(measure_tau(turns), 3)}
    return row | {
        "speedup": round(speed["median"], 3),
        "low": round(speed["low"], 3),
        "high": round(speed["high"], 3),
    }


def record(folder: Path = DATA) -> None:
    """Measure the bundled pair and write the recording into ``folder``."""
    import torch

    from lessonlib.lab.pairs import bundled_folder, load_pair

    pair = load_pair("bundled")
    torch.set_num_threads(1)  # or process_time would add up the threads
    found = {
        "weights": take_fingerprint(bundled_folder()),
        "alpha": measure_alphas(pair),
        "speeds": measure_speeds(pair),
    }
    text = json.dumps(found, separators=(",", ":"))
    (folder / FILE).write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    record()
