"""``course.py demo``: watch one speculative run, and what it was worth."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from statistics import median

import numpy as np
from rich.console import Console
from rich.text import Text

from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Trace
from lessonlib.lab.timing import count_repeats
from lessonlib.lab.turns import Turn, summarize_ratios

# How each kind of token is told apart: by style on a terminal, by brackets where there is none.
MARKS = {
    "drafted": ("", "", "green"),
    "recovered": ("⟨", "⟩", "bold yellow"),
    "bonus": ("⟦", "⟧", "bold cyan"),
}


def mark(piece: str, kind: str, styled: bool) -> Text:
    """One piece of text, marked by where it came from; a marked line break can be seen.

    >>> mark("]\\n    ", "bonus", styled=False).plain
    '⟦]⏎⟧\\n    '
    """
    before, after, style = MARKS[kind]
    shown, rest = (piece, "") if kind == "drafted" else show_line_breaks(piece)
    text = Text(shown, style=style) if styled else Text(f"{before}{shown}{after}")
    return text.append(rest)


def show_line_breaks(piece: str) -> tuple[str, str]:
    """Split off the line breaks and indent at the end; what is left shows ⏎ for each break.

    >>> show_line_breaks("):\\n    ")
    ('):⏎', '\\n    ')
    """
    head, rest = re.fullmatch(r"(.*?)((?:\n+[^\S\n]*)?)", piece, re.DOTALL).groups()
    return (head + "\n" * rest.count("\n")).replace("\n", "⏎"), rest


def show_text(trace: Trace, decode: Callable[[list[int]], str], styled: bool) -> Text:
    """The prompt, then every emitted token marked by where it came from."""
    text = Text.assemble((decode(trace.prompt), "dim"))
    for round in trace.rounds:
        for token, kind in zip(round.emitted, round.kinds, strict=True):
            text.append_text(mark(decode([token]), kind, styled))
    return text


def explain_speed(trace: Trace, speedup: float, c: float, v: float) -> str:
    """One sentence: faster or slower, and the arithmetic behind it."""
    drafted = trace.drafted / len(trace.rounds)  # at the end of a text fewer than K are
    cost = c * drafted + v
    verdict = "faster" if speedup > 1 else "slower"
    return (
        f"{speedup:.2f}x the speed of plain decoding ({verdict}): each round drafted "
        f"{drafted:.2f} tokens, emitted {trace.tau:.2f} and cost about {cost:.2f} target forwards "
        f"(c x {drafted:.2f} + v = {c:.2f} x {drafted:.2f} + {v:.2f}), "
        f"which predicts {trace.tau / cost:.2f}x"
    )


def show(value: float, digits: int) -> str:
    """A number, or a dash where there was nothing to measure.

    >>> show(0.5, 3), show(float("nan"), 3)
    ('0.500', '-')
    """
    return f"{value:.{digits}f}" if value == value else "-"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parse(argv)
    if hasattr(sys.stdout, "reconfigure"):  # a pipe on Windows may know no brackets like these
        sys.stdout.reconfigure(errors="replace")
    try:
        play(options)
    except (ValueError, FileNotFoundError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    return 0


def play(options: argparse.Namespace) -> None:
    """Decode once for the text, then against plain decoding for the time."""
    from lessonlib.decoding.loop import generate
    from lessonlib.drafting.small import SmallModelDrafter
    from lessonlib.lab.pairs import load_pair
    from lessonlib.lab.timing import measure_costs

    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    if options.tokens < 1:
        raise ValueError(f"tokens is {options.tokens}: ask for at least one")
    pair = load_pair(options.pair)
    prompt = pair.encode(options.prompt) or [pair.eos]

    trace = generate(
        pair.target,
        SmallModelDrafter(pair.draft, sampling),
        prompt,
        max_new_tokens=options.tokens,
        K=options.K,
        sampling=sampling,
        coins=iter(np.random.default_rng(options.seed).random, None),
        eos=pair.eos,
    )
    if not trace.rounds:
        raise ValueError(f"prompt fills the target's context of {pair.target.context}: shorten it")
    c, v = measure_costs(pair.target, pair.draft, options.K)
    print_run(trace, pair.decode, Console(highlight=False))
    plain, speculative = time_both(pair, prompt, trace, options, sampling)
    for words, turns in (("plain", plain), ("speculative", speculative)):
        print(f"{words} {1e3 * median(turn.per_token for turn in turns):.2f} ms/token", end="  ")
    print()
    print(explain_speed(trace, summarize_ratios(plain, speculative)["median"], c, v))


def print_run(trace: Trace, decode: Callable[[list[int]], str], console: Console) -> None:
    """Print the marked text, the legend of the marks, and the counts."""
    styled = console.is_terminal and console.color_system is not None and not console.no_color
    # Soft wrap: code keeps its own lines.
    console.print(show_text(trace, decode, styled), soft_wrap=True)
    console.print(Text("\n") + Text("  ").join(mark(kind, kind, styled) for kind in MARKS))
    print(
        f"alpha {show(trace.alpha, 3)} (of tested tokens)  tau {show(trace.tau, 2)}  "
        f"rounds {len(trace.rounds)}  drafted {trace.drafted}  accepted {trace.accepted}  "
        f"emitted {len(trace.new_tokens)}  stopped by {trace.stopped}"
    )


def time_both(pair, prompt, trace: Trace, options, sampling: Sampling) -> list[list[Turn]]:
    """The turns of plain decoding and of the same speculative run, played in turn."""
    from lessonlib.lab.proposers import list_proposers
    from lessonlib.lab.race import play_turn, race

    proposer = list_proposers(pair)["draft model"]
    how = {"tokens": len(trace.new_tokens), "sampling": sampling, "seed": options.seed}
    entrants = {
        words: lambda prompt, *_, proposer=one: play_turn(
            pair.target, proposer, proposer and proposer.size(options.K), prompt, **how
        )
        for words, one in (("plain", None), ("speculative", proposer))
    }
    return list(race(entrants, [prompt] * count_repeats(5), sampling).values())


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
