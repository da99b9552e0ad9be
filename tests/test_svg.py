"""What a model may write, as words in a picture: always valid XML, nothing lost from sight."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.widgets import svg
from lessonlib.widgets.chart import stack
from lessonlib.widgets.lesson01 import drag_p_and_q

ANYTHING = st.text(st.characters(exclude_categories=()))  # half characters included


@given(ANYTHING)
def test_a_picture_of_any_words_is_valid_xml(words):
    drawn = svg.picture(
        10, 10, svg.text(0, 0, words) + svg.text(0, 9, svg.show_token(words)), words
    )
    root = ElementTree.fromstring(drawn.encode("utf-8"))
    assert len(root.findall(".//{*}text")) == 2


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("\x00", "␀"),
        ("\x1b[31m", "␛[31m"),
        ("\x7f", "␡"),
        ("\ud83d", "\ufffd"),
        ("\uffff", "\ufffd"),
        ("<b> & α 😀", "&lt;b&gt; &amp; α 😀"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_cannot_be_drawn_is_seen(words, shown):
    assert svg.plain(words) == shown


def test_two_control_tokens_can_be_told_apart():
    assert len({svg.show_token(chr(code)) for code in range(33)}) == 33


def test_a_whole_widget_survives_odd_names():
    plots = drag_p_and_q(("\x00", "\x1b[0m", "\ud800", "\uffff", "<i>")).plots
    picture = stack([plot.chart for plot in plots])
    assert ElementTree.fromstring(picture.encode("utf-8")) is not None
    assert "␛[0m" in picture
