"""Who loads what, from sys.modules of fresh interpreters, and from syntax trees where nothing may be run.

import-linter holds the rules between our packages; here is what it can't see: what is really loaded on the way.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.runs import folder
from labtui.runs.records import FAILED, Request, Status

CHECKOUT = Path(__file__).resolve().parents[1]

PROBE = """
import sys
before = set(sys.modules)
{code}
print(*sorted(set(sys.modules) - before), sep="\\n", file=open({report!r}, "w"))
"""

HEAVY = {"torch", "numpy", "textual", "rich", "asyncio", "plotext", "psutil", "pynvml"}


@pytest.fixture
def loaded_by(tmp_path: Path):
    """A function: Python code -> the names of all modules that it loaded, in an interpreter of its own."""

    def loaded(code: str) -> set[str]:
        report = tmp_path / "modules"
        command = [sys.executable, "-c", PROBE.format(code=code, report=str(report))]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return set(report.read_text().split())

    return loaded


def top_level(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_importing_labtui_imports_nothing(loaded_by) -> None:
    assert loaded_by("import labtui") - {"__future__"} == {"labtui"}


@pytest.fixture
def a_run(own_folders: Path) -> str:
    made = folder.publish(folder.stage(own_folders, "ddp_by_hand", 0.0))
    request = Request(
        id=made.id, experiment="ddp_by_hand", command=("true",), python="", host="", user="", uid=0, created=0.0
    )
    folder.write_json(made.request_file, request.document())
    status = Status(state=FAILED, created=0.0, reason="made up by a test")
    folder.write_json(made.status_file, status.document())
    return made.id


@pytest.mark.parametrize(
    "argv",
    [
        ["--version"],
        ["--help"],
        ["experiments"],
        ["experiments", "--json"],
        ["runs"],
        ["runs", "--json"],
        ["show", "last"],
        ["show", "last", "--json"],
        ["logs", "last"],
        ["note", "last", "looked at"],
        ["run", "--help"],
    ],
    ids=" ".join,
)
def test_commands_that_read_load_nothing_heavy(loaded_by, a_run: str, argv: list[str]) -> None:
    modules = loaded_by(f"from labtui.cli.main import main\nassert main({argv!r}) == 0")
    assert not top_level(modules) & HEAVY
    assert not {name for name in modules if name.startswith(("labtui.tui", "labtui.bench"))}


def test_the_doctor_finds_torch_without_loading_it(loaded_by) -> None:
    modules = loaded_by("from labtui.cli.main import main\nmain(['doctor', '--json'])")
    assert "labtui.machine.doctor" in modules
    # It does ask NVML, by pynvml, which is small.
    assert not top_level(modules) & (HEAVY - {"pynvml"})


@pytest.mark.parametrize("module", ["labtui.cli.start", "labtui.cli.follow", "labtui.runs.start", "labtui.runs.agent"])
def test_what_starts_and_owns_runs_loads_nothing_heavy(loaded_by, module: str) -> None:
    modules = loaded_by(f"import {module}")
    assert not top_level(modules) & HEAVY
    assert not {name for name in modules if name.startswith(("labtui.tui", "labtui.bench"))}


@pytest.mark.parametrize("module", ["labtui.runs.agent", "labtui.machine.sampler", "labtui.bench.report"])
def test_what_lives_beside_a_run_starts_on_the_standard_library(loaded_by, module: str) -> None:
    assert top_level(loaded_by(f"import {module}")) <= set(sys.stdlib_module_names) | {"labtui"}


def test_report_stands_alone(loaded_by) -> None:
    ours = {name for name in loaded_by("from labtui.bench import report") if name.startswith("labtui")}
    assert ours == {"labtui", "labtui.bench", "labtui.bench.report"}


def test_the_terminal_ui_runs_without_torch(loaded_by) -> None:
    modules = loaded_by("import labtui.tui.app")
    assert not top_level(modules) & {"torch", "numpy"}
    assert not {name for name in modules if name.startswith("labtui.bench")}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of each import in a script, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(), path.name)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (node.lineno, "." * node.level + f"{node.module or ''}.{alias.name}".lstrip("."))
                for alias in node.names
            )


def allowed_in_an_experiment(name: str, folder: Path) -> bool:
    first, *rest = name.split(".")
    if first == "labtui":
        return rest[:1] in (["bench"], ["theory"])
    return first == "torch" or first in sys.stdlib_module_names or (folder / f"{first}.py").is_file()


SCRIPTS = sorted((CHECKOUT / "experiments").glob("*/*.py"))
"""main.py, and what stands beside it."""


def test_there_are_experiments_to_look_at() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_experiments_import_torch_the_bench_and_theory_only(path: Path) -> None:
    names = imported(path)
    foreign = [f"line {line}: {name}" for line, name in names if not allowed_in_an_experiment(name, path.parent)]
    assert not foreign, f"{path.parent.name}/{path.name} imports {', '.join(foreign)}"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import os, torch.distributed as d", ["os", "torch.distributed"]),
        ("from labtui import runs", ["labtui.runs"]),
        ("def f():\n    from ..x import y", ["..x.y"]),
        ("from . import y", [".y"]),
    ],
)
def test_imports_are_seen_wherever_they_stand(tmp_path: Path, code: str, names: list[str]) -> None:
    (tmp_path / "main.py").write_text(code)
    assert [name for _, name in imported(tmp_path / "main.py")] == names


def test_only_bench_and_experiments_name_torch() -> None:
    """import-linter watches our packages one by one; this watches all files, modules beside the packages too."""
    outside = [path for path in (CHECKOUT / "labtui").rglob("*.py") if "bench" not in path.parts]
    guilty = [
        str(path.relative_to(CHECKOUT))
        for path in outside
        if any(name.partition(".")[0] == "torch" for _, name in imported(path))
    ]
    assert not guilty
