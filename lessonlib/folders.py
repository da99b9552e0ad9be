"""Where the course lies, and how to write a folder where others will read it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def shorten(path: Path) -> str:
    """A path without the names of this machine: from the course, from home, or its last part.

    A notebook stores what it prints, and a learner needs no folder of the author's.

    >>> shorten(ROOT / "work")
    'work'
    >>> shorten(Path.home() / "other" / "folder")
    '~/other/folder'
    >>> shorten(Path("/opt/conda"))
    '.../conda'
    """
    for base, sign in ((ROOT, ""), (Path.home(), "~/")):
        if path != base and path.is_relative_to(base):
            return sign + path.relative_to(base).as_posix()
    return f".../{path.name}"
