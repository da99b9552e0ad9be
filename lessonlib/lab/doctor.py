"""`course.py doctor`: what this machine has, what the course wants, how to fix the rest.

In a notebook `show()` prints the same lines and `report()` returns them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lessonlib.folders import ROOT, shorten
from lessonlib.lab import device, kernelcheck

COURSE = "speculative-decoding-course"
LEAST_MEMORY = 1.0  # GB: the bundled pair, JupyterLab and a browser tab
LEAST_DISK = 0.5  # GB: work copies, training runs


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``fix`` is empty exactly when all is well."""

    name: str
    text: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.fix

    def __str__(self) -> str:
        line = f"{self.name} {self.text}"
        return f"[OK] {line}" if self.ok else f"[FAIL] {line}: {self.fix}"


def main(argv: list[str] | None = None) -> int:
    """Print the report; return 1 if anything fails, else 0."""
    parser = argparse.ArgumentParser(description="Check this machine for the course.")
    parser.parse_args(argv)
    findings = report()
    print_findings(findings)
    return int(any(not finding.ok for finding in findings))


def show() -> None:
    """Print the report; for a notebook cell."""
    print_findings(report())


def report() -> list[Finding]:
    """Return every finding. A check that breaks becomes a [FAIL] of its own, never an error."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings += check()
        except Exception as error:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            told = f"could not be checked ({type(error).__name__}: {error})"
            findings.append(Finding(name, told, install_hint()))
    return findings


def print_findings(findings: list[Finding]) -> None:
    for finding in findings:
        print(finding)
    failed = sum(not finding.ok for finding in findings)
    print(f"{failed} to fix" if failed else "everything is in place")


# ---- the checks, in the order of the report


def check_course() -> Iterator[Finding]:
    """The course itself; uninstalled, it is found through PYTHONPATH, as course.py sets it."""
    yield Finding(COURSE, f"{read_project()['version']} in {shorten(ROOT)}")


def read_project() -> dict:
    """What pyproject.toml says of the course: its version, its Python, its packages."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def check_python() -> Iterator[Finding]:
    """The running interpreter against the course's requires-python."""
    from packaging.specifiers import SpecifierSet

    wanted = read_project()["requires-python"]
    found = ".".join(map(str, sys.version_info[:3]))
    fix = "" if SpecifierSet(wanted).contains(found) else "run course.py with a newer Python"
    yield Finding("python", f"{found} (wanted {wanted})", fix)


def check_packages() -> Iterator[Finding]:
    """Each dependency against its pin."""
    from packaging.requirements import Requirement

    for line in read_project()["dependencies"]:
        yield check_requirement(Requirement(line))


def check_requirement(requirement) -> Finding:
    """Compare one installed version with its pin (a label such as +cpu does not count)."""
    wanted = f"(wanted {requirement.specifier})"
    try:
        found = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Finding(requirement.name, f"missing {wanted}", install_hint())
    fits = requirement.specifier.contains(found, prereleases=True)
    return Finding(requirement.name, f"{found} {wanted}", "" if fits else install_hint())


def check_device() -> Iterator[Finding]:
    """Device, threads and dtype as chosen; a bad COURSE_* value is the finding."""
    try:
        chosen = device.choose_device()
        small = device.choose_device(parameters=0)
    except ValueError as error:
        yield Finding("device", "cannot be chosen", str(error))
        return
    yield Finding("device", chosen.device)
    yield Finding("threads", explain_threads(small.threads, chosen.threads))
    yield Finding("dtype", chosen.dtype)


def explain_threads(small: int, large: int) -> str:
    """The thread count and why.

    >>> explain_threads(1, 4)
    '1 for models under 20 million parameters (more would wait for each other), 4 for larger ones'
    """
    if os.environ.get("COURSE_THREADS"):
        return f"{large} (COURSE_THREADS says so)"
    if small == large:
        return str(large)
    return (
        f"{small} for models under {device.SMALL_MODEL // 1_000_000} million parameters "
        f"(more would wait for each other), {large} for larger ones"
    )


def check_room() -> Iterator[Finding]:
    """Free memory and free disk where the course lies."""
    import psutil

    memory = psutil.virtual_memory().available / 1e9
    disk = shutil.disk_usage(ROOT).free / 1e9
    fix = "" if memory >= LEAST_MEMORY else f"close other programs until {LEAST_MEMORY} GB are free"
    yield Finding("memory", f"{memory:.1f} GB free", fix)
    fix = "" if disk >= LEAST_DISK else f"delete files until {LEAST_DISK} GB are free"
    yield Finding("disk", f"{disk:.1f} GB free", fix)


def check_bundled_models() -> Iterator[Finding]:
    """Where the bundled pair lies, and that weights are in it."""
    from lessonlib.lab import pairs

    folder = Path(pairs.bundled_folder())
    weights = sorted(folder.rglob("*.safetensors"))
    if not weights:
        fix = f'run git checkout -- "{folder}", or clone the course again'
        yield Finding("bundled models", f"no weights in {folder}", fix)
        return
    size = sum(file.stat().st_size for file in weights) / 1e6
    yield Finding("bundled models", f"{len(weights)} models, {size:.0f} MB, in {shorten(folder)}")


def check_hub_cache() -> Iterator[Finding]:
    """The Hugging Face cache. Absent models are no failure: the bundled pair needs none."""
    from huggingface_hub.constants import HF_HUB_CACHE

    cache = Path(HF_HUB_CACHE)
    names = ("models--gpt2", "models--openai-community--gpt2")
    held = any(any(cache.glob(f"{name}/snapshots/*/*.safetensors")) for name in names)
    note = "gpt2 is in it" if held else "gpt2 is not in it, the lessons run on the bundled pair"
    yield Finding("hugging face cache", f"{shorten(cache)} ({note})")


def check_kernel() -> Iterator[Finding]:
    """Whether notebook kernels and the Jupyter server come from one environment."""
    text, fix = kernelcheck.compare_environments()
    yield Finding("kernel and server", text, fix)


def install_hint() -> str:
    return f'run "{sys.executable}" -m pip install -r "{ROOT / "requirements.lock"}"'


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_course,
    check_python,
    check_packages,
    check_device,
    check_room,
    check_bundled_models,
    check_hub_cache,
    check_kernel,
)

if __name__ == "__main__":
    sys.exit(main())
