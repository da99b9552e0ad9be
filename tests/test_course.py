"""course.py: set-up, its refusals in one sentence each, and the hand-over."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import course
import lessonlib.__main__ as commands
from lessonlib.lab import device

SOURCE = Path(course.__file__).read_text(encoding="utf-8")
OFFLINE = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1"}
RETRIED = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(x)'\n"


def run_course(*words: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, course.__file__, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def say(capsys, words: list[str]) -> tuple[int, str]:
    """Run main in this process; return the exit status and the one line on stderr."""
    status = course.main(words)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return status, lines[0]


@pytest.fixture
def no_set_up(monkeypatch):
    """Fail the test, rather than install or start something, if a refusal comes too late."""
    monkeypatch.setattr(course, "find_python", lambda: pytest.fail("went on to the set-up"))


# ---- usage


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_usage_names_every_word(words, tmp_path):
    done = run_course(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("lab", "test", "doctor", "demo", "train", "progress", "reset", "build"):
        assert f"\n  {word} " in done.stdout
    assert len(done.stdout.splitlines()) < 20


def test_unknown_word_is_refused_before_any_set_up(no_set_up, capsys):
    status, line = say(capsys, ["lob"])
    assert status == 2
    assert "'lob' is not a command" in line


def test_unknown_word_names_the_words_there_are(tmp_path):
    done = run_course("lob", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "'lob' is not a command" in line
    assert "lab, test, doctor" in line


@pytest.mark.parametrize("port", ["x", "0", "65536", "-1", "8.5"])
def test_bad_port_number_is_refused(port):
    done = run_course("lab", f"--port={port}")
    assert done.returncode == 2
    assert f"'{port}' is not a port number" in done.stderr
    assert "Traceback" not in done.stderr


# ---- old Pythons


@pytest.mark.parametrize("minor", [6, 7, 8, 9, 10])
def test_old_python_can_read_course_py(minor):
    tree = ast.parse(SOURCE, feature_version=(3, minor))
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    imported += [n.name for node in tree.body if isinstance(node, ast.Import) for n in node.names]
    assert "__future__" not in imported  # 3.6 does not know `annotations`
    assert "tomllib" not in imported
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    arguments = [argument for node in functions for argument in node.args.args]
    assert not any(node.returns for node in functions)
    assert not any(argument.annotation for argument in arguments)


def test_this_reading_test_can_fail():
    with pytest.raises(SyntaxError):
        ast.parse("if (n := 3): pass", feature_version=(3, 6))


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (2, 7, 18)])
def test_too_old_python_gets_one_sentence(version, monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", version)
    status, line = say(capsys, ["lab"])
    assert status == 2
    assert "needs Python 3.11 or newer" in line
    assert ".".join(map(str, version)) in line


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (4, 0, 0)])
def test_new_enough_python_passes(version):
    assert course.check_python(version) is None


def test_too_new_python_is_told_before_pip_fails():
    with pytest.raises(course.CourseError, match=r"no builds for Python 3\.15"):
        course.check_builds((3, 15, 0))
    assert course.check_builds((3, 14, 9)) is None


# ---- what can be wrong on the machine


def test_busy_port_gets_one_sentence(no_set_up, capsys):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        status, line = say(capsys, ["lab", "--port", str(port)])
    assert status == 2
    assert f"port {port} cannot be used" in line
    assert "--port" in line
    assert course.check_port(port) is None  # released, so free again


def test_unwritable_folder_gets_one_sentence(no_set_up, capsys, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(course.tempfile, "TemporaryFile", refuse)
    status, line = say(capsys, ["lab"])
    assert status == 1
    assert "may not write" in line
    assert "Permission denied" in line


def test_writable_folder_is_left_empty(tmp_path):
    course.check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody can write in")
def test_even_root_is_told_about_a_read_only_folder():
    with pytest.raises(course.CourseError, match="may not write in /proc"):
        course.check_writable(Path("/proc"))


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_missing_venv_module_names_the_package(missing):
    with pytest.raises(course.CourseError, match="apt install python3-venv"):
        course.check_venv_module(lambda name: None if name == missing else object())
    assert course.check_venv_module() is None


def test_real_pip_without_network_is_recognised():
    pip = [sys.executable, "-m", "pip", "install", "--index-url", "http://127.0.0.1:9/simple"]
    offline = {name: value for name, value in OFFLINE.items() if name != "PIP_FIND_LINKS"}
    done = subprocess.run(
        [*pip, "--target", "unused", "no-such-package==1"],
        capture_output=True,
        text=True,
        env=offline,
    )
    assert done.returncode != 0
    assert course.explain_failure(done.stderr).startswith("no network")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (RETRIED + "ERROR: Could not find a version for x (from versions: none)", "no network"),
        ("ERROR: OSError: HTTPSConnectionPool(): Max retries exceeded with url", "no network"),
        ("error: connection-failed\n\n× Failed to connect to a.org\n", "no network"),
        ("ERROR: Exception:\n  raise ReadTimeoutError(self._pool)\n", "no network"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: Could not find a version for x (from versions: none)", "the set-up failed"),
        (RETRIED + "ERROR: No version (from versions: 1.0, 2.0)", "the set-up failed"),
        (RETRIED + "ERROR: ResolutionImpossible", "the set-up failed"),
        ("", "the set-up failed"),
    ],
)
def test_failures_are_told_apart(said, told):
    assert course.explain_failure(said).startswith(told)


# ---- which Python


def test_complete_environment_is_used_as_it_is(monkeypatch):
    monkeypatch.setattr(course, "find_lacking", lambda _: [])
    monkeypatch.setattr(course, "VENV", Path("/nowhere/.venv"))
    monkeypatch.setattr(course, "install", lambda: pytest.fail("installed something"))
    assert course.find_python() == sys.executable


def test_lacking_packages_are_found_without_importing_any():
    code = (
        "import sys, course; print(course.find_lacking(course.read_requirements() + "
        "['numpy==0.1', 'no-such-package==1']), 'numpy' in sys.modules)"
    )
    folder = str(Path(course.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True
    )
    assert done.stdout == "['numpy==0.1', 'no-such-package==1'] False\n"


@pytest.mark.parametrize(
    ("found", "operator", "wanted", "fits"),
    [
        ("2.13.0", "==", "2.13.0", True),
        ("2.13.0+cpu", "==", "2.13.0", True),
        ("2.13.1", "==", "2.13.0", False),
        ("4.24.1", "<", "4.25", True),
        ("4.9", "<", "4.25", True),
        ("4.25.0", "<", "4.25", False),
        ("5.0rc1", "<", "4.25", False),
    ],
)
def test_versions_are_compared_by_number(found, operator, wanted, fits):
    assert course.meets(found, operator, wanted) is fits


def test_every_dependency_can_be_split():
    assert all(len(course.split_requirement(r)) == 3 for r in course.read_requirements())
    with pytest.raises(course.CourseError, match="rich>=1"):
        course.split_requirement("rich>=1")


# ---- .venv


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    """A checkout of its own where every step is recorded instead of run."""
    for name in ("LOCK", "PYPROJECT"):
        file = tmp_path / getattr(course, name).name
        file.write_text(name)
        monkeypatch.setattr(course, name, file)
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(course, "read_requirements", lambda: ["no-such-package==1"])
    monkeypatch.setattr(course, "has_pip", lambda: course.venv_python().exists())
    steps: list[str] = []

    def run_step(command):
        steps.append(" ".join(command[1:4]))
        if command[1:3] == ["-m", "venv"]:
            course.venv_python().parent.mkdir(parents=True, exist_ok=True)
            course.venv_python().touch()

    monkeypatch.setattr(course, "run_step", run_step)
    return steps


FULL_SET_UP = ["-m venv --clear", "-m pip install", "-m pip install"]


def test_first_call_installs_and_second_call_runs_nothing(sandbox):
    assert course.find_python() == str(course.venv_python())
    assert sandbox == FULL_SET_UP
    assert course.find_python() == str(course.venv_python())
    assert sandbox == FULL_SET_UP


@pytest.mark.parametrize("name", ["LOCK", "PYPROJECT"])
def test_a_changed_list_installs_again(sandbox, name):
    course.find_python()
    getattr(course, name).write_text("changed")
    course.find_python()
    assert sandbox == [*FULL_SET_UP, "-m pip install", "-m pip install"]
    course.find_python()
    assert len(sandbox) == 5


@pytest.mark.parametrize("broken_step", [1, 2, 3])
def test_a_broken_off_set_up_is_repeated(sandbox, monkeypatch, broken_step):
    whole = course.run_step

    def break_off(command):
        whole(command)
        if len(sandbox) == broken_step:
            raise course.CourseError("no network")

    monkeypatch.setattr(course, "run_step", break_off)
    with pytest.raises(course.CourseError):
        course.find_python()
    assert not course.is_installed()
    monkeypatch.setattr(course, "run_step", whole)
    course.find_python()
    assert course.is_installed()
    assert sandbox[-2:] == ["-m pip install", "-m pip install"]


def test_a_broken_off_update_does_not_pass_for_the_old_set_up(sandbox, monkeypatch):
    course.find_python()
    before = course.LOCK.read_text()
    course.LOCK.write_text("changed")
    monkeypatch.setattr(course, "run_step", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        course.find_python()
    course.LOCK.write_text(before)  # back to the old commit: .venv may be half new
    assert not course.is_installed()


def test_a_vanished_interpreter_is_noticed(sandbox):
    course.find_python()
    course.venv_python().unlink()
    course.find_python()
    assert sandbox == FULL_SET_UP * 2


def test_the_course_s_own_venv_is_judged_by_its_stamp(sandbox, monkeypatch):
    """Run by .venv's Python, a broken-off set-up must not pass because torch is there already."""
    monkeypatch.setattr(course.sys, "prefix", str(course.VENV))
    monkeypatch.setattr(course, "find_lacking", lambda _: [])
    course.find_python()
    assert sandbox == FULL_SET_UP


