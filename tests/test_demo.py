"""The demo on a tiny pair: what it prints, what it refuses, and that it owns up when slower."""

from __future__ import annotations

import io
import re
import shutil

import pytest
from rich.console import Console

from lessonlib.decoding.trace import Round, Trace
from lessonlib.lab import demo
from lessonlib.lab.pairs import load_pair
from lessonlib.theory.verify import Test
from tests.tinypair import write_pair

PROMPT = "def read(path):\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(autouse=True)
def one_repeat(monkeypatch):
    """One timed run of each is enough here."""
    monkeypatch.setenv("COURSE_REPEATS", "1")


def trace_of() -> Trace:
    """Two rounds: one drafted token, one recovered; then one drafted, one bonus."""
    tests = [Test(0, 1, 0.5, 0.5, 1.0, 0.1, True, 0.8), Test(1, 2, 0.1, 0.5, 0.2, 0.9, False, 0.4)]
    first = Round(1, [1, 2], tests, [1, 3], ["drafted", "recovered"], 2)
    second = Round(3, [4], tests[:1], [4, 5], ["drafted", "bonus"], 4)
    return Trace([0], [first, second])


PIECES = {0: "x = ", 1: "a", 2: "?", 3: "[b]", 4: "c\n", 5: "d\n  "}


def decode(tokens) -> str:
    return "".join(PIECES[token] for token in tokens)


def printed(console: Console, trace: Trace | None = None, capsys=None) -> str:
    demo.print_run(trace or trace_of(), decode, console)
    return console.file.getvalue()


# The text


def test_without_a_terminal_brackets_tell_the_kinds_apart():
    out = printed(Console(file=io.StringIO(), width=80))
    assert out.startswith("x = a⟨[b]⟩c\n⟦d⏎⟧\n  \n")
    assert "drafted  ⟨recovered⟩  ⟦bonus⟧" in out
    assert "\x1b" not in out


def test_on_a_terminal_styles_do_and_there_are_no_brackets():
    console = Console(
        file=io.StringIO(), width=80, force_terminal=True, color_system="standard", no_color=False
    )
    out = printed(console)
    assert not set("⟨⟩⟦⟧") & set(out)
    codes = {piece: code for code, piece in re.findall(r"\x1b\[([\d;]+)m([^\x1b\n]+)", out)}
    assert codes["x = "] == "2"
    assert codes["a"] == codes["c"] == codes["drafted"]
    assert codes["[b]"] == codes["recovered"]
    assert codes["d⏎"] == codes["bonus"]
    assert len({codes[piece] for piece in ("x = ", "a", "[b]", "d⏎")}) == 4


@pytest.mark.parametrize("off", [{"no_color": True}, {"color_system": None}])
def test_a_terminal_without_colour_gets_brackets(off):
    console = Console(file=io.StringIO(), width=80, force_terminal=True, **off)
    assert "⟨[b]⟩" in printed(console)


def test_a_long_line_of_code_stays_one_line():
    line = "value = some_function(first_argument, second_argument, third_argument) # end"
    trace = Trace([0], [Round(1, [], [], [5], ["bonus"], 1)])
    console = Console(file=io.StringIO(), width=30)
    demo.print_run(trace, lambda tokens: line if tokens == [0] else "d", console)
    assert console.file.getvalue().startswith(f"{line}⟦d⟧\n")


@pytest.mark.parametrize(
    ("piece", "shown", "rest"),
    [
        ("\n", "⏎", "\n"),
        ("\n\n    ", "⏎⏎", "\n\n    "),
        (") \n\t", ") ⏎", "\n\t"),
        ("a\nb", "a⏎b", ""),
        ("    ", "    ", ""),
        ("", "", ""),
    ],
)
def test_a_line_break_in_brackets_is_a_sign_and_the_layout_stays(piece, shown, rest):
    assert demo.mark(piece, "recovered", styled=False).plain == f"⟨{shown}⟩{rest}"
    assert demo.mark(piece, "bonus", styled=True).plain == shown + rest
    assert demo.mark(piece, "drafted", styled=False).plain == piece  # unmarked as it is


# The numbers


def test_counts_are_printed_together(capsys):
    printed(Console(file=io.StringIO()))
    assert capsys.readouterr().out == (
        "alpha 0.667 (of tested tokens)  tau 2.00  rounds 2  drafted 3  accepted 2  "
        "emitted 4  stopped by length\n"
    )


@pytest.mark.parametrize(("speedup", "verdict"), [(1.8, "faster"), (0.55, "slower")])
def test_faster_or_slower_comes_with_its_reason(speedup, verdict):
    sentence = demo.explain_speed(trace_of(), speedup, c=0.25, v=1.5)
    assert sentence == (  # 3 drafted in 2 rounds, whatever K was
        f"{speedup:.2f}x the speed of plain decoding ({verdict}): each round drafted 1.50 tokens, "
        "emitted 2.00 and cost about 1.88 target forwards "
        "(c x 1.50 + v = 0.25 x 1.50 + 1.50), which predicts 1.07x"
    )


