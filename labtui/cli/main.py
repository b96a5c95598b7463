"""The entry point: finds the command's module, imports that one only, and turns errors into one sentence.

A command's module offers `configure(parser, command)` and `main(arguments) -> exit code`. Nothing heavy may be
imported here: this runs before every command.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from labtui.cli.output import line_width, say

COMMANDS = {
    "experiments": ("labtui.cli.experiments", "what can be run"),
    "run": ("labtui.cli.start", "start an experiment, or your own command after --"),
    "runs": ("labtui.cli.review", "the newest runs"),
    "show": ("labtui.cli.show", "one run: state, parameters, checks, predictions, results"),
    "logs": ("labtui.cli.logs", "what a run's ranks printed"),
    "compare": ("labtui.cli.compare", "runs side by side: what differed, and what came of it"),
    "stop": ("labtui.cli.start", "stop a run"),
    "rerun": ("labtui.cli.start", "start a run like an earlier one"),
    "rm": ("labtui.cli.review", "delete runs"),
    "note": ("labtui.cli.review", "write a note to a run"),
    "tag": ("labtui.cli.review", "tag a run, or take tags away"),
    "export": ("labtui.cli.export", "a run as csv, json, a report or a trace"),
    "attach": ("labtui.cli.review", "the terminal UI on one run"),
    "memory": ("labtui.cli.memory", "what a training takes: memory, cuts, FLOPs, GPU-hours"),
    "validate": ("labtui.cli.validate", "published values, ours beside them, and the error"),
    "simulate": ("labtui.cli.simulate", "pipeline schedules: their Gantt, bubble, memory, and your own beside them"),
    "gpus": ("labtui.cli.gpus", "this machine's GPUs, now"),
    "topo": ("labtui.cli.topo", "how this machine's GPUs are joined, or a text of nvidia-smi topo"),
    "nccl": ("labtui.cli.nccl", "the paths in NCCL's logs, and what went wrong"),
    "reset": ("labtui.cli.reset", "repair a terminal that a killed program left in a bad state"),
    "completion": ("labtui.cli.completion", "what a shell needs to complete labtui's commands"),
    "doctor": ("labtui.cli.doctor", "what of this machine would trip up a run"),
}
"""Command -> its module, and what it is for."""

SCREEN_OPTIONS = {
    "--ascii": "draw with ASCII only (by itself where the terminal isn't UTF-8)",
    "--no-mouse": "leave the mouse to the terminal, for selecting text",
    "--slow-link": "show less often what changes, for a line that can't keep up",
}
"""Options of the terminal UI: of `labtui` without a command, and of `labtui attach`."""

OWN_COMMAND = ("run",)
"""Commands that take the user's own command line after `--`, untouched, as `arguments.rest`."""

INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes as a shell gives them to what SIGINT or SIGPIPE ended."""


class UsageError(ValueError):
    """What was typed isn't understood. The message is one sentence."""


class Help(argparse.HelpFormatter):
    """argparse's help, told how wide it is: it makes one for every argument, and would import shutil to find out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(line_width(), 100))


class Parser(argparse.ArgumentParser):
    """argparse, with errors as one sentence that names the closest option."""

    def error(self, message: str) -> NoReturn:
        # argparse's own words are fragments: "argument --limit: expected one argument".
        name = self.prog.removeprefix("labtui ")
        raise UsageError(f"{name}: {message.removeprefix('argument ')} ({self.prog} --help says more)")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Raises UsageError, SystemExit after --help."""
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            self._refuse(unknown)
        return arguments

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        options = [option for option in unknown if option.startswith("-")]
        if not options:
            self.error(f"{unknown[0]!r} is one argument too many")
        name = options[0].partition("=")[0]
        near = closest(name, list(self._option_string_actions))
        self.error(f"there is no option {name}" + (f", the closest is {near}" if near else ""))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: see DESIGN for those of `run`; 2 for wrong usage or input."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A locale that isn't UTF-8 gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        code = _command(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        _abandon_stdout(after=sentence)
        return 2


