"""What ``course.py train`` makes can be loaded: each by the --pair that its last line names."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from types import SimpleNamespace

import platformdirs
import pytest
import torch
from huggingface_hub import constants

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import corpus, pairs, recipes, train, training
from lessonlib.lab.heads import find_head
from lessonlib.lab.naming import name_target
from lessonlib.lab.pairs import PairNotFoundError, load_pair
from tests.tinypair import write_hub_model, write_pair
from tests.toys import coins_of


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Short trainings on small modules: a clock that ticks a second each time it is read."""
    clock = itertools.count()
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    monkeypatch.setattr(recipes, "DRAFT_LAYERS", 1)
    monkeypatch.setattr(recipes, "CONTEXT", 32)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")
    paths = [tmp_path / f"{name}.py" for name in ("one", "two", "kept")]
    for i, path in enumerate(paths):
        path.write_text("".join(f"def f{i + k}(x):\n    return x + {k}\n\n\n" for k in range(20)))
    monkeypatch.setattr(corpus, "list_modules", lambda: (paths[:2], paths[2:]))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's cache of this test."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "user" / name)
    return tmp_path / "user" / "speculative-decoding-course"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub cache that holds a random GPT-2 by the name of gpt2, but no distilgpt2; no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder = write_pair(tmp_path / "source")
    shutil.copy(folder / "target" / "tokenizer.json", folder / "draft")
    write_hub_model(tmp_path / "hub", "openai-community/gpt2", folder / "target")
    return lambda name: write_hub_model(tmp_path / "hub", name, folder / "draft")


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    """A tiny pair in the place of the bundled one."""
    folder = write_pair(tmp_path / "models" / "bundled")
    monkeypatch.setattr(pairs, "bundled_folder", lambda: folder)
    return folder


def run(capsys, what: str, *more: object) -> str:
    """Train for six steps; returns the last line printed."""
    assert train.main([what, "--minutes", "0.1", *map(str, more)]) == 0
    return capsys.readouterr().out.splitlines()[-1]


def named_pair(line: str) -> str:
    """The pair that a last line names, the same for --pair and for load_pair."""
    pattern = r'use it with --pair (\S+), .*load_pair\("(.+?)"\).*'
    shown, loaded = re.fullmatch(pattern, line).groups()
    assert shown == loaded
    return shown


def check_decodes(pair) -> None:
    """The draft drafts, and greedily the text is the target's own."""
    greedy, prompt = Sampling(temperature=0), pair.encode("def f3(x):")
    options = {"max_new_tokens": 20, "sampling": greedy, "coins": coins_of(0)}
    trace = generate(pair.target, SmallModelDrafter(pair.draft, greedy), prompt, K=3, **options)
    assert trace.drafted > 0
    assert trace.new_tokens == generate(pair.target, None, prompt, **options).new_tokens


def same(model: GPT2, folder) -> bool:
    return torch.equal(model.embedding, GPT2.from_folder(folder).embedding)


def test_a_draft_of_a_hub_target_is_a_pair(tmp_path, home, hub, capsys):
    line = run(capsys, "draft", "--target", "gpt2", "--out", tmp_path / "runs")
    assert named_pair(line) == str(home / "gpt2" / "draft")
    pair = load_pair(named_pair(line))
    assert pair.target.shape.layers == 2
    assert same(pair.draft, home / "gpt2" / "draft")
    assert json.loads((home / "gpt2" / "draft" / "card.json").read_text())["target"] == "gpt2"
    check_decodes(pair)
    with pytest.raises(PairNotFoundError, match="distilgpt2 is not in the Hugging Face cache"):
        load_pair("gpt2")  # is what it always was
    hub("distilbert/distilgpt2")
    assert not same(load_pair("gpt2").draft, home / "gpt2" / "draft")


def test_a_head_of_a_hub_target_belongs_to_its_pair_and_to_a_trained_draft(
    tmp_path, home, hub, capsys
):
    where = ("--target", "gpt2", "--out", tmp_path / "runs")
    line = run(capsys, "eagle1", *where)
    assert named_pair(line) == "gpt2"
    assert line.endswith('find_head(load_pair("gpt2"), "eagle1")')
    hub("distilbert/distilgpt2")
    assert find_head(load_pair("gpt2"), "eagle1").shape.kind == "eagle1"
    pair = load_pair(named_pair(run(capsys, "draft", *where)))
    assert find_head(pair, "eagle1").shape.kind == "eagle1"
    with pytest.raises(FileNotFoundError, match=r"train eagle3 --target gpt2'$"):
        find_head(pair, "eagle3")


