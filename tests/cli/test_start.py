"""labtui run, rerun and stop, as a person or a script uses them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from lab import assert_nothing_left, until

from labtui.cli.main import main
from labtui.runs import control, state
from labtui.runs.folder import RunFolder
from labtui.runs.records import RUNNING, STOPPED, SUCCEEDED

MANIFEST = """
    format = 1
    title = "Tiny"
    question = "Does it run?"
    topic = "data"
    order = 1
    launch = "python"
    devices = ["cpu"]
    minutes = 0.1
    [processes]
    default = 1
    minimum = 1
    maximum = 1
    [limits]
    timeout_s = 60
    stall_s = 30
    [parameters.size]
    type = "int"
    default = 4
    minimum = 1
    maximum = 16
    unit = "B"
    help = "how much"
    [variants.waits]
    title = "runs until it is stopped"
    [variants.wrong]
    title = "its check fails"
"""
MAIN = """
    import os, sys, time
    from labtui.bench import parameters, report
    size = parameters.read(__file__).size
    report.progress(1, 2)
    report.check("size is small", size, at_most=8)
    report.prediction("double", 2 * size, 2 * size, "B")
    report.result("size", size, "B")
    report.note("done [rank0] \\x1b[31m")
    print("output of the script", flush=True)
    while os.environ.get("WAIT"):
        time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "own" / "tiny"
    folder.mkdir(parents=True)
    manifest = textwrap.dedent(MANIFEST).replace(
        'until it is stopped"', 'until it is stopped"\nenvironment = { WAIT = "1" }'
    )
    manifest = manifest.replace('check fails"', 'check fails"\nparameters = { size = 16 }')
    (folder / "experiment.toml").write_text(manifest)
    (folder / "main.py").write_text(textwrap.dedent(MAIN))
    (folder / "guide.md").write_text("# Tiny\n\n## Run it\n\nIt is tiny.\n")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(folder.parent))


