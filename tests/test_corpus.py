"""The corpus: what is read, what is held out, and a tokenizer that loses nothing."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessonlib.lab import corpus

ROOT = Path(sysconfig.get_path("stdlib"))


@pytest.fixture(scope="module")
def tokenizer():
    held_out = corpus.read_sources(corpus.list_modules()[1][:3])
    return corpus.train_tokenizer(held_out, vocab_size=400)


def test_every_held_out_module_exists_and_none_is_trained_on():
    train, held_out = corpus.list_modules()
    assert [path.relative_to(ROOT).as_posix() for path in held_out] == list(corpus.HELD_OUT)
    assert len(set(held_out)) == len(held_out) >= 10
    assert all(path.stat().st_size > 1000 for path in held_out)
    assert not set(train) & set(held_out)


def test_the_training_list_is_the_library_itself_in_a_fixed_order():
    train, _ = corpus.list_modules()
    assert train == sorted(train) == corpus.list_modules()[0]
    assert len(train) == len(set(train)) > 300
    names = {path.relative_to(ROOT).as_posix() for path in train}
    assert {"argparse.py", "asyncio/tasks.py", "json/__init__.py"} <= names
    foreign = {"test", "tests", "site-packages", "dist-packages", "idle_test", "encodings"}
    assert not [name for name in names if foreign & set(name.split("/"))]


def test_a_test_folder_or_an_installed_package_is_skipped(tmp_path, monkeypatch):
    kept = [tmp_path / "a.py", tmp_path / "pkg" / "b.py", tmp_path / "pkg" / "mytest.py"]
    skipped = [
        tmp_path / part / "c.py"
        for part in ("test", "pkg/tests", "site-packages/x", "dist-packages/x", "encodings")
    ]
    skipped += [tmp_path / "_sysconfigdata__linux_.py", tmp_path / "notes.txt"]
    for path in (*kept, *skipped, *(tmp_path / name for name in corpus.HELD_OUT)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    monkeypatch.setattr(corpus.sysconfig, "get_path", lambda name: str(tmp_path))
    train, held_out = corpus.list_modules()
    assert train == kept
    assert held_out == [tmp_path / name for name in corpus.HELD_OUT]


def test_a_byte_that_is_not_utf8_does_not_stop_the_reading(tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9\nx = 1\n")
    assert corpus.read_sources([tmp_path / "latin.py"]) == ["# caf�\nx = 1\n"]


@given(st.text())
def test_any_text_comes_back_from_its_tokens(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n\t\n",
        "  x\r\n",
        "naïve α = Σ min(p, q) 猫 🐈‍⬛",
        "\x00\x1b[0m",
        "def  f( x ):",
    ],
)
def test_awkward_text_comes_back_too(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_end_of_text_is_token_0_and_every_byte_has_a_token(tokenizer):
    assert tokenizer.token_to_id(corpus.END_OF_TEXT) == 0
    assert tokenizer.encode(corpus.END_OF_TEXT).ids == [0]
    assert tokenizer.get_vocab_size() == 400
    assert len(tokenizer.encode("def self.return").ids) < len("def self.return")  # it merged


def test_each_text_of_a_stream_ends_with_end_of_text(tokenizer):
    texts = ["x = 1\n", "", "return"]
    stream = corpus.encode_texts(tokenizer, texts)
    assert stream.dtype == np.uint16
    ends = np.flatnonzero(stream == 0)
    assert len(ends) == 3
    assert ends[-1] == len(stream) - 1
    parts = np.split(stream, ends + 1)[:3]
    assert [tokenizer.decode(part[:-1].tolist()) for part in parts] == texts


def test_prompts_are_held_out_code_that_ends_in_a_def():
    prompts = corpus.cut_prompts(50, lines=5)
    assert len(prompts) == len(set(prompts)) == 50
    sources = corpus.read_sources(corpus.list_modules()[1])
    for prompt in prompts:
        assert prompt.splitlines()[-1].lstrip().startswith("def ")
        assert 1 <= len(prompt.splitlines()) <= 5
        assert any(prompt in source for source in sources)
    # Spread over the modules, not all from the first.
    assert {i for i, s in enumerate(sources) for p in prompts if p in s} >= {0, 5, 11}
    assert corpus.cut_prompts(50, lines=5) == prompts


@pytest.mark.parametrize("count", [0, -1, 100_000])
def test_a_number_of_prompts_that_cannot_be_is_one_sentence(count):
    with pytest.raises(ValueError, match=f"count is {count}: the held-out modules give 1 to"):
        corpus.cut_prompts(count)


def test_all_prompts_may_be_asked_for():
    with pytest.raises(ValueError, match="give 1 to") as caught:
        corpus.cut_prompts(0)
    most = int(str(caught.value).split()[-2])
    assert len(corpus.cut_prompts(most)) == most
