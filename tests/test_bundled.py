"""The bundled pair itself: shapes, sizes, equality with transformers, exactness, cards."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from lessonlib.decoding.gpt2 import GPT2
from lessonlib.decoding.loop import generate
from lessonlib.decoding.sampling import Sampling
from lessonlib.drafting.distill import acceptance_rates
from lessonlib.drafting.eagle_drafters import DynamicTreeDrafter, EagleDrafter
from lessonlib.drafting.small import SmallModelDrafter
from lessonlib.lab import cards, corpus
from lessonlib.lab.eagle_trials import decode_all, measure_tau
from lessonlib.lab.features import cut_windows
from lessonlib.lab.heads import find_head
from lessonlib.lab.pairs import bundled_folder, load_pair

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
PARTS = ("target", "draft")
GREEDY = Sampling(temperature=0)
LENGTHS = range(1, 9)
NEW = 10  # tokens to add: room for a whole round at K = 8
WINDOWS = 16  # of about 158 held-out ones: enough to catch a card of other weights


@pytest.fixture(scope="module")
def pair():
    return load_pair("bundled", dtype="float64")


@pytest.fixture(scope="module")
def held_out(pair) -> np.ndarray:
    texts = corpus.read_sources(corpus.list_held_out())
    return corpus.encode_texts(pair.tokenizer, texts)


@pytest.fixture(scope="module")
def prompts(pair) -> list[list[int]]:
    """50 held-out prompts, cut to their last 24 tokens."""
    return [pair.encode(text)[-24:] for text in corpus.cut_prompts(50)]


def card_of(part: str) -> dict:
    return json.loads((bundled_folder() / part / "card.json").read_text(encoding="utf-8"))


# What is in the folder


@pytest.mark.parametrize(
    ("part", "layers", "numbers"), [("target", (8, 12), (5e6, 8e6)), ("draft", (1, 2), (0, 2e6))]
)
def test_the_shapes_are_those_of_a_small_pair(part, layers, numbers):
    theirs = GPT2LMHeadModel.from_pretrained(bundled_folder() / part)
    assert layers[0] <= theirs.config.n_layer <= layers[1]
    assert numbers[0] <= sum(weight.numel() for weight in theirs.parameters()) <= numbers[1]
    assert theirs.config.bos_token_id == theirs.config.eos_token_id == 0
    assert all(torch.isfinite(weight).all() for weight in theirs.parameters())


def test_the_weights_are_small_and_nothing_else_is_large():
    sizes = {path: path.stat().st_size for path in bundled_folder().rglob("*") if path.is_file()}
    weights = sum(size for path, size in sizes.items() if path.suffix == ".safetensors")
    assert weights < 24e6
    assert sum(sizes.values()) - weights < 500_000
    assert {path.name for path in sizes} <= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "card.json",
        "README.md",
        "log.jsonl",
    }


def test_the_tokenizer_and_both_models_share_one_vocabulary(pair):
    assert pair.tokenizer.get_vocab_size() == pair.target.vocab_size == pair.draft.vocab_size
    assert pair.target.context == pair.draft.context
    assert pair.eos == 0
    text = corpus.read_sources(corpus.list_held_out()[:1])[0]
    assert pair.decode(pair.encode(text)) == text


# The forward


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("part", PARTS)
def test_logits_equal_transformers_on_held_out_text(held_out, part, dtype):
    folder = bundled_folder() / part
    ours = GPT2.from_folder(folder, dtype=dtype)
    theirs = GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()
    tokens = held_out[5000 : 5000 + 160].astype(int).tolist()
    with torch.no_grad():
        wanted = theirs(torch.tensor([tokens])).logits[0]
    whole = ours.forward(tokens, ours.new_cache()).logits
    cache, rows = ours.new_cache(), []
    for part_of in (tokens[:150], tokens[150:151], tokens[151:156], tokens[156:]):
        rows.append(ours.forward(part_of, cache).logits)
    assert (whole - wanted).abs().max() < TOLERANCE[dtype]
    assert (torch.cat(rows) - wanted).abs().max() < TOLERANCE[dtype]


# Decoding


def decode(pair, draft, prompt, K: int, tokens: int):
    drafter = SmallModelDrafter(draft, GREEDY) if draft is not None else None
    options = {"max_new_tokens": tokens, "K": K, "sampling": GREEDY, "coins": iter(lambda: 0.5, 2)}
    return generate(pair.target, drafter, prompt, eos=pair.eos, **options)


@pytest.fixture(scope="module")
def plain(pair, prompts) -> list[list[int]]:
    return [decode(pair, None, prompt, 0, NEW).new_tokens for prompt in prompts]


@pytest.mark.slow
@pytest.mark.parametrize("K", LENGTHS)
def test_greedy_speculative_output_is_the_targets_own(pair, prompts, plain, K):
    for prompt, wanted in zip(prompts, plain, strict=True):
        assert decode(pair, pair.draft, prompt, K, NEW).new_tokens == wanted


def test_greedy_output_is_what_transformers_generates(pair, prompts, plain):
    folder = bundled_folder() / "target"
    theirs = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64).eval()
    for prompt, wanted in list(zip(prompts, plain, strict=True))[::10]:
        ids = torch.tensor([prompt])
        got = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False
        )
        assert got[0, len(prompt) :].tolist() == wanted


@pytest.mark.slow
@pytest.mark.parametrize("K", LENGTHS)
def test_the_target_as_its_own_draft_is_always_accepted(pair, prompts, plain, K):
    for prompt, wanted in list(zip(prompts, plain, strict=True))[::17]:
        trace = decode(pair, pair.target, prompt, K, NEW)
        assert trace.accepted == trace.drafted > 0
        assert trace.new_tokens == wanted


# Cards


@pytest.fixture(scope="module")
def measured(held_out) -> dict[str, np.ndarray]:
    """Loss of both and α at each temperature, for each of some evenly spread windows."""
    pair = load_pair("bundled", dtype="float32")
    found: dict[str, list[float]] = {}
    for window in cut_windows(held_out, pair.target.context, WINDOWS):
        runs = [cards.run_windows(model, window) for model in (pair.target, pair.draft)]
        ((tokens, target),), ((_, draft),) = runs
        wanted = torch.from_numpy(tokens[1:]).to(target.device)
        for part, logits in zip(PARTS, (target, draft), strict=True):
            loss = torch.nn.functional.cross_entropy(logits, wanted)
            found.setdefault(part, []).append(float(loss))
        for t in cards.TEMPERATURES:
            rates = acceptance_rates(target, draft, t)
            found.setdefault(f"{t:g}", []).append(float(rates.mean()))
    return {name: np.array(values) for name, values in found.items()}


def check_mean(values: np.ndarray, stated: float) -> None:
    """Within four standard errors of what the card says of all windows.

    The 0.02 on top is for held-out modules that differ a little between Python versions.
    """
    assert len(values) == WINDOWS
    assert abs(values.mean() - stated) < 4 * values.std(ddof=1) / np.sqrt(WINDOWS) + 0.02


@pytest.mark.parametrize("part", PARTS)
def test_the_card_states_the_held_out_loss(measured, part):
    check_mean(measured[part], card_of(part)["held_out_loss"])


def test_the_drafts_card_states_alpha_at_each_temperature(measured):
    stated = card_of("draft")["alpha"]
    assert list(stated) == ["0", "0.7", "1", "1.5"]
    for name, alpha in stated.items():
        check_mean(measured[name], alpha)


@pytest.mark.parametrize("part", PARTS)
def test_a_card_says_where_the_model_comes_from(part):
    card, folder = card_of(part), bundled_folder() / part
    assert card["held_out_modules"] == list(corpus.HELD_OUT)
    assert (folder / "README.md").read_text(encoding="utf-8") == cards.render_card(card)
    assert card["title"] == f"Bundled {part}"
    model = GPT2LMHeadModel.from_pretrained(folder)
    numbers = sum(weight.numel() for weight in model.parameters())
    assert card["training"]["parameters"] == f"{numbers:,}"
    config = model.config
    shape = f"GPT-2, {config.n_layer} layers, width {config.n_embd}, {config.n_head} heads"
    assert card["training"]["shape"] == shape
    assert int(card["training"]["tokens seen"].replace(",", "")) > 0
    assert card["command"].startswith(f"python course.py train {part} ")


@pytest.mark.parametrize("part", PARTS)
def test_the_log_ends_where_the_card_says_training_ended(part):
    log = (bundled_folder() / part / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows, card = [json.loads(row) for row in log], card_of(part)
    assert [row["tokens"] for row in rows] == sorted(row["tokens"] for row in rows)
    assert f"{rows[-1]['steps']:,}" == card["training"]["steps"]
    assert f"{rows[-1]['tokens']:,}" == card["training"]["tokens seen"]
    if part == "target":
        assert rows[-1]["held_out"] < rows[0]["held_out"]
        assert rows[-1]["held_out"] == pytest.approx(card["held_out_loss"], abs=0.4)
    else:
        assert rows[-1]["alpha"]["1"] > rows[0]["alpha"]["1"]
        for name in ("0", "1", "1.5"):
            assert rows[-1]["alpha"][name] == pytest.approx(card["alpha"][name], abs=0.05)


# The order of the proposers


@pytest.mark.slow
def test_tau_grows_from_the_draft_to_eagle_3_on_held_out_code():
    """Tokens per forward at T = 0; the least gains are far below what was measured."""
    pair = load_pair("bundled", dtype="float32")
    eagle1, eagle3 = find_head(pair, "eagle1"), find_head(pair, "eagle3")
    texts = [pair.encode(prompt)[-160:] for prompt in corpus.cut_prompts(24)]
    contestants = [
        lambda sampling: SmallModelDrafter(pair.draft, sampling),
        lambda sampling: EagleDrafter(eagle1, sampling),
        # Ranked for T = 0, where the head's first guess is surer than its softmax says.
        lambda _: DynamicTreeDrafter(eagle1, nodes=8, heat=0.5),
        lambda _: DynamicTreeDrafter(eagle3, nodes=8, heat=0.5),
    ]
    found = []
    for make in contestants:
        traces, _ = decode_all(pair.target, make, texts, 0.0, K=6, tokens=32)
        found.append(measure_tau(traces)[0])
    assert (np.diff(found) > [0.1, 0.2, 0.05]).all(), found
    assert found[-1] >= 3.5
