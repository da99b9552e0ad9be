"""Checks: four outcomes, one plain line each, whatever the answer does."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from lessonlib.exercises import (
    UnknownExercise,
    Wrong,
    checking,
    find_exercise,
    hints,
    inputs,
    registry,
    run_checks,
)
from lessonlib.exercises.outcomes import Error, NotAttempted, Ok, to_plain_line
from tests.halving import half, make_exercise

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def course(monkeypatch, tmp_path):
    """A registry with one exercise, and progress in a file of its own."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(registry, "_registered", {})
    exercise = make_exercise()
    registry.register(exercise)
    return exercise


def line_of(answer):
    exercise = make_exercise()
    return run_checks(exercise, answer).line(exercise)


def test_right_answers_pass_in_two_forms():
    assert line_of(half) == "ex 98.1 half: ok (2 checks)"
    assert line_of(lambda n: np.asarray(n) / 2) == "ex 98.1 half: ok (2 checks)"


def test_one_check_is_singular():
    assert Ok(1).line(make_exercise()) == "ex 98.1 half: ok (1 check)"


def stub(n):
    raise NotImplementedError("exercise 98.1")


def bare_stub(n):
    raise NotImplementedError


def call_bare_stub(n):
    return bare_stub(n)


@pytest.mark.parametrize("answer", [bare_stub, call_bare_stub])
def test_a_bare_not_implemented_error_is_the_learners_own(answer):
    line = line_of(answer)
    assert line.startswith("ex 98.1 half: error - your code raised NotImplementedError (line ")


@pytest.mark.parametrize("answer", [stub, lambda n: stub(n), None, ...])
def test_untouched_answers_are_not_attempted(answer):
    assert line_of(answer) == "ex 98.1 half: not attempted"


def call_other(n):
    raise NotImplementedError("exercise 98.7")


def test_an_unsolved_other_exercise_is_named():
    assert line_of(call_other) == (
        "ex 98.1 half: error - your code calls exercise 98.7, which is not solved yet"
    )


def other_not_implemented(n):
    raise NotImplementedError("sparse rows")


def test_a_library_that_does_not_implement_something_is_an_error():
    assert "NotImplementedError: sparse rows" in line_of(other_not_implemented)


def divide_by_zero(n):
    n = 1
    return n / 0


def test_an_exception_gives_type_message_and_line():
    line = divide_by_zero.__code__.co_firstlineno + 2
    assert line_of(divide_by_zero) == (
        "ex 98.1 half: error - your code raised ZeroDivisionError: division by zero "
        f"(line {line} of its cell)"
    )


def recurse(n):
    return recurse(n)


def leave(n):
    sys.exit(3)


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError("no text")


def raise_unprintable(n):
    raise UnprintableError


def raise_greek(n):
    raise ValueError("α > 1\n  in row 2 " + "x" * 500)


class CustomBase(BaseException):
    pass


def raise_base(n):
    raise CustomBase("stop")


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (recurse, "your code raised RecursionError"),
        (leave, "your code called exit"),
        (raise_unprintable, "your code raised UnprintableError (line"),
        (raise_greek, "your code raised ValueError: ? > 1 in row 2 xxx"),
        (raise_base, "your code raised CustomBase: stop"),
        (lambda: 3, "the check could not use your answer: TypeError"),
        (42, "the check could not use your answer: TypeError"),
        ("text", "the check could not use your answer: TypeError"),
    ],
)
def test_faults_become_one_ascii_line(answer, part):
    line = line_of(answer)
    assert line.startswith("ex 98.1 half: error - " + part)
    assert line.isascii()
    assert "\n" not in line
    assert len(line) < 300


def interrupt(n):
    raise KeyboardInterrupt


def test_keyboard_interrupt_gets_through():
    with pytest.raises(KeyboardInterrupt):
        line_of(interrupt)


def noisy(n):
    print("looking at", n)
    print("trouble", file=sys.stderr)
    warnings.warn("careful", stacklevel=1)
    np.float64(1) / np.float64(0)
    return n // 3


