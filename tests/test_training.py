"""Training: the loop, its checkpoints, Muon, and ``train target`` then ``train draft`` in small."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.taps import take_taps
from lessonlib.drafting import distill
from lessonlib.drafting.eagle_training import acceptance_by_step
from lessonlib.lab import cards, corpus, features, heads, muon, recipes, train, training
from lessonlib.lab.features import FeatureStore, build_store
from lessonlib.lab.muon import Muon, build_optimizers, orthogonalise
from lessonlib.lab.pairs import load_pair
from lessonlib.lab.training import Plan, draw_batch, fit
from tests.tinypair import write_model

SIZES = {"TARGET_LAYERS": 2, "DRAFT_LAYERS": 1, "WIDTH": 16, "HEADS": 2, "CONTEXT": 32}
STREAM = np.tile(np.arange(7, dtype=np.uint16), 40)


@pytest.fixture(autouse=True)
def one_second_steps(monkeypatch):
    """A clock that ticks once a reading, so that each step takes exactly a second."""
    clock = itertools.count()
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, size in SIZES.items():
        monkeypatch.setattr(recipes, name, size)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")


def plan_of(seconds: float, **changes) -> Plan:
    return Plan(minutes=seconds / 60, **{"batch": 4, "window": 16, "warmup_tokens": 100, **changes})


def loss_with(model, stop_at: int | None = None):
    """The next-token loss; Ctrl-C is pressed in call number ``stop_at``."""
    calls = itertools.count(1)

    def loss_of(windows):
        if next(calls) == stop_at:
            raise KeyboardInterrupt
        return recipes.next_token_loss(model, windows)

    return loss_of


def draw(*request):
    return draw_batch(STREAM, *request)


def same_weights(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


# The loop


def test_the_loss_falls_on_a_stream_that_repeats(tmp_path):
    model = recipes.build_gpt2(1, 7)
    windows = torch.tensor([list(range(7)) * 3])
    start = recipes.next_token_loss(model, windows).item()
    done = fit(
        model, loss_with(model), draw, plan_of(130), tmp_path, evaluate=lambda: {"held_out": 1.25}
    )
    end = recipes.next_token_loss(model, windows).item()
    assert start > 1.8  # about log 7
    assert end < 0.5
    assert (done.seconds, done.steps) == (130, 130)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["seconds"] for row in rows] == [60, 120, 130]  # each minute and at the end
    assert [row["steps"] for row in rows] == [60, 120, 130]
    assert rows[-1]["tokens"] == done.tokens
    assert rows[2]["loss"] < rows[1]["loss"] < rows[0]["loss"]
    assert all(row["held_out"] == 1.25 for row in rows)
    assert not (tmp_path / "checkpoint.part").exists()


def test_tokens_are_counted_by_the_window_in_use(tmp_path):
    done = fit(m := recipes.build_gpt2(1, 7), loss_with(m), draw, plan_of(20), tmp_path)
    # The cool-down is the last 35 %: 13 seconds have passed after the first 14 steps.
    assert done.tokens == 4 * (14 * 8 + 6 * 16)


@pytest.mark.parametrize("stop_at", [1, 7])
def test_ctrl_c_and_resume_end_where_an_uninterrupted_run_ends(tmp_path, stop_at):
    whole, cut = recipes.build_gpt2(1, 7), recipes.build_gpt2(1, 7)
    wanted = fit(whole, loss_with(whole), draw, plan_of(12), tmp_path / "whole")
    done = fit(cut, loss_with(cut, stop_at), draw, plan_of(12), tmp_path / "cut")
    assert done.steps == stop_at - 1
    again = recipes.build_gpt2(1, 7)
    with torch.no_grad():
        again.transformer.wte.weight.zero_()  # what counts is in the checkpoint
    done = fit(again, loss_with(again), draw, plan_of(12), tmp_path / "cut", resume=True)
    assert done == wanted
    assert (done.steps, done.seconds) == (12, 12)
    assert same_weights(whole, again)
    assert not same_weights(cut, again)


def test_resume_with_a_longer_budget_goes_on(tmp_path):
    model = recipes.build_gpt2(1, 7)
    first = fit(model, loss_with(model), draw, plan_of(5), tmp_path)
    assert fit(model, loss_with(model), draw, plan_of(5), tmp_path, resume=True) == first
    done = fit(model, loss_with(model), draw, plan_of(8), tmp_path, resume=True)
    assert (done.steps, done.tokens > first.tokens) == (8, True)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def test_without_resume_an_old_run_is_not_lost(tmp_path):
    model = recipes.build_gpt2(1, 7)
    fit(model, loss_with(model), draw, plan_of(5), tmp_path)
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="holds a run: go on with --resume, or name another"):
        fit(model, loss_with(model), draw, plan_of(3), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept


def test_a_crash_while_writing_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    model = recipes.build_gpt2(1, 7)
    fit(model, loss_with(model), draw, plan_of(5), tmp_path)
    kept = (tmp_path / "checkpoint.pt").read_bytes()

    def save_half(state, path):
        path.write_bytes(kept[: len(kept) // 2])
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", save_half)
        with pytest.raises(OSError, match="disk full"):
            fit(model, loss_with(model), draw, plan_of(9), tmp_path, resume=True)
    assert (tmp_path / "checkpoint.pt").read_bytes() == kept
    done = fit(model, loss_with(model), draw, plan_of(9), tmp_path, resume=True)
    assert done.steps == 9


def test_a_checkpoint_of_another_shape_is_one_sentence(tmp_path):
    model = recipes.build_gpt2(1, 7)
    fit(model, loss_with(model), draw, plan_of(2), tmp_path)
    for other in (recipes.build_gpt2(2, 7), recipes.build_gpt2(1, 8)):
        with pytest.raises(ValueError, match="is of a model of another shape: name another"):
            fit(other, loss_with(other), draw, plan_of(4), tmp_path, resume=True)


def test_the_rate_warms_up_holds_and_cools_down():
    plan = Plan(minutes=60, warmup_tokens=1000, cooldown=0.25)
    assert plan.rate(0.0, 0) == 0.02  # never quite nothing
    assert plan.rate(0.01, 499) == pytest.approx(0.5)
    assert plan.rate(0.1, 999) == plan.rate(0.74, 10**6) == 1
    assert plan.rate(0.875, 10**6) == pytest.approx(0.5)
    assert plan.rate(1.0, 10**6) == 0.02


def test_windows_are_half_as_long_until_the_cool_down():
    plan = Plan(minutes=60, window=512, cooldown=0.25)
    assert [plan.window_at(x) for x in (0, 0.5, 0.75, 0.76, 1)] == [256, 256, 256, 512, 512]


def test_the_rate_reaches_both_optimizers(tmp_path, monkeypatch):
    seen = []
    real = training._take_step

    def spy(model, loss_of, windows, optimizers):
        seen.append([group["lr"] for o in optimizers for group in o.param_groups])
        return real(model, loss_of, windows, optimizers)

    monkeypatch.setattr(training, "_take_step", spy)
    plan = plan_of(10, muon_lr=0.02, adam_lr=0.003, warmup_tokens=1)
    fit(m := recipes.build_gpt2(1, 7), loss_with(m), draw, plan, tmp_path)
    assert seen[0] == pytest.approx([0.02, 0.02, 0.003])
    assert seen[-1] == pytest.approx([x * (0.1 / 0.35) for x in (0.02, 0.02, 0.003)])


def test_a_batch_depends_on_its_key_and_reaches_both_ends():
    stream = np.arange(20, dtype=np.uint16)
    rows = draw_batch(stream, 400, 4, key=(0, 3))
    assert torch.equal(rows, draw_batch(stream, 400, 4, key=(0, 3)))
    assert not torch.equal(rows, draw_batch(stream, 400, 4, key=(0, 4)))
    assert (rows.diff(dim=1) == 1).all()
    assert (int(rows.min()), int(rows.max())) == (0, 19)
    assert rows.dtype == torch.int64


def test_a_stream_shorter_than_a_window_is_one_sentence():
    assert draw_batch(np.arange(5), 1, 4, key=(0, 0)).tolist() == [[0, 1, 2, 3, 4]]
    with pytest.raises(ValueError, match="stream has 4 tokens: a window takes 5"):
        draw_batch(np.arange(4), 1, 4, key=(0, 0))


# Muon


@pytest.mark.parametrize("shape", [(40, 10), (10, 40), (16, 16), (3, 12, 30)])
def test_orthogonalise_keeps_directions_and_evens_out_lengths(shape):
    matrix = torch.randn(shape, generator=torch.manual_seed(1))
    if shape == (16, 16):  # a square one may be nearly singular by chance
        matrix += 8 * torch.eye(16)
    got = orthogonalise(matrix)
    assert got.shape == matrix.shape
    values = torch.linalg.svdvals(got)
    assert ((values > 0.65) & (values < 1.25)).all()
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    assert (got - left @ right).norm() < 0.35 * (left @ right).norm()
    assert torch.allclose(orthogonalise(1000 * matrix), got, atol=1e-4)


def test_parts_of_a_fused_matrix_are_orthogonalised_one_by_one():
    gradient = torch.randn(8, 24, generator=torch.manual_seed(2))
    gradient[:, :8] *= 100  # would drown the other two in one big matrix
    weight = torch.nn.Parameter(torch.zeros(8, 24))
    weight.grad = gradient.clone()
    Muon([{"params": [weight], "parts": 3}], lr=0.5).step()
    wanted = torch.cat([orthogonalise(part) for part in gradient.chunk(3, dim=1)], dim=1)
    assert torch.allclose(weight, -0.5 * wanted, atol=1e-3)
    assert not torch.allclose(weight, -0.5 * orthogonalise(gradient), atol=0.1)


def test_wide_outputs_get_longer_steps_and_weights_decay():
    wide, still = (torch.nn.Parameter(torch.ones(4, 16)) for _ in range(2))
    wide.grad = torch.randn(4, 16, generator=torch.manual_seed(3))
    still.grad = torch.zeros(4, 16)
    Muon([{"params": [wide, still]}], lr=0.1, decay=0.5).step()
    assert torch.allclose(still, torch.full((4, 16), 0.95))
    assert torch.allclose(wide, 0.95 - 0.1 * 2 * orthogonalise(wide.grad), atol=1e-3)


def test_muon_minimises_a_quadratic():
    wanted = torch.randn(6, 9, generator=torch.manual_seed(4))
    weight = torch.nn.Parameter(torch.zeros(6, 9))
    optimizer = Muon([{"params": [weight]}], lr=0.02, decay=0.0)
    losses = []
    for _ in range(200):
        loss = ((weight - wanted) ** 2).sum()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[1] < losses[0]
    assert losses[-1] < 0.02 * losses[0]


def test_every_weight_has_one_optimizer_and_only_matrices_in_blocks_get_muon():
    model = recipes.build_gpt2(2, 30)
    names = {id(weight): name for name, weight in model.named_parameters()}
    groups = [group for o in build_optimizers(model, 0.1, 0.2) for group in o.param_groups]
    fused, plain, rest = ([names[id(w)] for w in group["params"]] for group in groups)
    assert sorted([*fused, *plain, *rest]) == sorted(names.values())
    assert fused == [f"transformer.h.{i}.attn.c_attn.weight" for i in range(2)]
    assert len(plain) == 2 * 3
    assert all(".h." in name and name.endswith("weight") for name in plain)
    assert [group.get("parts", 1) for group in groups] == [3, 1, 1]
    assert [group["lr"] for group in groups] == [0.1, 0.1, 0.2]
    assert isinstance(build_optimizers(model, 1, 1)[0], muon.Muon)


# The command


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Two small modules to train on and one to hold out."""
    bodies = [f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(60)]
    paths = [tmp_path / f"{name}.py" for name in ("one", "two", "kept")]
    for i, path in enumerate(paths):
        path.write_text("".join(bodies[i::3]))
    monkeypatch.setattr(corpus, "list_modules", lambda: (paths[:2], paths[2:]))
    return paths


