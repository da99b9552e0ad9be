"""One lesson's source becomes two notebooks: the learner's, with stubs, and the solved one.

Nothing is executed here; both are plain functions of `solutions/NN_slug.py` and of the
lesson's exercises.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from lessonlib.classroom.cells import (
    ROLES,
    add_card,
    clean_metadata,
    make_hint_cell,
    name_all_cells,
)
from lessonlib.classroom.regions import (
    AuthoringError,
    check_markers,
    check_stub,
    put_stub,
    remove_markers,
)
from lessonlib.exercises.registry import Exercise, load_lesson

LoadLesson = Callable[[str], tuple[Exercise, ...]]
_NEXT = re.compile(r"^Next: (\*\*(\d\d), [^*]+\*\*)", re.MULTILINE)
# No version numbers: the files must not change with the machine that builds them.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Lesson:
    """A lesson's cells, named and completed, its regions still marked."""

    slug: str
    source: str
    cells: tuple[NotebookNode, ...]


def read_lesson(path: Path, load: LoadLesson = load_lesson) -> Lesson:
    """Read and check a py:percent lesson; raises `AuthoringError` on the first broken rule.

    `load` returns the exercises of lesson "NN".
    """
    text = path.read_text(encoding="utf-8")
    check_markers(text, path.name)
    try:
        cells = jupytext.reads(text, fmt="py:percent").cells
        exercises = {exercise.id: exercise for exercise in load(path.stem[:2])}
        _check_roles(cells, exercises)
        name_all_cells(cells)
        for cell in cells:
            cell.source = cell.source.strip("\n")  # the formatter puts blank lines before a def
            clean_metadata(cell)
            _link_next(cell, path.parent)
        cells = _complete(cells, exercises)
    except AuthoringError as fault:
        raise AuthoringError(f"{path.name}: {fault}") from None
    return Lesson(path.stem, text, tuple(cells))


def _check_roles(cells: list[NotebookNode], exercises: dict[str, Exercise]) -> None:
    """Every exercise has intro, answer and check, once, in this order, and nothing else has."""
    found: dict[str, list[str]] = {exercise_id: [] for exercise_id in exercises}
    for cell in cells:
        exercise_id, role = cell.metadata.get("exercise"), cell.metadata.get("role")
        if exercise_id is None and role is None:
            continue
        if exercise_id not in exercises:
            known = ", ".join(exercises) or "none"
            raise AuthoringError(
                f'exercise="{exercise_id}" is not in the lesson\'s EXERCISES ({known})'
            )
        if role not in ROLES:
            raise AuthoringError(
                f'exercise {exercise_id}: role="{role}", use one of {", ".join(ROLES)} '
                "(hint cells are generated)"
            )
        if cell.cell_type != ("markdown" if role == "intro" else "code") and role != "demo":
            raise AuthoringError(f"exercise {exercise_id}: {role} is a {cell.cell_type} cell")
        if role != "demo":
            found[exercise_id].append(role)
    for exercise_id, roles in found.items():
        if roles != ["intro", "answer", "check"]:
            raise AuthoringError(
                f"exercise {exercise_id} needs one intro, one answer and one check cell in this "
                f"order, found: {', '.join(roles) or 'none'}"
            )


def _link_next(cell: NotebookNode, folder: Path) -> None:
    """Make "Next: **02, ...**" a link, once there is a lesson 02."""

    def link(found: re.Match) -> str:
        later = [file.stem for file in folder.glob(f"{found[2]}_*.py")]
        return f"Next: [{found[1]}]({later[0]}.ipynb)" if later else found[0]

    if cell.cell_type == "markdown":
        cell.source = _NEXT.sub(link, cell.source)


def _complete(cells: list[NotebookNode], exercises: dict[str, Exercise]) -> list[NotebookNode]:
    """Add what the registry knows: card, points, hints; hold answer and check to their rules."""
    done = []
    for cell in cells:
        done.append(cell)
        role = cell.metadata.get("role")
        if role in (None, "demo"):
            continue
        exercise = exercises[cell.metadata["exercise"]]
        if role == "intro":
            add_card(cell, exercise)
            continue
        if cell.metadata.get("points", exercise.points) != exercise.points:
            raise AuthoringError(f"cell {cell.id}: points differ from the exercise's own")
        cell.metadata["points"] = exercise.points
        if role == "answer":
            stub = put_stub(cell.source, exercise.id)
            check_stub(stub, remove_markers(cell.source), exercise.id, exercise.name)
        else:
            _check_check(cell, exercise)
            done.append(make_hint_cell(exercise))
    return done


def _check_check(cell: NotebookNode, exercise: Exercise) -> None:
    """A check cell is the import and the call, bound to its own exercise."""
    wanted = f'from lessonlib.exercises import check\n\ncheck("{exercise.id}", {exercise.name})'
    if ast.dump(ast.parse(cell.source)) != ast.dump(ast.parse(wanted)):
        raise AuthoringError(f"cell {cell.id} must read, and hold no more than:\n{wanted}")


def make_student(lesson: Lesson) -> NotebookNode:
    """Return the learner's notebook: stubs for regions, nothing executed."""
    return _make(lesson, lambda cell: put_stub(cell.source, cell.metadata["exercise"]))


def make_solved(lesson: Lesson) -> NotebookNode:
    """Return the solved notebook, not yet executed."""
    return _make(lesson, lambda cell: remove_markers(cell.source))


def _make(lesson: Lesson, answer: Callable[[NotebookNode], str]) -> NotebookNode:
    cells = copy.deepcopy(list(lesson.cells))
    for cell in cells:
        if cell.metadata.get("role") == "answer":
            cell.source = answer(cell)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook = new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))
    nbformat.validate(notebook)
    return notebook


def list_checks(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the check cells of a notebook, in order."""
    return [cell for cell in notebook.cells if cell.metadata.get("role") == "check"]
