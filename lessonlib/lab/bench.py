"""``course.py bench``: plain decoding and every proposer, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from rich.console import Console

from lessonlib.folders import shorten
from lessonlib.lab.bench_report import print_results

TOKENS, QUICK_TOKENS = 64, 24
LEAST_REPEATS = 5
WIDE = 150  # columns, where the output is no terminal


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 2 for a request that cannot be met, 130 after Ctrl-C."""
    argv = list(sys.argv[1:] if argv is None else argv)
    options = _parse(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a pipe on Windows may know no Greek
            stream.reconfigure(errors="replace")
    try:
        _check(options)
        results = measure(options)
    except (ValueError, FileNotFoundError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report({"command": write_command(argv), **results}, options.json)
    return 130 if results["interrupted"] else 0


def measure(options: argparse.Namespace) -> dict:
    """Run to the end or to Ctrl-C; returns all that was measured until then."""
    from lessonlib.lab.bench_run import Bench  # torch: after the options were checked

    bench, interrupted = Bench(options), False
    try:
        bench.run()
    except KeyboardInterrupt:
        interrupted = True
    return bench.collect(interrupted)


def report(results: dict, file: Path | None) -> None:
    """Print what was measured, write it to ``file`` if there is one, and say what is missing."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    if results["cells"]:
        print_results(results, console)
        if file:
            text = json.dumps(_round(results), indent=1, allow_nan=False)
            file.write_text(text + "\n", encoding="ascii", newline="\n")
    for note in results["notes"]:
        print(f"note: {note}")
    if results["interrupted"]:
        done = "above is what was measured" if results["cells"] else "nothing was measured yet"
        print(f"bench: interrupted; {done}", file=sys.stderr)


def write_command(argv: list[str]) -> str:
    """The command line as typed, but no path of this machine.

    >>> write_command(["--quick", "--json=/tmp/mine.json", "--pair", "gpt2"])
    'python course.py bench --quick --json=.../mine.json --pair gpt2'
    """
    return shlex.join(["python", "course.py", "bench", *map(_hide_folders, argv)])


def _hide_folders(word: str) -> str:
    name, equals, value = word.rpartition("=")
    is_path = Path(value).name != value and value not in ("", ".", "..")
    return name + equals + (shorten(Path(value).resolve()) if is_path else value)


def _round(value):
    """Six digits are more than any clock here is worth."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    return [_round(item) for item in value] if isinstance(value, list) else value


def _check(options: argparse.Namespace) -> None:
    """Refuse now what would otherwise fail after minutes."""
    if options.repeats < LEAST_REPEATS:
        raise ValueError(f"repeats is {options.repeats}: a median wants {LEAST_REPEATS} or more")
    if options.tokens < 2:
        raise ValueError(f"tokens is {options.tokens}: use 2 or more, or nothing can be drafted")
    if options.K is not None and options.K < 1:
        raise ValueError(f"K is {options.K}: use 1 or more; plain decoding is in the table anyway")
    if options.json and not options.json.resolve().parent.is_dir():
        raise ValueError(f"there is no folder {options.json.parent} to write into: make it first")
    if options.json and options.json.is_dir():
        raise ValueError(f"{options.json} is a folder: name a file in it")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="course.py bench", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="code only, and fewer tokens: under a minute")
    add("--pair", default="bundled", help="bundled, gpt2, gpt2-medium or a folder")
    add("--json", type=Path, metavar="FILE", help="write it all to FILE, raw seconds included")
    add("--tokens", type=int, help=f"tokens of one turn ({TOKENS}; quick: {QUICK_TOKENS})")
    add(
        "--repeats",
        type=int,
        default=LEAST_REPEATS,
        help=f"turns each ({LEAST_REPEATS} or more)",
    )
    add("--K", type=int, help="how deep all draft (else each what the formula likes best)")
    options = parser.parse_args(argv)
    if options.tokens is None:
        options.tokens = QUICK_TOKENS if options.quick else TOKENS
    return options
