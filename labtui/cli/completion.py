"""`labtui completion`: what a shell needs to know to complete labtui's commands, options, experiments and runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

SHELLS = ("bash", "zsh", "fish")
_WHERE = {
    "bash": "~/.local/share/bash-completion/completions/labtui",
    "zsh": "_labtui in a folder of $fpath",
    "fish": "~/.config/fish/completions/labtui.fish",
}
_RUNS, _EXPERIMENTS = "labtui runs --ids 2>/dev/null", "labtui experiments --names 2>/dev/null"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("shell", choices=SHELLS, help="write it to " + "; ".join(f"{s}: {_WHERE[s]}" for s in SHELLS))


def main(arguments: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(whole(), arguments.shell))
    return 0


def whole() -> argparse.ArgumentParser:
    """One parser of all commands: for completion only, since making it imports every command's module."""
    import shtab

    from labtui.cli.main import COMMANDS

    parser = argparse.ArgumentParser(prog="labtui")
    commands = parser.add_subparsers()
    for name, (module_name, purpose) in COMMANDS.items():
        module: Any = import_module(module_name)
        below = commands.add_parser(name, help=purpose)
        module.configure(below, name)
        for action in below._actions:
            if action.dest in ("run", "runs") and not action.option_strings:
                action.complete = shtab.cmd(_RUNS)  # type: ignore[attr-defined]
            elif action.dest == "experiment" and not action.option_strings:
                action.complete = shtab.cmd(_EXPERIMENTS)  # type: ignore[attr-defined]
            elif action.metavar in ("FILE", "PATH"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser
