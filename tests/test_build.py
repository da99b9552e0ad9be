"""From a lesson's source to its two notebooks: what is written, and what is refused."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lessonlib.classroom import build as building
from lessonlib.classroom.assemble import list_checks, make_student, read_lesson
from lessonlib.classroom.build import build, check
from lessonlib.classroom.cells import clean_metadata
from lessonlib.classroom.execute import WIDGET_VIEW, clean_outputs, execute_notebook
from lessonlib.classroom.regions import AuthoringError
from tests.halving import make_exercise

ROOT = Path(__file__).resolve().parents[1]
SLUG = "98_halving"
SOURCE = '''# %% [markdown]
# # Halving
# *Half is enough.*

# %%
from lessonlib.exercises import register
from tests.halving import make_exercise

register(make_exercise())

# %% [markdown] exercise="98.1" role="intro"
# ## Exercise 98.1: half
# Write it.

# %% exercise="98.1" role="answer"
def half(n):
    """Return half of n."""
    ### BEGIN SOLUTION
    # the floor is what the checks expect
    whole_part = n // 2
    return whole_part
    ### END SOLUTION

# %% exercise="98.1" role="check"
from lessonlib.exercises import check

check("98.1", half)

# %% exercise="98.1" role="demo"
6 // 2

# %% tags=["measured"]
import sys
import time

print(time.perf_counter_ns())
print("a warning", file=sys.stderr)

# %% id="picture"
class Picture:
    def _repr_mimebundle_(self, **kwargs):
        view = {"model_id": "0123", "version_major": 2, "version_minor": 0}
        return {
            "application/vnd.jupyter.widget-view+json": view,
            "image/svg+xml": "<svg/>",
            "text/plain": "a picture",
        }


Picture()
'''


def load(lesson):
    return (make_exercise(),) if lesson == "98" else ()


def write_course(root: Path, source: str = SOURCE) -> Path:
    (root / "solutions").mkdir(parents=True, exist_ok=True)
    (root / "notebooks").mkdir(exist_ok=True)
    file = root / "solutions" / f"{SLUG}.py"
    file.write_text(source, encoding="utf-8")
    return file


def edit_json(file: Path, change) -> None:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    change(notebook)
    file.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def cell_of(notebook, cell_id):
    return next(cell for cell in notebook["cells"] if cell["id"] == cell_id)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory):
    """A course of one lesson, built for real in a kernel."""
    root = tmp_path_factory.mktemp("course")
    write_course(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        build(root, load=load)
    return root


@pytest.fixture
def course(built_once, tmp_path, monkeypatch):
    """A copy of the built course, free to be broken."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return shutil.copytree(built_once, tmp_path / "course")


@pytest.fixture
def student(course):
    return course / "notebooks" / f"{SLUG}.ipynb"


@pytest.fixture
def solved(course):
    return course / "solutions" / f"{SLUG}.ipynb"


def read(file):
    return nbformat.reads(file.read_text(encoding="utf-8"), as_version=4)


def run_nbval(file, *options):
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q"]
    return subprocess.run(
        [*command, "--nbval-cell-timeout", "60", "-p", "no:cacheprovider", *options, str(file)],
        capture_output=True,
        text=True,
        cwd=file.parent,
        env={**os.environ, "COURSE_PROGRESS": ":memory:"},
    )


def test_ids_say_what_cells_are(student, solved):
    wanted = [
        "halving",
        "from-lessonlib-exercises-import-register",
        "ex-98-1-intro",
        "ex-98-1-answer",
        "ex-98-1-check",
        "ex-98-1-hint",
        "ex-98-1-demo",
        "import-sys",
        "picture",
    ]
    assert [cell.id for cell in read(student).cells] == wanted
    assert [cell.id for cell in read(solved).cells] == wanted


def test_ids_do_not_move_when_other_cells_do(tmp_path):
    more = SOURCE.replace(
        "# %% [markdown] exercise", "# %% [markdown]\n# More.\n\n# %% [markdown] exercise"
    )
    before = {c.id for c in read_lesson(write_course(tmp_path / "a"), load).cells}
    after = {c.id for c in read_lesson(write_course(tmp_path / "b", more), load).cells}
    assert after - before == {"more"}
    assert before <= after


def test_the_student_notebook_has_stubs_and_no_outputs(student):
    notebook = read(student)
    answer = cell_of(notebook, "ex-98-1-answer")
    assert answer.source == (
        'def half(n):\n    """Return half of n."""\n    raise NotImplementedError("exercise 98.1")'
    )
    assert answer.metadata == {"exercise": "98.1", "role": "answer", "points": 1}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert student.stat().st_size < building.MAX_STUDENT_BYTES


