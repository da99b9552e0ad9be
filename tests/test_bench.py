"""The benchmark: pairing, counting and choosing on clocks of our own; no real second is judged."""

from __future__ import annotations

import io
import json
import platform
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from lessonlib.classroom import readme
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.decoding.trace import Round, Trace
from lessonlib.drafting.eagle import save_head
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import bench, bench_run, timing
from lessonlib.lab.bench_cells import Cell, cut_prompts, describe_cell
from lessonlib.lab.bench_report import LEGEND, print_results, write_markdown, write_row
from lessonlib.lab.bench_rows import Costs, count_asked, count_depths, describe_row, explain_slow
from lessonlib.lab.calibration import NODES, calibrate, count_tokens, list_full_rounds
from lessonlib.lab.fingerprint import take_fingerprint
from lessonlib.lab.pairs import bundled_folder, load_pair
from lessonlib.lab.proposers import PLAIN, Proposer, Size, list_missing, list_proposers
from lessonlib.lab.race import play_turn, race
from lessonlib.lab.turns import Turn, find_middle, split_round, summarize_ratios
from lessonlib.theory.verify import Test
from tests.tinypair import write_pair
from tests.tinytarget import make_head
from tests.toys import TableModel, coins_of

PROPOSERS = ["draft model", "EAGLE-1 chain", "EAGLE-2 tree", "EAGLE-3 chain", "EAGLE-3 tree"]
EVERYBODY = [PLAIN, *PROPOSERS, "transformers", "transformers assisted"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny pair on disk with both heads."""
    folder = write_pair(tmp_path_factory.mktemp("pair"))
    target = load_pair(str(folder)).target
    for kind in ("eagle1", "eagle3"):
        save_head(make_head(kind, target), folder / kind)
    return folder


@pytest.fixture(scope="module")
def pair(folder):
    return load_pair(str(folder), dtype="float64")


# ---- rows: pairing and counting


def test_ratios_are_paired_before_the_median():
    # The machine gets slow after two repeats; both partners see one and the same machine.
    plain = [Turn(10, 10, seconds) for seconds in (1.0, 1.0, 3.0, 3.0, 3.0)]
    other = [Turn(10, 5, seconds) for seconds in (0.5, 0.5, 1.5, 0.75, 3.0)]
    assert summarize_ratios(plain, other) == {"median": 2.0, "low": 1.0, "high": 4.0}
    # The ratio of the medians sets a slow turn of one against a quick one of the other.
    assert np.median([a.seconds for a in plain]) / np.median([b.seconds for b in other]) == 4.0
    # Unequal lengths: what counts is the time of a token.
    assert summarize_ratios([Turn(10, 10, 1.0)], [Turn(20, 9, 1.0)])["median"] == 2.0


def make_test(node, accepted, alpha=0.5):
    return Test(node, 0, 0.5, 0.5, 1.0, 0.0, accepted, alpha)


def make_round(start, drafted, passes, closed, parents=()):
    """A round: ``passes`` is (node, accepted) for each test; emits the passed and one more."""
    tests = [make_test(node, accepted) for node, accepted in passes]
    count = 1 + sum(accepted for _, accepted in passes)
    kinds = ["drafted"] * (count - 1) + [closed]
    return Round(start, [0] * drafted, tests, [0] * count, kinds, 0, parents=list(parents))


def make_trace():
    """Five prompt tokens, then rounds of 3, 1, 2 and 1 tokens at K = 2; the last had no room."""
    return Trace(
        [0] * 5,
        [
            make_round(5, 2, [(0, True), (1, True)], "bonus"),
            make_round(8, 2, [(0, False)], "recovered"),
            make_round(9, 2, [(0, True), (1, False)], "recovered"),
            make_round(11, 0, [], "bonus"),
        ],
    )


def test_depths_are_counted_by_position():
    assert count_depths([make_trace()]) == ([3, 2], [2, 1])
    # A failed sibling before the one that passed is no failure of that depth.
    siblings = make_round(5, 3, [(0, False), (1, True), (2, False)], "recovered", (-1, -1, 1))
    assert count_depths([Trace([0] * 5, [siblings])]) == ([1, 1], [1, 0])
    # Three siblings that fail are one failure of the first depth.
    failed = make_round(5, 3, [(0, False), (1, False), (2, False)], "recovered", (-1, -1, -1))
    deep = make_round(6, 3, [(0, True), (1, True), (2, True)], "bonus")
    assert count_depths([Trace([0] * 5, [failed, deep])]) == ([2, 1, 1], [1, 1, 1])
    assert count_depths([Trace([0] * 5, [make_round(5, 0, [], "bonus")])]) == ([], [])


def test_the_last_rounds_are_asked_for_less():
    # Room behind the newest token: 12 - 5 - 1 = 6, 3, 2 and 0.
    assert count_asked(make_trace(), 2) == 2 + 2 + 2 + 0
    assert count_asked(make_trace(), 4) == 4 + 3 + 2 + 0


def test_a_row_holds_what_its_turns_say():
    turn = Turn(7, 4, seconds=10.0, draft=2.0, target=7.0, trace=make_trace())
    row = describe_row("x", [Turn(7, 7, 20.0)], [turn], Costs(Size(2), c=0.5, v=1.25))
    assert row["tau"] == 7 / 4
    assert row["speedup"]["median"] == 2.0
    assert row["loop"] == pytest.approx(0.1)
    assert (row["drafted"], row["accepted"], row["rounds"]) == (6, 3, 4)
    assert row["alpha"] == 0.5
    assert row["alpha_path"] == 3 / 5
    assert row["middle"]["predicted"] == pytest.approx(7 / 4 / (0.5 * 6 / 4 + 1.25))
    assert row["turns"] == [
        {"tokens": 7, "rounds": 4, "seconds": 10.0, "draft": 2.0, "target": 7.0}
    ]


def test_prediction_and_cost_are_those_of_the_median_repeat():
    plain = [Turn(7, 7, seconds) for seconds in (7.0, 7.0, 70.0)]
    halves = [(2.0, 7.0, 10.0), (1.0, 2.0, 4.0), (1.0, 3.0, 5.0)]
    turns = [Turn(7, 4, total, draft, target, make_trace()) for draft, target, total in halves]
    assert find_middle(plain, turns) == 1  # the ratios are 0.7, 1.75 and 14
    middle = describe_row("x", plain, turns, Costs(Size(2), 0.5, 1.25))["middle"]
    assert [middle[part] for part in ("draft", "target", "rest")] == [1 / 4, 2 / 4, 1 / 4]
    # The tokens of a round over its cost are the measured speed.
    assert middle["tau"] / (1 / 4 + 2 / 4 + 1 / 4) == pytest.approx(1.75)
    assert split_round(plain, turns) == pytest.approx((4 / 48, 12 / 48, 3 / 48))


def describe(speed, c=0.5, v=1.25, K=2, **changes):
    turn = Turn(7, 4, seconds=10.0, draft=2.0, target=7.0, trace=make_trace())
    row = describe_row("x", [Turn(7, 7, 10.0 * speed)], [turn], Costs(Size(K), c, v))
    return row | changes


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (describe(1.2), ""),
        (describe(0.999), ""),  # 1.00 in the table: nobody lost
        (describe(0.8), "x 0.80x, slower: a round brought 1.75 tokens and took 2.19 plain rounds "
         "(drafting 0.44, verifying 1.53, the loop 0.22); to pay, alpha along the path must be "
         "0.72, it was 0.60"),
        (describe(0.8, v=2.5), "; at this c and v no alpha pays"),
        (describe(0.8, c=0.1), "(drafting 0.44, verifying 1.53, the loop 0.22)"),
    ],
)  # fmt: skip
def test_who_loses_is_told_why(row, reason):
    said = explain_slow(row)
    assert said.endswith(reason)
    assert bool(said) == bool(reason)


def test_transformers_rows_are_told_why_too():
    turns = [Turn(30, 15, 3.0)]
    cell = Cell("code", 0.0, {PLAIN: [Turn(30, 30, 2.0, 0.0, 1.9, Trace([1]))]})
    cell.turns |= {"transformers": [Turn(30, 30, 6.0)], "transformers assisted": turns}
    rows = describe_cell(cell, {})["rows"]
    assert explain_slow(rows[0]) == ""
    assert "200.0 ms a token, no draft" in explain_slow(rows[1])
    assert explain_slow(rows[2]).endswith("brings 2.00 tokens, 2.00x its own plain decoding")
    assert write_row(rows[2])["loop"] == write_row(rows[2])["α"] == "-"


# ---- cells: who plays when


class Band:
    """Entrants that take given seconds and say in which order they were called."""

    def __init__(self, **seconds):
        self.calls, self.seconds = [], seconds

    def entrants(self):
        def enter(name):
            def play(prompt, sampling, seed):
                self.calls.append((name, tuple(prompt), sampling.temperature, seed))
                if (name, seed) == getattr(self, "stop_at", None):
                    raise KeyboardInterrupt
                return Turn(10, 10, self.seconds[name] * (1 + seed))

            return play

        return {name: enter(name) for name in self.seconds}


def test_a_cell_is_interleaved_and_nobody_is_always_first():
    band, ticks = Band(a=2.0, b=1.0, c=4.0), []
    cell = Cell("code", 0.7)
    prompts = [[1], [2], [3], [4]]
    race(band.entrants(), prompts, Sampling(0.7), lambda: ticks.append(1), cell.turns)
    assert "".join(call[0] for call in band.calls) == "abcbcacababc"
    assert [call[1:] for call in band.calls[::3]] == [((i + 1,), 0.7, i) for i in range(4)]
    assert len(ticks) == 12
    assert {name: len(turns) for name, turns in cell.turns.items()} == {"a": 4, "b": 4, "c": 4}
    rows = describe_cell(cell, {})["rows"]
    # The machine slows down from repeat to repeat: paired, every ratio stays what it is.
    assert [row["speedup"] for row in rows] == [
        {"median": x, "low": x, "high": x} for x in (1.0, 2.0, 0.5)
    ]


def test_ctrl_c_keeps_whole_repeats_only():
    band, cell = Band(a=1.0, b=1.0), Cell("code", 0.0)
    band.stop_at = ("a", 2)
    with pytest.raises(KeyboardInterrupt):
        race(band.entrants(), [[1]] * 5, Sampling(0), turns=cell.turns)
    assert {name: len(turns) for name, turns in cell.turns.items()} == {"a": 2, "b": 2}
    assert describe_cell(cell, {})["repeats"] == 2


def test_prompts_come_from_the_second_half_and_differ():
    prompts = cut_prompts(list(range(100)), 5, 20)
    assert [prompt[-1] for prompt in prompts] == [49, 61, 74, 87, 99]
    assert all(prompt == list(range(prompt[-1] - 19, prompt[-1] + 1)) for prompt in prompts)
    with pytest.raises(ValueError, match="ask for fewer repeats or fewer tokens"):
        cut_prompts([1, 2, 3], 5, 20)


# ---- calibration: c, v and the size they lead to


class SlowModel(TableModel):
    """Takes ``first`` seconds for a token and ``more`` for each further one, on a fake clock."""

    def __init__(self, clock, first, more, seed=1):
        super().__init__(3, seed, context=200)
        self.clock, self.first, self.more = clock, first, more

    def forward(self, tokens, cache, parents=None):
        self.clock.now += self.first + self.more * (len(tokens) - 1)
        return super().forward(tokens, cache, parents)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def calibrate_toys(clock, draft_seconds, more, K=None, seed=1):
    """A pair whose draft is the target itself (seed 1) or another model."""
    target = SlowModel(clock, 1.0, more)
    draft = SlowModel(clock, draft_seconds, 0.0, seed)
    proposers = {"draft": Proposer(lambda sampling, size: SmallModelDrafter(draft, sampling))}
    costs = calibrate(target, proposers, [0, 1, 2], (0.7, 1.0), K)
    return costs["draft"]


def test_costs_are_measured_in_plain_forwards(clock):
    costs = calibrate_toys(clock, 0.25, 0.5, K=4)
    assert costs.size == Size(4)
    assert costs.c == pytest.approx(0.25)
    assert costs.v == pytest.approx(1 + 4 * 0.5)


def test_the_size_follows_the_formula(clock):
    # The draft is the target: all is accepted, E = K + 1.
    assert calibrate_toys(clock, 0.01, 0.0).size == Size(8)  # all but free: as deep as it goes
    assert calibrate_toys(clock, 0.01, 1.5).size == Size(1)  # verifying costs more than it brings
    # Another model, accepted now and then: drafting deep pays only where it is cheap.
    cheap, dear = (calibrate_toys(clock, seconds, 0.05, seed=2).size.K for seconds in (0.01, 0.9))
    assert dear < cheap


def test_less_is_counted_from_rounds_that_drafted_more():
    rounds = [
        make_round(0, 4, [(0, True), (1, True), (2, True), (3, False)], "recovered"),
        make_round(0, 4, [(0, False)], "recovered"),
    ]
    assert [count_tokens(rounds, Size(K)) for K in (1, 2, 3, 4)] == [1.5, 2.0, 2.5, 2.5]
    # A tree: node 5 is gone from a tree of four, and with it what hangs below.
    tree = [make_round(0, 8, [(0, False), (2, True), (5, True), (6, True)], "bonus")]
    assert [count_tokens(tree, Size(8, nodes)) for nodes in (2, 4, 6, 8)] == [1, 2, 3, 4]
    assert count_tokens(tree, Size(2, 8)) == 3


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_is_counted_is_what_a_smaller_tree_brings(pair, nodes, temperature):
    """Round by round: the larger tree's first nodes, verified with the same coins."""
    from lessonlib.decoding.steps import run_alone
    from lessonlib.theory.treemask import under_root
    from lessonlib.theory.verify import verify

    sampling, tree = Sampling(temperature), list_proposers(pair)["EAGLE-2 tree"]
    for seed in range(12):
        text = [*range(5, 12), seed]
        drafter, cache = tree.make(sampling, tree.size(4, max(NODES))), pair.target.new_cache()
        drafter.settle(text, pair.target.forward(text[:-1], cache))
        whole = run_alone(drafter.propose(text, 4, iter([])))
        parents = under_root(whole.parents)
        logits = pair.target.forward([text[-1], *whole.tokens], cache, parents).logit_rows()
        p_rows, small = sampling.probabilities(logits), whole.first(nodes)
        large = verify(whole, p_rows, coins_of(seed))
        least = verify(small, p_rows[: len(small.tokens) + 1], coins_of(seed))
        round = Round(0, list(whole.tokens), list(large.tests), [], ["bonus"], 0)
        assert count_tokens([round], Size(4, nodes)) == len(least.path) + 1


def test_rounds_without_room_do_not_count():
    trace = make_trace()
    assert [round.start for round in list_full_rounds([trace], 2)] == [5, 8, 9]
    assert [round.start for round in list_full_rounds([trace], 3)] == [5, 8]
    assert list_full_rounds([trace], 30) == trace.rounds


# ---- proposers


def test_only_proposers_with_weights_are_listed(folder, pair, tmp_path):
    assert list(list_proposers(pair)) == PROPOSERS
    assert list_missing(pair) == []
    bare = load_pair(str(write_pair(tmp_path)))
    assert list(list_proposers(bare)) == ["draft model"]
    assert len(list_missing(bare)) == 2
    assert "course.py train eagle1" in list_missing(bare)[0]


@pytest.mark.parametrize("name", PROPOSERS)
def test_proposers_are_lossless_and_drafts_are_fresh(pair, name):
    proposer, greedy = list_proposers(pair)[name], Sampling(0)
    size = proposer.size(3, 8)
    how = {"max_new_tokens": 25, "K": 3, "sampling": greedy}
    plain = generate(pair.target, None, [1, 2, 3], coins=coins_of(1), **how)
    for _ in range(2):
        drafter = proposer.make(greedy, size)
        trace = generate(pair.target, drafter, [1, 2, 3], coins=coins_of(1), **how)
        assert trace.new_tokens == plain.new_tokens
        assert max(len(round.drafted) for round in trace.rounds) == size.width - 1
    assert proposer.make(greedy, size) is not proposer.make(greedy, size)


def test_a_turn_counts_its_forwards(pair):
    ticks = iter(range(10_000))
    how = {"tokens": 12, "sampling": Sampling(0), "seed": 1, "clock": lambda: next(ticks)}
    plain = play_turn(pair.target, None, None, [1, 2, 3], **how)
    assert (plain.tokens, plain.rounds, plain.draft) == (12, 12, 0)
    assert plain.target == 12  # a tick for each forward; the prefill is not among them
    proposer = list_proposers(pair)["EAGLE-3 tree"]
    turn = play_turn(pair.target, proposer, proposer.size(2, 4), [1, 2, 3], **how)
    assert turn.tokens == 12
    assert turn.target == turn.rounds
    # One forward for each depth asked for; the very first one fills the head's empty cache.
    assert turn.draft == count_asked(turn.trace, 2) - 1


def test_transformers_is_timed_behind_its_first_round(folder, pair, monkeypatch):
    from transformers import GPT2LMHeadModel

    from lessonlib.lab.hf_rivals import load_rivals

    forwards, forward = [], GPT2LMHeadModel.forward

    def count(self, *args, **kwargs):
        forwards.append(self.config.n_layer)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(GPT2LMHeadModel, "forward", count)
    rivals = load_rivals(folder / "target", folder / "draft", like=pair.target)
    clock = lambda: float(forwards.count(2))  # noqa: E731 (a tick for each target forward)
    for T in (0.0, 1.0):
        for name, rival in rivals.items():
            turn = rival(pair.encode("import os\n"), 20, Sampling(T), 1, clock)
            assert turn.seconds == turn.rounds  # one target forward a round, the first is out
            # The first round brings one token; with an assistant it may have brought more.
            assert turn.tokens == 20 if name == "transformers" else 1 <= turn.tokens <= 20
            assert turn.rounds <= turn.tokens
            again = rival(pair.encode("import os\n"), 20, Sampling(T), 1, clock)
            assert (again.tokens, again.rounds) == (turn.tokens, turn.rounds)


# ---- the command


def run(folder, *argv) -> int:
    return bench.main(["--pair", str(folder), "--tokens", "6", *argv])


@pytest.fixture(scope="module")
def whole_run(folder, tmp_path_factory):
    """The JSON file of a run over all texts."""
    file = tmp_path_factory.mktemp("results") / "bench.json"
    assert run(folder, "--K", "2", "--json", str(file)) == 0
    return file


def test_the_json_holds_everybody_and_the_raw_seconds(whole_run):
    cells = json.loads(whole_run.read_text())["cells"]
    wanted = [(name, T) for name in ("code", "prose", "noise") for T in (0.0, 0.7, 1.0)]
    assert [(cell["text"], cell["T"]) for cell in cells] == wanted
    for cell in cells:
        assert [row["proposer"] for row in cell["rows"]] == EVERYBODY
        for row in cell["rows"][: len(PROPOSERS) + 1]:
            assert [turn["tokens"] for turn in row["turns"]] == [6] * 5
        for row in cell["rows"]:
            # What is told is what the raw seconds say.
            ratios = [
                a["seconds"] / a["tokens"] / (b["seconds"] / b["tokens"])
                for a, b in zip(cell["rows"][0]["turns"], row["turns"], strict=True)
            ]
            assert row["speedup"]["median"] == pytest.approx(np.median(ratios), rel=1e-4)
        assert [row["K"] for row in cell["rows"] if "c" in row] == [2] * len(PROPOSERS)


def test_the_json_says_where_it_was_measured_but_not_whose(folder, whole_run):
    text = whole_run.read_text()
    results = json.loads(text)
    assert results["command"] == (
        f"python course.py bench --pair .../{folder.name} --tokens 6 --K 2 --json .../bench.json"
    )
    assert {"cpu", "cores", "threads", "python", "torch"} <= set(results["machine"])
    assert results["machine"]["threads"] >= 1
    assert platform.node() not in text or len(platform.node()) < 4
    assert str(whole_run.parent) not in text
    assert str(folder) not in text


def test_every_cell_is_printed(whole_run, capsys):
    results = json.loads(whole_run.read_text())
    bench.report(results, None)
    out = capsys.readouterr().out
    assert out.count("plain decoding") >= 9
    assert "prose, T = 0.7, 5 repeats" in out
    for row in results["cells"][4]["rows"]:
        assert write_row(row)["measured"] in out
        assert explain_slow(row) in out


def test_no_number_is_cut_on_a_narrow_terminal(whole_run):
    results, page = json.loads(whole_run.read_text()), io.StringIO()
    print_results(results, Console(file=page, width=80))
    assert "…" not in page.getvalue()
    for row in results["cells"][0]["rows"]:
        assert write_row(row)["measured"].split()[1] in page.getvalue()


def test_the_readmes_table_is_made_from_the_json(whole_run):
    results = json.loads(whole_run.read_text())
    made = readme.write_bench_table(whole_run)
    assert made == readme.write_bench_table(whole_run) == write_markdown(results)
    assert LEGEND in made
    for row in results["cells"][2]["rows"]:
        assert f"| 1 | {row['proposer']} | " in made
        assert f"| {row['speedup']['median']:.2f} (" in made
        if explain_slow(row):
            assert f"* T = 1: {explain_slow(row)}" in made


def test_the_stored_benchmark_is_of_the_bundled_weights_and_everybody():
    # Fails after either changed: run `python course.py bench --json lessonlib/data/bench.json`.
    results = json.loads(readme.BENCH.read_text(encoding="utf-8"))
    assert results["weights"] == take_fingerprint(bundled_folder())
    for cell in results["cells"]:
        assert [row["proposer"] for row in cell["rows"]] == EVERYBODY


def test_the_readme_shows_the_stored_benchmark():
    text = (readme.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.read_part(text, "bench") == readme.write_bench_table()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--repeats", "4"], "repeats is 4: a median wants 5 or more"),
        (["--tokens", "1"], "tokens is 1: use 2 or more"),
        (["--tokens", "90"], "tokens is 90: the target's context of 96 has room for at most 74"),
        (["--K", "0"], "K is 0: use 1 or more"),
        (["--K", "6"], "K is 6: use less than the 6 tokens that a turn emits"),
        (["--json", "nowhere/bench.json"], "there is no folder nowhere to write into"),
        (["--json", "."], ". is a folder: name a file in it"),
        (["--pair", "/nowhere"], "no config.json in /nowhere/target: name one of bundled"),
    ],
)
def test_a_request_that_cannot_be_is_one_sentence_and_code_2(
    folder, monkeypatch, tmp_path, capsys, argv, sentence
):
    monkeypatch.chdir(tmp_path)
    assert run(folder, *argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bench: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err


def test_offline_gpt2_names_the_bundled_pair(monkeypatch, tmp_path, capsys):
    from lessonlib.lab import pairs

    def fail(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(pairs, "_take_snapshot", fail)
    assert bench.main(["--pair", "gpt2"]) == 2
    assert "use the pair 'bundled', which needs no network" in capsys.readouterr().err


@pytest.mark.parametrize("whole", [0, 1])
def test_ctrl_c_prints_and_keeps_what_was_measured(folder, tmp_path, capsys, monkeypatch, whole):
    """The signal comes in the middle of the second cell, or before anything was measured."""

    def race_until(entrants, prompts, sampling, *rest):
        if not whole or sampling.temperature == 0.7:
            prompts = [*prompts[: 2 * whole], None]
            entrants = {name: stop_without_prompt(entrant) for name, entrant in entrants.items()}
        race(entrants, prompts, sampling, *rest)

    def stop_without_prompt(entrant):
        def turn(prompt, *how):
            if prompt is None:
                signal.raise_signal(signal.SIGINT)
            return entrant(prompt, *how)

        return turn

    monkeypatch.setattr(bench_run, "race", race_until)
    file = tmp_path / "bench.json"
    assert run(folder, "--quick", "--K", "2", "--json", str(file)) == 130
    captured = capsys.readouterr()
    if not whole:
        assert not file.exists()
        assert captured.err.endswith("bench: interrupted; nothing was measured yet\n")
        return
    results = json.loads(file.read_text())
    assert results["interrupted"]
    assert [(cell["T"], cell["repeats"]) for cell in results["cells"]] == [(0.0, 5), (0.7, 2)]
    assert "code, T = 0.7, 2 repeats" in captured.out
    assert captured.err.endswith("bench: interrupted; above is what was measured\n")


def test_missing_heads_and_transformers_are_noted(tmp_path, capsys, monkeypatch):
    from lessonlib.lab import hf_rivals

    def fail(*args, **kwargs):
        raise ValueError("no such model")

    monkeypatch.setattr(hf_rivals, "load_rivals", fail)
    folder = write_pair(tmp_path)
    assert run(folder, "--quick", "--K", "1") == 0
    out = capsys.readouterr().out
    assert "has no eagle3 head" in out
    assert "note: transformers cannot run this pair and is left out (no such model)" in out
    assert "EAGLE" not in out
