"""EAGLE's head: what it reads, its forward over caches and trees, its file."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lessonlib.drafting.eagle import KINDS, EagleStep, build_head, load_head, save_head
from tests.tinytarget import make_head, make_target, true_taps

TEXT = [3, 1, 4, 1, 5, 2, 6, 5, 3]


def run_head(head, tokens, features, cache=None, parents=None):
    cache = head.new_cache() if cache is None else cache
    (output,) = head.forward_rows([EagleStep(head, tokens, cache, parents, features)])
    return output


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_what_the_lm_head_multiplies(kind):
    target = make_target()
    head = make_head(kind, target)
    output = run_head(head, TEXT[1:], true_taps(target, TEXT[:-1]))
    assert output.logits.shape == (8, target.vocab_size)
    assert output.features.shape == (8, target.shape.width)
    wanted = head.finish(output.features) @ target.head.mT
    assert torch.allclose(output.logits, wanted)
    assert torch.equal(head.finish(output.features), output.features) == KINDS[kind].copies


@pytest.mark.parametrize(
    ("kind", "read"), [("eagle1", [2]), ("eagle3-top", [2]), ("eagle3", [0, 1, 2])]
)
def test_a_head_reads_its_taps_and_no_other(kind, read):
    target = make_target()
    head = make_head(kind, target)
    taps = true_taps(target, TEXT[:-1])
    before = run_head(head, TEXT[1:], taps).logits
    for tap in range(3):
        changed = taps.clone()
        changed[:, tap] += torch.randn(8, dtype=torch.float64)
        moved = not torch.allclose(before, run_head(head, TEXT[1:], changed).logits)
        assert moved == (tap in read)


@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
def test_in_pieces_over_a_cache_as_in_one_go(kind):
    target = make_target()
    head, taps = make_head(kind, target), true_taps(target, TEXT[:-1])
    whole = run_head(head, TEXT[1:], taps)
    cache = head.new_cache()
    parts = [run_head(head, TEXT[a + 1 : b + 1], taps[a:b], cache) for a, b in ((0, 3), (3, 4))]
    parts.append(run_head(head, TEXT[5:], taps[4:], cache))
    assert torch.allclose(torch.cat([part.logits for part in parts]), whole.logits)
    assert cache.length == len(TEXT) - 1


def test_a_tree_node_sees_what_its_own_chain_would():
    target = make_target()
    head, taps = make_head("eagle3", target), true_taps(target, TEXT[:-1])
    torch.manual_seed(0)
    tokens, parents = [1, 2, 3, 4, 5], [-1, -1, 0, 0, 3]
    features = torch.randn(5, 8, dtype=torch.float64)
    cache = head.new_cache()
    run_head(head, TEXT[1:], taps, cache)
    tree = run_head(head, tokens[:2], features[:2], cache, parents[:2]).logits
    tree = torch.cat([tree, run_head(head, tokens[2:], features[2:], cache, parents).logits])
    for node, path in ((1, [1]), (2, [0, 2]), (4, [0, 3, 4])):
        chain = head.new_cache()
        run_head(head, TEXT[1:], taps, chain)
        wanted = run_head(head, [tokens[i] for i in path], features[path], chain).logits[-1]
        assert torch.allclose(tree[node], wanted)


def test_rows_of_a_batch_do_not_see_each_other():
    target = make_target()
    head, taps = make_head("eagle3", target), true_taps(target, TEXT[:-1])
    caches = [head.new_cache() for _ in range(3)]
    run_head(head, TEXT[1:3], taps[:2], caches[1])
    own = torch.ones(1, 8, dtype=torch.float64)  # one row drafts while the others catch up
    steps = [
        EagleStep(head, TEXT[1:5], caches[0], features=taps[:4]),
        EagleStep(head, [2], caches[1], features=own),
        EagleStep(head, TEXT[1:], caches[2], features=taps),
    ]
    together = head.forward_rows(steps)
    again = head.new_cache()
    run_head(head, TEXT[1:3], taps[:2], again)
    assert torch.allclose(together[0].logits, run_head(head, TEXT[1:5], taps[:4]).logits)
    assert torch.allclose(together[1].logits, run_head(head, [2], own, again).logits)
    assert torch.allclose(together[2].logits, run_head(head, TEXT[1:], taps).logits)
    assert [cache.length for cache in caches] == [4, 3, 8]


def test_stale_rows_behind_the_cache_are_never_read():
    target = make_target()
    head, taps = make_head("eagle3", target), true_taps(target, TEXT[:-1])
    cache = head.new_cache()
    cache.keys.fill_(float("nan"))
    cache.values.fill_(float("nan"))
    run_head(head, TEXT[1:5], taps[:4], cache)
    assert run_head(head, TEXT[5:], taps[4:], cache).logits.isfinite().all()


def test_the_context_of_the_target_is_the_heads_too():
    target = make_target(context=6)
    head = make_head("eagle1", target)
    with pytest.raises(ValueError, match="7 tokens do not fit into this model's context of 6"):
        run_head(head, [1] * 7, torch.zeros(7, 3, 8, dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_head_loads_in_half_precision_without_the_targets_tensors(kind, tmp_path):
    target = make_target(dtype=torch.float32)
    head = make_head(kind, target)
    save_head(head, tmp_path / "head")
    again = load_head(tmp_path / "head", target)
    for name, weight in head.state_dict().items():
        assert torch.equal(weight.half().float(), again.state_dict()[name])
    with safe_open(tmp_path / "head" / "model.safetensors", "pt") as file:
        assert not {"embedding", "output"} & set(file.keys())
    assert again.embedding.data_ptr() == target.embedding.data_ptr()
    assert again.output.data_ptr() == target.head.data_ptr()
    assert not any(weight.requires_grad for weight in again.parameters())


def test_a_head_takes_its_targets_dtype(tmp_path):
    save_head(make_head("eagle3", make_target(dtype=torch.float32)), tmp_path)
    head = load_head(tmp_path, make_target(dtype=torch.float64))
    assert {weight.dtype for weight in head.parameters()} == {torch.float64}


def test_a_fresh_head_is_always_the_same_one():
    target = make_target()
    first, second = (
        build_head("eagle3", target.shape, target.embedding, target.head) for _ in range(2)
    )
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    build_head("eagle1", target.shape, target.embedding, target.head)
    assert torch.equal(torch.rand(3), wanted)  # and the caller's randomness is left alone
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_bad_requests_get_one_sentence(tmp_path):
    target = make_target()
    with pytest.raises(ValueError, match="kind is 'eagle2': use one of eagle1, eagle1-unshifted"):
        build_head("eagle2", target.shape, target.embedding, target.head)
    save_head(make_head("eagle1", target), tmp_path)
    with pytest.raises(ValueError, match="is for a target of another shape"):
        load_head(tmp_path, make_target(width=16))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    with pytest.raises(ValueError, match="holds no EAGLE head"):
        load_head(tmp_path, target)


def edit_config(folder, **changes):
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))


def edit_weights(folder, change):
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def cut_short(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGE = {
    "no kind": lambda head: edit_config(head, kind=None),
    "an unknown kind": lambda head: edit_config(head, kind="medusa"),
    "a list of kinds": lambda head: edit_config(head, kind=["eagle1"]),
    "a list": lambda head: (head / "config.json").write_text("[1]"),
    "half a config": lambda head: cut_short(head / "config.json"),
    "no config": lambda head: (head / "config.json").unlink(),
    "no weights": lambda head: (head / "model.safetensors").unlink(),
    "empty weights": lambda head: (head / "model.safetensors").write_bytes(b""),
    "weights cut short": lambda head: cut_short(head / "model.safetensors"),
    "another kind": lambda head: edit_config(head, kind="eagle3"),
    "a weight too few": lambda head: edit_weights(head, lambda w: dict(list(w.items())[1:])),
    "NaN": lambda head: edit_weights(head, lambda w: {n: x * torch.nan for n, x in w.items()}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_head_is_one_sentence_with_its_folder(tmp_path, damage):
    target, folder = make_target(dtype=torch.float32), tmp_path / "eagle1"
    save_head(make_head("eagle1", target), folder)
    assert load_head(folder, target).shape.kind == "eagle1"
    DAMAGE[damage](folder)
    with pytest.raises(ValueError, match=re.escape(f"the head in {folder} cannot be")) as caught:
        load_head(folder, target)
    assert type(caught.value) is ValueError
    assert str(caught.value).endswith("): train it again")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_folder_without_a_head_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no head in .*: train one"):
        load_head(tmp_path, make_target())
