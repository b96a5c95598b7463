"""Nothing is executed but what somebody asked for: no shell anywhere, and what others made is data until it is run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import labtui as package
from labtui.catalog import sources
from labtui.runs import start

ROOT = Path(package.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if "_experiments" not in path.parts)

STARTS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"}
SHELLS = {
    "getoutput",
    "getstatusoutput",
    "create_subprocess_shell",
    "popen",
    "system",
    "spawnl",
    "spawnlp",
    "startfile",
}
SUSPECT = re.compile(rb"shell|subprocess|asyncio|\bos\b|exec|eval|pickle|marshal|shelve|runpy|commands|-c\b")
"""Without one of these a module need not be parsed."""
SHELL_PROGRAMS = {"sh", "bash", "dash", "zsh", "/bin/sh", "/bin/bash", "/usr/bin/env"}


def found_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line, and what there is that a shell could get to see, or that runs text as a program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            first = node.elts[0]
            options = [each.value for each in node.elts[1:] if isinstance(each, ast.Constant)]
            if isinstance(first, ast.Constant) and first.value in SHELL_PROGRAMS and "-c" in options:
                yield node.lineno, f"{first.value} as a program"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if any(keyword.arg == "shell" for keyword in node.keywords):
            yield node.lineno, "shell="
        if name in SHELLS and owner in ("os", "subprocess", "asyncio", "commands", ""):
            yield node.lineno, name
        if name in STARTS and owner in ("subprocess", "asyncio", "") and node.args:
            command = node.args[0]
            if isinstance(command, ast.JoinedStr | ast.BinOp) or (
                isinstance(command, ast.Constant) and isinstance(command.value, str)
            ):
                yield node.lineno, f"{name} of one text"
        if isinstance(node.func, ast.Name) and name in ("exec", "eval"):
            yield node.lineno, name
        if owner in ("pickle", "marshal", "shelve", "runpy"):
            yield node.lineno, f"{owner}.{name}"


def test_there_is_no_shell() -> None:
    told = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in MODULES
        if SUSPECT.search(source := path.read_bytes())
        for line, what in found_in(ast.parse(source))
    ]
    # The learner's own file is run because its name was given; in a process of its own.
    assert [one for one in told if not one.startswith("runs/learner_child.py")] == []
    assert len(told) == 1 and told[0].endswith(": exec")


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(x, shell=True)", "subprocess.run(x, **{}, shell=y)", "os.system(x)", "os.popen(x)",
        "subprocess.run('ls ' + x)", "subprocess.Popen(f'ls {x}')", "subprocess.getoutput(x)", "eval(x)",
        "subprocess.run(['sh', '-c', x])", "pickle.loads(x)", "from os import system; system(x)",
    ],
)  # fmt: skip
def test_the_search_finds_it(source: str) -> None:
    assert list(found_in(ast.parse(source)))


TRAP = """
import os
from pathlib import Path
with Path(os.environ["TRAP"]).open("a") as file:
    file.write(__file__ + "\\n")
"""
MANIFEST = """
format = 1
title = "A trap"
question = "Does it wait?"
topic = "data"
order = 0
launch = "python"
devices = ["cpu"]
minutes = 0.1
"""
MODULE_NAMES = (
    "main", "__init__", "conftest", "sitecustomize", "usercustomize", "setup", "json", "tomllib", "queue", "argparse",
    "labtui", "platformdirs", "torch", "textual", "logging", "socket",
)  # fmt: skip


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody's experiment, full of what might be executed by mistake; the file in which it would tell."""
    sprung = tmp_path / "sprung"
    folder = tmp_path / "project" / "experiments" / "trap"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent, folder.parents[1]):
        for name in MODULE_NAMES:
            (place / f"{name}.py").write_text(TRAP)
        (place / "trap.pth").write_text(f"import os; open({str(sprung)!r}, 'a').write('pth')\n")
        for name in ("git", "nvidia-smi", "python", "less", "tc", "ip"):
            (place / name).write_text(f"#!/bin/sh\necho {name} >> {sprung}\n")
            (place / name).chmod(0o755)
    (folder / "experiment.toml").write_text(MANIFEST)
    (folder / "guide.md").write_text(f'# Trap\n\n## Run it\n\n`$(touch {sprung})`\n\n```run\nid = "a"\n```\n')
    if subprocess.run(["git", "init", "-q", str(folder)], check=False, capture_output=True).returncode == 0:
        hook = folder / ".git" / "hook"
        hook.write_text(f"#!/bin/sh\necho hook >> {sprung}\n")
        hook.chmod(0o755)
        with (folder / ".git" / "config").open("a") as file:
            file.write(f'[core]\n\tfsmonitor = {hook}\n[filter "x"]\n\tclean = {hook}\n')
        (folder / ".gitattributes").write_text("* filter=x\n")
    monkeypatch.setenv("TRAP", str(sprung))
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(folder.parent))
    monkeypatch.chdir(folder.parents[1])
    return sprung


@pytest.mark.parametrize(
    "command",
    [
        ("experiments",), ("experiments", "--json"), ("run", "trep"), ("run", "trap", "--set", "no=1"), ("runs",),
        ("doctor", "--json"), ("completion", "bash"),
    ],
)  # fmt: skip
def test_listing_executes_nothing(trap: Path, command: tuple[str, ...]) -> None:
    """In a process of its own, started beside the trap, as a user's shell would start it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "labtui", *command],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    if command[0] == "experiments":
        assert "A trap" in done.stdout
    assert not trap.exists(), trap.read_text()


def test_reading_all_of_it_executes_nothing(trap: Path, own_folders: Path) -> None:
    """Manifest, guide, and the command that would be started."""
    from labtui.catalog.guide import read_guide

    experiment = sources.find("trap")
    read_guide(experiment.folder, experiment)
    assert str(experiment.main) in start.planned(own_folders, experiment, "", {}, start.Options(device="cpu"))
    assert not trap.exists(), trap.read_text()
