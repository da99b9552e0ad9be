"""Model cards: the held-out loss and α they state, and the README drawn from them."""

from __future__ import annotations

import json
import platform

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.lab import cards
from tests.tinypair import CONTEXT, VOCAB, write_model

STREAM = np.random.default_rng(5).integers(0, VOCAB, 4 * CONTEXT + 7).astype(np.uint16)
FACTS = {
    "title": "Some model",
    "summary": "What it is.",
    "training": {"steps": "12", "tokens seen": "1,000"},
    "held_out_loss": 2.34567,
    "held_out_modules": ["a.py", "b/c.py"],
    "command": "python course.py train target --minutes 5",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards")
    for seed, part in enumerate(("target", "draft")):
        write_model(folder / part, layers=2 - seed, seed=seed)
    return folder / "target", folder / "draft"


@pytest.fixture(scope="module")
def models(folders):
    return [GPT2.from_folder(folder, dtype=torch.float64) for folder in folders]


def windows_of(count: int = 4) -> np.ndarray:
    starts = range(0, count * CONTEXT, CONTEXT)
    return np.stack([STREAM[s : s + CONTEXT + 1] for s in starts]).astype(np.int64)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def rows_of(model, temperature: float = 1.0) -> np.ndarray:
    """Probabilities (windows, positions, V), computed here."""
    return np.stack(
        [
            softmax(model.forward(w[:-1].tolist(), model.new_cache()).logits.numpy() / temperature)
            for w in windows_of()
        ]
    )


def test_windows_lie_back_to_back_and_each_knows_its_next_token(models):
    seen = [tokens for tokens, _ in cards.run_windows(models[0], STREAM)]
    assert np.array_equal(seen, windows_of())
    for tokens, logits in cards.run_windows(models[0], STREAM):
        assert logits.shape == (CONTEXT, VOCAB)
        assert len(tokens) == CONTEXT + 1


def test_a_mean_counts_rows_and_not_batches():
    batches = [(3, {0.0: 1.0, 1.5: [0.2, 0.4]}), (1, {0.0: 0.0, 1.5: [1.0, 0.0]})]
    assert cards.mean_rates(batches) == {"0": 0.75, "1.5": [0.4, 0.3]}
    assert cards.mean_rates(iter(batches[:1])) == {"0": 1.0, "1.5": [0.2, 0.4]}


def test_the_held_out_loss_is_the_mean_surprise(models):
    windows = windows_of()
    chosen = np.take_along_axis(rows_of(models[0]), windows[:, 1:, None], -1)
    assert cards.measure_loss(models[0], STREAM) == pytest.approx(-np.log(chosen).mean(), abs=1e-10)


def test_the_held_out_loss_is_the_one_transformers_computes(folders, models):
    theirs = GPT2LMHeadModel.from_pretrained(folders[0], dtype=torch.float64).eval()
    windows = torch.from_numpy(windows_of())
    with torch.no_grad():
        logits = theirs(windows[:, :-1]).logits.flatten(0, 1)
        wanted = float(torch.nn.functional.cross_entropy(logits, windows[:, 1:].flatten()))
    assert cards.measure_loss(models[0], STREAM) == pytest.approx(wanted, abs=1e-9)


def test_alphas_are_the_mean_overlap_at_each_temperature(models):
    alphas = cards.measure_alphas(*models, STREAM)
    assert list(alphas) == ["0", "0.7", "1", "1.5"]
    for name in ("0.7", "1", "1.5"):
        p, q = (rows_of(model, float(name)) for model in models)
        assert alphas[name] == pytest.approx(np.minimum(p, q).sum(-1).mean(), abs=6e-5)
    p, q = (rows_of(model) for model in models)
    assert alphas["0"] == pytest.approx((p.argmax(-1) == q.argmax(-1)).mean(), abs=6e-5)
    assert len(set(alphas.values())) == 4
    assert set(cards.measure_alphas(models[0], models[0], STREAM).values()) == {1.0}


def test_a_card_is_written_twice_from_one_set_of_facts(tmp_path):
    cards.write_card(tmp_path, {**FACTS, "alpha": {"0": 0.5, "1": 0.61239}})
    card = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert card["python"] == platform.python_version()
    assert {**card, **FACTS} == card
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert readme == cards.render_card(card)
    assert readme.startswith("# Some model\n\nWhat it is.\n")
    for line in (
        "| steps | 12 |",
        "| tokens seen | 1,000 |",
        "| held-out loss | 2.346 nats/token |",
        "| held-out modules | a.py, b/c.py |",
        f"| Python whose library it read | {platform.python_version()} |",
        "| made by | `python course.py train target --minutes 5` |",
        "| 0 | 0.500 |",
        "| 1 | 0.612 |",
    ):
        assert line in readme.splitlines()


def test_a_target_has_no_alpha_and_its_card_says_nothing_of_it(tmp_path):
    cards.write_card(tmp_path, FACTS)
    assert "α" not in (tmp_path / "README.md").read_text(encoding="utf-8")
