"""lab/device: one choice of device, dtype and threads; overrides with clear refusals."""

from __future__ import annotations

import os

import pytest

from lessonlib.lab import device


def choose(**settings: str) -> device.Device:
    return device.choose_device({"COURSE_DEVICE": "cpu", **settings})


@pytest.mark.parametrize("found", [True, False])
def test_cuda_is_used_when_there_is_one(monkeypatch, found):
    monkeypatch.setattr(device, "has_cuda", lambda: found)
    chosen = device.choose_device({})
    assert chosen.device == ("cuda" if found else "cpu")
    assert chosen.dtype == "float32"


def test_cpu_can_be_asked_for_and_torch_is_not_asked(monkeypatch):
    monkeypatch.setattr(device, "has_cuda", lambda: pytest.fail("looked for CUDA"))
    assert choose().device == "cpu"


def test_cuda_asked_for_in_vain_is_an_error(monkeypatch):
    monkeypatch.setattr(device, "has_cuda", lambda: False)
    with pytest.raises(ValueError, match="COURSE_DEVICE=cuda: torch finds no CUDA"):
        device.choose_device({"COURSE_DEVICE": "cuda"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COURSE_DEVICE", "gpu"),
        ("COURSE_DEVICE", "CPU"),
        ("COURSE_DTYPE", "float8"),
        ("COURSE_DTYPE", "torch.float32"),
        ("COURSE_THREADS", "0"),
        ("COURSE_THREADS", "-1"),
        ("COURSE_THREADS", "two"),
        ("COURSE_THREADS", "1.5"),
        ("COURSE_THREADS", "²"),
        ("COURSE_THREADS", "4097"),
    ],
)
def test_bad_values_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}={value}: use ") as caught:
        choose(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("physical", "usable", "threads"), [(8, 16, 4), (2, 4, 2), (8, 1, 1), (1, 2, 1), (4, 4, 4)]
)
def test_threads_never_exceed_the_cores(monkeypatch, physical, usable, threads):
    monkeypatch.setattr(device, "count_physical_cores", lambda: physical)
    monkeypatch.setattr(device, "count_usable_cpus", lambda: usable)
    assert choose().threads == threads
    assert device.choose_device({"COURSE_DEVICE": "cpu"}, parameters=20e6).threads == threads
    assert device.choose_device({"COURSE_DEVICE": "cpu"}, parameters=19e6).threads == 1
    assert choose(COURSE_THREADS=str(usable)).threads == usable
    with pytest.raises(ValueError, match=f"from 1 to {usable}"):
        choose(COURSE_THREADS=str(usable + 1))


def test_who_asks_for_threads_gets_them_for_small_models_too(monkeypatch):
    monkeypatch.setattr(device, "count_usable_cpus", lambda: 2)
    wish = {"COURSE_DEVICE": "cpu", "COURSE_THREADS": "2"}
    assert device.choose_device(wish, parameters=1).threads == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_a_narrowed_process_counts_only_its_own_cpus():
    whole = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(whole)})
        assert choose().threads == 1
    finally:
        os.sched_setaffinity(0, whole)


def test_apply_sets_torch_threads(monkeypatch):
    import torch

    before = torch.get_num_threads()
    try:
        monkeypatch.setenv("COURSE_DEVICE", "cpu")
        monkeypatch.setenv("COURSE_THREADS", "1")
        torch.set_num_threads(2)
        chosen = device.apply()
        assert torch.get_num_threads() == chosen.threads == 1
        assert device.apply(device.Device("cpu", "float64", 2)).dtype == "float64"
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.cuda
def test_a_real_gpu_is_found():
    assert device.choose_device({}).device == "cuda"