def test_prints_and_warnings_stay_out_of_the_line(course, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checking.check("98.1", noisy)
    captured = capsys.readouterr()
    assert captured.out == "ex 98.1 half: wrong - half of [4, 6] is [1, 2], wanted [2, 3]\n"
    assert captured.err == ""


def test_what_was_printed_is_kept_for_the_rich_view_and_capped():
    def chatter(n):
        for _ in range(10_000):
            print("x" * 100)
        return n

    outcome = run_checks(make_exercise(), chatter)
    assert outcome.printed.startswith("xxx")
    assert len(outcome.printed) <= checking.MAX_PRINTED


def test_an_answer_that_turns_numpy_warnings_into_errors_leaves_no_trace():
    def strict(n):
        np.seterr(all="raise")
        return n / 2

    before = np.geterr()
    assert line_of(strict) == "ex 98.1 half: ok (2 checks)"
    assert np.geterr() == before


def test_changing_the_inputs_is_wrong_and_cannot_spoil_the_next_run():
    def in_place(n):
        n //= 2
        return n

    for _ in range(2):
        assert line_of(in_place) == (
            "ex 98.1 half: wrong - your code changed p in place; work on a copy"
        )
    assert line_of(half) == "ex 98.1 half: ok (2 checks)"


def test_each_outcome_is_its_own_class():
    exercise = make_exercise()
    assert isinstance(run_checks(exercise, half), Ok)
    assert isinstance(run_checks(exercise, stub), NotAttempted)
    assert isinstance(run_checks(exercise, abs), Wrong)
    assert isinstance(run_checks(exercise, leave), Error)
    statuses = [run_checks(exercise, f).status for f in (half, stub, abs, leave)]
    assert statuses == ["ok", "not attempted", "wrong", "error"]


ODD = [
    "a",
    b"x",
    1j,
    float("nan"),
    float("inf"),
    {},
    {1},
    object(),
    iter([1]),
    [[1, 2], [3]],
    ["a"],
    [None, 1.0],
    np.array(["a"]),
    np.array([np.nan, 1]),
    NotImplemented,
    lambda: 0,
    int,
    (),
]
READERS = {
    "array": lambda v: inputs.as_array(v, "yours", (2,)),
    "vector": lambda v: inputs.as_vector(v, "yours", 2),
    "probability": lambda v: inputs.as_probability(v, "yours", (2,)),
    "number": lambda v: inputs.as_number(v, "yours", 0, 1),
    "int": lambda v: inputs.as_int(v, "yours", 0, 2),
    "bool": lambda v: inputs.as_bool(v, "yours"),
    "tuple": lambda v: inputs.as_tuple(v, "yours", 3),
    "tokens": lambda v: inputs.as_tokens(v, "yours", 2),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("value", [None, *ODD], ids=lambda v: type(v).__name__)
def test_odd_answers_get_one_plain_sentence(reader, value):
    with pytest.raises(Wrong) as caught:
        READERS[reader](value)
    sentence = caught.value.sentence
    assert "yours" in sentence
    assert len(sentence.splitlines()) == 1
    assert "0x" not in sentence


def test_harmless_forms_are_accepted():
    assert inputs.as_vector((1, 0), "x", 2).tolist() == [1, 0]
    assert inputs.as_probability(np.float32([0.5, 0.5]), "x").dtype == np.float64
    assert inputs.as_number(np.array(0.5), "x") == 0.5
    assert inputs.as_int(np.array(3), "x") == 3
    assert inputs.as_bool(np.True_, "x") is True
    assert inputs.as_tokens(np.array([3, 0]), "x") == [3, 0]


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (inputs.as_number, True),
        (inputs.as_number, np.array([0.5])),
        (inputs.as_int, True),
        (inputs.as_int, 3.0),
        (inputs.as_bool, 1),
        (inputs.as_bool, np.array([True])),
        (inputs.as_probability, [0.5, 0.6]),
        (inputs.as_probability, [1.5, -0.5]),
        (inputs.as_probability, 1.0),
        (inputs.as_probability, []),
        (inputs.as_tokens, [1.5]),
        (inputs.as_tokens, [-1]),
    ],
)
def test_near_misses_are_refused(read, value):
    with pytest.raises(Wrong):
        read(value, "x")


def test_none_inside_an_answer_is_not_called_nan():
    with pytest.raises(Wrong, match="a list, which cannot be read as an array"):
        inputs.as_vector([None, 1.0], "x")


def test_reading_an_array_gives_a_copy():
    mine = np.ones(2)
    inputs.as_vector(mine, "x")[0] = 5
    assert mine[0] == 1


def test_close_shows_digits_that_differ():
    with pytest.raises(Wrong, match=r"x is 0\.3333333, wanted 0\.3333334"):
        inputs.close(0.33333330, 0.33333340, 1e-12, "x")
    with pytest.raises(Wrong):
        inputs.close(np.nan, 1.0, 1, "x")


