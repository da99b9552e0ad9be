"""The parts of README.md that are made, not written: the widget's picture and the tables.

``python -m lessonlib.classroom.readme`` renews them. Each stands between two comments
that name it; a test holds the cheap ones to what they are made from.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from lessonlib.classroom.assemble import read_lesson
from lessonlib.exercises.registry import load_lesson
from lessonlib.folders import ROOT
from lessonlib.lab.bench_report import write_markdown
from lessonlib.lab.pairs import bundled_folder
from lessonlib.widgets.chart import stack
from lessonlib.widgets.lesson01 import drag_p_and_q

PICTURE = ROOT / "lessonlib" / "data" / "widget.svg"
BENCH = ROOT / "lessonlib" / "data" / "bench.json"
DEMO = 'demo --prompt "def read_config(path):" --K 4 --temperature 0.8 --seed 1'


def draw_picture() -> str:
    """Lesson 01's first widget as SVG."""
    return stack([plot.chart for plot in drag_p_and_q().plots]) + "\n"


def write_pair_table(folder: Path | None = None) -> str:
    """The bundled pair by its cards: losses and α by temperature."""
    folder = folder or bundled_folder()
    target, draft = (
        json.loads((folder / part / "card.json").read_text(encoding="utf-8"))
        for part in ("target", "draft")
    )
    rows = [["", "target", "draft"], ["---"] * 3]
    for name in ("shape", "parameters", "tokens seen", "time"):
        rows.append([name, target["training"][name], draft["training"][name]])
    losses = [f"{card['held_out_loss']:.3f} nats/token" for card in (target, draft)]
    rows.append(["held-out loss", *losses])
    rows += [[f"α at T = {t}", "", f"{alpha:.3f}"] for t, alpha in draft["alpha"].items()]
    rows.append(["made by", f"`{target['command']}`", f"`{draft['command']}`"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write_bench_table(file: Path = BENCH) -> str:
    """What ``course.py bench --json`` measured and stored in ``file``; nothing is run here."""
    if not file.exists():
        command = f"python course.py bench --json {BENCH.relative_to(ROOT).as_posix()}"
        return f"Not measured yet: run `{command}`."
    return write_markdown(json.loads(file.read_text(encoding="utf-8")))


def write_lesson_table(root: Path = ROOT) -> str:
    """The lessons that are here, with their exercises and points."""
    rows = ["| | lesson | exercises | points | minutes of exercises |", "|---|---|---|---|---|"]
    for source in sorted((root / "solutions").glob("[0-9][0-9]_*.py")):
        title = read_lesson(source).cells[0].source.splitlines()[0].lstrip("# ")
        number, name = title.split(" ", 1)
        exercises = load_lesson(number)
        names = ", ".join(f"{exercise.id} {exercise.name}" for exercise in exercises)
        points, minutes = (sum(getattr(e, key) for e in exercises) for key in ("points", "minutes"))
        link = f"[{name}](notebooks/{source.stem}.ipynb)"
        rows.append(f"| {number} | {link} | {names} | {points} | {minutes} |")
    return "\n".join(rows)


def run_demo() -> str:
    """What the demo command prints here and now."""
    command = [sys.executable, "-m", "lessonlib", *shlex.split(DEMO)]
    # On the CPU, where every machine writes the same text.
    settings = {**os.environ, "COURSE_DEVICE": "cpu", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, encoding="utf-8", check=True
    )
    return f"```\n$ python course.py {DEMO}\n{done.stdout.rstrip()}\n```"


def read_part(text: str, name: str) -> str:
    """What stands between the comments of one made part."""
    return _pattern(name).search(text)[2].strip("\n")


def replace_part(text: str, name: str, content: str) -> str:
    """The text with one made part renewed.

    >>> replace_part("<!-- x: made -->\\nold\\n<!-- x: end -->", "x", "new")
    '<!-- x: made -->\\nnew\\n<!-- x: end -->'
    """
    return _pattern(name).sub(lambda found: f"{found[1]}\n{content}\n{found[3]}", text)


def _pattern(name: str) -> re.Pattern:
    return re.compile(rf"(<!-- {name}: made -->)(.*?)(<!-- {name}: end -->)", re.DOTALL)


def main() -> None:
    """Renew the picture, the tables and the demo in README.md."""
    PICTURE.write_text(draw_picture(), encoding="utf-8", newline="\n")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    parts = {
        "lessons": write_lesson_table(),
        "pair": write_pair_table(),
        "bench": write_bench_table(),
        "demo": run_demo(),
    }
    for name, content in parts.items():
        text = replace_part(text, name, content)
    readme.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