NEXT = "# *Half is enough.*\n#\n# Next: **99, doubling**: twice is better."


def test_the_next_lesson_is_a_link_once_it_is_there(tmp_path):
    source = write_course(tmp_path, SOURCE.replace("# *Half is enough.*", NEXT))
    (text,) = [cell.source for cell in read_lesson(source, load).cells if cell.id == "halving"]
    assert text.endswith("Next: **99, doubling**: twice is better.")
    (tmp_path / "solutions" / "99_doubling.py").touch()
    (text,) = [cell.source for cell in read_lesson(source, load).cells if cell.id == "halving"]
    assert text.endswith("Next: [**99, doubling**](99_doubling.ipynb): twice is better.")


def test_the_lessons_lead_to_each_other():
    sources = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
    for here, following in itertools.pairwise(sources):
        text = "\n".join(cell.source for cell in read_lesson(here).cells)
        assert f"]({following.stem}.ipynb)" in text, here.name


def test_card_hints_and_help_come_from_the_exercise(student):
    notebook = read(student)
    intro = cell_of(notebook, "ex-98-1-intro").source
    assert intro == (
        "## Exercise 98.1: half\n\n"
        "**Goal:** Halve a number. *(about 5 minutes, difficulty 1 of 3, 1 point)*\n\nWrite it."
    )
    hints = cell_of(notebook, "ex-98-1-hint").source
    assert hints.count("<details>") == hints.count("</details>") == 3
    assert hints.index("Think of division") < hints.index("Use //")
    assert r"| you get <0.5> | check \| the operator |" in hints


