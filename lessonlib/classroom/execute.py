"""Run a solved notebook in a fresh kernel and keep only what is the same on every machine."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from lessonlib.classroom.assemble import METADATA, list_checks
from lessonlib.classroom.cells import is_measured
from lessonlib.classroom.regions import AuthoringError
from lessonlib.folders import ROOT

CELL_SECONDS = 300
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def execute_notebook(notebook: NotebookNode) -> None:
    """Execute in place, in a scratch folder, with progress kept in memory only.

    Raises `AuthoringError` with the cell's id and traceback when a cell fails.
    """
    with tempfile.TemporaryDirectory(prefix="lesson-") as scratch:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=40"],  # errors only on the author's terminal
            resources={"metadata": {"path": scratch}},
        )
        own = {"COURSE_PROGRESS": ":memory:", "IPYTHONDIR": str(Path(scratch, "ipython"))}
        try:
            client.execute(env={**os.environ, **own})
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            cell = _find_failed(notebook)
            trace = _COLOUR.sub("", str(error)).strip()
            raise AuthoringError(f"cell {cell} failed:\n{trace}") from None


def _find_failed(notebook: NotebookNode) -> str:
    """Return the id of the cell that raised, or of the first that did not finish."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    raised = [c.id for c in code if any(o.output_type == "error" for o in c.outputs)]
    unfinished = [c.id for c in code if c.execution_count is None]
    return (raised or unfinished or ["?"])[0]


def clean_outputs(notebook: NotebookNode) -> None:
    """Drop widget state and views; refuse what would differ on the next machine.

    A widget is stored as its SVG or text, which GitHub and other static viewers show.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        cell.outputs = [_clean(output, cell) for output in cell.outputs if _is_kept(output, cell)]


def _is_kept(output: NotebookNode, cell: NotebookNode) -> bool:
    if output.output_type != "stream" or output.name != "stderr":
        return True
    if not is_measured(cell):
        raise AuthoringError(
            f"cell {cell.id} writes to stderr ({output.text.strip()[:80]!r}); silence it, or tag "
            "the cell measured"
        )
    return False


def _clean(output: NotebookNode, cell: NotebookNode) -> NotebookNode:
    data = output.get("data", {})
    if data.pop(WIDGET_VIEW, None) is not None and not data:
        raise AuthoringError(f"cell {cell.id}: its widget leaves no text or SVG for static viewers")
    texts = [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    for folder in (ROOT, Path.home(), Path(sys.prefix)):
        if folder.parent != folder and any(str(folder) in text for text in texts):
            raise AuthoringError(
                f"cell {cell.id} shows a folder of this machine ({folder}); "
                "print it with lessonlib.folders.shorten"
            )
    address = _ADDRESS.search("\n".join(texts))
    if address and not is_measured(cell):
        raise AuthoringError(
            f"cell {cell.id} shows an address ({address[0]}), different in each run; "
            "give the object a repr, or end the line with a semicolon"
        )
    return output


def check_results(notebook: NotebookNode) -> list[str]:
    """Return one sentence for each cell that was not run, failed, or whose check is not ok."""
    faults = []
    for cell in notebook.cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        if cell.execution_count is None:
            faults.append(f"cell {cell.id} was not executed")
        if any(output.output_type == "error" for output in cell.outputs):
            faults.append(f"cell {cell.id} stopped with an error")
    for cell in list_checks(notebook):
        text = "".join(output.get("text", "") for output in cell.outputs)
        if not re.fullmatch(r"ex \S+ \S+: ok \(\d+ checks?\)\n", text):
            faults.append(f"cell {cell.id} does not say ok but {text.strip()!r}")
    return faults


def keep_measured(notebook: NotebookNode, stored: NotebookNode | None) -> None:
    """Take the outputs of measured cells from `stored` when all its code is the same."""
    if stored is None or _list_code(stored) != _list_code(notebook):
        return
    outputs = {cell.id: cell.get("outputs") for cell in stored.cells}
    for cell in notebook.cells:
        if cell.cell_type == "code" and is_measured(cell):
            cell.outputs = outputs[cell.id]


def _list_code(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "code"]
