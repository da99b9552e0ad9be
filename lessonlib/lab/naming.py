"""What a training is called: its target, its folder, its command, and the pair that it makes.

Most functions take the options of ``course.py train``, as ``train`` has parsed them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from itertools import count
from pathlib import Path

from lessonlib.drafting.eagle import KINDS
from lessonlib.lab import pairs

NAMED = ("bundled", *pairs.HUB_PAIRS)  # what is trained for these lies elsewhere than they do


def name_target(text: str) -> str:
    """What --target means: a draft's folder stands for its target, and bundled has a name.

    >>> name_target(str(pairs.bundled_folder() / "draft"))
    'bundled'
    """
    name = text and (pairs.find_origin(text) or text)
    at = name and Path(name).expanduser().resolve()
    return "bundled" if at in (pairs.bundled_folder(), pairs.bundled_folder() / "target") else name


def name_draft(options: argparse.Namespace) -> str:
    """The draft's folder: its loss and size are in it where they are not the usual ones."""
    parts = ["draft"]
    parts += [options.loss] if options.loss != "forward-kl" else []
    parts += [f"{options.layers}-layers"] if options.layers else []
    return "-".join(parts)


def check_free(run: Path, folder: Path) -> None:
    """Refuse to train where checkpoints and result share a folder that holds another's model."""
    shared = run.resolve() == folder.resolve()
    if shared and not (run / "checkpoint.pt").exists() and _holds_model(folder):
        raise ValueError(f"{folder} holds a model of another run: move it, or name another --out")


def make_room(run: Path, folder: Path) -> None:
    """Make ``folder`` ready for the result of ``run``, with the log of it.

    A model in there that the same run made earlier is replaced. Any other is kept: its folder
    moves to NAME.bak, or NAME.bak2 and on.
    """
    if run.resolve() == folder.resolve():
        return
    log, old = run / "log.jsonl", folder / "log.jsonl"
    text = old.read_bytes() if old.is_file() else b""
    if _holds_model(folder) and not (text and log.read_bytes().startswith(text)):
        names = (folder.with_name(f"{folder.name}.bak{i if i > 1 else ''}") for i in count(1))
        kept = next(name for name in names if not name.exists())
        folder.rename(kept)
        print(f"train: {folder} held another model, which is now in {kept}", file=sys.stderr)
        if (kept / pairs.TOKENIZER).exists():  # a target's tokenizer was there before it
            folder.mkdir()
            shutil.copyfile(kept / pairs.TOKENIZER, folder / pairs.TOKENIZER)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(log, old)


def _holds_model(folder: Path) -> bool:
    """Whether there is more than the tokenizer, there from the start, and a run's beginning."""
    if not folder.is_dir():
        return folder.exists()
    early = {pairs.TOKENIZER, "log.jsonl", "checkpoint.part"}
    return not early.issuperset(file.name for file in folder.iterdir())


def title_draft(options: argparse.Namespace) -> str:
    """The title of a draft's card."""
    own = options.target in ("", "bundled")
    return "Bundled draft" if own else f"Draft of {options.target}"


def spell(options: argparse.Namespace) -> str:
    """The command that does this again."""
    words = ["python course.py train", options.what]
    if options.target:
        words.append(f"--target {options.target}")
    if options.loss != "forward-kl":
        words.append(f"--loss {options.loss}")
    if options.layers:
        words.append(f"--layers {options.layers}")
    words.append(
        f"--tokens {options.tokens}" if options.tokens else f"--minutes {options.minutes:g}"
    )
    return " ".join(words)


def explain_use(options: argparse.Namespace, home: Path, made: str) -> str:
    """How to use what was made: the pair that finds ``made``, a folder in ``home``."""
    is_head = made in KINDS
    if is_head and options.target not in NAMED and pairs.list_missing_files(home / "draft"):
        target = f"--target {options.target}" if options.target else f"--out {options.out}"
        return f"to use it, train a draft, too: python course.py train draft {target}"
    pair = str(home / made)
    if made in ("draft", *KINDS) and not pairs.list_missing_files(home / "target"):
        pair = str(home)
    elif is_head and options.target in pairs.HUB_PAIRS:
        pair = options.target
    load = f'load_pair("{Path(pair).as_posix()}")'
    load = f'find_head({load}, "{made}")' if is_head else load
    shown = f'"{pair}"' if " " in pair else pair
    return f"use it with --pair {shown}, or in a notebook with {load}"
