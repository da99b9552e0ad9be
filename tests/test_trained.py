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
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.eagle import KINDS
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import corpus, heads, pairs, recipes, train, training
from lessonlib.lab.features import FeatureStore
from lessonlib.lab.heads import find_head
from lessonlib.lab.naming import name_target
from lessonlib.lab.pairs import PairNotFoundError, load_pair
from tests.tinypair import VOCAB, write_hub_model, write_model, write_pair
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


def test_the_draft_that_was_there_is_kept(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    kept = (folder / "draft" / "model.safetensors").read_bytes()
    assert train.main(["draft", "--minutes", "0.1", "--target", str(folder),
                       "--out", str(tmp_path / "runs")]) == 0  # fmt: skip
    said = capsys.readouterr().err
    assert f"{folder / 'draft'} held another model, which is now in {folder / 'draft.bak'}" in said
    assert (folder / "draft.bak" / "model.safetensors").read_bytes() == kept
    assert (folder / "draft" / "model.safetensors").read_bytes() != kept
    check_decodes(load_pair(str(folder)))


def test_a_short_run_does_not_replace_the_head_of_another(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    run(capsys, "eagle1", "--target", folder, "--out", tmp_path / "runs")
    kept = (folder / "eagle1" / "model.safetensors").read_bytes()
    other = ("eagle1", "--target", folder, "--out", tmp_path / "other")
    run(capsys, *other, "--batch", 3)
    assert (folder / "eagle1.bak" / "model.safetensors").read_bytes() == kept
    own = (folder / "eagle1" / "model.safetensors").read_bytes()
    assert own != kept
    # Going on with a run replaces what it made itself.
    assert train.main([*map(str, other), "--batch", "3", "--minutes", "0.2", "--resume"]) == 0
    assert (folder / "eagle1" / "model.safetensors").read_bytes() != own
    assert not (folder / "eagle1.bak2").exists()


def test_a_run_does_not_start_in_the_folder_of_anothers_model(tmp_path, bundled, capsys):
    where = ["--target", "bundled", "--out", str(tmp_path / "runs"), "--minutes", "0.1"]
    run(capsys, "eagle1", *where[:4])
    folder = tmp_path / "runs" / "bundled" / "eagle1"
    (folder / "checkpoint.pt").unlink()
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert train.main(["eagle1", *where]) == 2
    assert f"train: {folder} holds a model of another run: move it, or" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept


def test_an_interrupted_head_is_not_exported(tmp_path, monkeypatch, capsys):
    folder = write_pair(tmp_path / "mine")
    where = ["eagle1", "--target", str(folder), "--out"]
    run(capsys, *where, tmp_path / "runs")
    kept = (folder / "eagle1" / "model.safetensors").read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(heads, "eagle_loss", interrupted)
    for what in ("eagle1", "eagle3"):
        assert train.main([what, *where[1:], str(tmp_path / "other")]) == 130
    assert (folder / "eagle1" / "model.safetensors").read_bytes() == kept
    assert sorted(path.name for path in folder.iterdir()) == ["draft", "eagle1", "target"]


@pytest.mark.parametrize(("what", "context"), [("draft", 512), ("eagle1", 512), ("draft", 40)])
def test_tokens_seen_are_those_of_the_windows_that_are_read(
    tmp_path, monkeypatch, capsys, what, context
):
    """The target's context is 96: longer windows than that are not in its store."""
    monkeypatch.setattr(recipes, "CONTEXT", context)
    folder, seen = write_pair(tmp_path / "mine"), []
    real = FeatureStore.draw

    def spy(self, *request, **options):
        batch = real(self, *request, **options)
        seen.append(batch[1].shape[0] * batch[1].shape[1])
        return batch

    monkeypatch.setattr(FeatureStore, "draw", spy)
    run(capsys, what, "--target", folder, "--out", tmp_path / "runs", "--batch", 2)
    card = json.loads((folder / what / "card.json").read_text())
    assert len(seen) == 6
    assert card["training"]["tokens seen"] == f"{sum(seen):,}"
    assert max(seen) == 2 * min(context, 96)


def spoil_weights(target, change):
    file = target / "model.safetensors"
    save_file({name: change(weight) for name, weight in load_file(file).items()}, file)


BAD_TARGETS = {
    "NaN": (lambda t: spoil_weights(t, lambda w: w * torch.nan), "do not belong to its config"),
    "cut": (lambda t: cut_short(t / "model.safetensors"), "cannot be used, fetch or make it"),
    "tokenizer cut": (lambda t: cut_short(t / "tokenizer.json"), "tokenizer.json cannot be used"),
    "small vocabulary": (
        lambda t: write_model(t, layers=1, seed=3, vocab=VOCAB - 5),
        "has 300 tokens and the target 295: use the tokenizer",
    ),
    "tiny context": (
        lambda t: shorten(t, 8),
        "has a context of 8 tokens: use a target with 16 or more",
    ),
    "another model": (
        lambda t: (t / "config.json").write_text('{"model_type": "llama"}'),
        "holds no GPT-2: drafts and heads are made for GPT-2 targets",
    ),
}


def cut_short(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def shorten(target, context: int) -> None:
    model = GPT2LMHeadModel.from_pretrained(target)
    config = model.config
    config.n_positions = context
    model.transformer.wpe.weight.data = model.transformer.wpe.weight.data[:context].clone()
    model.save_pretrained(target)


@pytest.mark.parametrize("what", ["draft", "eagle3"])
@pytest.mark.parametrize("fault", BAD_TARGETS)
def test_a_target_that_cannot_be_learnt_from_is_one_sentence(tmp_path, capsys, what, fault):
    folder = write_pair(tmp_path / "mine")
    spoil, words = BAD_TARGETS[fault]
    spoil(folder / "target")
    assert train.main([what, "--target", str(folder), "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert words in said[-1]
    assert said[-1].startswith(f"train: {folder / 'target'}")
    assert not (tmp_path / "runs").exists()


def test_the_least_context_trains_every_head(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    shorten(folder / "target", recipes.LEAST_CONTEXT)
    for kind in KINDS:
        run(capsys, kind, "--target", folder, "--out", tmp_path / "runs")
        card = json.loads((folder / kind / "card.json").read_text())
        assert all(0 <= rate <= 1 for rate in card["by_position"]["1"])


def test_more_layers_than_the_target_has_is_one_sentence(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    where = ["--target", str(folder), "--out", str(tmp_path / "runs")]
    assert train.main(["draft", "--layers", "40", *where]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "train: layers is 40: the target has 1 to 2 to keep"
    )


def test_a_damaged_head_of_a_pair_is_one_sentence(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    run(capsys, "eagle1", "--target", folder, "--out", tmp_path / "runs")
    pair = load_pair(str(folder))
    (folder / "eagle1" / "config.json").write_text('{"kind')
    with pytest.raises(ValueError, match=r"eagle1 cannot be used .*: train it again"):
        find_head(pair, "eagle1")
    (folder / "eagle1" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="has no eagle1 head: train one with"):
        find_head(pair, "eagle1")