def run_main(out, what: str, *more: str) -> int:
    return train.main([what, "--minutes", "0.1", "--out", str(out), *more])


def logits_of(folder) -> tuple[torch.Tensor, torch.Tensor]:
    """What transformers and the course make of the same tokens."""
    ids = [0, 5, 80, 81, 82, 9]
    theirs = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
    ours = GPT2.from_folder(folder)
    with torch.no_grad():
        return theirs(torch.tensor([ids])).logits[0], ours.forward(ids, ours.new_cache()).logits


def test_target_then_draft_end_to_end(tmp_path, sources, capsys):
    out = tmp_path / "runs"
    assert run_main(out, "target") == 0
    assert run_main(out, "draft") == 0
    printed = capsys.readouterr().out
    assert [line.rsplit("; written to ")[-1] for line in printed.splitlines()[:2]] == [
        str(out / "pair" / what) for what in ("target", "draft")
    ]
    assert printed.splitlines()[2:] == [
        f'use it with --pair {out / "pair"}, or in a notebook with load_pair("{out}/pair")'
    ]
    for what, layers in (("target", 2), ("draft", 1)):
        folder = out / "pair" / what
        theirs, ours = logits_of(folder)
        assert (theirs - ours).abs().max() < 1e-4
        card = json.loads((folder / "card.json").read_text())
        assert (folder / "README.md").read_text() == cards.render_card(card)
        assert card["training"]["shape"] == f"GPT-2, {layers} layers, width 16, 2 heads"
        assert card["training"]["steps"] == "6"
        assert card["command"] == f"python course.py train {what} --minutes 0.1"
        assert card["held_out_modules"] == list(corpus.HELD_OUT)
        model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
        numbers = sum(weight.numel() for weight in model.parameters())
        assert card["training"]["parameters"] == f"{numbers:,}"
        held_out = stream_of(folder.parent, sources[2:])
        loss = cards.measure_loss(GPT2.from_folder(folder), held_out)
        assert card["held_out_loss"] == pytest.approx(loss, abs=1e-4)
        assert f"held-out loss {loss:.3f} nats/token" in printed
        assert json.loads((folder / "log.jsonl").read_text())["steps"] == 6
    pair = load_pair(str(out / "pair"))
    alphas = cards.measure_alphas(pair.target, pair.draft, stream_of(out / "pair", sources[2:]))
    assert card["alpha"] == alphas
    assert set(alphas) == {"0", "0.7", "1", "1.5"}


