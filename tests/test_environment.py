"""One list of dependencies: pyproject.toml, environment.yml and requirements.lock agree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import course

LIVE_CHANNELS = {"conda-forge", "nodefaults"}
ONE_PLATFORM_ONLY = r"pywin|colorama|appnope|nvidia|cuda|triton|cudatoolkit|mkl|libgcc|vs20|_win"


def read_pins(lines: list[str]) -> dict[str, str]:
    """Map canonical name to specifier."""
    pins = map(Requirement, lines)
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in pins}


def list_minors(specifier: str) -> set[int]:
    """Return the x of every Python 3.x that a specifier allows."""
    return {minor for minor in range(30) if SpecifierSet(specifier).contains(f"3.{minor}.1")}


def find_faults(text: str, dependencies: list[str], requires_python: str) -> list[str]:
    """Return what is wrong with the text of an environment.yml; empty means it may ship."""
    environment = yaml.safe_load(text)
    conda = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    ours = [line for line in pip if line != "-e ."]
    faults = [f"dead channel: {name}" for name in set(environment["channels"]) - LIVE_CHANNELS]
    faults += [f"build string: {item}" for item in conda if re.search(r"[^=<>!]=[^=]", item)]
    faults += [f"one platform only: {x}" for x in conda + ours if re.search(ONE_PLATFORM_ONLY, x)]
    faults += [f"not for conda: {item}" for item in conda if not re.match(r"python\W|pip$", item)]
    faults += [] if "-e ." in pip else ["lessonlib itself is not installed"]
    there, wanted = read_pins(ours), read_pins(dependencies)
    faults += [f"missing: {name}" for name in wanted.keys() - there.keys()]
    faults += [f"not in pyproject.toml: {name}" for name in there.keys() - wanted.keys()]
    both = there.keys() & wanted.keys()
    faults += [f"other pin: {name}" for name in both if there[name] != wanted[name]]
    python = next(item for item in conda if item.startswith("python")).removeprefix("python")
    if not list_minors(python) <= list_minors(requires_python):
        faults.append(f"other python: {python}")
    lines = [line for line in text.splitlines() if re.match(r"\s+- (?!pip:|conda|nodef)", line)]
    faults += [f"no comment: {line.strip()}" for line in lines if not re.search(r" # \w", line)]
    return faults


@pytest.fixture(scope="module")
def project(root) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def environment(root) -> str:
    return (root / "environment.yml").read_text(encoding="utf-8")


def test_environment_equals_pyproject(environment, project):
    assert find_faults(environment, project["dependencies"], project["requires-python"]) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("torch==2.13.0", "torch==2.12.0", "other pin: torch"),
        ("jsonschema<4.25", "jsonschema", "other pin: jsonschema"),
        ("      - rich==15.0.0", "      # rich==15.0.0", "missing: rich"),
        ("- -e .", "- pandas==3.0.0 # why\n      - -e .", "not in pyproject.toml: pandas"),
        ("- -e .", "- pywinpty==3.1.2 # why\n      - -e .", "one platform only"),
        ("  - pip #", "  - libgcc-ng=9.1.0=hdf63c60_0 # why\n  - pip #", "build string"),
        ("  - pip #", "  - pip=25.1 #", "build string"),
        ("  - pip #", "  - rich # why\n  - pip #", "not for conda: rich"),
        ("conda-forge", "free", "dead channel: free"),
        ("python>=3.11,<3.15", "python>=3.9", "other python"),
        ("scipy==1.17.1 # ", "scipy==1.17.1 #- ", "no comment: - scipy"),
        ("- -e . #", "# -e .", "lessonlib itself"),
    ],
)
def test_broken_environment_is_noticed(environment, project, old, new, fault):
    broken = environment.replace(old, new)
    assert broken != environment
    faults = find_faults(broken, project["dependencies"], project["requires-python"])
    assert any(line.startswith(fault) for line in faults), faults


def test_course_accepts_the_pythons_of_the_environment(environment):
    (python,) = re.findall(r"- python(\S+)", environment)
    accepted = set(range(course.OLDEST_PYTHON[1], course.NEWEST_PYTHON[1] + 1))
    assert list_minors(python) == accepted


def find_lock_faults(text: str, dependencies: list[str]) -> list[str]:
    """Return what is wrong with the text of a requirements.lock."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    pins = [Requirement(line) for line in lines if line]
    faults = [f"not pinned: {p}" for p in pins if not re.fullmatch(r"==[\w.]+", str(p.specifier))]
    faults += [f"torch brings it: {p}" for p in pins if re.match(r"nvidia|cuda|triton", p.name)]
    addresses = r"://|\s@|^-|\.\./|/opt"
    faults += [f"address: {line}" for line in text.splitlines() if re.search(addresses, line)]
    locked = {canonicalize_name(pin.name): pin for pin in pins}
    for wanted in map(Requirement, dependencies):
        pin = locked.get(canonicalize_name(wanted.name))
        version = str(pin.specifier).removeprefix("==") if pin else ""
        if pin is None or pin.marker or not wanted.specifier.contains(version):
            faults.append(f"does not hold {wanted}")
    return faults


@pytest.fixture(scope="module")
def lock(root) -> str:
    return (root / "requirements.lock").read_text(encoding="utf-8")


def test_lock_holds_pyproject(lock, project):
    assert find_lock_faults(lock, project["dependencies"]) == []
    assert "uv pip compile --universal" in lock


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("torch==2.13.0", "torch==2.12.1", "does not hold torch"),
        ("jsonschema==4.24.1", "jsonschema==4.25.0", "does not hold jsonschema"),
        ("\nrich==15.0.0", "\n# rich==15.0.0", "does not hold rich"),
        ("\ntqdm==4.70.1", "\ntqdm==4.70.1 ; sys_platform == 'win32'", "does not hold tqdm"),
        ("\nidna==", "\nidna>=", "not pinned: idna"),
        ("\nidna==", "\ntriton==3.7.1\nidna==", "torch brings it"),
        ("\nidna==", "\n# from https://example.org/simple\nidna==", "address"),
    ],
)
def test_broken_lock_is_noticed(lock, project, old, new, fault):
    broken = lock.replace(old, new)
    assert broken != lock
    faults = find_lock_faults(broken, project["dependencies"])
    assert any(line.startswith(fault) for line in faults), faults


def test_lock_can_build_the_project_offline(lock, root):
    """The editable install runs without build isolation, so the lock holds its build tool."""
    build = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert find_lock_faults(lock, build["requires"]) == []


def list_imports(root) -> dict[str, str]:
    """Map each top-level module that the course's Python imports to a file that does."""
    found = {}
    folders = (root / "lessonlib", root / "tests", root / "solutions")
    for file in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            found |= {name.partition(".")[0]: file.name for name in names}
    return found


def find_undeclared(modules: dict[str, str], dependencies: list[str]) -> list[str]:
    """Return the modules of other projects that no dependency stands for."""
    declared = {canonicalize_name(Requirement(line).name) for line in dependencies}
    owners = metadata.packages_distributions()
    own = {*sys.stdlib_module_names, "lessonlib", "tests", "course"}
    return [
        f"{module} ({file})"
        for module, file in modules.items()
        if module not in own
        and not {canonicalize_name(name) for name in owners.get(module, [])} & declared
    ]


def test_what_is_imported_is_declared(root, project):
    modules = list_imports(root)
    assert {"torch", "yaml", "lessonlib"} <= set(modules)
    assert find_undeclared(modules, project["dependencies"]) == []


def test_an_undeclared_import_is_noticed(project):
    without = [line for line in project["dependencies"] if not line.startswith("pyyaml")]
    wanted = ["yaml (x.py)", "attr (y.py)"]  # the second only comes along with another
    assert find_undeclared({"yaml": "x.py", "attr": "y.py", "os": "z.py"}, without) == wanted


def applies(marker, extras: tuple[str, ...]) -> bool:
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def test_every_installed_need_is_locked(lock, project):
    """Walk from the dependencies through the installed metadata: nothing is left unpinned."""
    from importlib.metadata import PackageNotFoundError, requires

    locked = {canonicalize_name(n) for n in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    open_names = [(canonicalize_name(Requirement(d).name), ()) for d in project["dependencies"]]
    seen: set = set()
    while open_names:
        name, extras = open_names.pop()
        if (name, extras) in seen or re.match(r"nvidia|cuda|triton", name):
            continue
        seen.add((name, extras))
        assert name in locked, f"{name} is needed but not in requirements.lock"
        try:
            needs = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:  # for another platform
            continue
        for need in needs:
            if applies(need.marker, extras):
                open_names.append((canonicalize_name(need.name), tuple(sorted(need.extras))))
    assert len(seen) > 100