def test_the_solved_notebook_is_executed_clean_and_free_of_markers(solved):
    notebook = read(solved)
    text = solved.read_text()
    assert "SOLUTION" not in text
    assert notebook.metadata == {
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    picture = cell_of(notebook, "picture").outputs[0].data
    assert set(picture) == {"image/svg+xml", "text/plain"}
    check_cell = cell_of(notebook, "ex-98-1-check")
    assert check_cell.outputs[0].text == "ex 98.1 half: ok (2 checks)\n"
    measured = cell_of(notebook, "import-sys")
    assert [output.name for output in measured.outputs] == ["stdout"]
    assert measured.metadata.tags == ["measured", "nbval-ignore-output"]


def test_two_builds_write_the_same_bytes_unless_told_to_measure_again(course, student, solved):
    before = student.read_bytes(), solved.read_bytes()
    build(course, load=load)
    assert (student.read_bytes(), solved.read_bytes()) == before
    build(course, remeasure=True, load=load)
    assert student.read_bytes() == before[0]
    assert solved.read_bytes() != before[1]


def test_measured_outputs_are_renewed_when_the_code_changed(course, solved):
    before = cell_of(read(solved), "import-sys").outputs
    write_course(course, SOURCE.replace("6 // 2", "8 // 2"))
    build(course, load=load)
    assert cell_of(read(solved), "import-sys").outputs != before
    assert cell_of(read(solved), "ex-98-1-demo").outputs[0].data["text/plain"] == "4"


def test_check_passes_on_what_build_wrote(course):
    assert check(course, load=load) == []


def test_progress_of_the_builder_is_left_alone(course, monkeypatch, tmp_path):
    place = tmp_path / "progress.json"
    monkeypatch.setenv("COURSE_PROGRESS", str(place))
    build(course, load=load)
    assert not place.exists()


def test_strict_nbval_passes_and_sees_a_differing_output(solved):
    done = run_nbval(solved)
    assert done.returncode == 0, done.stdout
    edit_json(
        solved,
        lambda nb: cell_of(nb, "ex-98-1-demo")["outputs"][0]["data"].update({"text/plain": "4"}),
    )
    done = run_nbval(solved)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


def test_an_unsolved_notebook_runs_to_its_end(student):
    notebook = read(student)
    execute_notebook(notebook)
    (check_cell,) = list_checks(notebook)
    assert [output.text for output in check_cell.outputs] == ["ex 98.1 half: not attempted\n"]
    assert cell_of(notebook, "ex-98-1-demo").outputs[0].data["text/plain"] == "3"


def test_what_an_answer_prints_or_displays_stays_out_of_the_check_cell(student):
    notebook = read(student)
    body = 'from IPython.display import HTML, display\n    display(HTML("<i>seen</i>"))\n    '
    answer = cell_of(notebook, "ex-98-1-answer")
    answer.source = f"def half(n):\n    {body}print(n)\n    return n // 3"
    execute_notebook(notebook)
    (check_cell,) = list_checks(notebook)
    line, view = check_cell.outputs
    assert line.text == ("ex 98.1 half: wrong - half of [4, 6] is [1, 2], wanted [2, 3]\n")
    assert "seen" not in view.data["text/html"]
    assert "[4. 6.]" in view.data["text/html"]


BREAKS = {
    "answer solved": lambda nb: cell_of(nb, "ex-98-1-answer").update(source="def half(n): ..."),
    "cell gone": lambda nb: nb["cells"].pop(4),
    "cell added": lambda nb: nb["cells"].append({**nb["cells"][0], "id": "stray"}),
    "cell doubled": lambda nb: nb["cells"].append(dict(nb["cells"][0])),
    "order": lambda nb: nb["cells"].reverse(),
    "prose": lambda nb: nb["cells"][0].update(source="# Doubling"),
    "tags": lambda nb: cell_of(nb, "ex-98-1-check")["metadata"].update(tags=["skip"]),
    "points": lambda nb: cell_of(nb, "ex-98-1-check")["metadata"].update(points=9),
    "widgets": lambda nb: nb["metadata"].update(widgets={"state": {}}),
    "kernel": lambda nb: nb["metadata"]["language_info"].update(version="3.11.7"),
}


@pytest.mark.parametrize("place", ["notebooks", "solutions"])
@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_check_sees_every_kind_of_difference(course, place, change):
    edit_json(course / place / f"{SLUG}.ipynb", change)
    differences = check(course, load=load)
    assert differences
    assert all(line.startswith(f"{place}/{SLUG}.ipynb: ") for line in differences)


def test_check_sees_outputs_in_the_student_notebook(course, student):
    output = {"name": "stdout", "output_type": "stream", "text": ["x"]}
    edit_json(student, lambda nb: cell_of(nb, "ex-98-1-check").update(outputs=[output]))
    assert check(course, load=load) == [
        f"notebooks/{SLUG}.ipynb: cell ex-98-1-check differs in outputs"
    ]


def test_check_sees_other_formatting(course, student):
    student.write_text(json.dumps(json.loads(student.read_text())))
    assert check(course, load=load) == [
        f"notebooks/{SLUG}.ipynb: written differently from what build writes"
    ]


ERROR = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
VIEW = {"output_type": "display_data", "metadata": {}, "data": {WIDGET_VIEW: {}}}
STDERR = {"output_type": "stream", "name": "stderr", "text": ["w"]}
WRONG = {"output_type": "stream", "name": "stdout", "text": ["ex 98.1 half: wrong - no\n"]}
NOT_RUN = {
    "was not executed": {"execution_count": None, "outputs": []},
    "stopped with an error": {"outputs": [ERROR]},
    "stores a widget view": {"outputs": [VIEW]},
    "stores stderr": {"outputs": [STDERR]},
    "does not say ok": {"outputs": [WRONG]},
}


@pytest.mark.parametrize("fault", NOT_RUN)
def test_check_sees_a_solved_notebook_that_did_not_run_well(course, solved, fault):
    edit_json(solved, lambda nb: cell_of(nb, "ex-98-1-check").update(NOT_RUN[fault]))
    assert any(fault in line for line in check(course, load=load))


def test_check_sees_missing_stray_and_broken_notebooks(course, student, solved):
    student.unlink()
    solved.write_text("{}")
    shutil.copy(course / "solutions" / f"{SLUG}.py", course / "notebooks" / "97_old.ipynb")
    lines = "\n".join(check(course, load=load))
    assert f"notebooks/{SLUG}.ipynb: missing" in lines
    assert f"solutions/{SLUG}.ipynb: not a notebook" in lines
    assert "notebooks/97_old.ipynb: no source" in lines


REGION = SOURCE[SOURCE.index("    ### BEGIN") : SOURCE.index('# %% exercise="98.1" role="check"')]
ANSWER = SOURCE[SOURCE.index('# %% exercise="98.1" role="answer"') : SOURCE.index(REGION)] + REGION
INDENTED_BEGIN = "    ### BEGIN SOLUTION\n"
TOP_LEVEL = "    return n\n### BEGIN SOLUTION\nif True:\n    n = 2\n"
TITLE_AGAIN = "# \n\n# %% [markdown]\n# # Halving"
NO_WORDS = "# \n\n# %% [markdown]\n# $$*$$"
DEMO = 'exercise="98.1" role="demo"'
FAULTS = [  # what is replaced, by what, and the sentence it earns
    ("    whole_part = n // 2\n", INDENTED_BEGIN, ":20: nested ### BEGIN SOLUTION"),
    ("    ### END SOLUTION\n", "", ":18: ### BEGIN SOLUTION without ### END SOLUTION"),
    (INDENTED_BEGIN, "", ":21: ### END SOLUTION without"),
    ("### BEGIN SOLUTION", "### BEGIN SOLUTION here", ":18: write ### BEGIN"),
    ("### END SOLUTION", "# end solution", ":22: write ### BEGIN"),
    ("# Write it.", "# ### BEGIN SOLUTION", ":13: a solution marker in a markdown cell"),
    ("6 // 2", "### BEGIN SOLUTION\n6\n### END SOLUTION", ":30: a solution outside"),
    (REGION, "    return n // 2\n\n", ":15: an answer cell without ### BEGIN SOLUTION"),
    (INDENTED_BEGIN, TOP_LEVEL, "the region must be inside a function"),
    ('    """Return half of n."""\n', "", "half needs a docstring outside the region"),
    ("def half(n)", "def halve(n)", "it must define half"),
    ("def half(n)", "def half(n", "not Python once stubbed"),
    ("# *Half is enough.*", TITLE_AGAIN, "two cells are called halving"),
    ("# *Half is enough.*", NO_WORDS, 'a cell has no words to name it by; set id="..."'),
    ('id="picture"', 'id="A picture"', "use a-z"),
    ('id="picture"', 'id="ex-98-1-hint"', "not starting with ex-"),
    (DEMO, 'exercise="98.2" role="demo"', "is not in the lesson's EXERCISES (98.1)"),
    (DEMO, 'exercise="98.1" role="hint"', "hint cells are generated"),
    (DEMO, 'exercise="98.1"', 'role="None", use one of'),
    (DEMO, 'exercise="98.1" role="check"', "found: intro, answer, check, check"),
    (DEMO, 'exercise="98.1" role="demo" pionts=3', "pionts is not used here"),
    (ANSWER, "", "found: intro, check"),
    ('role="answer"', 'role="answer" points=7', "points differ"),
    ('[markdown] exercise="98.1"', 'exercise="98.1"', "intro is a code cell"),
    ("## Exercise 98.1", "## Exercise 98.10", 'start it with a heading that holds "98.1"'),
    ('check("98.1", half)', 'check("98.2", half)', "must read, and hold no more"),
    ('check("98.1", half)', 'check("98.1", half)\nprint(1)', "must read, and hold no more"),
    ('check("98.1", half)', 'check("98.1", other)', "must read, and hold no more"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), FAULTS, ids=[fault[2] for fault in FAULTS])
def test_a_faulty_source_is_refused_with_its_place(tmp_path, old, new, sentence):
    assert old in SOURCE
    with pytest.raises(AuthoringError) as caught:
        read_lesson(write_course(tmp_path, SOURCE.replace(old, new, 1)), load)
    assert sentence in str(caught.value)
    assert f"{SLUG}.py:" in str(caught.value)


def test_an_exercise_without_cells_is_refused(tmp_path):
    two = lambda lesson: (make_exercise(), make_exercise(id="98.2"))  # noqa: E731
    with pytest.raises(AuthoringError, match=r"exercise 98\.2 needs one intro.*found: none"):
        read_lesson(write_course(tmp_path), two)


def test_two_regions_in_one_answer_both_become_stubs(tmp_path):
    second = (
        "    ### END SOLUTION\n\n\ndef other(n):\n"
        '    """Two."""\n    ### BEGIN SOLUTION\n    return 2\n    ### END SOLUTION\n'
    )
    source = SOURCE.replace("    ### END SOLUTION\n", second, 1)
    notebook = make_student(read_lesson(write_course(tmp_path, source), load))
    assert cell_of(notebook, "ex-98-1-answer").source.count("raise NotImplementedError") == 2


FLOOR = "# the floor is what the checks expect"
LEAKS = [
    ("# Write it.", "# Write `whole_part = n // 2` and return."),
    ("6 // 2", "n = 6\nif n:\n    whole_part  =  n // 2  # as in the exercise"),
    ("6 // 2", f"{FLOOR}\n6 // 2"),
]


@pytest.mark.parametrize(("old", "new"), LEAKS, ids=["prose", "a demo", "a comment"])
def test_a_line_of_another_lessons_solution_is_a_leak(course, old, new):
    other = SOURCE.replace("98.1", "97.1").replace(REGION, REGION.replace(FLOOR, "# rounded"))
    other = other.replace("whole_part = n // 2\n    return whole_part", "return n // 2")
    (course / "solutions" / "97_other.py").write_text(other.replace(old, new))
    exercises = lambda lesson: (make_exercise(id=f"{lesson}.1"),)  # noqa: E731
    before = sorted(f.name for f in (course / "notebooks").iterdir())
    with pytest.raises(AuthoringError, match=rf"97_other\.ipynb: shows .* solution of {SLUG}"):
        build(course, ["97"], load=exercises)
    assert sorted(f.name for f in (course / "notebooks").iterdir()) == before


def test_a_hint_that_gives_the_line_away_is_a_leak(course):
    given = lambda lesson: (make_exercise(hints=("Think", "`whole_part = n // 2`")),)  # noqa: E731
    with pytest.raises(AuthoringError, match="shows a line of the solution"):
        build(course, load=given)


def test_check_sees_leaks_in_any_file_beside_the_notebooks(course):
    (course / "notebooks" / "notes.md").write_text("so: whole_part = n // 2\n")
    assert check(course, load=load) == [
        f"notebooks/notes.md: shows a line of the solution of {SLUG}: whole_part = n // 2"
    ]


def test_a_part_of_a_longer_expression_is_no_leak(course):
    (course / "notebooks" / "notes.md").write_text("whole_part = n // 20\nmy_whole_part = n // 2\n")
    assert check(course, load=load) == []


def test_a_failing_cell_is_named_with_its_traceback(course, student, solved):
    before = student.read_bytes(), solved.read_bytes()
    write_course(course, SOURCE.replace("6 // 2", "6 // 0"))
    with pytest.raises(AuthoringError, match=r"(?s)cell ex-98-1-demo failed.*ZeroDivisionError"):
        build(course, load=load)
    assert (student.read_bytes(), solved.read_bytes()) == before


def test_a_solution_that_does_not_pass_its_check_is_refused(course):
    write_course(course, SOURCE.replace("n // 2\n    return", "n // 3\n    return"))
    with pytest.raises(AuthoringError, match="check does not say ok but 'ex 98"):
        build(course, load=load)


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ({"output_type": "stream", "name": "stderr", "text": "W"}, "writes to stderr"),
        ({"output_type": "stream", "name": "stdout", "text": "<A at 0x7f00aa>"}, "an address"),
        ({"output_type": "stream", "name": "stdout", "text": f"in {ROOT}/x"}, "a folder of this"),
        ({"output_type": "stream", "name": "stdout", "text": str(Path.home())}, "a folder of this"),
        ({"output_type": "stream", "name": "stdout", "text": sys.prefix}, "a folder of this"),
        ({"output_type": "display_data", "metadata": {}, "data": {WIDGET_VIEW: {}}}, "no text"),
    ],
)
def test_outputs_that_differ_between_machines_are_refused(output, fault):
    cell = nbformat.v4.new_code_cell("x", id="x", outputs=[nbformat.from_dict(output)])
    with pytest.raises(AuthoringError, match=f"cell x.*{fault}"):
        clean_outputs(nbformat.v4.new_notebook(cells=[cell]))


def test_a_student_notebook_over_300_kilobytes_is_refused(course, monkeypatch):
    monkeypatch.setattr(building, "MAX_STUDENT_BYTES", 1000)
    with pytest.raises(AuthoringError, match="would exceed 1000 bytes"):
        build(course, load=load)
    assert any("over 1000 bytes" in line for line in check(course, load=load))


def test_the_command_reports_and_sets_the_exit_status(course, monkeypatch, capsys, student):
    monkeypatch.setattr("lessonlib.exercises.registry._registered", {"98": (make_exercise(),)})
    assert building.main(["--check"], root=course) == 0
    assert building.main(["--check", "55"], root=course) == 1
    assert capsys.readouterr().out.endswith("no lesson 55: solutions/ holds 98\n")
    student.unlink()
    assert building.main(["--check"], root=course) == 1


def test_a_hidden_question_keeps_its_source_out_of_sight():
    cell = nbformat.v4.new_code_cell("ask(right=1)", metadata={"tags": ["hide-input"]})
    clean_metadata(cell)
    assert cell.metadata["jupyter"] == {"source_hidden": True}
    plain = nbformat.v4.new_code_cell("1", metadata={})
    clean_metadata(plain)
    assert "jupyter" not in plain.metadata
