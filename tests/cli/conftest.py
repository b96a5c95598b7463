"""What the tests of the command line share: a command run in this process, and run folders made to measure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from made import make_run

from labtui.cli.main import main

__all__ = ["labtui", "make_run"]


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document, as strict readers take it."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is no JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def sentence(self) -> str:
        """The one sentence of a command that refused."""
        assert (self.code, self.out) == (2, ""), self
        (line,) = self.err.splitlines()
        assert line.startswith("labtui: ")
        return line.removeprefix("labtui: ")


@pytest.fixture
def labtui(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """labtui("runs", "--json") -> exit code, stdout, stderr."""

    def command(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return command
