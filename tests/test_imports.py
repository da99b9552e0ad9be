"""House rules held by tools: ruff, import direction, and what an import may cost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIGHT_LESSONS = ("01", "02", "03")
TRIES = 5
TORCH = {"torch", "transformers"}
NO_TORCH = {  # what the learner's machine imports, or runs, without torch
    "device": "import lessonlib.lab.device",
    "doctor": "import lessonlib.lab.doctor",
    "kernelcheck": "import lessonlib.lab.kernelcheck",
    "recordings": "from lessonlib.lab import recordings as r\n"
    "r.load_round(), r.load_contexts(), r.load_runs()",
    "lesson 00": "import lessonlib.widgets.lesson00, lessonlib.exercises.lesson00",
    "lesson 01": "import lessonlib.widgets.lesson01, lessonlib.exercises.lesson01",
    "lesson 02": "import lessonlib.widgets.lesson02, lessonlib.widgets.batches\n"
    "import lessonlib.exercises.lesson02",
    "lesson 03": "import lessonlib.widgets.lesson03, lessonlib.exercises.lesson03",
    "lesson 04": "import lessonlib.widgets.lesson04, lessonlib.exercises.lesson04",
    "lesson 05": "import lessonlib.widgets.lesson05, lessonlib.widgets.hump, lessonlib.lab.drafts\n"
    "import lessonlib.exercises.lesson05",
    "lesson 06": "import lessonlib.widgets.lesson06, lessonlib.exercises.lesson06",
    "lesson 07": "import lessonlib.widgets.timeline, lessonlib.exercises.lesson07\n"
    "from lessonlib.widgets import lesson07 as w\n"
    "w.temperature_on_both(), w.map_of_K_and_temperature()",
    "recordings of lesson 07": "from lessonlib.lab import recordings07 as r\n"
    "r.look_up(r.list_proposers()[0])",
}
LIGHTER = {  # name: (what is imported, what else must not come along)
    "exercises": ("import lessonlib.exercises", {"IPython", "rich", "jupytext"}),
    "headrecords": ("import lessonlib.lab.headrecords", {"numpy"}),
}


def run_tool(root: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, *words], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing(root):
    run_tool(root, "-m", "ruff", "check", "--no-cache", ".")


def test_ruff_would_format_nothing(root):
    run_tool(root, "-m", "ruff", "format", "--no-cache", "--check", ".")


def test_imports_go_down_only(root):
    run_tool(
        root, "-c", "from importlinter.cli import lint_imports_command as r; r(['--no-cache'])"
    )


def list_modules(root: Path, package: str) -> list[str]:
    files = sorted((root / package.replace(".", "/")).glob("*.py"))
    return [package if f.stem == "__init__" else f"{package}.{f.stem}" for f in files]


def list_lesson_imports(file: Path) -> list[str]:
    """Return the lessonlib modules that a lesson imports at the top of its cells."""
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}:{name.name}" for name in node.names]
    return [name for name in found if name.startswith("lessonlib")]


def run_fresh(root: Path, code: str) -> list[str]:
    """Return the words that ``code`` prints in a fresh interpreter with one thread."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return done.stdout.split()


def list_loaded(root: Path, code: str, packages: set[str]) -> set[str]:
    """Return those of ``packages`` that ``code`` brings along."""
    return set(run_fresh(root, f"{code}\nimport sys\nprint(*{packages} & set(sys.modules))"))


def measure_import(root: Path, modules: list[str], before: str = "") -> tuple[float, set[str]]:
    """Import in a fresh interpreter; return the seconds and which heavy packages came along."""
    lines = [before, "import sys, time", "start = time.process_time()"]
    for name in modules:
        module, _, attribute = name.partition(":")
        lines.append(f"from {module} import {attribute}" if attribute else f"import {module}")
    lines.append(f"print(time.process_time() - start, *{TORCH} & set(sys.modules))")
    seconds, *heavy = run_fresh(root, "\n".join(lines))
    return float(seconds), set(heavy)


def is_fast(root: Path, modules: list[str], before: str = "") -> bool:
    """Whether one of a few tries is: what the import costs, not what the machine was busy with."""
    return any(measure_import(root, modules, before)[0] < 0.5 for _ in range(TRIES))


def test_lessonlib_and_theory_import_fast_and_without_torch(root):
    modules = ["lessonlib", "lessonlib.__main__", *list_modules(root, "lessonlib.theory")]
    assert measure_import(root, modules)[1] == set()
    assert is_fast(root, modules)


@pytest.mark.parametrize("number", LIGHT_LESSONS)
def test_first_lessons_need_no_torch(root, number):
    (file,) = (root / "solutions").glob(f"{number}_*.py")
    modules = list_lesson_imports(file)
    assert modules, "a lesson uses the course's library"
    assert measure_import(root, modules)[1] == set()
    # A kernel has IPython and ipywidgets loaded by its first widget; the course adds this much.
    assert is_fast(root, modules, before="import IPython, ipywidgets")


@pytest.mark.parametrize("name", NO_TORCH)
def test_what_needs_no_model_imports_no_torch(root, name):
    assert list_loaded(root, NO_TORCH[name], TORCH) == set()


@pytest.mark.parametrize("name", LIGHTER)
def test_what_starts_often_imports_even_less(root, name):
    code, packages = LIGHTER[name]
    assert list_loaded(root, code, TORCH | packages) == set()


def test_the_measurement_sees_torch(root):
    assert list_loaded(root, "import torch", TORCH) == {"torch"}
    seconds, heavy = measure_import(root, ["torch"])
    assert heavy == {"torch"}
    assert seconds > 0.1


def test_a_slow_import_is_noticed(root, monkeypatch):
    monkeypatch.setattr(f"{__name__}.TRIES", 1)
    assert not is_fast(root, ["lessonlib", "torch"])


@pytest.mark.parametrize("words", ['"### BEGIN SOLUTION"', ".parents[2]"])
def test_the_markers_and_the_checkouts_folder_are_written_down_once(root, words):
    files = sorted((root / "lessonlib").rglob("*.py"))
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    holders = [name for name, text in texts.items() if words in text]
    assert holders == (["hints.py"] if "BEGIN" in words else [])
