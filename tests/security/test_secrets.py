"""What is secret stays out of everything that labtui writes, and that has the modes which the user's umask says."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.conftest import Done
from lab import end, launch, until

from labtui.export import formats
from labtui.runs import control, masking, start, state
from labtui.runs.folder import RunFolder
from labtui.runs.records import SUCCEEDED

SECRET = "s3cr3t-of-the-user"
UMASK = 0o027

CODE = """
import os, sys, time
from pathlib import Path
from labtui.bench import report
report.check("it has them", passed=os.environ["HUB_TOKEN"] in sys.argv[2] and os.environ["INDEX"].startswith("https"))
run = Path(os.environ["LABTUI_RUN_DIR"])
(run / "runtime").write_text(os.environ["LABTUI_RUNTIME_DIR"])
while not (run / "go").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(UMASK)
    yield
    os.umask(before)


def test_secrets_modes_and_sockets_of_a_real_run(own_folders: Path, umask: None, labtui: Callable[..., Done]) -> None:
    url = f"https://ann:{SECRET}@example.org/simple"
    folder = launch(
        own_folders,
        [sys.executable, "-c", CODE, "--hub-token", SECRET, f"--api-key={SECRET}", f"password={SECRET}", url],
        environment={"HUB_TOKEN": SECRET, "INDEX": url, "NCCL_DEBUG": "WARN"},
    )
    until(lambda: (folder.path / "runtime").exists() and (folder.path / "runtime").read_text(), "it runs")
    runtime = Path((folder.path / "runtime").read_text())
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    labtui("tag", folder.id, "kept")
    (folder.path / "go").touch()
    status = end(folder)
    assert (status.state, status.reason) == (SUCCEEDED, "its check passed")
    assert not runtime.exists()

    request = folder.request()
    assert request.environment == {
        "HUB_TOKEN": "***", "INDEX": "https://ann:***@example.org/simple", "NCCL_DEBUG": "WARN",
    }  # fmt: skip
    assert request.command[3:] == (
        "--hub-token", "***", "--api-key=***", "password=***", "https://ann:***@example.org/simple",
    )  # fmt: skip
    for path in (path for path in folder.path.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path
    for format in formats.FORMATS:
        assert SECRET not in "".join(formats.exported([folder], format))
    shown = [labtui(*words).out for words in (("show", "last"), ("show", "last", "--json"), ("runs", "--json"))]
    assert SECRET not in "".join(shown) and "***" in shown[0]
    with pytest.raises(start.StartError, match="held secrets that were not stored"):
        start.rerun(own_folders, folder, {}, start.Options())

    for path in (folder.path, *folder.path.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        expected = 0o750 if path.is_dir() else 0o640
        assert mode == expected or path.is_symlink(), f"{path.relative_to(own_folders)} has {mode:o}"
    for path in own_folders.parent.glob("xdg_*/labtui/*"):
        assert not stat.S_IMODE(path.stat().st_mode) & UMASK, path


def test_a_folder_whose_agent_was_killed_leaves_no_sockets(own_folders: Path) -> None:
    folder = launch(own_folders, [sys.executable, "-c", "import time; time.sleep(600)"])
    until(lambda: state.observe(folder).processes, "it runs")
    runtime = list(Path("/tmp").glob(f"labtui-{folder.id[:15]}-{folder.id[-4:]}-*"))
    assert len(runtime) == 1
    agent = state.observe(folder).agent
    assert agent is not None
    os.kill(agent.pid, 9)
    until(lambda: state.observe(folder).state == "lost", "it is lost")
    control.wait(folder)
    assert not runtime[0].exists()


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://ann:pw@db:5432/x", "postgres://ann:***@db:5432/x"), ("https://:token@host/", "https://:***@host/"),
        ("--index=https://a:b@h/ --x", "--index=https://a:***@h/ --x"), ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("user@host:/path", "user@host:/path"), ("tcp://127.0.0.1:29500", "tcp://127.0.0.1:29500"),
    ],
)  # fmt: skip
def test_passwords_in_addresses(text: str, masked: str) -> None:
    assert masking.mask_command([text]) == (masked,)
    assert masking.mask_environment({"X": text}) == {"X": masked}
    assert masking.is_masked(masked) == ("***" in masked)


def test_a_masked_value_is_not_given_to_ranks(make_run) -> None:
    from labtui.runs.launch import worker_environment

    folder: RunFolder = make_run(request={"environment": {"INDEX": "https://a:***@h/", "KEPT": "1"}})
    given = worker_environment({"INDEX": "https://a:real@h/"}, folder.request(), folder, None)
    assert given["INDEX"] == "https://a:real@h/" and given["KEPT"] == "1"
