"""Writing a file so that a crash leaves the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(file: Path, text: str) -> None:
    """Write `text` to `file` in one step, making its folder where needed.

    Raises OSError, with the old file intact, when that cannot be done.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(draft, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
