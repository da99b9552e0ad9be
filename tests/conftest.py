"""Fixtures shared by the whole suite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong: no deadline for a single example.
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # course.py lies beside lessonlib, outside any package


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none; torch is imported only to find that out."""
    if item.get_closest_marker("cuda"):
        from lessonlib.lab.device import has_cuda

        if not has_cuda():
            pytest.skip("no CUDA GPU")