def test_plain_line_is_short_ascii():
    assert to_plain_line("é\t\x1b[31m\n" * 200).isascii()
    assert len(to_plain_line("x " * 500)) <= 240


@pytest.mark.parametrize(
    "change",
    [
        {"id": "one"},
        {"id": "98.01"},
        {"name": "not a name"},
        {"hints": ("only one",)},
        {"hints": ["a", "b"]},
        {"checks": ()},
        {"difficulty": 4},
        {"minutes": 0},
        {"points": -1},
    ],
)
def test_a_malformed_exercise_is_refused(change):
    with pytest.raises(ValueError, match="exercise"):
        make_exercise(**change)


def test_unknown_ids_list_the_lessons_ids(course, capsys):
    assert find_exercise("98.01").id == "98.1"
    with pytest.raises(UnknownExercise, match=r"no exercise 98\.4; lesson 98 has 98\.1$"):
        find_exercise("98.4")
    for show in (lambda i: checking.check(i, half), hints.hint, hints.solution):
        show("98.4")
        assert capsys.readouterr().out == "there is no exercise 98.4; lesson 98 has 98.1\n"
    checking.check(half, "98.1")
    assert "is not an exercise id" in capsys.readouterr().out


def test_hints_come_in_order_and_the_last_repeats(course, capsys):
    for _ in range(3):
        hints.hint("98.1")
    assert capsys.readouterr().out.splitlines() == [
        "ex 98.1 hint 1 of 2: Think of division",
        "ex 98.1 hint 2 of 2: Use //",
        "ex 98.1 hint 2 of 2: Use //",
    ]


SOLVED = '''# %% exercise="98.1" role="intro"
# %% exercise="98.1" role="answer"
def half(n):
    """Halve."""
    ### BEGIN SOLUTION
    return n // 2  ### a comment
    ### END SOLUTION

# %%
other = 1
'''


def test_the_solution_opens_after_an_attempt(course, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(hints, "ROOT", tmp_path)
    hints.solution("98.1")
    checking.check("98.1", stub)
    hints.solution("98.1")
    assert capsys.readouterr().out.count("try it first") == 2
    checking.check("98.1", abs)
    capsys.readouterr()
    hints.solution("98.1")
    assert "the solutions folder is not part of this copy" in capsys.readouterr().out
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "98_x.py").write_text(SOLVED)
    hints.solution("98.1")
    shown = capsys.readouterr().out
    assert shown.strip() == ('def half(n):\n    """Halve."""\n    return n // 2  ### a comment')


def test_the_rich_view_escapes_what_the_learner_wrote():
    page = hints.render_help(make_exercise(), Wrong("p < 0 & <b>", printed="<script>"))
    assert "<script>" not in page
    assert "p &lt; 0 &amp; &lt;b&gt;" in page
    assert "you get &lt;0.5&gt;" in page


HELP = {"it is <transposed>": "swap & see", "rows sum to 0": "divide", "has shape": "add axes"}


@pytest.mark.parametrize(
    ("sentence", "advice"),
    [
        ("your mask: it is transposed", "swap &amp; see"),
        ("Rows sum to 0.0, wanted 1", "divide"),
        ("your mask has shape (2,), wanted (2, 2)", "add axes"),
        ("your code raised NameError: name 'q' is not defined (line 2 of its cell)", None),
    ],
)
def test_the_advice_for_this_outcome_stands_open_and_the_rest_is_folded(sentence, advice):
    page = hints.render_help(make_exercise(help=HELP), Wrong(sentence))
    shown, folded, rest = page.partition("<details>")
    assert folded
    for other in ("swap &amp; see", "divide", "add axes"):
        assert (other in shown) is (other == advice)
        assert (other in rest.partition("</details>")[0]) is (other != advice)


def test_without_help_nothing_is_folded():
    assert "<details>" not in hints.render_help(make_exercise(help={}), Wrong("it is transposed"))


def test_the_rich_view_appears_only_in_a_notebook_and_display_is_swallowed(course, tmp_path):
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('''\n"
        "from IPython.display import HTML, display\n"
        "from lessonlib.exercises import check, register\n"
        "from tests.halving import make_exercise\n"
        "register(make_exercise())\n"
        "def half(n):\n"
        "    display(HTML('<i>seen</i>'))\n"
        "    return n\n"
        "check('98.1', half)\n"
        "check('98.1', lambda n: n // 2)\n"
        "''')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ex 98.1 half: wrong - ")
    assert lines[1:] == [
        "Hints are folded below the check cell of exercise 98.1.",
        "ex 98.1 half: ok (2 checks)",
    ]