def test_main_prints_text_numbers_times_and_a_verdict(folder, capsys):
    argv = ["--pair", str(folder), "--prompt", PROMPT, "--tokens", "12", "--K", "3", "--seed", "4"]
    assert demo.main(argv) == 0
    out = capsys.readouterr().out
    assert out.startswith(PROMPT.rstrip("\n"))
    numbers = re.search(
        r"alpha (\d\.\d{3}) \(of tested tokens\)  tau (\d\.\d\d)  rounds (\d+)  drafted (\d+)  "
        r"accepted (\d+)  emitted (\d+)  stopped by (\w+)",
        out,
    )
    assert 0 < float(numbers[1]) < 1
    rounds, drafted, accepted, emitted = (int(n) for n in numbers.groups()[2:6])
    assert emitted == accepted + rounds == 12
    assert float(numbers[2]) == pytest.approx(emitted / rounds, abs=0.006)
    assert drafted >= accepted
    assert numbers[7] == "length"
    assert re.search(r"plain \d+\.\d\d ms/token  speculative \d+\.\d\d ms/token", out)
    drafted_per_round = f"each round drafted {drafted / rounds:.2f} tokens, emitted "
    assert re.search(
        rf"\d+\.\d\dx the speed of plain decoding \((faster|slower)\): {drafted_per_round}", out
    )
    # One bonus or recovered token for each round, as the marks show.
    text = out.split("\ndrafted")[0]
    assert text.count("⟨") + text.count("⟦") == rounds


def text_of(capsys, *argv: str) -> str:
    assert demo.main([*argv, "--tokens", "8"]) == 0
    return capsys.readouterr().out.split("alpha")[0]


def test_a_seed_fixes_the_text(folder, capsys):
    pair = ["--pair", str(folder)]
    texts = [text_of(capsys, *pair, "--seed", seed) for seed in "112"]
    assert texts[0] == texts[1] != texts[2]


def test_at_temperature_0_the_text_is_the_targets_greedy_one(folder, capsys):
    greedy = ["--pair", str(folder), "--temperature", "0"]
    texts = {re.sub("[⟨⟩⟦⟧]", "", text_of(capsys, *greedy, "--K", K, "--seed", K)) for K in "0125"}
    assert len(texts) == 1


def test_without_drafts_alpha_is_a_dash_and_not_nan(folder, capsys):
    assert demo.main(["--pair", str(folder), "--K", "0", "--tokens", "5"]) == 0
    out = capsys.readouterr().out
    assert "alpha - (of tested tokens)  tau 1.00  rounds 5  drafted 0  accepted 0  emitted 5" in out
    assert "nan" not in out.split("alpha", 1)[1]


def test_an_empty_prompt_starts_at_end_of_text(folder, capsys):
    assert demo.main(["--pair", str(folder), "--prompt", "", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("<|endoftext|>")


def test_top_k_1_is_greedy(folder, capsys):
    pair = ["--pair", str(folder)]
    one = text_of(capsys, *pair, "--top-k", "1")
    assert one == text_of(capsys, *pair, "--temperature", "0")
    assert one == text_of(capsys, *pair, "--top-p", "0.0001")
    assert one != text_of(capsys, *pair)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--temperature", "-1"], "temperature is -1.0: use 0 (greedy) or a positive number"),
        (["--top-p", "0"], "top_p is 0.0: use a number in (0, 1], 1 is off"),
        (["--K", "-1"], "K is -1: use 0 (plain decoding) or more"),
        (["--K", "96"], "K is 96: use less than the target's context of 96"),
        (["--tokens", "0"], "tokens is 0: ask for at least one"),
        (["--prompt", "x = 1\n" * 60], "shorten the prompt"),
    ],
)
def test_a_request_that_cannot_be_is_one_sentence_and_code_2(folder, capsys, argv, sentence):
    assert demo.main(["--pair", str(folder), *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("demo: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err


def test_a_pair_that_is_not_there_is_one_sentence_too(tmp_path, capsys):
    assert demo.main(["--pair", str(tmp_path / "none")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"demo: no config.json in {tmp_path / 'none' / 'target'}: name one of")
    assert err.count("\n") == 1


@pytest.mark.parametrize("file", ["target/tokenizer.json", "draft/model.safetensors"])
def test_a_broken_file_is_one_sentence_too(folder, tmp_path, capsys, file):
    shutil.copytree(folder, tmp_path / "pair")
    (tmp_path / "pair" / file).write_bytes(b"{")
    assert demo.main(["--pair", str(tmp_path / "pair")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("demo: ")
    assert str(tmp_path / "pair" / file).removesuffix("/model.safetensors") in err
    assert err.count("\n") == 1


def test_a_prompt_that_fills_the_context_says_what_stopped_it(folder, capsys):
    pair = load_pair(str(folder))
    ids = pair.encode("x = 1\n" * 60)[:94]
    argv = ["--pair", str(folder), "--prompt", pair.decode(ids), "--tokens", "50", "--K", "2"]
    assert demo.main(argv) == 0
    assert "stopped by context" in capsys.readouterr().out


def test_a_prompt_that_leaves_no_room_is_one_sentence(folder, capsys):
    pair = load_pair(str(folder))
    full = pair.decode(pair.encode("x = 1\n" * 60)[:96])
    assert demo.main(["--pair", str(folder), "--prompt", full]) == 2
    wanted = "demo: prompt fills the target's context of 96: shorten it\n"
    assert capsys.readouterr().err == wanted


def test_a_stream_that_knows_no_brackets_gets_question_marks(folder, monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", narrow)
    assert demo.main(["--pair", str(folder), "--K", "0", "--tokens", "3"]) == 0
    narrow.flush()
    assert b"?bonus?" in narrow.buffer.getvalue()