@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
def test_a_head_of_a_target_end_to_end(tmp_path, sources, kind, capsys):
    out, home = tmp_path / "runs", tmp_path / "runs" / "pair"
    assert run_main(out, "target") == 0
    assert run_main(out, "draft") == 0
    assert run_main(tmp_path / "more", kind, "--target", str(home)) == 0
    assert "features on disk" in capsys.readouterr().err
    card = json.loads((home / kind / "card.json").read_text())
    assert card["command"] == f"python course.py train {kind} --target {home} --minutes 0.1"
    assert [len(rates) for rates in card["by_position"].values()] == [heads.POSITIONS] * 4
    assert (home / kind / "README.md").read_text() == cards.render_card(card)
    pair = load_pair(str(home))
    head = heads.find_head(pair, kind)
    assert head.shape.kind == kind
    assert card["alpha"]["1"] == card["by_position"]["1"][0]
    again = heads.measure(head, FeatureStore.open(find_store(tmp_path / "more")), (1.0,))
    assert again["alpha"]["1"] == pytest.approx(card["alpha"]["1"], abs=2e-3)  # float16 weights


def find_store(out):
    return next(out.rglob("held_out/features.npy")).parent


def test_a_head_that_is_missing_names_its_command(tmp_path, sources):
    assert run_main(tmp_path, "target") == 0
    assert run_main(tmp_path, "draft") == 0
    pair = load_pair(str(tmp_path / "pair"))
    with pytest.raises(FileNotFoundError, match=r"course\.py train eagle1 --target"):
        heads.find_head(pair, "eagle1")


