"""Experiments for tests of the catalog: whole, and with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MANIFEST = """\
format = 1
title = "All-reduce sweep"
question = "How fast do these cards add up their gradients?"
topic = "communication"
order = 20
launch = "torchrun"
devices = ["cuda", "cpu"]
minutes = 1

[processes]
default = "gpus"
cpu_default = 2
minimum = 1
maximum = 8

[limits]
timeout_s = 600
stall_s = 120

[parameters.max_bytes]
type = "int"
default = 1073741824
cpu_default = 67108864
minimum = 1024
unit = "B"
help = "largest message"

[parameters.rate]
type = "float"
default = 1
minimum = 0.5
maximum = 2

[parameters.check]
type = "bool"
default = true

[parameters.note]
type = "str"
default = ""

[parameters.dtype]
type = "choice"
choices = ["float32", "bfloat16"]
default = "float32"

[variants.p2p_off]
title = "peer access forbidden"
devices = ["cuda"]
environment = { NCCL_P2P_DISABLE = "1" }
parameters = { rate = 2 }
expect_failure = ["sum is right"]

[variants.four]
processes = 4
link = "1gbit"

[[charts]]
title = "Bus bandwidth"
x = "size_bytes"
y = "busbw"
series = "collective"
x_scale = "log2"
"""


@pytest.fixture
def manifest() -> str:
    return MANIFEST


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an experiment's folder: write(name, manifest=..., under=...), and returns it."""

    def write(
        name: str = "sweep", manifest: str = MANIFEST, under: Path | None = None, guide: str = "# Sweep\n"
    ) -> Path:
        folder = (under or tmp_path / "mine") / name
        folder.mkdir(parents=True)
        (folder / "experiment.toml").write_text(manifest)
        (folder / "main.py").write_text("print('never run by reading')\n")
        (folder / "guide.md").write_text(guide)
        return folder

    return write