def test_a_failing_step_shows_its_error_and_raises_the_sentence(capsys):
    code = "import sys; sys.exit('ERROR: [Errno 28] No space left on device')"
    with pytest.raises(course.CourseError, match="the disk is full"):
        course.run_step([sys.executable, "-c", code])
    assert "Errno 28" in capsys.readouterr().err
    assert course.run_step([sys.executable, "-c", "pass"]) is None


# ---- hand-over


def test_hand_over_keeps_the_exit_status_and_this_checkout_first(tmp_path):
    words = ["test", "--co", "-q", "no_such_file.py"]
    code = f"import sys; sys.path.insert(0, {str(course.ROOT)!r}); import course\n"
    code += f"sys.exit(course.hand_over(sys.executable, {words}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 4  # pytest's own status for a path that is not there
    assert "no_such_file.py" in done.stdout + done.stderr


def test_hand_over_puts_this_checkout_before_others(monkeypatch):
    calls = []
    monkeypatch.setattr(course.os, "name", "posix")
    monkeypatch.setattr(course.os, "execve", lambda *call: calls.append(call))
    monkeypatch.setattr(course, "wait_for", lambda process: process.kill())
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    course.hand_over(sys.executable, ["doctor"])
    ((python, command, environment),) = calls
    assert command == [python, "-m", "lessonlib", "doctor"]
    assert environment["PYTHONPATH"] == os.pathsep.join([str(course.ROOT), "elsewhere"])


