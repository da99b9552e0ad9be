"""Recordings: what is stored is what the bundled pair does, and it loads without torch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lessonlib.decoding.trace import Round, Trace
from lessonlib.lab import recordings
from lessonlib.theory.verify import Test

FILES = ("lesson00_runs.json", "lesson01_contexts.json", "lesson01_round.json")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Everything recorded anew, from the weights as they are."""
    folder = tmp_path_factory.mktemp("recordings")
    recordings.record(folder)
    return folder


def read(path):
    return json.loads(path.read_text(encoding="ascii"))


def compare(stored, new, where: str) -> None:
    """Everything equal, but for floats, which may differ by 1e-3 and a rounding step of 1e-3."""
    if isinstance(stored, float) and isinstance(new, float):
        assert abs(stored - new) < 2.1e-3, where
    elif isinstance(stored, dict) and isinstance(new, dict):
        assert list(stored) == list(new), where
        for key, value in stored.items():
            compare(value, new[key], f"{where}.{key}")
    elif isinstance(stored, list) and isinstance(new, list):
        assert len(stored) == len(new), where
        for i, (a, b) in enumerate(zip(stored, new, strict=True)):
            compare(a, b, f"{where}[{i}]")
    else:
        assert stored == new, where


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_recordings_belong_to_the_bundled_weights(fresh, name):
    # Fails after the weights changed: run `python -m lessonlib.lab.recordings` then.
    assert {path.name for path in fresh.iterdir()} == set(FILES)
    compare(read(recordings.DATA / name), read(fresh / name), name)


def test_the_comparison_itself_sees_a_difference():
    old = {"a": [1, 0.5, "x"], "b": True}
    compare(old, {"a": [1, 0.501, "x"], "b": True}, "same")
    for new in (
        {"a": [2, 0.5, "x"], "b": True},
        {"a": [1, 0.51, "x"], "b": True},
        {"a": [1, 0.5], "b": True},
        {"a": [1, 0.5, "x"], "b": False},
        {"a": [1, 0.5, "x"]},
    ):
        with pytest.raises(AssertionError):
            compare(old, new, "new")


def test_the_files_are_small_and_plain_ascii():
    assert sum((recordings.DATA / name).stat().st_size for name in FILES) < 1_000_000
    for name in FILES:
        assert (recordings.DATA / name).read_bytes().isascii()


def test_there_is_a_run_for_every_stop_of_both_sliders():
    runs = recordings.load_runs()
    assert set(runs) == {(K, T) for K in recordings.LENGTHS for T in recordings.TEMPERATURES}
    for (K, _), trace in runs.items():
        assert len(trace.new_tokens) == 48
        assert max(len(round.drafted) for round in trace.rounds) == K
        assert len({tuple(t.prompt) for t in runs.values()}) == 1
        pieces = "".join(trace.pieces[token] for token in trace.prompt)
        assert pieces == recordings.PROMPT
        assert {*trace.prompt, *trace.new_tokens} <= set(trace.pieces)


def test_greedy_runs_write_one_text_whatever_K_is():
    texts = {tuple(t.new_tokens) for (_, T), t in recordings.load_runs().items() if T == 0}
    assert len(texts) == 1  # the target's own


def test_the_round_shows_the_likeliest_tokens_of_each_position():
    trace = recordings.load_round()
    assert len(trace.new_tokens) == 24
    for round in trace.rounds:
        assert len(round.top) == len(round.drafted) + 1
        for i, row in enumerate(round.top):
            assert len(row.tokens) == 8
            assert set(row.tokens) <= set(trace.pieces)
            assert row.p == sorted(row.p, reverse=True)
            assert len(row.q) == (0 if i == len(round.drafted) else 8)
            assert set(round.drafted[i : i + 1]) <= set(row.tokens)


def test_contexts_are_laws_with_the_shown_tokens_first():
    contexts = recordings.load_contexts()
    assert [row["text"] for row in contexts] == list(recordings.CONTEXTS)
    for row in contexts:
        p, q = np.exp(row["p_logits"]), np.exp(row["q_logits"])
        assert p.shape == q.shape
        assert p.size > 1000
        assert p.sum() == pytest.approx(1, abs=2e-3)
        assert q.sum() == pytest.approx(1, abs=2e-3)
        assert len(row["tokens"]) == recordings.SHOWN
        assert np.maximum(p, q)[:12].min() >= 0.999 * np.maximum(p, q)[12:].max()


def round_of(accepted: int, drafted: int) -> Round:
    tests = [Test(i, 1, 0.5, 0.5, 1.0, 0.1, i < accepted, 1.0) for i in range(drafted)]
    return Round(1, [1] * drafted, tests, [1], ["drafted"], 1)


def test_the_round_to_show_first_is_one_with_both_outcomes():
    rounds = [round_of(0, 3), round_of(3, 3), round_of(1, 3), round_of(2, 3)]
    assert recordings.pick_round(Trace([0], rounds)) == 2
    assert recordings.pick_round(Trace([0], rounds[:2])) == 0
