"""What a stuck learner can ask for: help by symptom, the next hint, the worked solution."""

from __future__ import annotations

import html
import re
import sys

from lessonlib.exercises.outcomes import Error, Wrong
from lessonlib.exercises.progress import get_record, record_hint
from lessonlib.exercises.registry import Exercise, UnknownExercise, find_exercise
from lessonlib.folders import ROOT

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # around a solution, in a lesson's source
ALIKE = 0.6  # the share of a symptom's words that an outcome must hold to be told apart by it


def hint(exercise_id: str) -> None:
    """Print the next hint; once all are out, the last one again."""
    try:
        exercise = find_exercise(exercise_id)
    except UnknownExercise as unknown:
        print(unknown)
        return
    number = record_hint(exercise.id, len(exercise.hints))
    print(f"ex {exercise.id} hint {number} of {len(exercise.hints)}: {exercise.hints[number - 1]}")


def solution(exercise_id: str) -> None:
    """Show the worked solution, once there was an attempt."""
    try:
        exercise = find_exercise(exercise_id)
    except UnknownExercise as unknown:
        print(unknown)
        return
    if not get_record(exercise.id)["attempts"]:
        print(f"ex {exercise.id}: try it first; the solution opens after one checked attempt")
        return
    code = read_solution(exercise)
    if code is None:
        print(f"ex {exercise.id}: the solutions folder is not part of this copy of the course")
    else:
        _show_code(code)


def read_solution(exercise: Exercise) -> str | None:
    """Return the answer cell of the solved lesson without its markers, None if it is absent."""
    for file in sorted((ROOT / "solutions").glob(f"{exercise.lesson}_*.py")):
        for cell in re.split(r"^(?=# %%)", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            head, _, body = cell.partition("\n")
            if f'exercise="{exercise.id}"' in head and 'role="answer"' in head:
                lines = body.strip().splitlines()
                return "\n".join(x for x in lines if x.strip() not in (BEGIN, END)) + "\n"
    return None


def show_help(exercise: Exercise, outcome: Wrong | Error) -> None:
    """Draw the sentence, help by symptom and what the code printed; nothing outside a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return
    from IPython.display import display

    row = find_symptom(exercise.help, outcome.sentence)
    plain = [f"Try this: {row[1]}"] if row else []
    plain.append(f"Hints are folded below the check cell of exercise {exercise.id}.")
    page = {"text/html": render_help(exercise, outcome), "text/plain": "\n".join(plain)}
    display(page, raw=True)


def find_symptom(help: tuple[tuple[str, str], ...], sentence: str) -> tuple[str, str] | None:
    """Return the row whose symptom a sentence tells of: most of its words stand there.

    >>> find_symptom((("rows sum to 0", "divide"), ("it is transposed", "swap")),
    ...              "your mask is right but it is transposed")
    ('it is transposed', 'swap')
    >>> find_symptom((("rows sum to 0", "divide"),), "your code raised NameError") is None
    True
    """
    told = _words(sentence)
    shares = [(len(_words(row[0]) & told) / len(_words(row[0])), row) for row in help]
    share, row = max(shares, key=lambda pair: pair[0], default=(0, None))
    return row if share >= ALIKE else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) or {text}


def render_help(exercise: Exercise, outcome: Wrong | Error) -> str:
    """Return the rich view of a wrong answer or an error as HTML."""
    parts = [f"<p><b>Exercise {exercise.id}</b>: {html.escape(outcome.sentence)}</p>"]
    row = find_symptom(exercise.help, outcome.sentence)
    if row:
        parts.append(f"<p><b>Try this:</b> {html.escape(row[1])}</p>")
    others = [pair for pair in exercise.help if pair != row]
    if others:
        rows = "".join(
            f"<tr><td>{html.escape(symptom)}</td><td>{html.escape(advice)}</td></tr>"
            for symptom, advice in others
        )
        table = f"<table><tr><th>If you see</th><th>then</th></tr>{rows}</table>"
        parts.append(f"<details><summary>Something else looks wrong?</summary>{table}</details>")
    if outcome.printed:
        parts.append(f"<p>Your code printed:</p><pre>{html.escape(outcome.printed)}</pre>")
    ask = f'from lessonlib.exercises import hint; hint("{exercise.id}")'
    parts.append(
        f"<p>Hints are folded below this cell, or ask: <code>{html.escape(ask)}</code></p>"
    )
    style = "border-left:4px solid #D55E00;padding:2px 12px;background:#fff;color:#222"
    return f'<div style="{style}">' + "".join(parts) + "</div>"


def _show_code(code: str) -> None:
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(code)
        return
    from IPython.display import Code, display

    display(Code(code, language="python"))
