"""``course.py demo``: watch one speculative run, and what it was worth."""

from __future__ import annotations

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.text import Text

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Trace

# How each kind of token is told apart: by colour on a terminal, by brackets everywhere.
MARKS = {
    "drafted": ("", "", "green"),
    "recovered": ("⟨", "⟩", "bold yellow"),
    "bonus": ("⟦", "⟧", "bold cyan"),
}


def show_text(trace: Trace, decode) -> Text:
    """The prompt (dim), then every emitted token marked by where it came from."""
    text = Text(decode(trace.prompt), style="dim")
    for round in trace.rounds:
        for token, kind in zip(round.emitted, round.kinds, strict=True):
            before, after, style = MARKS[kind]
            text.append(f"{before}{decode([token])}{after}", style=style)
    return text


def explain_speed(trace: Trace, speedup: float, K: int, c: float, v: float) -> str:
    """One sentence: faster or slower, and the arithmetic behind it."""
    cost = c * K + v
    verdict = "faster" if speedup > 1 else "slower"
    return (
        f"{speedup:.2f}x the speed of plain decoding ({verdict}): each round emitted "
        f"{trace.tau:.2f} tokens and cost about {cost:.2f} target forwards "
        f"(c K + v = {c:.2f} x {K} + {v:.2f}), which predicts {trace.tau / cost:.2f}x"
    )


def main(argv: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parse(argv)
    from lessonlib.decoding.loop import generate
    from lessonlib.drafting.small import SmallModelDrafter
    from lessonlib.lab.pairs import load_pair
    from lessonlib.lab.timing import measure_costs, time_interleaved

    try:
        sampling = Sampling(options.temperature, options.top_k, options.top_p)
        pair = load_pair(options.pair)
        prompt = pair.encode(options.prompt) or [pair.eos]

        def decode(drafter) -> Trace:
            return generate(
                pair.target,
                drafter,
                prompt,
                max_new_tokens=options.tokens,
                K=options.K,
                sampling=sampling,
                coins=iter(np.random.default_rng(options.seed).random, None),
                eos=pair.eos,
            )

        def speculate() -> Trace:
            return decode(SmallModelDrafter(pair.draft, sampling))

        trace = speculate()
    except (ValueError, FileNotFoundError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    console = Console(highlight=False)
    console.print(show_text(trace, pair.decode))
    legend = "  ".join(f"{a}{kind}{b}" for kind, (a, b, _) in MARKS.items())
    console.print(f"\n{legend}", style="dim", markup=False)
    console.print(
        f"alpha {trace.alpha:.3f}  tau {trace.tau:.2f}  rounds {len(trace.rounds)}  "
        f"drafted {trace.drafted}  accepted {trace.accepted}  "
        f"emitted {len(trace.new_tokens)}  stopped by {trace.stopped}"
    )
    lengths = {}
    seconds = time_interleaved(
        {
            "plain": lambda: lengths.update(plain=len(decode(None).new_tokens)),
            "speculative": lambda: lengths.update(speculative=len(speculate().new_tokens)),
        }
    )
    # The same law, not the same text: each may meet an end of text at another place.
    plain, speculative = (seconds[name] / max(1, lengths[name]) for name in seconds)
    c, v = measure_costs(pair.target, pair.draft, options.K)
    console.print(f"plain {plain * 1e3:.2f} ms/token  speculative {speculative * 1e3:.2f} ms/token")
    console.print(explain_speed(trace, plain / speculative, options.K, c, v))
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="course.py demo", description=__doc__)
    parser.add_argument("--prompt", default="def read_config(path):", help="text to continue")
    parser.add_argument("--pair", default="bundled", help="bundled, gpt2, gpt2-medium or a folder")
    parser.add_argument("--K", type=int, default=4, help="drafted tokens per round")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=96, help="how many tokens to add")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)
