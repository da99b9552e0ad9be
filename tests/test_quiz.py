"""The multiple-choice question: feedback, and what a viewer without widgets sees."""

from __future__ import annotations

import pytest

from lessonlib.widgets.quiz import ask
from lessonlib.widgets.style import ROLES

QUESTION = "What is <b>α</b> when p = q?"
OPTIONS = ["0", "1 & certain", "it depends"]


@pytest.fixture
def question():
    return ask(QUESTION, OPTIONS, right=1, why="Because min(p, p) = p < 2.")


def test_nothing_is_chosen_and_nothing_is_said_at_first(question):
    assert question.choices.value is None
    assert question.feedback.value == ""
    assert list(question.choices.options) == OPTIONS


def test_the_right_choice_is_told_so_and_why(question):
    question.choices.value = OPTIONS[1]
    assert "✓ Yes." in question.feedback.value
    assert "Not quite" not in question.feedback.value
    assert "Because min(p, p) = p &lt; 2." in question.feedback.value  # escaped
    assert ROLES["accepted"].colour in question.feedback.value


@pytest.mark.parametrize("wrong", [OPTIONS[0], OPTIONS[2]])
def test_a_wrong_choice_is_told_so_and_why(question, wrong):
    question.choices.value = wrong
    assert "✗ Not quite." in question.feedback.value
    assert "Yes" not in question.feedback.value
    assert "Because min(p, p) = p &lt; 2." in question.feedback.value
    assert ROLES["residual"].colour in question.feedback.value
    assert ROLES["accepted"].colour not in question.feedback.value


def test_a_second_thought_replaces_the_feedback(question):
    question.choices.value = OPTIONS[0]
    question.choices.value = OPTIONS[1]
    assert "Yes" in question.feedback.value
    assert "Not quite" not in question.feedback.value


def test_the_question_is_shown_as_text_not_as_markup(question):
    title = question.children[0].value
    assert "&lt;b&gt;α&lt;/b&gt;" in title
    assert question.choices.tooltip == QUESTION  # for screen readers


def test_a_viewer_without_widgets_sees_the_question_but_not_the_answer(question):
    data, metadata = question._repr_mimebundle_()
    assert data["text/plain"].splitlines() == [QUESTION, *(f"  ( ) {o}" for o in OPTIONS)]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert metadata == {}
    question.choices.value = OPTIONS[1]
    assert question._repr_mimebundle_()[0]["text/plain"] == data["text/plain"]


def test_each_call_gives_a_fresh_question(question):
    again = ask(QUESTION, OPTIONS, right=1, why="")
    question.choices.value = OPTIONS[0]
    assert again.choices.value is None
    assert again.feedback.value == ""
    assert again.choices is not question.choices


@pytest.mark.parametrize("right", [-1, 3])
def test_a_right_answer_that_is_no_option_is_one_sentence(right):
    with pytest.raises(ValueError, match=f"right is {right}, but there are 3 options"):
        ask(QUESTION, OPTIONS, right=right, why="")


def test_equal_options_are_refused_because_the_choice_is_known_by_its_words():
    with pytest.raises(ValueError, match=r"two options are equal in \['2', '3', '2'\]"):
        ask(QUESTION, ["2", "3", "2"], right=0, why="")