def test_what_is_trained_for_the_bundled_target_is_used_from_the_runs(tmp_path, bundled, capsys):
    runs, kept = tmp_path / "runs", sorted(bundled.rglob("*"))
    where = ("--target", "bundled", "--out", runs)
    line = run(capsys, "eagle1", *where)
    assert named_pair(line) == str(runs / "bundled" / "eagle1")
    pair = load_pair(named_pair(line))
    assert same(pair.draft, bundled / "draft")  # no other was trained
    assert find_head(pair, "eagle1").shape.kind == "eagle1"
    with pytest.raises(FileNotFoundError, match=r"train eagle1 --target bundled'$"):
        find_head(load_pair("bundled"), "eagle1")
    for more, name in (((), "draft"), (("--loss", "tv"), "draft-tv")):
        line = run(capsys, "draft", *where, *more)
        assert named_pair(line) == str(runs / "bundled" / name)
        pair = load_pair(named_pair(line))
        assert same(pair.target, bundled / "target")
        assert same(pair.draft, runs / "bundled" / name)
        check_decodes(pair)
        assert find_head(pair, "eagle1").shape.kind == "eagle1"
    card = json.loads((runs / "bundled" / "draft" / "card.json").read_text())
    assert (card["title"], card["target"]) == ("Bundled draft", "bundled")
    assert same(load_pair(str(runs / "bundled" / "eagle1")).draft, runs / "bundled" / "draft")
    assert sorted(bundled.rglob("*")) == kept


def test_a_head_beside_a_trained_draft_comes_before_the_one_that_ships(tmp_path, bundled, capsys):
    where = ("--target", "bundled", "--out", tmp_path / "runs")
    pair = load_pair(named_pair(run(capsys, "draft", *where)))
    run(capsys, "eagle1", *where)
    shutil.move(tmp_path / "runs" / "bundled" / "eagle1", bundled / "eagle1")
    shipped = find_head(pair, "eagle1")
    run(capsys, "eagle1", *where, "--batch", 3)
    own = find_head(pair, "eagle1")
    assert not torch.equal(shipped.fuse.weight, own.fuse.weight)


def test_what_is_trained_for_a_pair_in_a_folder_joins_it(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    where = ("--target", folder, "--out", tmp_path / "runs")
    shutil.rmtree(folder / "draft")  # a target alone will do to begin with
    line = run(capsys, "eagle1", *where)
    assert line == f"to use it, train a draft, too: python course.py train draft --target {folder}"
    assert named_pair(run(capsys, "draft", *where)) == str(folder)
    pair = load_pair(str(folder))
    assert same(pair.draft, folder / "draft")
    assert find_head(pair, "eagle1").shape.kind == "eagle1"
    check_decodes(pair)
    line = run(capsys, "draft", *where, "--loss", "tv")
    assert named_pair(line) == str(folder / "draft-tv")
    pair = load_pair(named_pair(line))
    assert same(pair.draft, folder / "draft-tv")
    assert find_head(pair, "eagle1").shape.kind == "eagle1"
    assert named_pair(run(capsys, "eagle3", *where)) == str(folder)


def test_a_draft_of_the_folder_of_one_model_is_a_pair(tmp_path, capsys):
    folder = write_pair(tmp_path / "pair") / "target"
    where = ("--target", folder, "--out", tmp_path / "runs")
    line = run(capsys, "draft", *where)
    assert named_pair(line) == str(folder / "draft")
    pair = load_pair(named_pair(line))
    assert same(pair.target, folder)
    check_decodes(pair)
    line = run(capsys, "eagle1", *where)
    assert find_head(load_pair(named_pair(line)), "eagle1").shape.kind == "eagle1"


def test_a_folder_with_a_space_is_quoted(tmp_path, capsys):
    folder = write_pair(tmp_path / "my pair")
    line = run(capsys, "draft", "--target", folder, "--out", tmp_path / "runs")
    assert line.startswith(f'use it with --pair "{folder}", or')


def test_a_drafts_folder_stands_for_its_target(tmp_path, bundled, capsys):
    line = run(capsys, "draft", "--target", "bundled", "--out", tmp_path / "runs")
    assert name_target(named_pair(line)) == "bundled"
    assert name_target(str(bundled)) == name_target(str(bundled / "target")) == "bundled"
    line = run(
        capsys, "draft", "--target", named_pair(line), "--loss", "tv", "--out", tmp_path / "runs"
    )
    assert named_pair(line) == str(tmp_path / "runs" / "bundled" / "draft-tv")
    assert same(load_pair(named_pair(line)).target, bundled / "target")
    mine = write_pair(tmp_path / "mine")
    assert name_target(str(mine / "draft")) == str(mine)
    assert [name_target(name) for name in ("", "gpt2", str(mine))] == ["", "gpt2", str(mine)]


def test_the_help_says_how_to_use_what_comes_out(capsys):
    with pytest.raises(SystemExit):
        train.main(["--help"])
    assert "``demo --pair runs/bundled/draft``" in capsys.readouterr().out
