"""Every exercise against the right and wrong answers of its lesson's tables.

Each wrong answer fails with its own sentence, different right ones pass, and nothing that a
learner leaves in a cell breaks the check. The tables stand in ``test_lessonNN_checks``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
import pytest

from lessonlib.exercises import find_exercise
from lessonlib.exercises.registry import list_lessons, load_lesson
from tests.answers import cast_to_float32, outcome

LESSONS = [import_module(f"tests.test_lesson{n:02}_checks") for n in range(1, 8)]  # 01 has 00's
RIGHT = {id: answers for lesson in LESSONS for id, answers in lesson.RIGHT.items()}
WRONG = {id: rows for lesson in LESSONS for id, rows in lesson.WRONG.items()}
NAMED_BY_NUMBERS = ("2.1", "2.3", "2.4", "3.5", "5.1", "5.2", "5.3", "6.4", "7.1")
LONGEST = 280  # characters: two lines of a notebook
ODD = {
    "None": None, "text": "text", "number": 3, "list": [], "dict": {}, "nan": float("nan"),
    "function": print, "Nones": [None, None, None], "bool": True, "huge": 10**400,
    "64 bits": 2**63 - 1, "generator": (i for i in range(3)), "ragged": [[1, 2], [3]],
    "0-d": np.array(0.123), "vector": np.array([0.1, 0.2]), "2-d": np.full((2, 2), 0.1),
    "strings": np.array(["a", "b", "c"]), "objects": np.array([None, "a", 1, {}], dtype=object),
    "complex": np.array([1j, 2.0]), "array in a tuple": (np.zeros(3), [1], 0),
}  # fmt: skip

told = cache(outcome)  # two tests ask for the line of each wrong answer, and some take a second


def test_no_exercise_lacks_a_table():
    known = [exercise.id for lesson in list_lessons() for exercise in load_lesson(lesson)]
    assert list(RIGHT) == known
    assert all(len(answers) >= 2 for answers in RIGHT.values())
    assert set(RIGHT) - set(WRONG) == {"1.3"}, "the wrong rounds of 1.3 are the zoo's"


@pytest.mark.parametrize("id", RIGHT)
def test_different_right_answers_pass(id):
    exercise = find_exercise(id)
    count = len(exercise.checks)
    for answer in (*RIGHT[id], exercise.reference):
        ok = f"ex {id} {exercise.name}: ok ({count} check{'s' if count > 1 else ''})"
        assert outcome(id, answer) == ok


@pytest.mark.parametrize(
    ("id", "answer", "sentence"), [(id, *row) for id, rows in WRONG.items() for row in rows]
)
def test_each_wrong_answer_gets_its_own_sentence(id, answer, sentence):
    line = told(id, answer)
    assert line.startswith(f"ex {id} {find_exercise(id).name}: wrong - "), line
    assert sentence in line
    assert line.isascii()
    assert "\n" not in line
    assert len(line) < LONGEST


@pytest.mark.parametrize("id", RIGHT)
def test_a_right_answer_may_be_in_float32(id):
    right = RIGHT[id][0]
    assert ": ok (" in outcome(id, lambda *given: cast_to_float32(right(*given)))


@pytest.mark.parametrize("id", NAMED_BY_NUMBERS)
def test_a_wrong_answer_in_float32_keeps_its_sentence(id):
    for wrong, sentence in WRONG[id]:
        line = outcome(id, lambda *given, wrong=wrong: cast_to_float32(wrong(*given)))
        assert sentence in line


@pytest.mark.parametrize("id", WRONG)
def test_the_sentences_are_told_apart(id):
    sentences = {sentence for _, sentence in WRONG[id]}
    assert len({told(id, answer) for answer, _ in WRONG[id]}) >= len(sentences) - 1


@pytest.mark.parametrize("id", RIGHT)
def test_a_stub_is_not_attempted_and_a_bug_is_an_error(id):
    def stub(*args):
        raise NotImplementedError(f"exercise {id}")

    def bug(*args):
        return {}["alpha"]

    assert outcome(id, stub).endswith(": not attempted")
    assert "your code raised KeyError" in outcome(id, bug)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("id", RIGHT)
def test_an_odd_answer_gets_one_sentence(id, odd):
    line = outcome(id, lambda *given: ODD[odd])
    assert line.startswith(f"ex {id} {find_exercise(id).name}: wrong - "), line
    assert line.isascii()
    assert "\n" not in line


def put_in(given, part, odd):
    """A right answer with one of its parts odd, all of it where it has no parts."""
    if isinstance(given, dict):
        return {**given, list(given)[part % len(given)]: odd}
    if isinstance(given, np.ndarray | list | tuple) and len(given):
        parts = list(given)
        parts[part % len(parts)] = odd
        return parts
    return odd


@pytest.mark.parametrize(
    ("id", "odd"),
    [(id, odd) for id in RIGHT for odd in ODD if (id, odd) != ("7.4", "bool")],  # True is right
)
def test_an_odd_part_of_a_right_answer_gets_one_sentence(id, odd):
    for part in range(3):
        line = outcome(id, lambda *given, part=part: put_in(RIGHT[id][0](*given), part, ODD[odd]))
        assert line.startswith(f"ex {id} {find_exercise(id).name}: wrong - "), line
        assert line.isascii()
        assert "\n" not in line


CHECK_CELL = 'from lessonlib.exercises import check\n\ncheck("{id}", {name})'


@pytest.mark.parametrize("id", RIGHT)
def test_a_learners_variables_cannot_break_the_check(id, capsys):
    name = find_exercise(id).name
    names = dict.fromkeys(["t", "check", "np", "list", "sum", "draw", "u", "p", "q"], "mine")
    exec(CHECK_CELL.format(id=id, name=name), {**names, name: RIGHT[id][1]})
    assert capsys.readouterr().out.startswith(f"ex {id} {name}: ok (")


@pytest.mark.parametrize("id", ["1.3", "1.4", "3.4", "4.4"])  # the statistical ones
def test_the_verdict_does_not_depend_on_the_global_seed(id):
    lines = set()
    for seed in range(3):
        np.random.seed(seed)  # noqa: NPY002 (what a learner's notebook may have done)
        lines.add(outcome(id, RIGHT[id][1]))
    assert len(lines) == 1
