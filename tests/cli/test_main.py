from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import labtui as package
from labtui.cli import main as entry
from labtui.cli.main import COMMANDS

NOT_JSON = ("attach", "export", "reset", "completion")
"""A screen, a command with forms of its own, and two that print what is no data."""


def test_version_and_help(labtui) -> None:
    assert labtui("--version").out == f"labtui {package.__version__}\n"
    for name in ("--help", "-h", "help"):
        done = labtui(name)
        assert done.code == 0
        assert all(f"  {command} " in done.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(labtui, command: str) -> None:
    done = labtui(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: labtui {command} ")
    assert ("--json" in done.out) == (command not in NOT_JSON)


def test_an_unknown_command_gets_the_closest(labtui) -> None:
    assert labtui("shwo").sentence == "there is no command 'shwo', the closest is show (labtui --help lists all)"
    assert labtui("zzz").sentence == "there is no command 'zzz' (labtui --help lists all)"


def test_an_option_before_the_command(labtui) -> None:
    assert labtui("--json", "runs").sentence.startswith("--json is no command; options come after it")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["runs", "--limt", "3"], "runs: there is no option --limt, the closest is --limit"),
        (["runs", "--limt=3"], "runs: there is no option --limt, the closest is --limit"),
        (["runs", "--zzz"], "runs: there is no option --zzz ("),
        (["runs", "--lim", "3"], "runs: there is no option --lim, the closest is --limit"),
        (["runs", "--limit"], "runs: --limit: expected one argument"),
        (["runs", "--limit", "-1"], "runs: --limit: '-1' is no whole number from 0 on"),
        (["runs", "--limit", "many"], "runs: --limit: 'many' is no whole number from 0 on"),
        (["runs", "--state", "runnin"], "runs: --state: invalid choice: 'runnin' (choose from 'queued',"),
        (["runs", "extra"], "runs: 'extra' is one argument too many"),
        (["show"], "show: the following arguments are required: RUN"),
        (["logs", "last", "--stream", "x"], "logs: --stream: invalid choice: 'x'"),
    ],
)
def test_wrong_usage_gets_one_sentence(labtui, arguments: list[str], sentence: str) -> None:
    said = labtui(*arguments).sentence
    assert said.startswith(sentence)
    assert said.endswith(f"(labtui {arguments[0]} --help says more)")


@pytest.mark.parametrize("command", ["show", "logs", "rm", "note", "tag", "attach", "stop", "rerun"])
def test_every_command_on_a_run_says_which_it_does_not_find(labtui, command: str) -> None:
    text = ["text"] if command in ("note", "tag") else []
    assert labtui(command, "last", *text).sentence.startswith("there are no runs in ")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unusable_logs_folder_is_no_traceback(labtui, command: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABTUI_LOGS", str(tmp_path / "file"))
    positional = {"run": ["nothing_like_this"], "runs": [], "experiments": [], "doctor": []}
    text = ["text"] if command in ("note", "tag") else []
    done = labtui(command, *positional.get(command, ["last"]), *text)
    assert "Traceback" not in done.err
    assert done.code in (0, 1, 2)


def test_what_follows_two_dashes_is_untouched(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("labtui.cli.start.main", lambda arguments: seen.append(arguments.rest) or 0)
    labtui("run", "--detach", "--", "torchrun", "--nproc-per-node", "2", "--", "--json", "--help")
    labtui("run", "--")
    labtui("run", "ddp_by_hand")
    assert seen == [["torchrun", "--nproc-per-node", "2", "--", "--json", "--help"], [], None]


def test_two_dashes_elsewhere_end_the_options(labtui, make_run) -> None:
    folder = make_run()
    assert labtui("note", folder.id, "--", "-5 % slower").code == 0
    assert folder.labels().note == "-5 % slower"


def test_without_a_terminal_the_ui_says_so(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    said = labtui().sentence
    assert said.startswith("the UI needs a terminal, and this is no terminal; without it there are experiments, run,")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for dumb in ("dumb", ""):
        monkeypatch.setenv("TERM", dumb)
        assert "this terminal can't show it (TERM=dumb)" in labtui().sentence
    monkeypatch.delenv("TERM")
    assert "TERM=dumb" in labtui().sentence


def test_on_a_terminal_the_ui_opens(labtui, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run()
    opened = []
    ui = type(sys)("labtui.tui.app")
    ui.main = lambda run, **options: opened.append((run, *options.values())) or 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "labtui.tui.app", ui)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert labtui().code == 7
    assert labtui("attach", "last").code == 7
    assert labtui("--ascii", "--no-mouse").code == 7
    assert labtui("attach", "last", "--slow-link").code == 7
    assert opened == [
        (None, False, True, False), (folder, False, True, False), (None, True, False, False),
        (folder, False, True, True),
    ]  # fmt: skip
    assert labtui("--ascii", "runs").sentence.startswith("--ascii is for the terminal UI, which takes no runs")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device", "/somewhere/status.json"),
            "No space left on device: /somewhere/status.json",
        ),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (OSError("odd"), "odd"),
        (entry.UsageError("a sentence with \x1b]0;a title\x07 in it"), "a sentence with in it"),
    ],
)
def test_errors_of_input_and_surroundings_are_one_sentence(labtui, monkeypatch, error: Exception, said: str) -> None:
    def fail(arguments: object) -> int:
        raise error

    monkeypatch.setattr("labtui.cli.review.main", fail)
    assert labtui("runs").sentence == said


def test_our_own_mistakes_keep_their_traceback(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labtui.cli.review.main", lambda arguments: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        labtui("runs")


def test_ctrl_c_and_a_closed_pipe(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((KeyboardInterrupt(), 130), (BrokenPipeError(), 141)):

        def fail(arguments: object, error: BaseException = error) -> int:
            raise error

        monkeypatch.setattr("labtui.cli.review.main", fail)
        done = labtui("runs")
        assert (done.code, done.out, done.err) == (code, "", "")


# With a process of its own -------------------------------------------------------------------------------------------


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labtui", *arguments]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **options
    )


def test_a_reader_that_leaves_gets_no_traceback(make_run) -> None:
    for _ in range(3):
        make_run()
    reading, writing = os.pipe()
    os.close(reading)
    done = process("runs", "--json", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_stdout_is_said_once(make_run) -> None:
    make_run()
    with Path("/dev/full").open("w") as full:
        done = process("runs", stdout=full)
    assert (done.returncode, done.stderr) == (2, "labtui: No space left on device\n")


def test_a_locale_without_the_characters(make_run) -> None:
    make_run(status={"reason": "rank 1 → Ende, größer als 漢"})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = process("runs", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rank 1 ? Ende, gr??er als ?" in done.stdout


def test_reading_commands_load_nothing_heavy(make_run) -> None:
    folder = make_run()
    make_run("running")
    for arguments in (["runs"], ["show", folder.id], ["logs", folder.id], ["experiments"], ["--help"]):
        code = (
            f"import sys; from labtui.cli.main import main; main({arguments!r}); print(*sys.modules, file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"torch", "textual", "rich", "asyncio", "psutil", "plotext", "numpy"}, arguments
