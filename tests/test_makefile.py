"""`make lab`: which Python it takes, what it installs, and when it installs again.

Pythons are stand-ins: a shell script that notes how pip and venv were called, and hands all else to a real Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

STAND_IN = """\
#!/bin/sh
case "$1 $2" in
"-m pip" | "-m venv" | "-m compileall") echo "$@" >> "{calls}" ;;
esac
case "$1 $2" in
"-m venv")
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    printf '#!/bin/sh\\necho "labtui $@"\\n' > "$folder/bin/labtui"
    chmod +x "$folder/bin/labtui" ;;
"-m pip" | "-m compileall") ;;
"-c import sys; print(sys.executable)") echo "$0" ;;
"-c import importlib.util"*) echo "{torch}" ;;
*) exec "{real}" "$@" ;;
esac
"""


class Lab:
    """A checkout with nothing in it but what make needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(CHECKOUT / name, folder / name)

    def python(self, name: str, torch: str = "") -> Path:
        path = self.folder / "pythons" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(STAND_IN.format(calls=self.calls_file, torch=torch, real=sys.executable))
        path.chmod(0o755)
        return path

    def make(self, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
        }
        if path is not None:
            environ["PATH"] = f"{path}:{environ['PATH']}"
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def calls(self) -> list[str]:
        """How venv, pip and compileall were called since last asked."""
        calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return calls


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    return Lab(folder)


def test_without_a_terminal_the_first_experiment_runs(lab: Lab) -> None:
    done = lab.make("lab", path=lab.python("python3").parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "labtui run ddp_by_hand"
    venv, pip, compile_all = lab.calls()
    assert venv == "-m venv --clear .venv"
    assert pip.endswith("install -c .venv/constraints.txt -e .")
    assert compile_all == "-m compileall -q labtui"
    assert (lab.folder / ".venv/constraints.txt").read_text() == (CHECKOUT / "constraints.txt").read_text()


def test_it_installs_again_only_if_what_is_needed_has_changed(lab: Lab) -> None:
    path = lab.python("python3").parent
    lab.make("lab", path=path)
    lab.calls()
    assert lab.make("lab", path=path).returncode == 0
    assert lab.calls() == []
    now = (lab.folder / ".venv/installed").stat().st_mtime + 1
    os.utime(lab.folder / "constraints.txt", (now, now))
    assert lab.make("lab", path=path).returncode == 0
    assert [call.split()[1] for call in lab.calls()] == ["pip", "compileall"]


def test_another_python_makes_another_environment(lab: Lab) -> None:
    path = lab.python("python3").parent
    lab.make("lab", path=path)
    other = lab.python("python3.99")
    lab.calls()
    assert lab.make("lab", f"PYTHON={other}", path=path).returncode == 0
    assert lab.calls()[0] == "-m venv --clear .venv"
    assert lab.make("lab", f"PYTHON={other}", path=path).returncode == 0
    assert lab.make("lab", path=path).returncode == 0
    assert lab.calls() == [], "once made it stays, named again or not"


def test_a_checkout_that_was_moved_gets_a_new_environment(lab: Lab, tmp_path: Path) -> None:
    path = lab.python("python3").parent
    lab.make("lab", path=path)
    moved = lab.folder.rename(tmp_path / "moved")
    lab.folder, lab.calls_file = moved, moved / "calls"
    lab.python("python3")
    assert lab.make("lab", path=moved / "pythons").returncode == 0
    assert lab.calls()[0] == "-m venv --clear .venv"


def test_a_named_pythons_own_torch_is_left_as_it_is(lab: Lab) -> None:
    other = lab.python("trains", torch="/opt/trains/site-packages")
    done = lab.make("lab", f"PYTHON={other}")
    assert done.returncode == 0, done.stderr
    venv, dependencies, labtui, _ = lab.calls()
    assert venv == "-m venv --clear --system-site-packages .venv"
    assert dependencies.endswith("install -c .venv/constraints.txt -r .venv/requirements.txt")
    assert labtui.endswith("install --no-deps -e .")
    constraints = (lab.folder / ".venv/constraints.txt").read_text()
    requirements = (lab.folder / ".venv/requirements.txt").read_text()
    assert "textual==8.2.8" in requirements and "textual==8.2.8" in constraints
    for torchs in ("torch", "sympy", "typing_extensions"):
        assert f"\n{torchs}" not in constraints and torchs not in requirements


def test_a_python_that_was_not_named_gives_no_torch(lab: Lab) -> None:
    path = lab.python("python3", torch="/usr/lib/python3/dist-packages").parent
    assert lab.make("lab", path=path).returncode == 0
    assert lab.calls()[0] == "-m venv --clear .venv"


def test_tools_for_tests_come_from_the_dev_group(lab: Lab) -> None:
    path = lab.python("python3").parent
    assert lab.make(".venv/installed-dev", path=path).returncode == 0
    assert lab.calls()[-1].endswith("install --quiet -c .venv/constraints.txt -r .venv/requirements.txt")
    assert "pytest>=9\n" in (lab.folder / ".venv/requirements.txt").read_text()


def test_an_older_python_is_refused_in_one_sentence(lab: Lab) -> None:
    old = lab.folder / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13\nexit 1\n')
    old.chmod(0o755)
    done = lab.make("lab", f"PYTHON={old}")
    assert done.returncode != 0
    sentence, make = done.stderr.strip().splitlines()
    assert sentence.startswith(f"labtui needs Python 3.11, and {old} is Python 3.10.13: name a Python 3.11 or newer")
    assert make.startswith("make: ***")
    assert not (lab.folder / ".venv").exists()


def test_a_python_that_is_not_there(lab: Lab) -> None:
    done = lab.make("lab", "PYTHON=python3.98")
    assert done.returncode != 0
    assert done.stderr.startswith("There is no python3.98: name a Python 3.11 or newer")


def test_an_environment_that_make_did_not_make_is_used_or_named_but_never_cleared(lab: Lab) -> None:
    path = lab.python("python3").parent
    subprocess.run([path / "python3", "-m", "venv", lab.folder / ".venv"], check=True)
    lab.calls()
    done = lab.make("lab", f"PYTHON={lab.python('other')}")
    assert done.returncode != 0 and "is not make's own" in done.stderr
    assert lab.make("lab", path=path).returncode == 0
    assert not any("venv" in call.split() for call in lab.calls())


def test_its_own_environment_is_no_python_to_make_it_with(lab: Lab) -> None:
    folder = lab.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "made-by").write_text("/usr/bin/python3\n/moved/from\n")
    done = lab.make("lab", f"PYTHON={folder}/bin/python")
    assert done.returncode != 0
    assert "is this checkout's own .venv" in done.stderr


def test_constraints_pin_all_that_the_project_asks_for() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    lines = [line for line in (CHECKOUT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in asked}  # type: ignore[index]
    assert names <= pinned
    assert "torch==2.13.0" in lines