def stream_of(pair, paths) -> np.ndarray:
    tokenizer = Tokenizer.from_file(str(pair / "target" / "tokenizer.json"))
    return corpus.encode_texts(tokenizer, corpus.read_sources(paths))


def test_the_held_out_module_is_in_no_training_batch(tmp_path, sources):
    text = recipes.load_text(tmp_path / "tokenizer.json")
    assert np.array_equal(text.held_out, corpus.encode_texts(text.tokenizer, [kept(sources)]))
    assert (text.train == 0).sum() == 2
    again = recipes.load_text(tmp_path / "tokenizer.json")  # the tokenizer is kept, not retrained
    assert np.array_equal(again.train, text.train)


def kept(sources) -> str:
    return sources[2].read_text()


def test_a_draft_starts_as_the_targets_first_layers():
    target = recipes.build_gpt2(2, 30)
    with torch.no_grad():
        for weight in target.parameters():
            weight.add_(1.0)
    draft = recipes.start_draft(target)
    theirs = target.state_dict()
    assert len(draft.transformer.h) == 1
    assert all(torch.equal(weight, theirs[name]) for name, weight in draft.state_dict().items())


def test_a_draft_has_no_dropout_though_its_target_was_trained_with_it(tmp_path):
    write_model(tmp_path, layers=2, seed=1)
    target = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert target.config.resid_pdrop == target.config.embd_pdrop == target.config.attn_pdrop == 0.1
    draft = recipes.start_draft(target).train()
    wanted, got = (draft(torch.tensor([[1, 2, 3]])).logits for _ in range(2))
    assert torch.equal(wanted, got)
    assert draft.config.resid_pdrop == draft.config.embd_pdrop == draft.config.attn_pdrop == 0