def test_waiting_parent_leaves_ctrl_c_to_the_child():
    class Child:
        tries = 0

        def wait(self):
            self.tries += 1
            if self.tries < 3:
                raise KeyboardInterrupt
            return 7

    assert course.wait_for(Child()) == 7


def test_interrupted_set_up_says_how_to_go_on(capsys, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "find_python", interrupt)
    status, line = say(capsys, ["test"])
    assert status == 130
    assert "the same command goes on" in line


# ---- python -m lessonlib


SHARED = ["-n2", "--dist=loadfile"]


def test_tests_run_in_the_checkout(tmp_path, root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = (root, [*SHARED, "-q"])
    monkeypatch.setattr(pytest, "main", lambda argv: (Path.cwd(), argv) == wanted)
    monkeypatch.setattr(device, "count_usable_cpus", lambda: 2)
    assert commands.run_tests(["-q"]) == 1


@pytest.mark.parametrize(
    ("argv", "cpus", "added"),
    [
        ([], 2, SHARED),
        (["-x", "-k", "tree and not slow"], 2, SHARED),
        ([], 16, ["-n4", "--dist=loadfile"]),
        ([], 1, []),
        (["-n0"], 2, []),
        (["-n", "3"], 2, []),
        (["--pdb"], 2, []),
        (["tests/test_course.py::test_a"], 2, []),
        # The cells of a notebook run in order, in one kernel.
        (["--nbval", "solutions/01_leviathan_proof.ipynb"], 2, []),
    ],
)
def test_only_the_whole_suite_is_shared_out(argv, cpus, added):
    assert commands.share_out(argv, cpus) == added


@pytest.mark.slow
def test_a_file_stays_on_one_worker_and_the_closing_line_is_the_last(root):
    files = ["tests/test_quiz.py", "tests/test_metrics.py"]
    command = [sys.executable, "-m", "pytest", "-v", *SHARED, *files]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    ran = re.findall(r"^\[(gw\d)\] .* PASSED (tests/\w+\.py)::", done.stdout, re.MULTILINE)
    assert len(ran) > 10
    assert len(set(ran)) == len(files) == len({worker for worker, _ in ran})
    assert re.fullmatch(rf"=+ {len(ran)} passed in .*=+", done.stdout.splitlines()[-1])


def test_work_without_notebooks_opens_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    arguments = commands.list_lab_arguments(tmp_path / "work", commands.parse_lab([]))
    assert "--LabApp.default_url=/lab/workspaces/course/tree/work" in arguments
    assert not [a for a in arguments if "port" in a or "browser" in a]


@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt, 130), (None, 0)])
def test_ctrl_c_in_a_command_is_one_sentence(raised, status, monkeypatch, capsys):
    def command(argv):
        assert argv == ["--K", "4"]
        assert sys.argv == ["course.py demo", "--K", "4"]
        if raised:
            raise raised

    monkeypatch.setattr(commands, "load_command", lambda word: command)
    monkeypatch.setattr(sys, "argv", ["anything"])
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")  # the user's own choice stays
    assert commands.main(["demo", "--K", "4"]) == status
    assert capsys.readouterr().err == ("course.py demo: interrupted\n" if raised else "")
    assert os.environ["JUPYTER_PREFER_ENV_PATH"] == "0"


