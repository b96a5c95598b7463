"""The bench and theory in the oldest Python that `--python` takes: they must at least compile and import there."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

OLDEST = (3, 10)
PACKAGE = Path(__file__).parents[1] / "labtui"
SOURCES = sorted([*PACKAGE.joinpath("bench").rglob("*.py"), *PACKAGE.joinpath("theory").rglob("*.py")])


def test_the_syntax_is_old_enough() -> None:
    for path in SOURCES:
        ast.parse(path.read_text(), str(path), feature_version=OLDEST)


def test_theory_and_report_import_there(tmp_path: Path) -> None:
    places = [*Path.home().glob(".pyenv/versions/3.10.*/bin/python"), shutil.which("python3.10")]
    python = next((place for place in places if place is not None), None)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("there is no Python 3.10 here")
    modules = [
        str(path.relative_to(PACKAGE.parent).with_suffix("")).replace("/", ".").removesuffix(".__init__")
        for path in SOURCES
        if "theory" in path.parts or path.name in ("report.py", "enter.py")
    ]
    modules = [name for name in modules if "optimal" not in name]  # needs the solver, which is imported when asked
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([str(python), "-B", "-c", code, *modules], cwd=PACKAGE.parent, check=True)
