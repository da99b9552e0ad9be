"""Solution regions: whole lines from `### BEGIN SOLUTION` to `### END SOLUTION`.

The solved notebook keeps what is between them, the learner's notebook gets a stub there.
Everything is a function from text to text; a fault names the file and the line.
"""

from __future__ import annotations

import ast
import re

from lessonlib.exercises.hints import BEGIN, END

_ALMOST = re.compile(r"#\s*(BEGIN|END)[\s_-]*SOLUTION", re.IGNORECASE)
_CELL = re.compile(r"# %%(?P<head>.*)")


class AuthoringError(Exception):
    """A lesson's source breaks a rule; the message says where and what to do."""


def check_markers(text: str, name: str) -> None:
    """Raise `AuthoringError` unless all markers in a py:percent text are well placed.

    >>> check_markers("# %%\\n### BEGIN SOLUTION\\n", "x.py")
    Traceback (most recent call last):
    lessonlib.classroom.regions.AuthoringError: x.py:2: a solution outside an answer cell
    """
    head: tuple[int, str] = (1, "")
    body: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), "# %%"], start=1):
        if cell := _CELL.fullmatch(line):
            _check_cell(head, body, name)
            head, body = (number, cell["head"]), []
        else:
            body.append((number, line))


def _check_cell(head: tuple[int, str], body: list[tuple[int, str]], name: str) -> None:
    """Check the markers among one cell's numbered lines."""
    is_answer = 'role="answer"' in head[1]
    opened, regions = 0, 0
    for number, line in body:
        if not _ALMOST.search(line):
            continue
        if "[markdown]" in head[1]:
            raise AuthoringError(f"{name}:{number}: a solution marker in a markdown cell")
        if line.strip() not in (BEGIN, END):
            raise AuthoringError(f"{name}:{number}: write {BEGIN} or {END} alone on its line")
        if not is_answer:
            raise AuthoringError(f"{name}:{number}: a solution outside an answer cell")
        if line.strip() == BEGIN and opened:
            raise AuthoringError(f"{name}:{number}: nested {BEGIN}, the first is on line {opened}")
        if line.strip() == END and not opened:
            raise AuthoringError(f"{name}:{number}: {END} without {BEGIN}")
        regions += line.strip() == END
        opened = number if line.strip() == BEGIN else 0
    if opened:
        raise AuthoringError(f"{name}:{opened}: {BEGIN} without {END} in the same cell")
    if is_answer and not regions:
        raise AuthoringError(f"{name}:{head[0]}: an answer cell without {BEGIN} ... {END}")


def remove_markers(source: str) -> str:
    """Return the cell as a solved notebook shows it."""
    return "\n".join(line for line in source.splitlines() if line.strip() not in (BEGIN, END))


def put_stub(source: str, exercise_id: str) -> str:
    """Return the cell with every region replaced by a line that raises NotImplementedError.

    >>> print(put_stub("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n    ### END SOLUTION",
    ...                "1.2"))
    def f():
        raise NotImplementedError("exercise 1.2")
    """
    lines: list[str] = []
    inside = False
    for line in source.splitlines():
        if line.strip() == BEGIN:
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f'{indent}raise NotImplementedError("exercise {exercise_id}")')
        if line.strip() in (BEGIN, END):
            inside = line.strip() == BEGIN
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def check_stub(stub: str, solved: str, exercise_id: str, name: str) -> None:
    """Raise `AuthoringError` unless the answer defines `name` and each stub is a function's body.

    A stub anywhere else would stop "Run All", and a docstring inside the region would leave the
    learner without a specification.
    """
    where = f"answer cell of exercise {exercise_id}"
    try:
        tree = ast.parse(stub)
        ast.parse(solved)
    except SyntaxError as error:
        raise AuthoringError(f"{where}: not Python once stubbed or solved: {error}") from None
    defined = [node.name for node in tree.body if hasattr(node, "name")]
    if name not in defined:
        raise AuthoringError(f"{where}: it must define {name}, the exercise's name")
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    covered = {line for f in functions for line in range(f.lineno + 1, (f.end_lineno or 0) + 1)}
    stub_line = f'raise NotImplementedError("exercise {exercise_id}")'
    for number, line in enumerate(stub.splitlines(), start=1):
        if line.strip() == stub_line and number not in covered:
            raise AuthoringError(
                f"{where}: the region must be inside a function; keep its def line and docstring "
                f"outside {BEGIN}"
            )
    for function in functions:
        body = ast.get_source_segment(stub, function) or ""
        if stub_line in body and ast.get_docstring(function) is None:
            raise AuthoringError(f"{where}: {function.name} needs a docstring outside the region")
