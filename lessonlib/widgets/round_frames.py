"""One recorded round as a sequence of frames: draft, score, toss, replace or add.

`list_moments` says what has happened at each step; `draw_moment` draws one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lessonlib.decoding.trace import Round, Trace
from lessonlib.widgets import svg
from lessonlib.widgets.chart import Chart
from lessonlib.widgets.marks import Axis, Band, Bars, Mark, token_axis
from lessonlib.widgets.player import Step
from lessonlib.widgets.style import ROLES, WIDE, ink

HEIGHT, GUTTER, CHART_TOP, CHART_HEIGHT = 470, 74, 248, 220
SHOWN = 8  # tokens in the chart of one position
CHANCE = Axis("probability", 0, 1)


@dataclass(frozen=True)
class Moment:
    """How far the round has come: ``kind`` is draft, score, test, residual, bonus or end.

    ``drafted`` tokens are on the table and ``tested`` of them decided; the chart shows
    ``position``. ``scored`` says whether the target has run, ``closed`` whether the
    last emitted token is out.
    """

    kind: str
    position: int
    drafted: int
    tested: int = 0
    scored: bool = False
    closed: bool = False


def list_moments(round_: Round) -> list[Moment]:
    """The moments of one round, in order.

    One for each drafted token, one for the target's forward, one for each coin, one
    for the closing token (from the residual or the bonus), one to sum up.
    """
    K, tests = len(round_.drafted), round_.tests
    moments = [Moment("draft", i, i + 1) for i in range(K)]
    moments.append(Moment("score", 0, K, scored=True))
    moments += [Moment("test", i, K, i + 1, scored=True) for i in range(len(tests))]
    closing = {"recovered": "residual", "bonus": "bonus"}.get(round_.kinds[-1])
    last = min(len(tests), K) if closing == "bonus" else max(len(tests) - 1, 0)
    if closing:
        moments.append(Moment(closing, last, K, len(tests), scored=True, closed=True))
    return [*moments, Moment("end", last, K, len(tests), scored=True, closed=True)]


def draw_round(trace: Trace, number: int) -> list[Step]:
    """All frames of round ``number`` (0 is the first) of a recorded trace."""
    if not 0 <= number < len(trace.rounds):
        raise ValueError(f"number is {number}, but the trace has {len(trace.rounds)} rounds")
    return [draw_moment(trace, number, m) for m in list_moments(trace.rounds[number])]


def draw_moment(trace: Trace, number: int, moment: Moment) -> Step:
    """One frame: the text so far, the table of drafted tokens, the chart of one position."""
    round_ = trace.rounds[number]
    caption = describe_moment(trace, round_, moment)
    body = _draw_text(trace, number) + _draw_table(trace, round_, moment)
    chart = _chart_position(trace, round_, moment)
    if chart is not None:
        body += f'<g transform="translate(0 {CHART_TOP})">{chart.body()}</g>'
    return Step(svg.picture(WIDE, HEIGHT, body, caption), caption)


def describe_moment(trace: Trace, round_: Round, moment: Moment) -> str:
    """The sentence under the frame."""
    K, i = len(round_.drafted), moment.position
    if moment.kind == "draft":
        token, q = _piece(trace, round_.drafted[i]), _chance(round_, i, "q")
        chance = "" if q is None else f", with probability q = {_short(q)}"
        return f"The draft draws token {i + 1} of {K}: {token}{chance}."
    if moment.kind == "score":
        return f"One forward of the target gives p at all {K + 1} positions at once."
    if moment.kind == "test":
        test = round_.tests[i]
        sign, verdict = ("<", "accepted") if test.accepted else ("≥", "rejected, the rest is void")
        ratio = f"min(1, p/q) = min(1, {_short(test.p)}/{_short(test.q)}) = {_short(test.ratio)}"
        return f"Coin u = {test.coin:.2f} {sign} {ratio}: {_piece(trace, test.token)} is {verdict}."
    closing = _piece(trace, round_.emitted[-1])
    if moment.kind == "residual":
        return f"What p has and q lacks, normalised, is the residual: {closing} is drawn from it."
    if moment.kind == "bonus":
        return f"All {K} were accepted, so p at position {K + 1} gives a bonus token: {closing}."
    count = len(round_.emitted)
    return f"{count} token{'s' * (count != 1)} from one forward of the target."


def _piece(trace: Trace, token: int) -> str:
    return svg.show_token(trace.pieces[token])


def _short(chance: float) -> str:
    """Two decimals, or two digits where that would hide a small chance."""
    return f"{chance:.2f}" if chance >= 0.095 else f"{chance:.2g}"


def _chance(round_: Round, i: int, model: str) -> float | None:
    """p or q (``model``) of drafted token i, from its test, or if it had none from its row."""
    if i < len(round_.tests):
        return getattr(round_.tests[i], model)
    token, row = round_.drafted[i], round_.top[i] if i < len(round_.top) else None
    listed = row is not None and token in row.tokens
    return getattr(row, model)[row.tokens.index(token)] if listed else None


def _draw_text(trace: Trace, number: int) -> str:
    """The end of the text this round continues, on one line."""
    tokens = list(trace.prompt)
    for earlier in trace.rounds[:number]:
        tokens += earlier.emitted
    words = svg.show_token("".join(trace.pieces[token] for token in tokens))
    tail = words if len(words) <= 80 else "…" + words[-79:]
    return svg.text(10, 22, "text so far", name="muted") + svg.text(10, 42, tail, mono=True)


def _draw_table(trace: Trace, round_: Round, moment: Moment) -> str:
    """A column for each drafted token and one for the bonus."""
    K = len(round_.drafted)
    room = (WIDE - GUTTER - 8) / (K + 1)
    rows = (("drafted", 92), ("q", 117), ("p", 132), ("coin u", 154), ("emitted", 210))
    drawn = [svg.text(10, y, words, name="muted") for words, y in rows]
    for i in range(K):
        drawn.append(_draw_column(trace, round_, moment, i, GUTTER + i * room, room - 8))
    if moment.closed and round_.kinds[-1] == "bonus":
        drawn.append(
            _draw_cell(trace, round_.emitted[-1], "bonus", GUTTER + K * room, 192, room - 8)
        )
    middle = GUTTER + K * room + room / 2 - 4
    drawn.append(svg.text(middle, 68, "bonus", size=12, anchor="middle", name="muted"))
    return "".join(drawn)


def _draw_column(
    trace: Trace, round_: Round, moment: Moment, i: int, x: float, width: float
) -> str:
    """One drafted token: its box, q and p, the coin, and what was emitted in its place."""
    middle = x + width / 2
    tested = i < moment.tested
    accepted = tested and round_.tests[i].accepted
    head = f"draft {i + 1}" + (" ✓" if accepted else " ✗" if tested else "")
    drawn = [svg.text(middle, 68, head, size=12, anchor="middle", name="muted")]
    if i >= moment.drafted:
        return drawn[0] + svg.rectangle(x, 74, width, 28, ink("box"))
    void = moment.tested > 0 and not tested and not round_.tests[moment.tested - 1].accepted
    role = "baseline" if void else "draft"
    drawn.append(_draw_cell(trace, round_.drafted[i], role, x, 74, width))
    if void or (tested and not accepted):
        cross = f'stroke="{ROLES["residual"].colour}" stroke-width="1.5"'
        drawn.append(svg.segment(x + 4, 98, x + width - 4, 78, cross))
    drawn.append(_draw_chances(round_, moment, i, middle))
    if tested:
        drawn.append(_draw_coin(round_, i, x, width))
    if accepted and i < len(round_.emitted):
        drawn.append(_draw_cell(trace, round_.drafted[i], "accepted", x, 192, width))
    elif tested and moment.closed and round_.kinds[-1] == "recovered":
        drawn.append(_draw_cell(trace, round_.emitted[-1], "residual", x, 192, width))
    return "".join(drawn)


def _draw_cell(trace: Trace, token: int, role: str, x: float, y: float, width: float) -> str:
    """A box with a token in it, in the look of a role, on paper so that it can be read."""
    colour, dash = ROLES[role].colour, ROLES[role].dash
    edge = f'fill-opacity="1" stroke="{colour}" stroke-width="2.5" rx="5" {ink("box")}'
    edge += f' stroke-dasharray="{dash}"' if dash and role != "accepted" else ""
    words = svg.cut(_piece(trace, token), int((width - 8) / 7.9))
    label = svg.text(x + width / 2, y + 19, words, anchor="middle", mono=True)
    return svg.rectangle(x, y, width, 28, edge) + label


def _draw_chances(round_: Round, moment: Moment, i: int, middle: float) -> str:
    """q of a drafted token, and its p once the target has run."""
    drawn = ""
    for model, y in (("q", 117), ("p", 132)) if moment.scored else (("q", 117),):
        chance = _chance(round_, i, model)
        if chance is not None:
            drawn += svg.text(middle, y, _short(chance), size=12, anchor="middle")
    return drawn


def _draw_coin(round_: Round, i: int, x: float, width: float) -> str:
    """A gauge from 0 to 1: the hatched part accepts, the marker is the coin."""
    test = round_.tests[i]
    sign = "<" if test.accepted else "≥"
    at = x + test.coin * width
    return (
        svg.rectangle(x, 144, width, 12, ink("box"))
        + svg.block(x, 144, width * test.ratio, 12, "accepted")
        + svg.segment(at, 139, at, 161, f'stroke-width="3" {ink("edge")}')
        + svg.text(
            x + width / 2,
            176,
            f"{test.coin:.2f} {sign} {_short(test.ratio)}",
            size=11,
            anchor="middle",
        )
    )


def _chart_position(trace: Trace, round_: Round, moment: Moment) -> Chart | None:
    """The likeliest tokens of the position that the moment is about."""
    i = moment.position
    if i >= len(round_.top):
        return None
    rows, picked = _list_rows(round_, i), _picked(round_, moment)
    rows.sort(key=lambda row: (row[0] not in picked, -max(row[1:])))
    rows = sorted(rows[:SHOWN], key=lambda row: -max(row[1:]))
    tokens, p, q = (list(column) for column in zip(*rows, strict=True))
    names = [trace.pieces[token] for token in tokens]
    marks: list[Mark] = [
        Band(spot - 0.5, spot + 0.5, role)
        for spot, token in enumerate(tokens)
        if (role := picked.get(token))
    ]
    marks += _bars(moment, p, q, round_.tests[i].alpha if i < len(round_.tests) else 1.0)
    words = f"position {i + 1}: the likeliest tokens"
    return Chart(words, "", token_axis("", names), CHANCE, marks, WIDE, CHART_HEIGHT)


def _list_rows(round_: Round, i: int) -> list[tuple[int, float, float]]:
    """(token, p, q) of one position: the recorded ones, and the drafted token if it was tested."""
    top = round_.top[i]
    q = top.q or [0.0] * len(top.tokens)  # nothing is drafted at the bonus position
    rows = list(zip(top.tokens, top.p, q, strict=True))
    if i < len(round_.tests) and round_.tests[i].token not in top.tokens:
        test = round_.tests[i]
        rows.append((test.token, test.p, test.q))
    return rows


def _picked(round_: Round, moment: Moment) -> dict[int, str]:
    """The tokens to point at in the chart, and in which role."""
    picked = {}
    if moment.position < len(round_.drafted):
        picked[round_.drafted[moment.position]] = "draft"
    if moment.closed and round_.kinds[-1] in ("recovered", "bonus"):
        picked[round_.emitted[-1]] = {"recovered": "residual"}.get(round_.kinds[-1], "bonus")
    return picked


def _bars(moment: Moment, p: list[float], q: list[float], alpha: float) -> list[Mark]:
    """p and q as far as they are known, and the residual once it is needed."""
    target, draft = Bars(p, "target", "target p", 0, 2), Bars(q, "draft", "draft q", 1, 2)
    if moment.kind == "draft":
        return [Bars(q, "draft", "draft q", 1, 2)]
    residual_shown = moment.closed and moment.kind in ("residual", "end") and alpha < 1
    if residual_shown:
        # The row is cut to its likeliest tokens; the norm of the whole row is 1 − α.
        rest = [max(a - b, 0) / (1 - alpha) for a, b in zip(p, q, strict=True)]
        return [
            Bars(p, "target", "target p", 0, 3),
            Bars(q, "draft", "draft q", 1, 3),
            Bars(rest, "residual", "residual", 2, 3),
        ]
    return [target, draft] if any(q) else [target]
