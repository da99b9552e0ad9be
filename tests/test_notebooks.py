"""The lessons themselves: built from their sources, solved ones pass, unsolved ones run through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lessonlib.classroom.assemble import list_checks
from lessonlib.classroom.build import MAX_STUDENT_BYTES, check
from lessonlib.classroom.execute import execute_notebook

# Cells that measure run, but nobody reads their seconds: once through is enough.
QUICK = {**os.environ, "COURSE_REPEATS": "1"}
ROOT = Path(__file__).resolve().parents[1]
SLUGS = sorted(file.stem for file in (ROOT / "solutions").glob("[0-9][0-9]_*.py"))
TWICE = [(slug, run) for slug in SLUGS for run in ((1, 2) if slug.startswith("01") else (1,))]


def test_there_are_lessons():
    assert SLUGS, "solutions/ holds no NN_slug.py"


def test_the_notebooks_are_what_their_sources_give():
    assert check(ROOT) == []


@pytest.mark.slow
@pytest.mark.parametrize(("slug", "run"), TWICE)
def test_solved_notebooks_pass_strict_nbval(slug, run):
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env"]
    options = ["--nbval-cell-timeout", "300", "-p", "no:cacheprovider", "-q", "-x"]
    done = subprocess.run(
        [*command, *options, str(ROOT / "solutions" / f"{slug}.ipynb")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=QUICK,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_unsolved_notebooks_run_to_their_end(slug, monkeypatch):
    monkeypatch.setenv("COURSE_REPEATS", "1")
    notebook = nbformat.read(ROOT / "notebooks" / f"{slug}.ipynb", as_version=4)
    execute_notebook(notebook)
    for cell in list_checks(notebook):
        text = "".join(output.get("text", "") for output in cell.outputs)
        assert text.startswith(f"ex {cell.metadata.exercise} ")
        assert text.endswith(": not attempted\n"), text
        assert len(cell.outputs) == 1


@pytest.mark.parametrize("slug", SLUGS)
def test_student_notebooks_are_small_and_bare(slug):
    file = ROOT / "notebooks" / f"{slug}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    assert file.stat().st_size < MAX_STUDENT_BYTES
    assert "widgets" not in notebook.metadata
    assert not any(cell.get("outputs") for cell in notebook.cells)
