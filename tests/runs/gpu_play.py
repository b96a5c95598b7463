"""A run on four cards that are not there: a command writes an NCCL log in two halves into NCCL_DEBUG_FILE, while the
fake NVML plays a training curve, a GPU that is held back and one that is lost."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from fake_nvml.fixture import FakeNvml
from lab import launch

from labtui.runs.folder import RunFolder

CASE = Path(__file__).parents[1] / "data" / "nccl" / "nccl-direct-pointer-trees"

SCRIPT = """
    import os, sys, time
    from pathlib import Path
    from labtui.bench import report
    run = Path(os.environ["LABTUI_RUN_DIR"])
    log = os.environ["NCCL_DEBUG_FILE"].replace("%h", "host").replace("%p", str(os.getpid()))
    text = open(sys.argv[1], "rb").read()
    middle = text.index(b"\\n", len(text) // 2) + 30     # in the middle of a line
    with open(log, "ab", buffering=0) as file:
        file.write(text[:middle])
        print("half", flush=True)
        while not (run / "go").exists():
            time.sleep(0.02)
        file.write(text[middle:])
    report.result("bandwidth", 11.25, "GB/s", src=0, dst=1)
    while not (run / "done").exists():
        time.sleep(0.02)
"""


def play(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_nvml: FakeNvml) -> RunFolder:
    """Starts it: tick 1 lets the curve rise, tick 2 holds GPU 1 back and loses GPU 2; the files `go` and `done` in its
    folder let it write the log's second half, and end."""
    for name, value in fake_nvml.environ.items():
        monkeypatch.setenv(name, value)
    fake_nvml.script(
        "gpus 4", "topology pcie", "gpu * name NVIDIA GeForce RTX 5090", "gpu * util 10,55,97!",
        "gpu 1 throttle 0,0,4!", "lost 2 2",
    )  # fmt: skip
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return launch(root, [sys.executable, str(path), f"{CASE}.log"], device="cuda", nproc=4)
