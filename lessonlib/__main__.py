"""`python -m lessonlib WORD ...`: one table of the course's commands, loaded when asked for.

`course.py` hands over to this module and reads the same table before anything is installed,
so importing it needs the standard library only.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from urllib.parse import quote

from lessonlib.folders import ROOT

MOST_WORKERS = 4  # each holds torch, and one of them a browser

COMMANDS = {
    "lab": ("lessonlib.__main__:open_lab", "open JupyterLab on the first lesson"),
    "test": ("lessonlib.__main__:run_tests", "run the test suite (takes pytest's arguments)"),
    "doctor": ("lessonlib.lab.doctor:main", "check this machine and say how to fix what is wrong"),
    "demo": ("lessonlib.lab.demo:main", "decode a prompt speculatively and print what happened"),
    "bench": ("lessonlib.lab.bench:main", "time plain decoding against every way to draft"),
    "progress": ("lessonlib.exercises.progress:main", "show which exercises you have solved"),
    "reset": ("lessonlib.classroom.workcopies:main_reset", "restore one exercise, e.g. reset 1.2"),
    "train": ("lessonlib.lab.train:main", "train the bundled models"),
    "build": ("lessonlib.classroom.build:main", "for authors: make the notebooks from solutions/"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status (2 for an unknown word, 130 for Ctrl-C)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console may lack a letter: print ? instead
            stream.reconfigure(errors="replace")
    word, rest = words[0], words[1:]
    if word not in COMMANDS:
        print(f"course.py: {unknown_word(word)}", file=sys.stderr)
        return 2
    # Kernels come from this environment, not from a 'python3' kernel of the user's own.
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
    sys.argv = [f"course.py {word}", *rest]  # what the command's own --help calls itself
    try:
        status = load_command(word)(rest) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(f"course.py {word}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush
        return 141  # what a shell reports of a program that a closed pipe ended


def load_command(word: str):
    """Return the function that runs ``word``; only its own module is imported."""
    module, function = COMMANDS[word][0].split(":")
    return getattr(importlib.import_module(module), function)


def usage() -> str:
    """Return the short help: every word with its line.

    >>> print(usage().splitlines()[0])
    python course.py WORD ...
    """
    rows = [f"  {word:<9} {line}" for word, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "python course.py WORD ...",
            "",
            *rows,
            "",
            "The first call sets everything up. 'python course.py WORD --help' tells more.",
        ]
    )


def unknown_word(word: str) -> str:
    """Return one sentence that names the words there are.

    >>> unknown_word("lob")[:37]
    "'lob' is not a command; choose one of"
    """
    return f"'{word}' is not a command; choose one of {', '.join(COMMANDS)}"


def run_tests(argv: list[str]) -> int:
    """Run pytest on the checkout, the whole suite on several cores at once."""
    import pytest

    from lessonlib.lab.device import count_usable_cpus

    os.chdir(ROOT)
    return int(pytest.main([*share_out(argv, count_usable_cpus()), *argv]))


def share_out(argv: list[str], cpus: int) -> list[str]:
    """Return pytest-xdist's arguments; none for named files or where one process is asked for.

    >>> share_out(["-q"], cpus=2)
    ['-n2', '--dist=loadfile']
    >>> share_out(["tests/test_course.py"], cpus=2), share_out(["--pdb"], cpus=2)
    ([], [])
    """
    alone = ("-n", "-s", "--numprocesses", "--dist", "--pdb", "--trace", "--co")
    named = any((ROOT / word.split("::")[0]).exists() for word in argv)
    if cpus == 1 or named or any(word.startswith(alone) for word in argv):
        return []
    return [f"-n{min(cpus, MOST_WORKERS)}", "--dist=loadfile"]


def parse_lab(argv: list[str]) -> argparse.Namespace:
    """Read the arguments of ``lab``.

    >>> parse_lab(["--port", "8890"]).port
    8890
    """
    parser = argparse.ArgumentParser(prog="course.py lab", description=COMMANDS["lab"][1])
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument("--port", type=read_port, help="use this port and no other")
    return parser.parse_args(argv)


def read_port(text: str) -> int:
    """Read a port number; argparse turns the error into one sentence."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' is not a port number from 1 to 65535")
    return int(text)


def open_lab(argv: list[str]) -> int:
    """Prepare the work copies, then become the JupyterLab server until it is stopped."""
    options = parse_lab(argv)
    copies = importlib.import_module("lessonlib.classroom.workcopies")
    try:
        work = copies.prepare(ROOT)
    except copies.Refused as refusal:
        print(f"course.py lab: {refusal}", file=sys.stderr)
        return 1
    # Defaults for JupyterLab's settings; the user's own files still win and stay untouched.
    defaults = [str(ROOT / "lessonlib/lab/jupyter"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, defaults))
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(argv=list_lab_arguments(work, options))
    return 0


def list_lab_arguments(work: Path, options: argparse.Namespace) -> list[str]:
    """Return JupyterLab's arguments: our folder, the first lesson, nothing fetched."""
    first = min(work.glob("*.ipynb"), default=work)
    # A workspace of its own: tabs of the user's other projects do not come back here.
    address = f"/lab/workspaces/course/tree/{quote(first.relative_to(ROOT).as_posix())}"
    arguments = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url={address}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    if options.no_browser:
        arguments.append("--no-browser")
    if options.port is not None:
        arguments += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # containers; Jupyter refuses otherwise
        arguments.append("--allow-root")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