@pytest.fixture
def store(tmp_path, sources):
    """A random target with sharp rows, and its features over the small text."""
    text = recipes.load_text(tmp_path / "tokenizer.json")
    model = recipes.build_gpt2(2, text.tokenizer.get_vocab_size())
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    model.save_pretrained(tmp_path / "sharp")
    target = GPT2.from_folder(tmp_path / "sharp")
    stores = {
        name: build_store(target, stream, tmp_path / name, window=32, windows=99)
        for name, stream in (("train", text.train), ("held_out", text.held_out))
    }
    return SimpleNamespace(model=model, target=target, stores=stores, text=text)


@pytest.mark.parametrize("loss", ["forward-kl", "reverse-kl", "tv"])
def test_a_draft_learns_its_target_by_any_loss(tmp_path, store, loss):
    draft = recipes.start_draft(store.model)
    plan = plan_of(40, window=32)
    recipes.train_draft(draft, store.target.head, store.stores, loss, plan, tmp_path / "run", False)
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert set(rows[-1]["alpha"]) == {"0", "0.5", "1", "1.5"}
    windows = torch.from_numpy(store.stores["train"].tokens[:8, :-1].astype(np.int64))
    with torch.no_grad():
        wanted, start = (
            store.model(windows).logits,
            recipes.start_draft(store.model)(windows).logits,
        )
        end = draft(windows).logits
    measure = distill.LOSSES[loss]
    assert measure(wanted, end, None) < 0.6 * measure(wanted, start, None)


def test_features_are_the_targets_and_give_its_logits_back(store):
    tokens, features = store.stores["train"].draw(3, 20, key=(0, 1))
    assert tokens.shape == (3, 21)
    assert features.shape == (3, 20, 3, 16)
    for row, kept in zip(tokens, features, strict=True):
        output = store.target.forward(row[:-1].tolist(), store.target.new_cache())
        assert (take_taps(output) - kept).abs().max() < 2e-3 * kept.abs().max()
        assert (kept[:, -1] @ store.target.head.mT - output.logits).abs().max() < 2e-2
    same, other = (store.stores["train"].draw(3, 20, key=(0, i))[0] for i in (1, 2))
    assert torch.equal(tokens, same)
    assert not torch.equal(tokens, other)


