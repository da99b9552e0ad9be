"""The README says what is true: its commands run, its made parts are what they are made from."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from lessonlib.__main__ import COMMANDS
from lessonlib.classroom import readme

TEXT = (readme.ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_LINES = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]
# Covered by tests of their own: set-up, the suite itself, work copies, strict nbval.
ELSEWHERE = (
    "python course.py lab",
    "python course.py test",
    "python course.py reset",
)


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """Nobody reads the seconds here."""
    monkeypatch.setenv("COURSE_REPEATS", "1")


def test_every_command_of_the_table_is_a_word():
    words = [line.split()[2] for line in COMMAND_LINES if line.startswith("python course.py")]
    assert set(words) == set(COMMANDS)


@pytest.mark.parametrize("line", [x for x in COMMAND_LINES if not x.startswith(ELSEWHERE)])
def test_the_commands_run(line):
    words = shlex.split(line)
    assert words[:2] == ["python", "course.py"]
    done = subprocess.run(
        [sys.executable, "-m", "lessonlib", *words[2:]],
        cwd=readme.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_the_picture_is_the_widget():
    assert readme.PICTURE.read_text(encoding="utf-8") == readme.draw_picture()


def test_the_tables_are_the_cards_and_the_lessons():
    assert readme.read_part(TEXT, "pair") == readme.write_pair_table()
    assert readme.read_part(TEXT, "lessons") == readme.write_lesson_table()


def test_the_demo_shows_the_text_this_pair_writes():
    """Seconds differ from run to run; the text and the counts do not."""

    before_the_seconds = [
        block.partition("\nplain ")[0]
        for block in (readme.read_part(TEXT, "demo"), readme.run_demo())
    ]
    assert before_the_seconds[0] == before_the_seconds[1]


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(targets) >= 4
    missing = [path for path in targets if not (readme.ROOT / path).exists()]
    assert missing == []
