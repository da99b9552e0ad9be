"""Set up the course on this machine and start it. Needs nothing but Python 3.11.

The first call makes a folder .venv beside this file and installs the packages that
requirements.lock pins; later calls find it ready. A Python that already holds the
packages (conda, a JupyterHub image) is used as it is, and no .venv is made.

This file uses the standard library only, and old Pythons must be able to read it far
enough to say that they are too old: so no newer syntax and no evaluated annotations.
"""

import hashlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)  # the newest that the pinned torch and numpy are built for
ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"

# What pip says when it could not talk to an index, in the words of several pip versions.
NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "ProtocolError",
    "Max retries exceeded",
    "Failed to establish a new connection",
    "Failed to connect",
    "Temporary failure in name resolution",
    "getaddrinfo failed",
    "Network is unreachable",
    "Connection refused",
    "Connection reset",
    "timed out",
)
DISK_FULL = ("No space left on device", "[Errno 28]", "[WinError 112]", "Disk quota exceeded")


class CourseError(Exception):
    """One sentence for the learner: what is wrong and what to do; and the exit status."""

    def __init__(self, sentence, status=1):
        super().__init__(sentence)
        self.status = status


def main(argv=None):
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        check_python(sys.version_info)
        return start(words)
    except CourseError as error:
        print(f"course.py: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("course.py: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def start(words):
    """Check what can be checked early, find or make the environment, hand over."""
    sys.path.insert(0, str(ROOT))
    from lessonlib.__main__ import COMMANDS, parse_lab, unknown_word, usage

    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    word = words[0]
    if word not in COMMANDS:
        raise CourseError(unknown_word(word), status=2)
    if word == "lab":
        check_port(parse_lab(words[1:]).port)
        check_writable(ROOT)
    return hand_over(find_python(), words)


# ---- what can be wrong before anything is installed


def check_python(version):
    if tuple(version[:2]) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        found = ".".join(map(str, version[:3]))
        raise CourseError(
            f"the course needs Python {wanted} or newer and this is Python {found}; "
            f"run it with a newer one, for example: python{wanted} course.py lab",
            status=2,
        )


def check_builds(version):
    """Raise where pip would find no builds; asked only before a .venv is made."""
    if tuple(version[:2]) > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        raise CourseError(
            f"the pinned packages have no builds for Python {version[0]}.{version[1]} yet; "
            f"run it with an older one, for example: python{newest} course.py lab",
            status=2,
        )


def check_port(port):
    """Raise if the user asked for a port that another program holds."""
    if port is None:
        return
    with socket.socket() as probe:
        if os.name == "posix":  # a port that was closed a moment ago is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CourseError(
                f"port {port} cannot be used ({error.strerror}); "
                "name another with --port, or leave --port out to get a free one",
                status=2,
            ) from None


def check_writable(folder):
    try:
        with tempfile.TemporaryFile(dir=str(folder)):
            pass
    except OSError as error:
        raise CourseError(
            f"this account may not write in {folder} ({error.strerror}); "
            "copy the course to a folder of your own and run it there"
        ) from None


def check_venv_module(find_spec=importlib.util.find_spec):
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        raise CourseError(
            "this Python comes without its venv module; on Debian and Ubuntu "
            "'sudo apt install python3-venv' brings it, then run the same command again"
        )


# ---- which Python runs the course


def find_python():
    """Return the path of a Python that holds every package, installing if need be."""
    lacking = None
    if Path(sys.prefix).resolve() != VENV.resolve():
        lacking = find_lacking(read_requirements())
        if not lacking:
            return sys.executable
    if not is_installed():
        if lacking:
            print(f"This Python lacks {', '.join(lacking[:3])}{' ...' if lacking[3:] else ''}.")
        install()
    return str(venv_python())


def read_requirements():
    import tomllib

    with PYPROJECT.open("rb") as file:
        return tomllib.load(file)["project"]["dependencies"]


def find_lacking(requirements):
    """Return the requirements that the running interpreter does not meet, unimported."""
    from importlib.metadata import PackageNotFoundError, version

    lacking = []
    for requirement in requirements:
        name, operator, wanted = split_requirement(requirement)
        try:
            if not meets(version(name), operator, wanted):
                lacking.append(requirement)
        except PackageNotFoundError:
            lacking.append(requirement)
    return lacking


def split_requirement(requirement):
    match = re.match(r"^([\w.-]+)\s*(==|<)\s*([\w.]+)$", requirement)
    if match is None:
        raise CourseError(
            f"pyproject.toml: '{requirement}' must read NAME==VERSION or NAME<VERSION"
        )
    return match.groups()


def meets(found, operator, wanted):
    """Compare versions. A build label does not count: 2.13.0+cpu is 2.13.0."""
    found = found.split("+")[0]
    if operator == "==":
        return found == wanted
    return release_numbers(found) < release_numbers(wanted)


def release_numbers(version):
    return [int(part) for part in re.match(r"[\d.]*\d", version).group().split(".")]


# ---- .venv


def venv_python():
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def is_installed():
    """Whether .venv was finished for exactly this lock, this project file and this folder."""
    stamp = VENV / "course-stamp"
    return venv_python().exists() and stamp.exists() and stamp.read_text() == make_stamp()


def make_stamp():
    parts = (LOCK.read_bytes(), PYPROJECT.read_bytes(), str(ROOT).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def install():
    """Make .venv and fill it. The stamp is written last, so a broken-off run is repeated."""
    check_builds(sys.version_info)
    check_venv_module()
    check_writable(ROOT)
    stamp = VENV / "course-stamp"
    if stamp.exists():
        stamp.unlink()
    say_what_comes()
    if not has_pip():
        run_step([sys.executable, "-m", "venv", "--clear", str(VENV)])
    pip = [str(venv_python()), "-m", "pip", "install", "--disable-pip-version-check"]
    run_step([*pip, "-r", str(LOCK)])
    # setuptools is in the lock: without build isolation nothing more is downloaded here.
    run_step([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    stamp.write_text(make_stamp())


def say_what_comes():
    note = ""
    if sys.platform.startswith("linux"):
        note = " PyPI's torch for Linux brings NVIDIA's libraries, several GB more."
    print(
        f"Installing the course's packages into {VENV}: about 2 GB.{note}\n"
        "This happens once and takes some minutes.",
        flush=True,
    )


def has_pip():
    if not venv_python().exists():
        return False
    probe = [str(venv_python()), "-m", "pip", "--version"]
    return (
        subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    )


def run_step(command):
    """Run one step with its progress in view; raise one sentence if it fails."""
    environment = dict(os.environ, PIP_USER="0")  # 'pip install --user' is refused in a .venv
    step = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        encoding="utf-8",
        errors="replace",
    )
    errors = []
    for line in step.stderr:
        sys.stderr.write(line)
        errors.append(line)
    if step.wait() != 0:
        raise CourseError(explain_failure("".join(errors)))


def explain_failure(errors):
    """Tell a missing network and a full disk from everything else pip may say.

    A retry that succeeded leaves a warning behind, so a network word counts only in pip's
    final error, or when that error says that the index offered nothing at all.
    """
    start_of_error = re.search(r"^\s*error", errors, re.IGNORECASE | re.MULTILINE)
    final = errors[start_of_error.start() :] if start_of_error else errors
    if any(word in final for word in DISK_FULL):
        return "the disk is full; free about 3 GB (10 GB on Linux) and run the same command again"
    said = errors if "(from versions: none)" in final else final
    if any(word in said for word in NO_NETWORK):
        return (
            "no network: pip could not reach its package index; nothing was lost, "
            "connect and run the same command again"
        )
    return (
        "the set-up failed, the reason stands above; once it is mended run the same command again"
    )


# ---- handing over


def hand_over(python, words):
    """Run `python -m lessonlib WORD ...`; this checkout wins over any other one installed."""
    command = [python, "-m", "lessonlib", *words]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
    sys.stdout.flush()
    if os.name == "posix":  # become the command: signals and exit status are then its own
        os.execve(python, command, environment)
    return wait_for(subprocess.Popen(command, env=environment))


def wait_for(process):
    """Return the exit status. Ctrl-C reaches the child by itself: let it decide what to do."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    sys.exit(main())