def runs(root: Path) -> list[RunFolder]:
    return [RunFolder(path) for path in sorted(root.iterdir()) if not path.name.startswith(".")]


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Exit code 2, one sentence on stderr, nothing on stdout."""
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("labtui: ")
    return err.removeprefix("labtui: ").strip()


def test_a_run_for_people(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny"]) == 0
    out, err = capsys.readouterr()
    (folder,) = runs(own_folders)
    assert folder.id in out and "succeeded" in out and "size is small" in out and "double" in out
    assert "check ok 'size is small' on rank 0: 4, at most 8" in err
    assert "note from rank 0: done [rank0]" in err and "\x1b" not in out + err
    assert_nothing_left(folder, folder.status())


def test_a_run_for_programs(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--json", "--set", "size=8"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["state"] == "succeeded" and document["parameters"] == {"size": 8}
    assert document["checks"][0]["passed"] is True
    assert document["predictions"][0] | {"t": 0} == {
        "t": 0, "rank": 0, "kind": "prediction", "name": "double", "predicted": 16, "measured": 16, "unit": "B",
    }  # fmt: skip
    assert document["results"][0]["value"] == 8 and document["seconds"] > 0
    assert document["folder"] == str(runs(own_folders)[0].path)


def test_a_failed_check_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--variant", "wrong"]) == 1
    assert "check failed: 'size is small' on rank 0: 16, at most 8" in capsys.readouterr().out


def test_a_group_is_a_list_and_takes_the_gravest_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--variants", "default,wrong", "--json"]) == 1
    documents = json.loads(capsys.readouterr().out)
    assert [(run["variant"], run["state"]) for run in documents] == [("", "succeeded"), ("wrong", "failed")]
    assert documents[0]["group"] == documents[1]["group"] == documents[0]["id"]


def test_all_variants_are_those_for_the_device(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    manifest = own_folders.parent / "own" / "tiny" / "experiment.toml"
    text = manifest.read_text().replace('devices = ["cpu"]', 'devices = ["cuda", "cpu"]', 1)
    text = text[: text.index("[variants.waits]")]
    text += '[variants.fast]\ntitle = "on GPUs"\ndevices = ["cuda"]\n'
    text += '[variants.small]\ntitle = "s"\nparameters = { size = 1 }\n'
    manifest.write_text(text)
    assert main(["run", "tiny", "--variants", "all", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [run["variant"] for run in json.loads(out)] == ["", "small"]
    assert "left out, since they do not run on cpu: fast" in err
    manifest.write_text(text + '[variants.usual]\ntitle = "the default by a name"\nparameters = { size = 4 }\n')
    assert main(["run", "tiny", "--variants", "all", "--json"]) == 0
    assert [run["variant"] for run in json.loads(capsys.readouterr().out)] == ["small", "usual"]


def test_a_time_limit_is_exit_code_124(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--variant", "waits", "--timeout", "0.5"]) == 124
    assert "timed_out" in capsys.readouterr().out


def test_your_own_command(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "--json", "--", "-x"]
    assert main(["run", "--timeout", "60", "--", *command]) == 1
    out = capsys.readouterr().out
    (folder,) = runs(own_folders)
    assert folder.request().experiment == "command" and folder.request().command == tuple(command)
    assert folder.output.read_text() == "['--json', '--', '-x']\n"
    assert folder.status().exit_code == 3 and "ended with exit code 3" in out


def test_rerun_repeats_and_changes(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--set", "size=2", "--env", "NCCL_DEBUG=WARN", "--timeout", "33"]) == 0
    assert main(["rerun", "last", "--set", "size=3", "--json"]) == 0
    first, second = sorted((folder.request() for folder in runs(own_folders)), key=lambda r: r.created)
    assert (first.parameters, second.parameters) == ({"size": 2}, {"size": 3})
    assert second.environment == first.environment == {"NCCL_DEBUG": "WARN"}
    assert second.limits == first.limits and second.limits.timeout_s == 33


def test_rerun_of_a_command_runs_in_its_folder(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "tool").write_text("#!/bin/sh\npwd\n")
    (place / "tool").chmod(0o755)
    monkeypatch.chdir(place)
    assert main(["run", "--", "./tool"]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["rerun", "last"]) == 0
    assert [folder.output.read_text() for folder in runs(own_folders)] == [f"{place}\n"] * 2
    assert Path.cwd() == tmp_path
    (place / "tool").unlink()
    place.rmdir()
    capsys.readouterr()
    assert "which is not there any more" in refused(capsys, "rerun", "last")


def test_detach_and_stop(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--variant", "waits", "--detach"]) == 0
    (folder,) = runs(own_folders)
    assert capsys.readouterr().out == f"{folder.id}\n"
    until(lambda: state.observe(folder).state == RUNNING, "it runs")
    assert refused(capsys, "rm", "last") == f"{folder.id} is running: stop it first (labtui stop {folder.id})"
    assert main(["stop", "last"]) == 3
    assert "stopped on request" in capsys.readouterr().out
    assert_nothing_left(folder, folder.status())
    assert "has ended already: stopped" in refused(capsys, "stop", "last")


def hear_ctrl_c() -> None:
    """A shell that starts the tests in the background makes them, and all that they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "TERM": "dumb"}


def started(root: Path, process: subprocess.Popen[bytes]) -> RunFolder:
    until(lambda: process.poll() is None and len(runs(root)) == 1, "a folder")
    (folder,) = runs(root)
    until(lambda: state.observe(folder).state == RUNNING, "it runs")
    return folder