def _command(argv: list[str]) -> int:
    if all(argument in SCREEN_OPTIONS for argument in argv):
        return open_tui(options=argv)
    name, rest = argv[0], argv[1:]
    if name in ("-h", "--help", "help"):
        print(overview())
        return 0
    if name in ("-V", "--version"):
        import labtui

        print(f"labtui {labtui.__version__}")
        return 0
    if name in SCREEN_OPTIONS:
        other = next(argument for argument in argv if argument not in SCREEN_OPTIONS)
        raise UsageError(f"{name} is for the terminal UI, which takes no {other} ({', '.join(SCREEN_OPTIONS)})")
    if name.startswith("-"):
        raise UsageError(f"{name} is no command; options come after it, as in `labtui runs --json`")
    if name not in COMMANDS:
        near = closest(name, list(COMMANDS))
        hint = f", the closest is {near}" if near else ""
        raise UsageError(f"there is no command {name!r}{hint} (labtui --help lists all)")
    after: list[str] | None = None
    if name in OWN_COMMAND and "--" in rest:
        place = rest.index("--")
        rest, after = rest[:place], rest[place + 1 :]
    module: Any = import_module(COMMANDS[name][0])
    purpose = _capital(COMMANDS[name][1])
    parser = Parser(prog=f"labtui {name}", description=purpose, allow_abbrev=False, formatter_class=Help)
    module.configure(parser, name)
    try:
        arguments = parser.parse(rest)
    except SystemExit as done:
        return int(done.code or 0)
    arguments.command = name
    arguments.rest = after
    return int(module.main(arguments))


def overview() -> str:
    """What `labtui --help` prints."""
    width = max(map(len, COMMANDS))
    lines = ["usage: labtui [COMMAND ...]", "", "Without a command: the terminal UI, which takes these options.", ""]
    lines += [f"  {name:<{width}}  {purpose}" for name, purpose in SCREEN_OPTIONS.items()]
    lines.append("")
    lines += [f"  {name:<{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    lines += ["", "RUN is a run id, a part of one that fits no other, `last`, `last~1`, or a path of a run folder."]
    lines += ["`labtui COMMAND --help` says more; with --json a command prints one JSON document."]
    return "\n".join(lines)


def open_tui(run: Any = None, options: Sequence[str] = ()) -> int:
    """The terminal UI, on one run's folder if given. Raises UsageError where there is no terminal for it."""
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    if not terminal or os.environ.get("TERM", "dumb") in ("", "dumb"):
        reason = "this terminal can't show it (TERM=dumb)" if terminal else "this is no terminal"
        raise UsageError(f"the UI needs a terminal, and {reason}; without it there are {', '.join(COMMANDS)}")
    import gc

    gc.disable()  # until the first paint, by when the UI turns it on again: collecting while importing finds nothing
    # By name: the UI stands beside the command line, and no other command may load it.
    tui: Any = import_module("labtui.tui.app")
    return int(
        tui.main(run, ascii="--ascii" in options, mouse="--no-mouse" not in options, slow="--slow-link" in options)
    )


def closest(name: str, known: list[str]) -> str | None:
    """The known name that was probably meant."""
    import difflib

    near = difflib.get_close_matches(name, known, 1, 0.6)
    return near[0] if near else None


def _sentence(error: Exception) -> str | None:
    """The one sentence for an error of input or surroundings; None for one of ours, which deserves its traceback."""
    if type(error).__module__.startswith("labtui."):
        return str(error)
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        return f"{what}: {error.filename}" if error.filename is not None else what
    return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _abandon_stdout(after: str | None = None) -> None:
    """Says the last sentence; keeps the interpreter from failing once more when it flushes stdout at its end."""
    if after is not None:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            pass  # said below, or nobody listens
        say(after)
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError, AttributeError):
            pass  # no real file behind it


if __name__ == "__main__":
    sys.exit(main())
