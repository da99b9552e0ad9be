"""The learner works on copies in work/, which no update and no build ever overwrites."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

from lessonlib.classroom.cells import exercise_cell_id
from lessonlib.exercises.files import replace_file
from lessonlib.exercises.registry import UnknownExercise, lesson_of, normalise
from lessonlib.folders import ROOT

SHIPPED = ".shipped.json"
_RESTORED = ("answer", "check")


class Refused(Exception):
    """A reset that cannot be done safely; the message says why, and nothing was changed."""


def prepare(root: Path = ROOT) -> Path:
    """Copy the notebooks that work/ lacks and return work/.

    A file that is there stays as it is; where the course ships a newer version, one line says so.
    Raises `Refused` when work/ cannot be a folder.
    """
    work = root / "work"
    if work.exists() and not work.is_dir():
        raise Refused(
            "work is a file, and the course keeps your notebooks in a folder of that name; "
            "rename the file, then run the same command again"
        )
    work.mkdir(parents=True, exist_ok=True)
    shipped = _read_shipped(work)
    for source in sorted((root / "notebooks").glob("*.ipynb")):
        copy, current = work / source.name, _hash(source)
        if not copy.exists():
            shutil.copyfile(source, copy)
            shipped[source.name] = current
        elif _hash(copy) == current:
            shipped[source.name] = current
        elif shipped.get(source.name) != current:
            print(
                f"There is a newer notebooks/{source.name}; your work/{source.name} is untouched "
                f"(`python course.py reset {source.name[:2]}` takes the new one, with a backup)."
            )
    replace_file(work / SHIPPED, json.dumps(shipped, indent=1, sort_keys=True) + "\n")
    return work


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read_shipped(work: Path) -> dict[str, str]:
    """Return which version each copy was made from; nothing known when the note is unreadable."""
    try:
        note = json.loads((work / SHIPPED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def reset_lesson(root: Path, number: str) -> str:
    """Put a pristine notebook in work/, the learner's beside it as a backup; return what to say."""
    source = _find_notebook(root, number)
    copy = root / "work" / source.name
    backup = _back_up(copy) if copy.exists() else None
    copy.parent.mkdir(parents=True, exist_ok=True)
    replace_file(copy, source.read_text(encoding="utf-8"))
    shipped = {**_read_shipped(copy.parent), source.name: _hash(source)}
    replace_file(copy.parent / SHIPPED, json.dumps(shipped, indent=1, sort_keys=True) + "\n")
    kept = f"; your version is work/{backup.name}" if backup else ""
    return f"work/{source.name} is as shipped{kept}. If it is open, reload it from disk."


def reset_exercise(root: Path, exercise_id: str) -> str:
    """Restore the answer and check cell of one exercise; return what to say."""
    exercise_id = normalise(exercise_id)
    source = _find_notebook(root, lesson_of(exercise_id))
    pristine = json.loads(source.read_text(encoding="utf-8"))["cells"]
    wanted = [exercise_cell_id(exercise_id, role) for role in _RESTORED]
    known = [c["metadata"]["exercise"] for c in pristine if c["metadata"].get("role") == "answer"]
    if exercise_id not in known:
        raise Refused(f"there is no exercise {exercise_id}; {source.stem} has {', '.join(known)}")
    copy = root / "work" / source.name
    if not copy.exists():
        raise Refused(f"work/{source.name} does not exist; `python course.py lab` makes it")
    notebook = _read_notebook(copy)
    for cell_id in wanted:
        _restore_cell(notebook, pristine, cell_id, copy.name)
    backup = _back_up(copy)
    replace_file(copy, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return (
        f"exercise {exercise_id} in work/{copy.name} is as shipped; your version is "
        f"work/{backup.name}. If the notebook is open, reload it from disk."
    )


def _find_notebook(root: Path, number: str) -> Path:
    found = sorted((root / "notebooks").glob(f"{number}_*.ipynb"))
    if not found:
        have = ", ".join(sorted(f.name[:2] for f in (root / "notebooks").glob("*.ipynb")))
        raise Refused(f"there is no lesson {number}; notebooks/ holds {have or 'none'}")
    return found[0]


def _read_notebook(copy: Path) -> dict[str, Any]:
    """Return the learner's file as plain JSON: what we do not touch goes back as it came."""
    whole = f"`python course.py reset {copy.name[:2]}` takes a fresh notebook and keeps yours"
    try:
        notebook = json.loads(copy.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        raise Refused(f"work/{copy.name} is not readable as a notebook; {whole}") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise Refused(f"work/{copy.name} was saved in an old notebook format; {whole}")
    return notebook


def _restore_cell(
    notebook: dict[str, Any], pristine: list[dict[str, Any]], cell_id: str, name: str
) -> None:
    """Replace the one cell that is `cell_id`, or put it back where it was."""
    fresh = next(cell for cell in pristine if cell["id"] == cell_id)
    cells = notebook["cells"]
    places = _find_places(cells, fresh)
    if len(places) > 1:
        raise Refused(f"work/{name} holds {len(places)} cells {cell_id}; delete all but one")
    if "id" not in (cells[0] if cells else fresh):  # before nbformat 4.5 cells have no id
        new = {key: value for key, value in fresh.items() if key != "id"}
    else:
        new = fresh
    if places:
        cells[places[0]] = new
        return
    # Before the cell that follows: an answer that lost its marks then stands above the stub.
    behind = pristine[pristine.index(fresh) + 1 :]
    followers = (place for later in behind for place in _find_places(cells, later))
    cells.insert(next(followers, len(cells)), new)


def _find_places(cells: list[dict[str, Any]], fresh: dict[str, Any]) -> list[int]:
    """Return where a cell stands: by its id, else by exercise and role.

    Copying or splitting a cell gives it a new id, and files of an older format have none.
    """
    by_id = [i for i, cell in enumerate(cells) if cell.get("id") == fresh["id"]]
    wanted = [fresh["metadata"].get(key) for key in ("exercise", "role")]
    if by_id or None in wanted:
        return by_id
    own = [cell.get("metadata", {}) for cell in cells]
    return [i for i, m in enumerate(own) if [m.get("exercise"), m.get("role")] == wanted]


def _back_up(copy: Path) -> Path:
    """Copy the learner's file beside itself under a name with date and time."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    backup, again = copy.with_name(f"{copy.stem}_backup-{stamp}.ipynb"), 1
    while backup.exists():
        again += 1
        backup = copy.with_name(f"{copy.stem}_backup-{stamp}-{again}.ipynb")
    shutil.copyfile(copy, backup)
    return backup


def main_reset(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """`reset 2.3` restores one exercise, `reset 02` a whole lesson; returns the exit status."""
    parser = argparse.ArgumentParser(prog="course.py reset", description=main_reset.__doc__)
    parser.add_argument("what", help="an exercise such as 2.3, or a lesson such as 02")
    what = parser.parse_args(argv).what
    try:
        if what.isdecimal():
            print(reset_lesson(root, what.zfill(2)))
        else:
            print(reset_exercise(root, what))
    except (Refused, UnknownExercise) as refusal:
        print(refusal)
        return 1
    except OSError as error:
        print(f"{error.filename} cannot be written ({error.strerror}); nothing was changed")
        return 1
    return 0
