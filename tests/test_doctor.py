"""doctor and kernelcheck: each fault gives its own [FAIL] with a way out, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from lessonlib import folders
from lessonlib.folders import ROOT
from lessonlib.lab import device, doctor, kernelcheck

PROJECT = doctor.read_project()
OTHER = "/opt/other/bin/python3"
HERE = kernelcheck.find_environment(sys.executable)


@pytest.fixture(autouse=True)
def bundled(monkeypatch, tmp_path):
    """A stand-in for the model folder, so that these tests know what lies in it."""
    (tmp_path / "models/target").mkdir(parents=True)
    (tmp_path / "models/target/model.safetensors").write_bytes(b"0" * 2_000_000)
    pairs = ModuleType("lessonlib.lab.pairs")
    pairs.bundled_folder = lambda: tmp_path / "models"
    monkeypatch.setitem(sys.modules, pairs.__name__, pairs)
    monkeypatch.setattr("lessonlib.lab.pairs", pairs, raising=False)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")
    return tmp_path / "models"


def find_failures() -> dict[str, str]:
    """Map the name of each failed finding to its fix."""
    return {finding.name: finding.fix for finding in doctor.report() if not finding.ok}


def test_a_healthy_machine_passes_and_every_dependency_has_its_line(capsys):
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.pop() == "everything is in place"
    assert all(line.startswith("[OK] ") for line in lines)
    for pin in doctor.read_project()["dependencies"]:
        name, version = (pin.split("==") if "==" in pin else pin.split("<"))[:2]
        assert any(x.startswith(f"[OK] {name} ") and version in x for x in lines), pin
    for name in ("python", "device cpu", "threads", "dtype float32", "memory", "disk"):
        assert any(line.startswith(f"[OK] {name}") for line in lines), name


def test_the_line_reads_as_promised():
    assert str(doctor.Finding("rich", "15.0.0 (wanted ==15.0.0)")) == (
        "[OK] rich 15.0.0 (wanted ==15.0.0)"
    )
    assert str(doctor.Finding("rich", "1 (wanted ==2)", "run X")) == (
        "[FAIL] rich 1 (wanted ==2): run X"
    )


def test_wrong_and_missing_packages_fail(monkeypatch, capsys):
    project = doctor.read_project()
    needs = ["rich==1.0", "no-such-package==2", "tqdm<1", "torch==2.13.0", "numpy>=2"]
    monkeypatch.setattr(doctor, "read_project", lambda: {**project, "dependencies": needs})
    assert doctor.main([]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "3 to fix"
    failed = [line for line in shown if line.startswith("[FAIL]")]
    assert [line.split()[1] for line in failed] == ["rich", "no-such-package", "tqdm"]
    assert "(wanted ==1.0): run" in failed[0]
    assert "no-such-package missing (wanted ==2)" in failed[1]
    assert all("requirements.lock" in line for line in failed)


def test_a_build_label_is_no_other_version(monkeypatch):
    from packaging.requirements import Requirement

    monkeypatch.setattr(doctor.metadata, "version", lambda _: "2.13.0+cpu")
    assert doctor.check_requirement(Requirement("torch==2.13.0")).ok
    assert not doctor.check_requirement(Requirement("torch==2.13.1")).ok


def test_a_course_reached_by_its_path_needs_no_installation(monkeypatch):
    real = metadata.version

    def version(name):
        if name == doctor.COURSE:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert find_failures() == {}


def test_threads_come_with_their_reason(monkeypatch):
    monkeypatch.delenv("COURSE_THREADS", raising=False)
    monkeypatch.setattr(device, "count_physical_cores", lambda: 4)
    monkeypatch.setattr(device, "count_usable_cpus", lambda: 4)
    (line,) = [str(f) for f in doctor.check_device() if f.name == "threads"]
    assert line.startswith("[OK] threads 1 for models under 20 million parameters (")
    assert line.endswith("4 for larger ones")
    monkeypatch.setenv("COURSE_THREADS", "3")
    (line,) = [str(f) for f in doctor.check_device() if f.name == "threads"]
    assert line == "[OK] threads 3 (COURSE_THREADS says so)"


def test_a_healthy_report_names_no_folder_of_this_machine(monkeypatch, tmp_path, bundled):
    """Lesson 00 stores it, and course and environment may lie anywhere."""
    monkeypatch.setattr(doctor, "ROOT", tmp_path / "course")
    (tmp_path / "course").mkdir()
    monkeypatch.setattr(doctor, "read_project", lambda: PROJECT)
    monkeypatch.setattr(kernelcheck, "find_server", lambda: None)
    findings = doctor.report()
    assert [str(f) for f in findings if not f.ok] == []
    text = "\n".join(map(str, findings))
    for folder in (tmp_path, sys.prefix, sys.base_prefix, Path.home(), ROOT):
        assert str(folder) not in text, text
    assert f".../{bundled.name}" in text
    assert "in .../course" in text


def test_folders_are_written_without_user_and_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "ROOT", tmp_path / "home" / "course")
    monkeypatch.setattr(folders.Path, "home", lambda: tmp_path / "home")
    for path, written in {
        "home/course": "~/course",
        "home/course/.venv": ".venv",
        "home/course/lessonlib/models": "lessonlib/models",
        "home/other/env": "~/other/env",
        "opt/env": ".../env",
        "home": ".../home",
    }.items():
        assert folders.shorten(tmp_path / path) == written


def test_too_old_python_fails(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9, 1))
    assert list(find_failures()) == ["python"]


def test_no_room_fails(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2e8))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    assert list(find_failures()) == ["memory", "disk"]


def test_a_bad_override_is_the_finding(monkeypatch):
    monkeypatch.setenv("COURSE_THREADS", "many")
    failures = find_failures()
    assert list(failures) == ["device"]
    assert failures["device"].startswith("COURSE_THREADS=many: use a whole number")


def test_missing_weights_fail(bundled):
    (bundled / "target/model.safetensors").unlink()
    failures = find_failures()
    assert list(failures) == ["bundled models"]
    assert str(bundled) in failures["bundled models"]


def test_a_missing_module_is_a_finding_not_a_traceback(monkeypatch):
    monkeypatch.delattr("lessonlib.lab.pairs")
    monkeypatch.setitem(sys.modules, "lessonlib.lab.pairs", None)
    (line,) = [str(finding) for finding in doctor.report() if not finding.ok]
    assert line.startswith("[FAIL] bundled models could not be checked (")
    assert "\n" not in line


@pytest.mark.parametrize("name", ["models--gpt2", "models--openai-community--gpt2"])
def test_gpt2_in_the_hub_cache_is_seen(monkeypatch, tmp_path, name):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    (before,) = doctor.check_hub_cache()
    folder = tmp_path / name / "snapshots/0"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    (after,) = doctor.check_hub_cache()
    assert before.ok
    assert "not in it" in before.text
    assert after.text == f".../{tmp_path.name} (gpt2 is in it)"


# ---- kernel and server in one environment


def test_environments_are_told_apart_without_following_the_interpreter_s_link(tmp_path):
    base, venv = tmp_path / "base/bin/python3.11", tmp_path / "venv/bin/python"
    for file in (base, venv):
        file.parent.mkdir(parents=True)
    base.touch()
    try:
        venv.symlink_to(base)
    except OSError:
        pytest.skip("links need a right that this account lacks")
    (tmp_path / "short").symlink_to(tmp_path / "venv")
    assert kernelcheck.find_environment(str(venv)) == (tmp_path / "venv").resolve()
    assert kernelcheck.find_environment(str(tmp_path / "short/bin/python")) == (
        kernelcheck.find_environment(str(venv))
    )
    windows = tmp_path / "venv/Scripts/python.exe"
    assert kernelcheck.find_environment(str(windows)) == (tmp_path / "venv").resolve()


def install_kernel(folder: Path, program: str) -> None:
    kernel = folder / "kernels/python3"
    kernel.mkdir(parents=True)
    spec = {
        "argv": [program, "-m", "ipykernel_launcher"],
        "display_name": "P",
        "language": "python",
    }
    (kernel / "kernel.json").write_text(json.dumps(spec))


@pytest.mark.parametrize(
    ("program", "shared"),
    [
        ("python", True),
        ("python3", True),
        ("python3.11", True),
        (sys.executable, True),
        (OTHER, False),
        ("conda", False),
    ],
)
def test_the_kernel_that_jupyter_would_start_is_compared(monkeypatch, tmp_path, program, shared):
    install_kernel(tmp_path, program)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setattr(kernelcheck, "find_server", lambda: None)
    text, fix = kernelcheck.compare_environments()
    assert text.startswith("share" if shared else "differ: the kernel is in")
    assert bool(fix) is not shared
    assert shared or "course.py lab" in fix


@pytest.mark.parametrize(
    ("server", "begins", "ok"),
    [
        ([sys.executable, "/x/jupyter-lab"], "share", True),
        ([OTHER, "/x/jupyter-lab"], "differ: the server is in", False),
        ([], "both in", True),
    ],
)
def test_inside_a_notebook_the_server_is_compared(monkeypatch, server, begins, ok):
    process = SimpleNamespace(cmdline=lambda: server, environ=dict)
    monkeypatch.setattr(kernelcheck, "find_server", lambda: process)
    (finding,) = doctor.check_kernel()
    assert finding.text.startswith(begins)
    assert finding.ok is ok


def test_a_bare_program_name_is_looked_up_on_the_server_s_path():
    path = {"PATH": str(Path(sys.executable).parent)}
    name = Path(sys.executable).name
    process = SimpleNamespace(cmdline=lambda: [name], environ=lambda: path)
    found = kernelcheck.find_server_python(process)
    assert kernelcheck.find_environment(found) == HERE


@pytest.mark.parametrize(
    ("command", "server"),
    [
        (["python", "-m", "lessonlib", "lab", "--no-browser"], True),
        (["/e/bin/python", "/e/bin/jupyter", "lab"], True),
        (["/e/bin/python", "/e/bin/jupyter-lab"], True),
        (["/e/bin/python", "-m", "jupyterlab"], True),
        (["/e/bin/python", "/e/bin/jupyterhub-singleuser"], True),
        (["/e/bin/python", "/e/bin/jupyter-notebook"], True),
        (["python", "-m", "lessonlib", "doctor"], False),
        (
            ["python", "-m", "ipykernel_launcher", "-f", "/home/a/.local/share/jupyter/k.json"],
            False,
        ),
        (["/e/bin/python", "/e/bin/jupytext", "--sync"], False),
        (["bash"], False),
        ([], False),
    ],
)
def test_servers_are_recognised_by_their_command(command, server):
    assert kernelcheck.is_server(command) is server


@pytest.mark.skipif(os.name != "posix", reason="names its own process by exec")
@pytest.mark.parametrize("own", [True, False])
def test_a_real_server_process_is_found_above_the_kernel(tmp_path, own):
    """Parent named like a server, child asking: both for this environment and for another."""
    other = tmp_path / "bin/python3"
    other.parent.mkdir()
    other.symlink_to(os.path.realpath(sys.executable))
    ask = "from lessonlib.lab import kernelcheck as k; print(k.compare_environments()[0])"
    launcher = tmp_path / "jupyter-lab"
    child = f"[{sys.executable!r}, '-c', {ask!r}], cwd={str(doctor.ROOT)!r}"
    launcher.write_text(f"import subprocess\nsubprocess.run({child}, check=True)\n")
    program = sys.executable if own else str(other)
    done = subprocess.run([program, str(launcher)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("share" if own else f"differ: the server is in {tmp_path}")


def test_doctor_runs_as_a_command(root):
    environment = {**os.environ, "COURSE_DEVICE": "cpu", "COURSE_THREADS": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "lessonlib", "doctor"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=root,
    )
    assert done.returncode == 1
    assert "[FAIL] device cannot be chosen: COURSE_THREADS=0" in done.stdout
    assert device.choose_device({"COURSE_DEVICE": "cpu"}).threads >= 1
