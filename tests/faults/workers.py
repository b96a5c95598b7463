"""Ranks to break: scripts that report and print as a training would, without torch unless the fault needs it."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from lab import running, until

from labtui.runs.find import run_names
from labtui.runs.folder import RunFolder
from labtui.runs.records import Status

HEAD = """
    import os, signal, sys, time
    from pathlib import Path
    from labtui.bench import report
    rank, run = int(os.environ["RANK"]), Path(os.environ["LABTUI_RUN_DIR"])

    def wait_for(name):
        while not (run / name).exists():
            time.sleep(0.02)

    def wait_for_ever():
        while True:
            time.sleep(0.05)

    report.metric("loss", 1.0, step=0)
    report.check("it began", passed=True)
    print(f"rank {rank} is here", flush=True)
"""

TORCH_HEAD = """
    import os, signal, sys, threading, time
    from pathlib import Path
    starting = threading.Event()
    def sign_of_life():
        while not starting.wait(0.2):
            print(".", end="", flush=True)  # importing torch takes as long as it takes: that is no stall
    threading.Thread(target=sign_of_life, daemon=True).start()
    from labtui.bench import group, report
    import torch
    import torch.distributed as dist
    rank, run = int(os.environ["RANK"]), Path(os.environ["LABTUI_RUN_DIR"])
"""

_LAUNCHER = """
    # Starts ranks as torchrun does, each in a session of its own, in a tenth of the time.
    import os, signal, subprocess, sys, time
    from pathlib import Path
    script, world = sys.argv[1], int(sys.argv[2])
    ranks = []
    for rank in range(world):
        place = Path(os.environ["LABTUI_RUN_DIR"], "ranks", "launched", "attempt_0", str(rank))
        place.mkdir(parents=True)
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
        environment["TORCHELASTIC_ERROR_FILE"] = str(place / "error.json")
        with (place / "stdout.log").open("wb") as out, (place / "stderr.log").open("wb") as err:
            ranks.append(subprocess.Popen([sys.executable, "-u", script], env=environment, stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=err, start_new_session=True))

    def end(*_):
        for rank in ranks:
            rank.terminate()
        deadline = time.monotonic() + float(os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])
        while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
            time.sleep(0.02)
        for rank in ranks:
            rank.kill()
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            end()
        time.sleep(0.02)
    sys.exit(max(abs(rank.wait()) for rank in ranks))
"""


def script(folder: Path, body: str, head: str = HEAD, name: str = "train.py") -> Path:
    """A rank's script."""
    path = folder / name
    path.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return path


def launcher(folder: Path, rank_script: Path, nproc: int = 2) -> list[str]:
    """A command that starts such ranks as torchrun does, but for torchrun's own second and its report."""
    path = folder / "start_ranks.py"
    path.write_text(textwrap.dedent(_LAUNCHER))
    return [sys.executable, str(path), str(rank_script), str(nproc)]


def only_run(root: Path) -> RunFolder:
    until(lambda: len(run_names(root)) == 1, "a run's folder")
    return RunFolder(root / run_names(root)[0])


def at_work(folder: RunFolder, ranks: int = 2) -> Status:
    """Waits until that many ranks are known and have printed that they are here, and telemetry has begun."""
    status = running(folder, ranks)

    def here() -> bool:
        return all("is here" in (folder.path / str(rank.stdout)).read_text() for rank in status.ranks)

    until(here, "all ranks are here")
    until(lambda: any(path.stat().st_size for path in folder.telemetry.glob("*.jsonl")), "a telemetry sample")
    return status