def test_features_go_on_where_they_were_stopped(tmp_path, store, monkeypatch):
    wanted = store.stores["train"]
    calls, real = itertools.count(1), store.target.forward

    def interrupted(tokens, cache):
        if next(calls) == 120:
            raise KeyboardInterrupt
        return real(tokens, cache)

    options = {"window": 2, "windows": 150}
    stream = store.text.train
    monkeypatch.setattr(store.target, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_store(store.target, stream, tmp_path / "cut", **options)
    again = build_store(store.target, stream, tmp_path / "cut", **options)
    assert next(calls) == 120 + 50 + 1  # 100 windows were kept
    whole = build_store(store.target, stream, tmp_path / "whole", **options)
    assert np.array_equal(again.features, whole.features)
    assert len(wanted.tokens) > 1


def test_features_of_another_text_or_too_many_are_refused(tmp_path, store, monkeypatch):
    stream, folder = store.text.train, tmp_path / "train"
    with pytest.raises(ValueError, match="holds features of another text or target: remove it"):
        build_store(store.target, stream[5:], folder, window=32, windows=99)
    with pytest.raises(ValueError, match="stream has 9 tokens: one window takes 33"):
        build_store(store.target, stream[:9], tmp_path / "short", window=32, windows=99)
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr(features.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match="use fewer --windows, or another --out"):
        build_store(store.target, stream, tmp_path / "full", window=32, windows=99)


def test_the_alphas_of_the_log_weigh_windows_alike_whatever_their_batch(tmp_path, store):
    whole, count = store.stores["held_out"], 5
    sizes = [len(tokens) for tokens, _ in whole.spread(count)]
    assert sizes == [3, 2]
    draft = recipes.start_draft(store.model)

    def compare(batch, measure):
        tokens, top = batch
        with torch.no_grad():
            return measure(top @ store.target.head.mT, draft(tokens[:, :-1]).logits, tokens[:, 1:])

    def alphas(batch: int) -> float:
        batches = whole.spread(count, batch=batch)
        return recipes.measure_alphas(compare, batches, (1.0,))["alpha"]["1"]

    assert alphas(4) == pytest.approx(alphas(1), abs=1e-4)
    means = [compare(b, lambda *x: distill.acceptance_rates(*x[:2], 1.0).mean())
             for b in whole.spread(count)]  # fmt: skip
    assert abs(float(torch.stack(means).mean()) - alphas(1)) > 2e-4  # what it used to be


def test_a_heads_alphas_weigh_windows_alike_too(store):
    whole, count = store.stores["held_out"], 5
    head = heads.build("eagle1", store.target)
    alphas = heads.measure(head, whole, (1.0,), count)
    by_row = [
        acceptance_by_step(head, features, tokens, heads.POSITIONS, 1.0)
        for tokens, features in whole.spread(count, tap=slice(None), batch=1)
    ]
    assert alphas["by_position"]["1"] == pytest.approx(np.mean(by_row, axis=0), abs=1e-4)
    assert alphas["alpha"]["1"] == alphas["by_position"]["1"][0]


def test_two_runs_of_one_token_budget_see_the_same_text(tmp_path, store):
    plan = Plan(tokens=1000, batch=2, window=32, warmup_tokens=100)
    seen = {"a": [], "b": []}
    for name, keys in seen.items():
        draft = recipes.start_draft(store.model)

        def spy(batch, window, key, keys=keys):
            keys.append((batch, window, key))
            return store.stores["train"].draw_top(batch, window, key)

        stores = {**store.stores, "train": SimpleNamespace(draw_top=spy)}
        run = tmp_path / name
        recipes.train_draft(draft, store.target.head, stores, "tv", plan, run, False)
    assert seen["a"] == seen["b"]
    assert 1000 <= sum(batch * window for batch, window, _ in seen["a"]) < 1064


@pytest.mark.parametrize("budget", [{}, {"minutes": 1, "tokens": 5}, {"tokens": -1}])
def test_a_plan_has_one_budget(budget):
    with pytest.raises(ValueError, match="give one budget above 0"):
        Plan(**budget)


def test_a_draft_without_a_target_is_one_sentence(tmp_path, capsys):
    assert run_main(tmp_path, "draft") == 2
    printed = capsys.readouterr().err
    assert (
        printed == f"train: no target in {tmp_path / 'pair' / 'target'}: run 'train target' first, "
        "or name one with --target bundled\n"
    )


def test_resuming_another_shape_is_one_sentence(tmp_path, sources, monkeypatch, capsys):
    assert run_main(tmp_path, "target") == 0
    monkeypatch.setattr(recipes, "WIDTH", 24)
    assert run_main(tmp_path, "target", "--resume") == 2
    assert "is of a model of another shape: name another folder" in capsys.readouterr().err


def press_ctrl_c(monkeypatch, step: int) -> None:
    """Interrupt the training of a target in that step."""
    real, calls = recipes.next_token_loss, itertools.count(1)

    def interrupted(model, windows):
        if next(calls) == step:
            raise KeyboardInterrupt
        return real(model, windows)

    monkeypatch.setattr(recipes, "check_target", lambda *a: {"held_out": 1.0})
    monkeypatch.setattr(recipes, "next_token_loss", interrupted)


def test_an_interrupted_run_exports_nothing_and_goes_on(tmp_path, sources, monkeypatch, capsys):
    press_ctrl_c(monkeypatch, step=4)
    assert run_main(tmp_path, "target") == 130
    assert "stopped: go on with --resume" in capsys.readouterr().out
    target = tmp_path / "pair" / "target"
    assert [file.name for file in target.iterdir()] == ["tokenizer.json"]
    assert run_main(tmp_path, "target", "--resume") == 0
    assert json.loads((target / "card.json").read_text())["training"]["steps"] == "6"
    assert not (tmp_path / "pair" / "target.bak").exists()


def test_an_interrupted_run_leaves_its_own_earlier_result(tmp_path, sources, monkeypatch):
    assert run_main(tmp_path, "target") == 0
    target = tmp_path / "pair" / "target"
    kept = read_files(target)
    press_ctrl_c(monkeypatch, step=3)
    more = ["target", "--minutes", "0.2", "--out", str(tmp_path), "--resume"]
    assert train.main(more) == 130
    assert read_files(target) == kept
    assert train.main(more) == 0  # and the run that ends replaces it, without a copy
    assert json.loads((target / "card.json").read_text())["training"]["steps"] == "12"
    assert sorted(path.name for path in target.parent.iterdir()) == ["target"]


def read_files(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_target_of_another_run_is_kept_and_its_tokenizer_stays(tmp_path, sources, capsys):
    assert run_main(tmp_path, "target") == 0
    target = tmp_path / "pair" / "target"
    for name in ("target.bak", "target.bak2"):
        kept = read_files(target)
        shutil.rmtree(tmp_path / "target")
        assert run_main(tmp_path, "target", "--batch", "2" if name == "target.bak" else "3") == 0
        assert f"is now in {target.with_name(name)}" in capsys.readouterr().err
        assert read_files(target.with_name(name)) == kept
        assert (target / "tokenizer.json").read_bytes() == kept["tokenizer.json"]
        assert GPT2.from_folder(target).shape.layers == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_it_spoils_a_weight(tmp_path, bad):
    model = recipes.build_gpt2(1, 7)
    fit(model, loss_with(model), draw, plan_of(3), tmp_path)
    kept = read_files(tmp_path)
    calls = itertools.count(1)

    def loss_of(windows):
        loss = recipes.next_token_loss(model, windows)
        return loss * bad if next(calls) == 3 else loss

    with pytest.raises(ValueError, match=rf"loss is {bad} after 5 steps.*checkpoint.pt is from"):
        fit(model, loss_of, draw, plan_of(9), tmp_path, resume=True)
    assert next(calls) == 4
    assert read_files(tmp_path) == kept
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_a_gradient_that_is_not_finite_stops_too(tmp_path):
    model = recipes.build_gpt2(1, 7)

    def loss_of(windows):
        loss = recipes.next_token_loss(model, windows)
        return loss + (loss - loss.detach()).sqrt()  # 0, with a slope without end

    with pytest.raises(ValueError, match=r"gradient is .* after 0 steps.*nothing was saved"):
        fit(model, loss_of, draw, plan_of(9), tmp_path)
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_a_run_that_diverges_is_one_sentence(tmp_path, sources, monkeypatch, capsys):
    monkeypatch.setattr(recipes, "next_token_loss", lambda m, _: m.lm_head.weight.sum() * torch.nan)
    assert run_main(tmp_path, "target") == 2
    assert "train: the loss is nan after 0 steps" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "pair" / "target" / "model.safetensors").exists()


def spoil_checkpoint(change):
    def spoil(path):
        saved = torch.load(path, weights_only=True)
        torch.save(change(saved), path)

    return spoil


SPOILT = {
    "text": lambda path: path.write_text("my notes"),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:2000]),
    "a list": spoil_checkpoint(lambda saved: [1, 2]),
    "other keys": spoil_checkpoint(lambda saved: {"state": saved["model"]}),
    "weights a list": spoil_checkpoint(lambda saved: saved | {"model": [1]}),
    "no counts": spoil_checkpoint(lambda saved: saved | {"done": {"steps": 1}}),
    "an optimizer too few": spoil_checkpoint(lambda s: s | {"optimizers": s["optimizers"][:1]}),
    "optimizers of another": spoil_checkpoint(lambda s: s | {"optimizers": [{}, {}]}),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_checkpoint_that_is_not_ours_is_one_sentence(tmp_path, fault):
    model = recipes.build_gpt2(1, 7)
    fit(model, loss_with(model), draw, plan_of(2), tmp_path)
    SPOILT[fault](tmp_path / "checkpoint.pt")
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt cannot be read: remove it to start again"
    ):
        fit(model, loss_with(model), draw, plan_of(4), tmp_path, resume=True)


