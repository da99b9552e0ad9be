"""Training: the loop, its checkpoints, Muon, and ``train target`` then ``train draft`` in small."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.drafting.distill import kl_loss
from lessonlib.lab import cards, corpus, muon, train, training
from lessonlib.lab.muon import Muon, build_optimizers, orthogonalise
from lessonlib.lab.pairs import load_pair
from lessonlib.lab.training import Plan, draw_batch, fit

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
        monkeypatch.setattr(train, name, size)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")


def plan_of(seconds: float, **changes) -> Plan:
    return Plan(seconds / 60, **{"batch": 4, "window": 16, "warmup_tokens": 100, **changes})


def loss_with(model, stop_at: int | None = None):
    """The next-token loss; Ctrl-C is pressed in call number ``stop_at``."""
    calls = itertools.count(1)

    def loss_of(windows):
        if next(calls) == stop_at:
            raise KeyboardInterrupt
        return train.next_token_loss(model, windows)

    return loss_of


def same_weights(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


# The loop


def test_the_loss_falls_on_a_stream_that_repeats(tmp_path):
    model = train.build_gpt2(1, 7)
    windows = torch.tensor([list(range(7)) * 3])
    start = train.next_token_loss(model, windows).item()
    done = fit(model, loss_with(model), STREAM, plan_of(130), tmp_path, evaluate=lambda: 1.25)
    end = train.next_token_loss(model, windows).item()
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
    done = fit(m := train.build_gpt2(1, 7), loss_with(m), STREAM, plan_of(20), tmp_path)
    # The cool-down is the last 35 %: 13 seconds have passed after the first 14 steps.
    assert done.tokens == 4 * (14 * 8 + 6 * 16)


@pytest.mark.parametrize("stop_at", [1, 7])
def test_ctrl_c_and_resume_end_where_an_uninterrupted_run_ends(tmp_path, stop_at):
    whole, cut = train.build_gpt2(1, 7), train.build_gpt2(1, 7)
    wanted = fit(whole, loss_with(whole), STREAM, plan_of(12), tmp_path / "whole")
    done = fit(cut, loss_with(cut, stop_at), STREAM, plan_of(12), tmp_path / "cut")
    assert done.steps == stop_at - 1
    again = train.build_gpt2(1, 7)
    with torch.no_grad():
        again.transformer.wte.weight.zero_()  # what counts is in the checkpoint
    done = fit(again, loss_with(again), STREAM, plan_of(12), tmp_path / "cut", resume=True)
    assert done == wanted
    assert (done.steps, done.seconds) == (12, 12)
    assert same_weights(whole, again)
    assert not same_weights(cut, again)


def test_resume_with_a_longer_budget_goes_on(tmp_path):
    model = train.build_gpt2(1, 7)
    first = fit(model, loss_with(model), STREAM, plan_of(5), tmp_path)
    assert fit(model, loss_with(model), STREAM, plan_of(5), tmp_path, resume=True) == first
    done = fit(model, loss_with(model), STREAM, plan_of(8), tmp_path, resume=True)
    assert (done.steps, done.tokens > first.tokens) == (8, True)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def test_without_resume_an_old_run_is_not_lost(tmp_path):
    model = train.build_gpt2(1, 7)
    fit(model, loss_with(model), STREAM, plan_of(5), tmp_path)
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="holds a run: go on with --resume, or name another"):
        fit(model, loss_with(model), STREAM, plan_of(3), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept


def test_a_crash_while_writing_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    model = train.build_gpt2(1, 7)
    fit(model, loss_with(model), STREAM, plan_of(5), tmp_path)
    kept = (tmp_path / "checkpoint.pt").read_bytes()

    def save_half(state, path):
        path.write_bytes(kept[: len(kept) // 2])
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", save_half)
        with pytest.raises(OSError, match="disk full"):
            fit(model, loss_with(model), STREAM, plan_of(9), tmp_path, resume=True)
    assert (tmp_path / "checkpoint.pt").read_bytes() == kept
    done = fit(model, loss_with(model), STREAM, plan_of(9), tmp_path, resume=True)
    assert done.steps == 9


def test_a_checkpoint_of_another_shape_is_one_sentence(tmp_path):
    model = train.build_gpt2(1, 7)
    fit(model, loss_with(model), STREAM, plan_of(2), tmp_path)
    for other in (train.build_gpt2(2, 7), train.build_gpt2(1, 8)):
        with pytest.raises(ValueError, match="is of a model of another shape: name another"):
            fit(other, loss_with(other), STREAM, plan_of(4), tmp_path, resume=True)


def test_the_rate_warms_up_holds_and_cools_down():
    plan = Plan(60, warmup_tokens=1000, cooldown=0.25)
    assert plan.rate(0.0, 0) == 0.02  # never quite nothing
    assert plan.rate(0.01, 499) == pytest.approx(0.5)
    assert plan.rate(0.1, 999) == plan.rate(0.74, 10**6) == 1
    assert plan.rate(0.875, 10**6) == pytest.approx(0.5)
    assert plan.rate(1.0, 10**6) == 0.02


def test_windows_are_half_as_long_until_the_cool_down():
    plan = Plan(60, window=512, cooldown=0.25)
    assert [plan.window_at(x) for x in (0, 0.5, 0.75, 0.76, 1)] == [256, 256, 256, 512, 512]


def test_the_rate_reaches_both_optimizers(tmp_path, monkeypatch):
    seen = []
    real = training._take_step

    def spy(model, loss_of, windows, optimizers):
        seen.append([group["lr"] for o in optimizers for group in o.param_groups])
        return real(model, loss_of, windows, optimizers)

    monkeypatch.setattr(training, "_take_step", spy)
    plan = plan_of(10, muon_lr=0.02, adam_lr=0.003, warmup_tokens=1)
    fit(m := train.build_gpt2(1, 7), loss_with(m), STREAM, plan, tmp_path)
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
    model = train.build_gpt2(2, 30)
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
    assert printed.count("nats/token; written to") == 2
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


def stream_of(pair, paths) -> np.ndarray:
    tokenizer = Tokenizer.from_file(str(pair / "target" / "tokenizer.json"))
    return corpus.encode_texts(tokenizer, corpus.read_sources(paths))


def test_the_held_out_module_is_in_no_training_batch(tmp_path, sources):
    text = train.load_text(tmp_path / "tokenizer.json")
    assert np.array_equal(text.held_out, corpus.encode_texts(text.tokenizer, [kept(sources)]))
    assert (text.train == 0).sum() == 2
    again = train.load_text(tmp_path / "tokenizer.json")  # the tokenizer is kept, not retrained
    assert np.array_equal(again.train, text.train)


def kept(sources) -> str:
    return sources[2].read_text()


def test_a_draft_starts_as_the_targets_first_layers():
    target = train.build_gpt2(2, 30)
    with torch.no_grad():
        for weight in target.parameters():
            weight.add_(1.0)
    draft = train.start_draft(target)
    theirs = target.state_dict()
    assert len(draft.transformer.h) == 1
    assert all(torch.equal(weight, theirs[name]) for name, weight in draft.state_dict().items())


def test_a_draft_learns_its_target_and_leaves_it_alone(tmp_path, sources):
    text = train.load_text(tmp_path / "tokenizer.json")
    target = train.build_gpt2(2, text.tokenizer.get_vocab_size())
    with torch.no_grad():
        for weight in target.parameters():
            weight.mul_(4)
    before = [weight.clone() for weight in target.parameters()]
    model, _ = train.train_draft(text, target, plan_of(40), tmp_path / "draft", False)
    assert all(torch.equal(a, b) for a, b in zip(before, target.parameters(), strict=True))
    windows = draw_batch(text.train, 16, 16, key=(9, 9))[:, :-1]
    with torch.no_grad():
        wanted, start = target(windows).logits, train.start_draft(target)(windows).logits
        assert kl_loss(wanted, model(windows).logits) < 0.6 * kl_loss(wanted, start)


def test_a_draft_without_a_target_is_one_sentence(tmp_path, capsys):
    assert run_main(tmp_path, "draft") == 2
    printed = capsys.readouterr().err
    assert (
        printed == f"train: no target in {tmp_path / 'pair' / 'target'}: run 'train target' first\n"
    )


def test_resuming_another_shape_is_one_sentence(tmp_path, sources, monkeypatch, capsys):
    assert run_main(tmp_path, "target") == 0
    monkeypatch.setattr(train, "WIDTH", 24)
    assert run_main(tmp_path, "target", "--resume") == 2
    assert "is of a model of another shape: name another folder" in capsys.readouterr().err


def test_ctrl_c_in_the_first_minute_still_exports_what_there_is(tmp_path, sources, monkeypatch):
    monkeypatch.setattr(train, "check_now", lambda *a: 1.0)
    real, calls = train.next_token_loss, itertools.count(1)

    def interrupted(model, windows):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return real(model, windows)

    monkeypatch.setattr(train, "next_token_loss", interrupted)
    assert run_main(tmp_path, "target") == 0
    card = json.loads((tmp_path / "pair" / "target" / "card.json").read_text())
    assert card["training"]["steps"] == "3"
    assert run_main(tmp_path, "target", "--resume") == 0
    card = json.loads((tmp_path / "pair" / "target" / "card.json").read_text())
    assert card["training"]["steps"] == "6"


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
