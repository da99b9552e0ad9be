"""Do notebook kernels and the Jupyter server come from one Python environment?

If not, `import lessonlib` fails in a notebook although it works in the terminal, and
widgets stay blank because the server lacks their JavaScript.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path, PurePath

from lessonlib.folders import shorten

KERNEL = "python3"
FIX = "start the lessons with 'python course.py lab' from a terminal"


def compare_environments() -> tuple[str, str]:
    """Return (what was found, how to fix it); the fix is empty when the two agree.

    Inside a notebook the server is a parent process; its Python is compared with this one.
    In a terminal the Python that Jupyter would start for a notebook is compared with this one.
    """
    here = find_environment(sys.executable)
    server = find_server()
    if server is not None:
        return judge("server", find_server_python(server), here)
    return judge("kernel", find_kernel_python(), here)


def judge(role: str, python: str | None, here: Path) -> tuple[str, str]:
    """Compare the other side's Python with the environment ``here``."""
    if python is None:
        seen = f"both in {shorten(here)}, as far as can be seen (the {role}'s Python is hidden)"
        return seen, ""
    there = find_environment(python)
    if there == here:
        return f"share {shorten(here)}", ""
    return f"differ: the {role} is in {there}, this Python in {here}", FIX


def find_environment(python: str) -> Path:
    """Return the folder of the environment that an interpreter belongs to.

    The interpreter's own link is not followed: in a virtual environment it leads out of it.

    >>> find_environment("/nowhere/env/bin/python3").as_posix()[-12:]
    '/nowhere/env'
    """
    folder = Path(python).absolute().parent
    if folder.name.lower() in ("bin", "scripts"):
        folder = folder.parent
    return folder.resolve()


def find_kernel_python() -> str:
    """Return the Python of the ``python3`` kernel; a bare name means the server's own."""
    from jupyter_client.kernelspec import KernelSpecManager

    program = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
    return sys.executable if re.fullmatch(r"python(\d(\.\d+)?)?", program) else program


def find_server():
    """Return the nearest parent process that is a Jupyter server, or None (psutil.Process)."""
    import psutil

    for parent in psutil.Process().parents():
        try:
            if is_server(parent.cmdline()):
                return parent
        except psutil.Error:
            continue
    return None


def is_server(command: list[str]) -> bool:
    """Whether a command line starts a Jupyter server.

    >>> is_server(["/env/bin/python", "/env/bin/jupyter-lab", "--no-browser"])
    True
    >>> is_server(["python", "-m", "ipykernel_launcher", "-f", "/jupyter/runtime/kernel-1.json"])
    False
    """
    words = [PurePath(word).name for word in command[:4]]
    ours = words[1:4] == ["-m", "lessonlib", "lab"]
    return ours or any(re.match(r"jupyter[-_]?(lab|hub|server|notebook|$)", word) for word in words)


def find_server_python(server) -> str | None:
    """Return the path of the Python that runs a process, or None if it cannot be seen."""
    import psutil

    try:
        program = server.cmdline()[0]
        if PurePath(program).is_absolute():
            return program
        return shutil.which(program, path=server.environ().get("PATH", ""))
    except (psutil.Error, IndexError):
        return None
