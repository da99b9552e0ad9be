"""Progress survives crashes, odd files and read-only folders."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from lessonlib.exercises import progress, registry
from lessonlib.exercises.outcomes import to_plain_line
from tests.halving import make_exercise


@pytest.fixture
def file(monkeypatch, tmp_path):
    place = tmp_path / "work" / "progress.json"
    monkeypatch.setenv("COURSE_PROGRESS", str(place))
    monkeypatch.setattr(progress, "_session", {})
    monkeypatch.setattr(progress, "_unwritable", set())
    return place


def test_attempts_status_and_hints_are_kept(file):
    for status in ("not attempted", "wrong", "ok", "error"):
        progress.record_attempt("1.2", status)
    assert [progress.record_hint("1.2", 2) for _ in range(3)] == [1, 2, 2]
    assert progress.get_record("1.2") == {
        "status": "error",
        "attempts": 3,
        "hints": 2,
        "solved": True,
    }
    assert json.loads(file.read_text())["exercises"]["1.2"]["attempts"] == 3
    assert [f.name for f in file.parent.iterdir()] == ["progress.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff\xfe\x00",
        b'{"exercises": []}',
        b'{"exercises": {"1.2": 3}}',
        b'{"exercises": {"1.2": {"attempts": "many"}}}',
    ],
)
def test_a_corrupt_file_is_set_aside(file, content, capsys):
    file.parent.mkdir()
    file.write_bytes(content)
    progress.record_attempt("1.2", "wrong")
    assert progress.get_record("1.2")["attempts"] == 1
    (aside,) = file.parent.glob("progress.unreadable-*.json")
    assert aside.read_bytes() == content
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1


def test_an_older_file_without_a_field_is_read(file):
    file.parent.mkdir()
    file.write_text('{"exercises": {"1.2": {"status": "ok", "solved": true}}}')
    assert progress.get_record("1.2") == {"status": "ok", "attempts": 0, "hints": 0, "solved": True}


def test_an_unwritable_place_costs_only_one_sentence(file, capsys):
    file.parent.parent.joinpath("work").write_text("a file where the folder should be")
    for _ in range(3):
        progress.record_attempt("1.2", "wrong")
    assert progress.get_record("1.2")["attempts"] == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_suite_and_what_it_starts_leave_the_learners_progress_alone():
    code = "from lessonlib.exercises.progress import find_progress_file as f; print(f())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_memory_leaves_no_file(file, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", progress.IN_MEMORY)
    progress.record_attempt("1.2", "wrong")
    assert progress.get_record("1.2")["attempts"] == 1
    assert not file.exists()


def test_a_crash_while_writing_keeps_the_old_file(file, monkeypatch):
    progress.record_attempt("1.2", "ok")
    before = file.read_bytes()

    def crash(*_):
        raise OSError("disk full")

    monkeypatch.setattr("lessonlib.exercises.files.os.replace", crash)
    progress.record_attempt("1.2", "wrong")
    assert file.read_bytes() == before
    assert [f.name for f in file.parent.iterdir()] == ["progress.json"]
    assert progress.get_record("1.2")["attempts"] == 2


def test_the_table_lists_every_exercise(file, monkeypatch, capsys):
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(make_exercise(points=3), make_exercise(id="98.2", name="third"))
    progress.record_attempt("98.1", "ok")
    progress.record_attempt("98.1", "wrong")
    assert progress.main([]) == 0
    out = capsys.readouterr().out
    assert "Lesson 98: 1 of 2 solved, 3 of 4 points" in out
    row = next(line for line in out.splitlines() if "98.1" in line)
    assert re.split(r"\s{2,}", row.strip()) == ["98.1", "half", "ok", "3 of 3", "2", "0 of 2"]
    row = next(line for line in out.splitlines() if "98.2" in line)
    assert re.split(r"\s{2,}", row.strip())[2:4] == ["not attempted", "0 of 1"]


LONG = "acceptance_probability_of_siblings"


def test_a_narrow_window_folds_a_name_and_cuts_nothing(file, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(make_exercise(name=LONG))
    progress.main([])
    lines = capsys.readouterr().out.partition("Lesson 98")[2].splitlines()
    head = next(line for line in lines if "status" in line)
    name = slice(head.index("name"), head.index("status"))
    assert "".join(line[name].strip(" ─") for line in lines[2:]) == LONG


def test_every_lesson_of_the_course_fits_into_80_columns(file, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    progress.main([])
    out = capsys.readouterr().out
    for lesson in registry.list_lessons():
        for exercise in registry.load_lesson(lesson):
            assert f" {exercise.name} " in out


@pytest.mark.parametrize("status", ["[bold]x[/nothing]", "\x1b[31mred", "a\nb"])
def test_an_odd_status_is_shown_as_text(file, monkeypatch, capsys, status):
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(make_exercise())
    progress.write_progress({"98.1": {**progress._NEW, "status": status}})
    assert progress.main([]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert to_plain_line(status) in out


def test_progress_explains_itself_and_takes_no_arguments(capsys):
    for words, status in ((["--help"], 0), (["1.2"], 2)):
        with pytest.raises(SystemExit) as end:
            progress.main(words)
        assert end.value.code == status
    captured = capsys.readouterr()
    assert "which exercises you have solved" in captured.out
    assert "1.2" in captured.err
