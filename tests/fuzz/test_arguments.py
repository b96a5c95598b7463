"""Any arguments of any command: an exit code, one sentence where it is 2, and nothing is started."""

from __future__ import annotations

import argparse
import io
import random
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli.conftest import Done, labtui, make_run

from labtui.cli.main import COMMANDS
from labtui.runs import spawn

__all__ = ["labtui", "make_run"]

VALUES = (
    "", "0", "1", "2", "3", "8", "-1", "64", "1000000", "99999999999999999999", "1e9", "1e400", "nan", "inf",
    "-0.5", "0.5",
    "7.5e9", "x", "last", "last~1", "last~99", "..", "/", "a=b", "=", "F=1,B=2", "F=0,B=0", "F=nan", "F=-1", "m=4..64",
    "p=1..0", "v=1..99999", "comm=0..1", "cpu", "cuda", "1gbit", "0bit", "99tbit", "none", "all", "default", "gpipe",
    "1f1b", "zb-h1", "zb-v", "dualpipe", "interleaved-1f1b", "naive", "ddp_by_hand", "ring_allreduce", "llama-7b",
    "H100 SXM", "80GB", "80GiB", "q,v", "0=2,3=1.5", "0=x", "B=1,W=0.5", "straight,v", "memory", "pipeline", "csv",
    "md",
    "json", "perfetto", "stdout", "bash", "zsh", "fish", "failed", "lr=1", "steps=2", "out.md", "order.csv", "no/such",
    "odd\x1b[2J", "\udcff", "漢字", "a b", "%s", "{}", "$(id)", "'", "-", "--", "-x", "--json", "--no", "--help",
)  # fmt: skip
ENDLESS = {"--watch", "--wait", "--follow", "-f"}
"""Options that ask for no end."""
OWN = {"--time-limit": "0.2"}


def parser_of(command: str) -> argparse.ArgumentParser:
    module: Any = import_module(COMMANDS[command][0])
    parser = argparse.ArgumentParser(prog=command)
    module.configure(parser, command)
    return parser


def drawn(command: str, chance: random.Random) -> list[str]:
    """Some arguments that the command knows, and some that it doesn't, with values of all kinds."""
    argv: list[str] = []
    for action in parser_of(command)._actions:
        options = [option for option in action.option_strings if option not in ENDLESS]
        if action.option_strings and (not options or chance.random() > 0.25 or "--help" in options):
            continue
        argv += [chance.choice(options)] if options else []
        if action.nargs != 0 and chance.random() < 0.95:
            known = [str(choice) for choice in action.choices] if action.choices else []
            several = chance.randrange(1, 3) if action.nargs in ("+", "*") else 1
            argv += [chance.choice(known if known and chance.random() < 0.7 else VALUES) for _ in range(several)]
        if options and options[-1] in OWN:
            argv[-1] = OWN[options[-1]]
    while chance.random() < 0.2:
        argv.insert(chance.randrange(len(argv) + 1), chance.choice(VALUES))
    return [one for one in argv if one not in ENDLESS]


@pytest.fixture
def place(make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file of each kind, two runs, and nobody who could start any."""
    make_run()
    make_run("failed", "ring_allreduce")
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "order.csv").write_text("0F0,0F1,0B0,0B1\n")
    (folder / "out.md").write_text("taken")
    monkeypatch.chdir(folder)

    def refuse(run: object, environment: object) -> None:
        raise spawn.SpawnError("nothing is started here")

    monkeypatch.setattr(spawn, "spawn", refuse)
    return folder


@pytest.mark.parametrize("seeds", [pytest.param(range(3)), pytest.param(range(3, 150), marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_any_arguments(
    labtui: Callable[..., Done], place: Path, monkeypatch: pytest.MonkeyPatch, command: str, seeds: range
) -> None:
    for seed in seeds:
        argv = [command, *drawn(command, random.Random(f"{command} {seed}"))]
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"odd\n"), isatty=lambda: False))
        check(labtui(*argv), argv)


def check(done: Done, argv: list[str]) -> None:
    assert done.code in (0, 1, 2, 3, 124), (argv, done)
    if done.code == 2:
        said = [line for line in done.err.splitlines() if line.startswith("labtui: ")]
        assert said and "Traceback" not in done.err, (argv, done)
        assert done.err.splitlines()[-1] == said[-1] and said[-1].removeprefix("labtui: ").strip(), (argv, done)


@pytest.mark.parametrize(
    "argv", [[], ["--ascii"], ["nope"], ["--json"], ["-h", "x"], ["--version", "x"], [""], ["\udcff"]]
)
def test_what_is_no_command(labtui: Callable[..., Done], argv: list[str]) -> None:
    check(labtui(*argv), ["labtui", *argv])
