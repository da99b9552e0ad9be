"""`python course.py build [--check] [--remeasure] [NN ...]`: from lesson sources to notebooks.

solutions/NN_slug.py is written by hand. From it come notebooks/NN_slug.ipynb, with stubs, and
solutions/NN_slug.ipynb, executed. Two builds write the same bytes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lessonlib.classroom.assemble import Lesson, LoadLesson, make_solved, make_student, read_lesson
from lessonlib.classroom.compare import compare_solved, compare_student, find_strays
from lessonlib.classroom.execute import (
    check_results,
    clean_outputs,
    execute_notebook,
    keep_measured,
)
from lessonlib.classroom.leaks import find_leaks, list_secrets, read_page, read_pages
from lessonlib.classroom.regions import AuthoringError
from lessonlib.exercises.files import replace_file
from lessonlib.exercises.registry import load_lesson
from lessonlib.folders import ROOT

MAX_STUDENT_BYTES = 300_000


def list_sources(root: Path, wanted: list[str] | None = None) -> list[Path]:
    """Return the lesson sources in order, all or those whose number is in `wanted`."""
    sources = sorted((root / "solutions").glob("[0-9][0-9]_*.py"))
    known = [source.stem[:2] for source in sources]
    if len(set(known)) < len(known):
        raise AuthoringError(f"two lessons in solutions/ have the same number: {', '.join(known)}")
    if not known:
        raise AuthoringError("solutions/ holds no lesson (NN_slug.py)")
    unknown = [number for number in wanted or [] if number not in known]
    if unknown:
        have = ", ".join(known)
        raise AuthoringError(f"no lesson {', '.join(unknown)}: solutions/ holds {have}")
    return [source for source in sources if not wanted or source.stem[:2] in wanted]


def write_notebook(notebook: NotebookNode) -> str:
    """Return a notebook as the text that is stored."""
    return nbformat.writes(notebook, version=4) + "\n"


def build(
    root: Path,
    wanted: list[str] | None = None,
    remeasure: bool = False,
    load: LoadLesson = load_lesson,
) -> None:
    """Write both notebooks of each wanted lesson.

    Raises `AuthoringError` and then leaves both notebooks of the faulty lesson as they were.
    """
    lessons = [read_lesson(source, load) for source in list_sources(root, wanted)]
    students = {lesson.slug: write_notebook(make_student(lesson)) for lesson in lessons}
    _refuse_faults(root, students)
    for lesson in lessons:
        started = time.perf_counter()
        print(f"{lesson.slug}: running ...", flush=True)
        solved = _solve(lesson, root, remeasure)
        replace_file(root / "solutions" / f"{lesson.slug}.ipynb", solved)
        replace_file(root / "notebooks" / f"{lesson.slug}.ipynb", students[lesson.slug])
        seconds = time.perf_counter() - started
        print(f"{lesson.slug}: {len(lesson.cells)} cells, {seconds:.0f} s", flush=True)


def _refuse_faults(root: Path, students: dict[str, str]) -> None:
    """Raise if the new notebooks, among those already there, leak a solution or are too big."""
    for slug, text in students.items():
        if len(text.encode()) >= MAX_STUDENT_BYTES:
            raise AuthoringError(f"notebooks/{slug}.ipynb would exceed {MAX_STUDENT_BYTES} bytes")
    pages = read_pages(root / "notebooks")
    pages |= {f"notebooks/{slug}.ipynb": read_page(text) for slug, text in students.items()}
    leaks = find_leaks(_list_all_secrets(root), pages)
    if leaks:
        raise AuthoringError("\n".join(leaks))


def _list_all_secrets(root: Path) -> dict[str, set[str]]:
    return {s.stem: list_secrets(s.read_text(encoding="utf-8")) for s in list_sources(root)}


def _solve(lesson: Lesson, root: Path, remeasure: bool) -> str:
    notebook = make_solved(lesson)
    try:
        execute_notebook(notebook)
        clean_outputs(notebook)
        faults = check_results(notebook)
        if faults:
            raise AuthoringError("; ".join(faults))
    except AuthoringError as fault:
        raise AuthoringError(f"{lesson.slug}: {fault}") from None
    if not remeasure:
        keep_measured(notebook, _read_stored(root / "solutions" / f"{lesson.slug}.ipynb"))
    return write_notebook(notebook)


def _read_stored(file: Path) -> NotebookNode | None:
    try:
        return nbformat.reads(file.read_text(encoding="utf-8"), as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        return None


def check(root: Path, wanted: list[str] | None = None, load: LoadLesson = load_lesson) -> list[str]:
    """Return one line for each way in which the stored notebooks differ from the sources.

    Executes nothing; that the stored outputs are what the code prints is strict nbval's part.
    """
    differences = find_strays(root, [source.stem for source in list_sources(root)])
    for source in list_sources(root, wanted):
        lesson = read_lesson(source, load)
        student = root / "notebooks" / f"{lesson.slug}.ipynb"
        differences += compare_student(student, write_notebook(make_student(lesson)))
        if student.exists() and student.stat().st_size >= MAX_STUDENT_BYTES:
            differences.append(f"notebooks/{lesson.slug}.ipynb: over {MAX_STUDENT_BYTES} bytes")
        solved = root / "solutions" / f"{lesson.slug}.ipynb"
        differences += compare_solved(solved, make_solved(lesson))
    return differences + find_leaks(_list_all_secrets(root), read_pages(root / "notebooks"))


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Build, or with --check compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="course.py build", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers; default: all")
    parser.add_argument("--check", action="store_true", help="only say what differs")
    parser.add_argument("--remeasure", action="store_true", help="renew measured outputs too")
    arguments = parser.parse_args(argv)
    try:
        if not arguments.check:
            build(root, arguments.lessons, arguments.remeasure)
            return 0
        differences = check(root, arguments.lessons)
    except AuthoringError as fault:
        print(fault)
        return 1
    print("\n".join(differences) or "all notebooks are what their sources give")
    return 1 if differences else 0
