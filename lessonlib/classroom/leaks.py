"""No line of a solution may be readable anywhere in notebooks/."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lessonlib.classroom.regions import BEGIN, END

SHORTEST = 13  # shorter lines (`else:`, `return x`) give nothing away


def _squeeze(line: str) -> str:
    return " ".join(line.split())


def _holds(text: str, line: str) -> bool:
    """Say whether `line` stands in `text` on its own, not as a part of a longer expression."""
    return re.search(rf"(?<![\w.]){re.escape(line)}(?![\w.(\[])", text) is not None


def list_secrets(source: str) -> set[str]:
    """Return the telling lines of a lesson's regions that its open text does not show anyway.

    >>> sorted(list_secrets('''
    ... def residual(p, q):
    ...     ### BEGIN SOLUTION
    ...     r = np.maximum(p - q, 0)  # never negative
    ...     return r
    ...     ### END SOLUTION
    ... '''))
    ['r = np.maximum(p - q, 0)']
    """
    secret, shown, inside = set(), [], False
    for line in source.splitlines():
        if line.strip() in (BEGIN, END):
            inside = line.strip() == BEGIN
        elif inside:
            secret.add(_squeeze(line.strip().partition("  # ")[0]))
        else:
            shown.append(_squeeze(line))
    open_text = "\n".join(shown)
    return {line for line in secret if len(line) >= SHORTEST and not _holds(open_text, line)}


def find_leaks(secrets: dict[str, set[str]], pages: dict[str, str]) -> list[str]:
    """Return one sentence for each secret (by lesson) that a page (name to text) shows."""
    leaks = []
    for page, text in sorted(pages.items()):
        open_text = "\n".join(_squeeze(line) for line in text.splitlines())
        for lesson, lines in sorted(secrets.items()):
            for line in sorted(lines):
                if line in open_text and _holds(open_text, line):
                    leaks.append(f"{page}: shows a line of the solution of {lesson}: {line}")
    return leaks


def read_page(text: str) -> str:
    """Return all text of a notebook's JSON, or the text itself when it is not JSON."""
    try:
        return "\n".join(_strings(json.loads(text)))
    except ValueError:
        return text


def _strings(node: object) -> list[str]:
    if isinstance(node, str):
        return [node]
    if isinstance(node, list):
        if all(isinstance(part, str) for part in node):  # a multi-line string, nbformat's way
            return ["".join(node)]
        return [text for part in node for text in _strings(part)]
    if isinstance(node, dict):
        return [text for part in node.values() for text in _strings(part)]
    return []


def read_pages(folder: Path) -> dict[str, str]:
    """Return the readable text of every file under `folder`, by its path from the parent."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {
        file.relative_to(folder.parent).as_posix(): read_page(
            file.read_text(encoding="utf-8", errors="replace")
        )
        for file in files
    }
