"""Progress survives crashes, odd files and read-only folders."""

from __future__ import annotations

import json

import pytest

from lessonlib.exercises import progress, registry
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
    registry.register(make_exercise(), make_exercise(id="98.2", name="third", minutes=7))
    progress.record_attempt("98.1", "ok")
    progress.record_attempt("98.1", "wrong")
    assert progress.main([]) == 0
    out = capsys.readouterr().out
    assert "Lesson 98: 1 of 2 solved" in out
    row = next(line for line in out.splitlines() if "98.1" in line)
    assert [c.strip() for c in row.strip("│ ").split("│")] == [
        "98.1", "half", "ok", "2", "0 of 2", "5",
    ]  # fmt: skip
    assert "not attempted" in next(line for line in out.splitlines() if "98.2" in line)
