"""The self-graded question: nothing is shown before the button, then the ticks are counted."""

from __future__ import annotations

import pytest

from lessonlib.widgets.selfgrade import grade_yourself


def test_points_and_model_answer_stay_hidden_until_the_button():
    checklist = grade_yourself(["cause", "cure"], "A <model> answer.")
    assert checklist.children == (checklist.opener,)
    assert checklist.verdict.value == ""
    checklist.opener.click()
    assert checklist.children == (*checklist.boxes, checklist.verdict)
    assert "0 of 2 points" in checklist.verdict.value
    assert "A &lt;model&gt; answer." in checklist.verdict.value


def test_ticks_are_counted_both_ways():
    checklist = grade_yourself(["cause", "cure"], "Both.")
    checklist.opener.click()
    for box in checklist.boxes:
        box.value = True
    assert "2 of 2 points" in checklist.verdict.value
    checklist.boxes[0].value = False
    assert "1 of 2 points" in checklist.verdict.value


def test_static_viewers_get_the_points_as_text():
    bundle, _ = grade_yourself(["cause", "cure"], "Both.")._repr_mimebundle_()
    assert "[ ] cause" in bundle["text/plain"]
    assert "Both." not in bundle["text/plain"]


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="points is empty"):
        grade_yourself([], "Nothing.")
