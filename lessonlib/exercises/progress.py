"""What the learner has tried so far: one small JSON file in the work folder.

`COURSE_PROGRESS` names another file, or `:memory:` for none (building and grading use that).
A file that cannot be read is set aside, never deleted; one that cannot be written costs only
the memory of this session.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lessonlib.exercises.files import replace_file
from lessonlib.exercises.outcomes import to_plain_line
from lessonlib.exercises.registry import Exercise, list_lessons, load_lesson
from lessonlib.folders import ROOT

if TYPE_CHECKING:
    from rich.table import Table

IN_MEMORY = ":memory:"
_NEW = {"status": "not attempted", "attempts": 0, "hints": 0, "solved": False}
_session: dict[str, dict[str, Any]] = {}  # what could not, or should not, be written
_unwritable: set[Path] = set()


def find_progress_file() -> Path | None:
    """Return where progress is kept, None for this process's memory."""
    place = os.environ.get("COURSE_PROGRESS") or str(ROOT / "work" / "progress.json")
    return None if place == IN_MEMORY or Path(place) in _unwritable else Path(place)


def read_progress() -> dict[str, dict[str, Any]]:
    """Return {exercise id: {status, attempts, hints, solved}}."""
    file = find_progress_file()
    if file is None:
        return json.loads(json.dumps(_session))
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        return _set_aside(file)
    try:
        return _validate(json.loads(text))
    except (ValueError, RecursionError):
        return _set_aside(file)


def _validate(data: Any) -> dict[str, dict[str, Any]]:
    """Return the records with every field present; ValueError when they are not records."""
    records = data.get("exercises") if isinstance(data, dict) else None
    if not isinstance(records, dict) or not all(isinstance(r, dict) for r in records.values()):
        raise ValueError("not a progress file")
    full = {key: {**_NEW, **record} for key, record in records.items()}
    for record in full.values():
        if any(type(record[field]) is not type(_NEW[field]) for field in _NEW):
            raise ValueError("not a progress file")
    return full


def _set_aside(file: Path) -> dict[str, dict[str, Any]]:
    """Rename a file that is not ours to read, say so in one sentence, start afresh."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    aside = file.with_name(f"{file.stem}.unreadable-{stamp}{file.suffix}")
    try:
        file.rename(aside)
        print(f"{file.name} could not be read; it is now {aside.name}.", file=sys.stderr)
    except OSError:
        _go_on_in_memory(file)
    return {}


def _go_on_in_memory(file: Path) -> None:
    _unwritable.add(file)
    print(f"{file} cannot be used; progress is kept until the kernel stops.", file=sys.stderr)


def write_progress(records: dict[str, dict[str, Any]]) -> None:
    """Replace the file in one step, so that a crash leaves the old or the new one."""
    file = find_progress_file()
    if file is not None:
        try:
            replace_file(file, json.dumps({"version": 1, "exercises": records}, indent=1))
            return
        except OSError:
            _go_on_in_memory(file)
    _session.clear()
    _session.update(records)


def get_record(exercise_id: str) -> dict[str, Any]:
    """Return what is known of one exercise."""
    return read_progress().get(exercise_id, dict(_NEW))


def record_attempt(exercise_id: str, status: str) -> None:
    """Note the outcome of one check; looking at an untouched stub is no attempt."""
    records = read_progress()
    record = records.setdefault(exercise_id, dict(_NEW))
    record["status"] = status
    record["attempts"] += status != "not attempted"
    record["solved"] = record["solved"] or status == "ok"
    write_progress(records)


def record_hint(exercise_id: str, available: int) -> int:
    """Note that the next hint is shown; return its number, from 1, at most `available`."""
    records = read_progress()
    record = records.setdefault(exercise_id, dict(_NEW))
    record["hints"] = min(record["hints"] + 1, available)
    write_progress(records)
    return record["hints"]


def main(argv: list[str] | None = None) -> int:
    """Show which exercises you have solved, with points, attempts and hints."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog="course.py progress", description=main.__doc__)
    parser.parse_args(argv)
    console, records = Console(markup=False, highlight=False), read_progress()
    for lesson in list_lessons():
        console.print(make_table(lesson, load_lesson(lesson), records))
    return 0


def make_table(
    lesson: str, exercises: tuple[Exercise, ...], records: dict[str, dict[str, Any]]
) -> Table:
    """Return one lesson's table; a narrow window folds a name, and never cuts it."""
    from rich import box
    from rich.table import Table

    solved = [e for e in exercises if records.get(e.id, _NEW)["solved"]]
    points = f"{sum(e.points for e in solved)} of {sum(e.points for e in exercises)} points"
    title = f"Lesson {lesson}: {len(solved)} of {len(exercises)} solved, {points}"
    table = Table(title=title, box=box.SIMPLE, show_edge=False)
    for column in ("ex", "name", "status", "points", "attempts", "hints"):
        table.add_column(column, overflow="fold")
    for e in exercises:
        record = records.get(e.id, _NEW)
        status = "ok" if record["solved"] else to_plain_line(record["status"])
        gained = f"{e.points if record['solved'] else 0} of {e.points}"
        hints = f"{record['hints']} of {len(e.hints)}"
        table.add_row(e.id, e.name, status, gained, str(record["attempts"]), hints)
    return table
