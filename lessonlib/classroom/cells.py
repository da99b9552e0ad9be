"""Cell by cell: ids that say what a cell is, and the text that comes from the registry."""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from lessonlib.classroom.regions import AuthoringError
from lessonlib.exercises.registry import Exercise

ROLES = ("intro", "answer", "check", "demo")
_KEPT = ("exercise", "role", "points", "tags")
_JUPYTEXT_OWN = ("lines_to_next_cell", "cell_marker", "title", "incorrectly_encoded_metadata")
_WORDS_IN_ID = 6


def exercise_cell_id(exercise_id: str, role: str) -> str:
    """Return the id of an exercise's cell.

    >>> exercise_cell_id("1.2", "answer")
    'ex-1-2-answer'
    """
    return f"ex-{exercise_id.replace('.', '-')}-{role}"


def name_cell(cell: NotebookNode) -> str:
    """Return the id a cell has by what it is, so that edits elsewhere leave it alone.

    In this order: its exercise and role, its own `id="..."`, the first words of its text.
    """
    own, role = cell.metadata.get("id"), cell.metadata.get("role")
    if role in ("intro", "answer", "check") or (role == "demo" and not own):
        return exercise_cell_id(cell.metadata["exercise"], role)
    if own is not None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", str(own)) or own.startswith("ex-"):
            raise AuthoringError(f'cell id="{own}": use a-z, 0-9 and -, not starting with ex-')
        return own
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    words = re.findall(r"[a-z0-9]+", first.lower())[:_WORDS_IN_ID]
    if not words:
        raise AuthoringError(f'a cell has no words to name it by; set id="..." ({first[:40]!r})')
    slug = "-".join(words)[:60].strip("-")
    return f"text-{slug}" if slug.startswith("ex-") else slug  # ex- is kept for exercises


def name_all_cells(cells: list[NotebookNode]) -> None:
    """Give every cell its id; duplicates are an error."""
    seen: dict[str, str] = {}
    for cell in cells:
        cell.id = name_cell(cell)
        first = cell.source.strip().partition("\n")[0][:50]
        if cell.id in seen:
            raise AuthoringError(
                f'two cells are called {cell.id} ("{seen[cell.id]}" and "{first}"); '
                'set id="..." on one of them'
            )
        seen[cell.id] = first


def clean_metadata(cell: NotebookNode) -> None:
    """Keep what the course uses; an unknown key is a typing error, not to be lost silently."""
    unknown = set(cell.metadata) - {*_KEPT, *_JUPYTEXT_OWN, "id"}
    if unknown or cell.cell_type not in ("code", "markdown"):
        what = ", ".join(sorted(unknown)) or f"cell type {cell.cell_type}"
        raise AuthoringError(f"cell {cell.id}: {what} is not used here; known: {', '.join(_KEPT)}")
    tags = list(cell.metadata.get("tags", []))
    if "measured" in tags and "nbval-ignore-output" not in tags:
        cell.metadata["tags"] = [*tags, "nbval-ignore-output"]
    cell.metadata = NotebookNode({k: cell.metadata[k] for k in _KEPT if k in cell.metadata})
    if "hide-input" in tags:  # a question whose source would give the answer away
        cell.metadata["jupyter"] = NotebookNode(source_hidden=True)


def is_measured(cell: NotebookNode) -> bool:
    """Say whether a cell's output differs between machines or runs."""
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def write_card(exercise: Exercise) -> str:
    """Return the line under an exercise's heading."""
    points = f"{exercise.points} point" + ("" if exercise.points == 1 else "s")
    facts = f"about {exercise.minutes} minutes, difficulty {exercise.difficulty} of 3, {points}"
    return f"**Goal:** {exercise.goal.rstrip('.')}. *({facts})*"


def add_card(cell: NotebookNode, exercise: Exercise) -> None:
    """Put the card under the heading of an intro cell, which must name the exercise."""
    heading, _, rest = cell.source.partition("\n")
    if not heading.startswith("#") or not re.search(rf"(?<![\d.]){exercise.id}(?![\d])", heading):
        raise AuthoringError(
            f'cell {cell.id}: start it with a heading that holds "{exercise.id}", not {heading!r}'
        )
    cell.source = f"{heading}\n\n{write_card(exercise)}\n\n{rest.strip()}".rstrip()


def make_hint_cell(exercise: Exercise) -> NotebookNode:
    """Return the folded hints and the help by symptom as a markdown cell."""
    total = len(exercise.hints)
    parts = [
        _fold(f"Hint {number} of {total}", text) for number, text in enumerate(exercise.hints, 1)
    ]
    if exercise.help:
        rows = [f"| {_escape(seen)} | {_escape(advice)} |" for seen, advice in exercise.help]
        table = "\n".join(["| You see | Try this |", "|---|---|", *rows])
        parts.append(_fold("Something looks wrong?", table))
    cell = new_markdown_cell("\n\n".join(parts), id=exercise_cell_id(exercise.id, "hint"))
    cell.metadata = NotebookNode({"exercise": exercise.id, "role": "hint"})
    return cell


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text.strip()}\n\n</details>"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