def test_lab_refuses_a_file_called_work_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    (tmp_path / "work").touch()
    assert commands.open_lab([]) == 1
    assert capsys.readouterr().err.startswith("course.py lab: work is a file")


@pytest.mark.skipif(os.name != "posix", reason="closes a POSIX pipe")
@pytest.mark.parametrize("output", ["'short'", "'long' * 100_000"])
def test_a_reader_that_has_seen_enough_gets_no_traceback(output):
    """As in `demo | head -1`: what is written, or left to flush, meets a closed pipe."""
    code = (
        "import sys, lessonlib.__main__ as commands\n"
        f"commands.load_command = lambda word: lambda rest: print({output})\n"
        "sys.stdin.read()\n"
        "sys.exit(commands.main(['demo']))"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = subprocess.Popen([sys.executable, "-c", code], **pipes)
    program.stdout.close()
    program.stdin.close()
    assert program.stderr.read() == b""
    assert program.wait() == 141


def test_every_word_leads_to_a_function():
    for word in commands.COMMANDS:
        assert callable(commands.load_command(word)), word


LAB = """
import sys, types
from pathlib import Path
import lessonlib.__main__ as commands
root = commands.ROOT = Path({folder!r})
defaults = Path({root!r}) / "lessonlib/lab/jupyter"
(root / "lessonlib/lab").mkdir(parents=True)
(root / "lessonlib/lab/jupyter").symlink_to(defaults)
copies = types.ModuleType("lessonlib.classroom.workcopies")
copies.prepare = lambda root: root / "work"
sys.modules[copies.__name__] = copies
commands.main(["lab", "--no-browser", "--port", "{port}"])
"""


def fetch_json(url: str, seconds: float = 30) -> dict:
    """The address is printed a moment before the server listens."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=seconds) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_lab_serves_the_first_lesson_quietly_and_stops_on_ctrl_c(tmp_path, root):
    """A real server: first lesson, no news and no update check, the user's settings untouched."""
    import nbformat

    for name in ("01_b.ipynb", "00_a.ipynb"):
        (tmp_path / "work").mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / "work" / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "XDG_"))}
    server = subprocess.Popen(
        [sys.executable, "-c", LAB.format(folder=str(tmp_path), root=str(root), port=port)],
        cwd=root,
        env={**environment, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A suite in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        lines = []
        address = None
        for line in server.stderr:
            lines.append(line)
            address = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)\?token=(\w+)", line)
            if address:
                break
        assert address, "".join(lines)
        found_port, path, token = address.groups()
        assert int(found_port) == port
        assert path.endswith("/tree/work/00_a.ipynb")
        plugin = "@jupyterlab/apputils-extension:notification"
        url = f"http://127.0.0.1:{port}/lab/api/settings/{plugin}?token={token}"
        defaults = fetch_json(url)["schema"]["properties"]
        assert defaults["fetchNews"]["default"] == "false"
        assert defaults["checkForUpdates"]["default"] is False
        assert not list(home.rglob("*.jupyterlab-settings"))
        server.send_signal(signal.SIGINT)  # one is enough: without a terminal it asks nobody
        server.wait(timeout=30)
        assert "Traceback" not in server.stderr.read()
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
