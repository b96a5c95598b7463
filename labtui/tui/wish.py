"""What somebody wants to run, as plain data: what a guide's step offers, what a form was filled with. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.catalog.manifest import Experiment, Value

if TYPE_CHECKING:
    from labtui.catalog.guide import Run
    from labtui.runs.start import Options


@dataclass(frozen=True)
class Wish:
    """An experiment, how to run it, and what becomes of it on the screen."""

    experiment: Experiment
    variant: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Parameters as typed; the others are the variant's or the manifest's."""
    device: str | None = None
    processes: int | None = None
    link: str | None = None
    timeout_s: float | None = None
    share: bool = False
    block: str = ""
    """The id of the guide's run block that the run is for, if any."""
    watch: bool = True
    """Whether the Run screen should show it at once."""

    def options(self) -> Options:
        """As `runs.start` takes it."""
        from labtui.runs.start import Options

        return Options(
            device=self.device, nproc=self.processes, link=self.link, timeout_s=self.timeout_s, share=self.share
        )

    def command(self) -> str:
        """The `labtui run` that asks for the same."""
        words = ["labtui", "run", self.experiment.name]
        words += ["--variant", self.variant] if self.variant else []
        for name, text in self.settings.items():
            words += ["--set", f"{name}={text}"]
        given = (("--nproc", self.processes), ("--device", self.device), ("--link", self.link))
        for option, value in given:
            words += [option, str(value)] if value is not None else []
        words += ["--timeout", f"{self.timeout_s:g}"] if self.timeout_s is not None else []
        words += ["--share"] if self.share else []
        return shlex.join(words)


def text_of(value: Value) -> str:
    """A parameter's value as one would type it."""
    return value if isinstance(value, str) else json.dumps(value)


def of_block(experiment: Experiment, block: Run) -> Wish:
    """What a run block offers."""
    return Wish(
        experiment, block.variant, {name: text_of(value) for name, value in block.parameters.items()},
        block.device, block.processes, block.link, block=block.id,
    )  # fmt: skip