def test_a_draft_with_more_layers_than_its_target_is_refused():
    target = recipes.build_gpt2(2, 30)
    assert len(recipes.start_draft(target, 2).transformer.h) == 2
    with pytest.raises(ValueError, match="layers is 3: the target has 1 to 2 to keep"):
        recipes.start_draft(target, 3)


def cut_short(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


STORE_DAMAGE = {
    "state cut": lambda folder: cut_short(folder / "state.json"),
    "state empty": lambda folder: (folder / "state.json").write_text("{}"),
    "state a list": lambda folder: (folder / "state.json").write_text("[]"),
    "features cut": lambda folder: cut_short(folder / "features.npy"),
    "features empty": lambda folder: (folder / "features.npy").write_bytes(b""),
    "features missing": lambda folder: (folder / "features.npy").unlink(),
    "tokens missing": lambda folder: (folder / "tokens.npy").unlink(),
    "tokens of another": lambda folder: np.save(folder / "tokens.npy", np.zeros((3, 4))),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("damage", STORE_DAMAGE)
def test_a_damaged_store_is_one_sentence_with_its_folder(tmp_path, store, damage, whole):
    folder = tmp_path / "train"
    if not whole:  # as a run leaves it that was stopped on the way
        state = json.loads((folder / "state.json").read_text())
        (folder / "state.json").write_text(json.dumps(state | {"done": 1}))
        build_store(store.target, store.text.train, folder, window=32, windows=99)
        (folder / "state.json").write_text(json.dumps(state | {"done": 1}))
    STORE_DAMAGE[damage](folder)
    with pytest.raises(ValueError, match=re.escape(f"{folder} is damaged: remove it")):
        build_store(store.target, store.text.train, folder, window=32, windows=99)


def test_a_store_of_more_windows_names_the_option(tmp_path, store):
    build_store(store.target, store.text.train, tmp_path / "few", window=32, windows=3)
    with pytest.raises(ValueError, match=r"of 3 windows and this run wants 4: use --windows 3, or"):
        build_store(store.target, store.text.train, tmp_path / "few", window=32, windows=4)


def test_a_batch_larger_than_the_windows_is_refused_before_any_work(tmp_path, capsys):
    assert run_main(tmp_path, "eagle1", "--target", "nowhere", "--windows", "4") == 2
    assert capsys.readouterr().err == (
        "train: batch is 16 but only 4 windows are kept: use --batch 4 or more --windows\n"
    )


def test_a_batch_larger_than_the_text_is_refused_before_its_features(tmp_path, sources, capsys):
    assert run_main(tmp_path, "target") == 0
    assert run_main(tmp_path, "draft", "--batch", "5000") == 2
    assert "train: batch is 5000 but only " in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.rglob("features.npy"))


@pytest.mark.parametrize("what", ["eagle1", "target"])
@pytest.mark.parametrize("option", ["--layers=3", "--loss=tv"])
def test_what_only_drafts_have_is_refused_elsewhere(tmp_path, capsys, what, option):
    with pytest.raises(SystemExit) as caught:
        run_main(tmp_path, what, option)
    assert caught.value.code == 2
    assert f"are for drafts: leave them out with '{what}'" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "ten"])
def test_a_budget_of_no_time_is_refused(tmp_path, capsys, minutes):
    with pytest.raises(SystemExit) as caught:
        train.main(["target", "--out", str(tmp_path), f"--minutes={minutes}"])
    assert caught.value.code == 2
    assert "--minutes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_is_one_sentence(tmp_path, sources, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_DEVICE", "tpu")
    assert run_main(tmp_path, "target") == 2
    assert capsys.readouterr().err.startswith("train: COURSE_DEVICE=tpu: use cpu or cuda")
