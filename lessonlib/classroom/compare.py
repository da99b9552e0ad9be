"""Hold stored notebooks against what their sources give, and say where they differ."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from lessonlib.classroom.execute import WIDGET_VIEW, check_results


def compare_student(file: Path, wanted: str) -> list[str]:
    """Return the differences of a learner's notebook, which must be the same bytes."""
    name = f"notebooks/{file.name}"
    stored, faults = _load(file, name)
    if stored is None:
        return faults
    differences = _compare_cells(stored, json.loads(wanted), name)
    if not differences and file.read_text(encoding="utf-8") != wanted:
        differences.append(f"{name}: written differently from what build writes")
    return differences


def compare_solved(file: Path, wanted: NotebookNode) -> list[str]:
    """Return the differences of an executed notebook, outputs aside, and what did not run."""
    name = f"solutions/{file.name}"
    stored, faults = _load(file, name)
    if stored is None:
        return faults
    differences = _compare_cells(_strip_outputs(stored), json.loads(nbformat.writes(wanted)), name)
    if differences:
        return differences
    notebook = nbformat.reads(json.dumps(stored), as_version=4)
    views = [c.id for c in notebook.cells if WIDGET_VIEW in json.dumps(c.get("outputs", []))]
    stderr = [
        c.id for c in notebook.cells if any(o.get("name") == "stderr" for o in c.get("outputs", []))
    ]
    faults += [f"cell {cell_id} stores a widget view" for cell_id in views]
    faults += [f"cell {cell_id} stores stderr" for cell_id in stderr]
    return [f"{name}: {fault}" for fault in faults + check_results(notebook)]


def find_strays(root: Path, slugs: list[str]) -> list[str]:
    """Return a line for each notebook that no source stands behind."""
    return [
        f"{folder}/{file.name}: no source solutions/{file.stem}.py"
        for folder in ("notebooks", "solutions")
        for file in sorted((root / folder).glob("*.ipynb"))
        if file.stem not in slugs
    ]


def _load(file: Path, name: str) -> tuple[dict[str, Any] | None, list[str]]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        stored["cells"], stored["metadata"]
    except FileNotFoundError:
        return None, [f"{name}: missing; run `python course.py build {file.stem[:2]}`"]
    except (ValueError, KeyError, TypeError):
        return None, [f"{name}: not a notebook"]
    return stored, []


def _strip_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    bare = copy.deepcopy(notebook)
    for cell in bare["cells"]:
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return bare


def _compare_cells(stored: dict[str, Any], wanted: dict[str, Any], name: str) -> list[str]:
    """Compare ids and order first, then each cell, then the notebook's own metadata."""
    old = {cell.get("id"): cell for cell in stored["cells"]}
    new = {cell["id"]: cell for cell in wanted["cells"]}
    lines = [f"{name}: cell {i} is missing" for i in new if i not in old]
    lines += [f"{name}: cell {i} is not in the source" for i in old if i not in new]
    if not lines and [c.get("id") for c in stored["cells"]] != list(new):
        lines.append(f"{name}: the cells stand in another order")
    for cell_id in (i for i in new if i in old):
        fields = sorted(set(old[cell_id]) | set(new[cell_id]))
        wrong = [f for f in fields if old[cell_id].get(f) != new[cell_id].get(f)]
        if wrong:
            lines.append(f"{name}: cell {cell_id} differs in {', '.join(wrong)}")
    for field in ("metadata", "nbformat", "nbformat_minor"):
        if stored.get(field) != wanted[field]:
            lines.append(f"{name}: the notebook's {field} differs")
    return lines