def test_ctrl_c_stops_the_run_and_waits_for_it(own_folders: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "labtui", "run", "tiny", "--variants", "waits,default"]
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=hear_ctrl_c
    )
    until(lambda: len(runs(own_folders)) == 2, "two folders")
    waits, after = sorted(runs(own_folders), key=lambda f: f.request().next is None)
    until(lambda: state.observe(waits).state == RUNNING, "it runs")
    until(lambda: (waits.events / "rank0.jsonl").exists(), "the CLI follows it")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert waits.status().state == after.status().state == STOPPED
    assert after.status().reason == "stopped before it started"
    assert b"stopping" in err and b"Traceback" not in err
    assert_nothing_left(waits, waits.status())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_run_outlives_its_starter(own_folders: Path, environment: dict[str, str], number: signal.Signals) -> None:
    command = [sys.executable, "-m", "labtui", "run", "tiny", "--variant", "waits"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    folder = started(own_folders, process)
    os.killpg(process.pid, number)
    process.wait()
    status = state.observe(folder)
    assert status.state == RUNNING and status.agent is not None
    control.stop(folder)
    assert control.wait(folder).state == STOPPED
    assert_nothing_left(folder, folder.status())


def test_a_closed_terminal_leaves_the_run_alone(own_folders: Path) -> None:
    """As when the SSH line drops: the pty goes, and with it the foreground processes."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "labtui", "run", "tiny", "--variant", "waits"])
    until(lambda: len(runs(own_folders)) == 1, "a folder")
    (folder,) = runs(own_folders)
    until(lambda: state.observe(folder).state == RUNNING, "it runs")
    shown = b""
    while b"running" not in shown:
        shown += os.read(terminal, 4096)
    assert b"\r" in shown and b"\x1b[K" in shown, "one live line"
    os.close(terminal)
    os.waitpid(pid, 0)
    assert state.observe(folder).state == RUNNING
    control.stop(folder)
    assert control.wait(folder).state == STOPPED


BAD: list[tuple[list[str], str]] = [
    (["run", "tiney"], "tiny"),
    (["run", "tiny", "--set", "sise=3"], "size"),
    (["run", "tiny", "--set", "size=many"], 'size is "many", a whole number from 1 to 16 B'),
    (["run", "tiny", "--set", "size=99"], "a whole number from 1 to 16 B"),
    (["run", "tiny", "--set", "size"], "--set size: NAME=VALUE expected"),
    (["run", "tiny", "--variant", "wrongg"], "wrong"),
    (["run", "tiny", "--nproc", "2"], "--nproc does not apply"),
    (["run", "ddp_by_hand", "--nproc", "1000"], "processes, not 1000"),
    (["run", "tiny", "--nproc", "0"], "--nproc is 0, at least 1 expected"),
    (["run", "tiny", "--device", "tpu"], "cuda or cpu expected"),
    (["run", "tiny", "--timeout", "-1"], "--timeout is -1, a number of seconds above 0 expected"),
    (["run", "ddp_by_hand", "--python", "/no/python"], "--python /no/python: there is no such program"),
    (["run", "ddp_by_hand", "--python", "/bin/true"], "--python /bin/true: that is no Python interpreter"),
    (["run"], "an experiment is needed"),
    (["run", "--"], "no command after --"),
    (["run", "tiny", "--", "ls"], "either an experiment or a command after --, not both"),
    (["run", "--", "no-such-program"], "no-such-program is no program that can be found here"),
    (["stop", "nothing"], "there are no runs in"),
    (["rerun", "last"], "there are no runs in"),
]


@pytest.mark.parametrize(("argv", "words"), BAD, ids=[" ".join(argv) for argv, _ in BAD])
def test_bad_input_is_one_sentence_and_makes_no_folder(
    own_folders: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert words in refused(capsys, *argv)
    assert list(own_folders.iterdir()) == []


def test_missing_torch_says_what_to_install(
    own_folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real(name, *rest))
    sentence = refused(capsys, "run", "ddp_by_hand")
    assert "torch is missing" in sentence and "pip install torch" in sentence and "reviewed without it" in sentence
    assert main(["run", "tiny"]) == 0, "an experiment that needs no torch runs without it"


def test_logs_that_can_not_be_written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABTUI_LOGS", "/proc/nowhere")
    assert "/proc/nowhere can't be written" in refused(capsys, "run", "tiny")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_loses_no_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("a small disk can't be mounted here")
    try:
        monkeypatch.setenv("LABTUI_LOGS", str(small / "logs"))
        code = "open('big', 'wb').write(b'x' * (8 << 20))"
        monkeypatch.chdir(small)
        assert main(["run", "--", sys.executable, "-c", code]) == 1
        (folder,) = runs(small / "logs")
        status = folder.status()  # not even the traceback found room; the last word did
        assert status.state == "failed" and status.reason == "the disk is full: ended with exit code 1"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_success_word_needs_no_checks(own_folders: Path) -> None:
    assert main(["run", "--", sys.executable, "-c", "pass"]) == 0
    assert runs(own_folders)[0].status().state == SUCCEEDED
