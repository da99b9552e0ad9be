"""Student work is never overwritten, and one exercise can be restored alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessonlib.classroom.workcopies import Refused, main_reset, prepare

NAME = "01_proof.ipynb"


def code(cell_id, source, **metadata):
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": cell_id,
        "metadata": metadata,
        "outputs": [],
        "source": [source],
    }


def make_cells():
    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Proof"]}]
    for number in (1, 2):
        for role in ("answer", "check"):
            own = {"exercise": f"1.{number}", "role": role, "points": 1}
            cells.append(code(f"ex-1-{number}-{role}", f"pristine {role} {number}", **own))
    return cells


def write_notebook(file: Path, cells, **changes):
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **changes}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.fixture
def root(tmp_path):
    write_notebook(tmp_path / "notebooks" / NAME, make_cells())
    write_notebook(tmp_path / "notebooks" / "02_speed.ipynb", make_cells()[:1])
    return tmp_path


@pytest.fixture
def mine(root):
    """A work copy in which everything was edited."""
    file = prepare(root) / NAME
    cells = make_cells()
    for cell in cells:
        cell["source"] = [f"my α {cell['id']}"]
    cells[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["mine"]}]
    write_notebook(file, cells)
    return file


def sources(file):
    return [
        "".join(cell["source"]) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]
    ]


def backups(file):
    return sorted(file.parent.glob(f"{file.stem}_backup-*.ipynb"))


def test_copies_are_made_once_and_then_left_alone(root, mine, capsys):
    before = mine.read_bytes()
    assert prepare(root) == root / "work"
    assert mine.read_bytes() == before
    assert (root / "work" / "02_speed.ipynb").exists()
    assert capsys.readouterr().out == ""


def test_a_deleted_copy_is_made_again(root, mine):
    mine.unlink()
    prepare(root)
    assert mine.read_bytes() == (root / "notebooks" / NAME).read_bytes()


def test_a_newer_version_is_announced_and_the_work_kept(root, mine, capsys):
    before = mine.read_bytes()
    write_notebook(root / "notebooks" / NAME, make_cells()[:3])
    for _ in range(2):
        prepare(root)
        out = capsys.readouterr().out
        assert len(out.splitlines()) == 1
        assert f"newer notebooks/{NAME}" in out
    assert mine.read_bytes() == before


@pytest.mark.parametrize("note", ["{", "[]", None])
def test_a_lost_note_of_versions_costs_no_work(root, mine, note, capsys):
    shipped = root / "work" / ".shipped.json"
    shipped.unlink() if note is None else shipped.write_text(note)
    before = mine.read_bytes()
    prepare(root)
    assert mine.read_bytes() == before
    assert "newer" in capsys.readouterr().out


def test_reset_restores_one_exercise_and_nothing_else(root, mine, capsys):
    before = mine.read_bytes()
    assert main_reset(["1.2"], root) == 0
    assert sources(mine) == [
        "my α title",
        "my α ex-1-1-answer",
        "my α ex-1-1-check",
        "pristine answer 2",
        "pristine check 2",
    ]
    (backup,) = backups(mine)
    assert backup.read_bytes() == before
    assert backup.name in capsys.readouterr().out
    old, new = json.loads(before), json.loads(mine.read_bytes())
    assert old["cells"][:3] == new["cells"][:3]


def test_a_second_reset_in_the_same_second_keeps_both_backups(root, mine):
    assert main_reset(["1.2"], root) == main_reset(["1.1"], root) == 0
    assert len(backups(mine)) == 2


def test_the_first_notebook_in_work_is_still_the_first(root, mine):
    main_reset(["1.2"], root)
    assert min((root / "work").glob("*.ipynb")).name == NAME


def test_reset_of_a_lesson_keeps_a_backup(root, mine, capsys):
    before = mine.read_bytes()
    write_notebook(root / "notebooks" / NAME, make_cells()[:3])
    assert main_reset(["1"], root) == 0
    assert mine.read_bytes() == (root / "notebooks" / NAME).read_bytes()
    assert [b.read_bytes() for b in backups(mine)] == [before]
    capsys.readouterr()
    prepare(root)
    assert capsys.readouterr().out == ""


def test_deleted_cells_come_back_in_their_place(root, mine):
    cells = [c for c in json.loads(mine.read_bytes())["cells"] if "1-1" not in c["id"]]
    write_notebook(mine, cells)
    assert main_reset(["1.1"], root) == 0
    assert sources(mine) == [
        "my α title",
        "pristine answer 1",
        "pristine check 1",
        "my α ex-1-2-answer",
        "my α ex-1-2-check",
    ]


@pytest.mark.parametrize("given", ["1.02", "01.2", "01.02"])
def test_an_exercise_can_be_written_with_zeros(root, mine, given, capsys):
    assert main_reset([given], root) == 0
    assert capsys.readouterr().out.startswith("exercise 1.2 in ")
    assert sources(mine)[3:] == ["pristine answer 2", "pristine check 2"]


def test_an_answer_cell_with_a_new_id_is_still_the_answer(root, mine):
    """JupyterLab gives a cell that was copied or split another id."""
    cells = json.loads(mine.read_bytes())["cells"]
    cells[3]["id"] = "a1b2c3d4"
    write_notebook(mine, cells)
    assert main_reset(["1.2"], root) == 0
    assert sources(mine)[2:] == ["my α ex-1-1-check", "pristine answer 2", "pristine check 2"]


def test_a_copy_beside_the_answer_is_left_alone(root, mine):
    cells = json.loads(mine.read_bytes())["cells"]
    write_notebook(mine, [*cells[:3], {**cells[3], "id": "copy"}, *cells[3:]])
    assert main_reset(["1.2"], root) == 0
    assert sources(mine)[3:] == ["my α ex-1-2-answer", "pristine answer 2", "pristine check 2"]


def test_two_answers_with_new_ids_are_not_guessed_between(root, mine, capsys):
    cells = json.loads(mine.read_bytes())["cells"]
    twice = [{**cells[3], "id": name} for name in ("one", "two")]
    write_notebook(mine, [*cells[:3], *twice, cells[4]])
    assert main_reset(["1.2"], root) == 1
    assert "2 cells ex-1-2-answer" in capsys.readouterr().out


def test_an_answer_without_its_marks_does_not_win_over_the_stub(root, mine):
    """It stays, above: Run All ends with the stub, and the check says so."""
    cells = json.loads(mine.read_bytes())["cells"]
    cells[3] = code("mine", "my own cell")
    write_notebook(mine, cells)
    assert main_reset(["1.2"], root) == 0
    assert sources(mine)[3:] == ["my own cell", "pristine answer 2", "pristine check 2"]


def test_a_file_called_work_is_one_sentence(root, capsys):
    (root / "work").write_text("notes")
    with pytest.raises(Refused, match=r"work is a file, .*rename the file"):
        prepare(root)
    for what in ("1", "1.2"):
        assert main_reset([what], root) == 1
        assert len(capsys.readouterr().out.splitlines()) == 1
    assert (root / "work").read_text() == "notes"


def test_a_file_without_cell_ids_is_matched_by_exercise_and_role(root, mine):
    cells = json.loads(mine.read_bytes())["cells"]
    for cell in cells:
        del cell["id"]
    write_notebook(mine, cells, nbformat_minor=4)
    assert main_reset(["1.2"], root) == 0
    assert sources(mine)[2:] == ["my α ex-1-1-check", "pristine answer 2", "pristine check 2"]
    assert all("id" not in cell for cell in json.loads(mine.read_bytes())["cells"])


def doubled(cells):
    return [*cells, cells[3]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"worksheets": [], "nbformat": 3}, "old notebook format"),
        ({"cells": doubled(make_cells()), "nbformat": 4}, "2 cells ex-1-2-answer"),
        ({"cells": ["x"]}, "old notebook format"),
        ([], "old notebook format"),
        (None, "not readable as a notebook"),
    ],
)
def test_a_file_that_cannot_be_reset_safely_is_left_alone(root, mine, content, sentence, capsys):
    mine.write_text("{" if content is None else json.dumps(content))
    before = mine.read_bytes()
    assert main_reset(["1.2"], root) == 1
    out = capsys.readouterr().out
    assert sentence in out
    assert len(out.splitlines()) == 1
    assert mine.read_bytes() == before
    assert backups(mine) == []


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("1.9", "there is no exercise 1.9; 01_proof has 1.1, 1.2"),
        ("7.1", "there is no lesson 07; notebooks/ holds 01, 02"),
        ("07", "there is no lesson 07; notebooks/ holds 01, 02"),
        ("one", "'one' is not an exercise id"),
    ],
)
def test_a_wrong_word_gets_one_sentence(root, mine, what, sentence, capsys):
    assert main_reset([what], root) == 1
    assert sentence in capsys.readouterr().out


def test_reset_before_the_first_lab_says_so(root, capsys):
    assert main_reset(["1.1"], root) == 1
    assert "does not exist" in capsys.readouterr().out
