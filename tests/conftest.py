"""Fixtures shared by the whole suite."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["COURSE_PROGRESS"] = ":memory:"  # what you have solved is not the suite's to write
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if IS_WORKER:  # read when torch is loaded: workers share the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is slow, not wrong: no deadline for a single example.
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # course.py lies beside lessonlib, outside any package


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def name_group(nodeid: str) -> str:
    """The group of tests that stay on one worker.

    A file's tests stay together, because they share fixtures; all browser tests share one
    server; each lesson's notebooks are a group of their own, or one worker would get them all.

    >>> name_group("tests/test_loop.py::test_eos[1]")
    'tests/test_loop.py'
    >>> name_group("tests/browser/test_lesson01.py::test_a")
    'tests/browser'
    >>> name_group("tests/test_notebooks.py::test_solved[01_leviathan_proof-2]")
    '01_leviathan_proof'
    """
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/browser/"):
        return "tests/browser"
    lesson = re.search(r"\[(\d\d_\w+)", test)
    return lesson[1] if lesson and file == "tests/test_notebooks.py" else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a worker let the groups with a long test start first: then all workers end together."""
    if IS_WORKER:
        marks = ("slow", "browser")
        slow = {name_group(i.nodeid) for i in items if any(map(i.get_closest_marker, marks))}
        items.sort(key=lambda item: name_group(item.nodeid) not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Hand out groups in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = name_group
    return scheduling


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none; torch is imported only to find that out."""
    if item.get_closest_marker("cuda"):
        from lessonlib.lab.device import has_cuda

        if not has_cuda():
            pytest.skip("no CUDA GPU")
