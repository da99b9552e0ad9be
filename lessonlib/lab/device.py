"""The one place that chooses the device, the number format and the thread count.

Importing this module does not import torch; `choose_device` does so only to look for CUDA.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

DTYPES = ("float32", "float64", "bfloat16", "float16")
MOST_THREADS = 4  # more gain nothing on models of this size
# One token of a small model is so little work that threads mostly wait for each other. To see
# what they cost here, run the demo with COURSE_THREADS=1 and 2 and compare its ms/token.
SMALL_MODEL = 20_000_000  # parameters


@dataclass(frozen=True)
class Device:
    """Where and how models run: ``device`` "cpu" or "cuda", ``dtype`` by name, CPU threads."""

    device: str
    dtype: str
    threads: int


def choose_device(
    settings: Mapping[str, str] | None = None, *, parameters: float = math.inf
) -> Device:
    """Choose from the machine, unless COURSE_DEVICE, COURSE_DTYPE or COURSE_THREADS say.

    ``parameters`` is the size of the largest model that will run; a small one gets one
    thread. ``settings`` stands in for the environment variables in tests. The dtype is
    float32 on CUDA too, so that both devices give the same text. Raises ValueError, in one
    sentence that names the variable, for a value that cannot be used on this machine.

    >>> choose_device({"COURSE_DEVICE": "cpu", "COURSE_THREADS": "1"})
    Device(device='cpu', dtype='float32', threads=1)
    """
    settings = os.environ if settings is None else settings
    return Device(
        read_device(settings.get("COURSE_DEVICE", "")),
        read_dtype(settings.get("COURSE_DTYPE", "")),
        read_threads(settings.get("COURSE_THREADS", ""), parameters),
    )


def apply(chosen: Device | None = None) -> Device:
    """Set torch's thread count to the choice and return it."""
    import torch

    chosen = choose_device() if chosen is None else chosen
    torch.set_num_threads(chosen.threads)
    return chosen


def read_device(wanted: str) -> str:
    """Return "cpu" or "cuda"; an empty wish means CUDA when there is one."""
    if wanted not in ("", "cpu", "cuda"):
        raise ValueError(f"COURSE_DEVICE={wanted}: use cpu or cuda, or leave it unset")
    if wanted == "cpu":
        return "cpu"
    if has_cuda():
        return "cuda"
    if wanted == "cuda":
        raise ValueError("COURSE_DEVICE=cuda: torch finds no CUDA GPU here; use cpu or unset it")
    return "cpu"


def has_cuda() -> bool:
    """Whether torch can use an NVIDIA GPU."""
    import torch

    return torch.cuda.is_available()


def read_dtype(wanted: str) -> str:
    """Return the name of the number format; empty means float32."""
    if wanted not in ("", *DTYPES):
        raise ValueError(
            f"COURSE_DTYPE={wanted}: use one of {', '.join(DTYPES)}, or leave it unset"
        )
    return wanted or "float32"


def read_threads(wanted: str, parameters: float) -> int:
    """Return the number of CPU threads; empty means one for a small model, else up to four."""
    usable = count_usable_cpus()
    if not wanted:
        most = 1 if parameters < SMALL_MODEL else MOST_THREADS
        return min(count_physical_cores(), usable, most)
    if not (wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= usable):
        raise ValueError(f"COURSE_THREADS={wanted}: use a whole number from 1 to {usable}")
    return int(wanted)


def count_usable_cpus() -> int:
    """CPUs this process may run on; a container or `taskset` can make that fewer than all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_physical_cores() -> int:
    """Cores without hyper-threading's doubles; psutil comes with ipykernel."""
    import psutil

    return psutil.cpu_count(logical=False) or count_usable_cpus()
